//! GRUB's boot code for BIOS machines, put where `grub-bios-setup` would put it.
//!
//! `boot.img` goes into the first sector and loads the first sector of `core.img`, which loads the rest of itself.
//! Each is told the place of the next by a few bytes, in GRUB's `boot.S` and `diskboot.S`.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use anyhow::{Context, Result, bail};

const SECTOR: usize = 512;
/// First sector of the BIOS boot partition, where `core.img` lies.
pub(crate) const CORE_SECTOR: u64 = 2048;
/// Sectors of the BIOS boot partition.
pub(crate) const CORE_ROOM: u64 = 2048;

/// The part of the first sector that belongs to the disk: the BIOS parameter block, then the partition table.
const PARAMETER_BLOCK: std::ops::Range<usize> = 0x3..0x5a;
const PARTITION_TABLE: std::ops::Range<usize> = 0x1b8..0x200;
/// In `boot.img`: where `core.img` begins.
const KERNEL_SECTOR: usize = 0x5c;
/// In `boot.img`: a jump that is made a no-op so that the BIOS's own drive number is believed.
const DRIVE_CHECK: usize = 0x66;
/// In `core.img`: its only block list entry, which says where its second sector lies.
const BLOCK_LIST: usize = 0x1f4;
/// The segment `core.img` loads its second sector to.
const LOAD_SEGMENT: u16 = 0x820;

/// Makes a partitioned disk bootable by a BIOS.
pub(crate) fn install(disk: &Path, boot_image: &[u8], core_image: &[u8]) -> Result<()> {
    let disk = File::options().read(true).write(true).open(disk)?;
    let mut first_sector = vec![0; SECTOR];
    disk.read_exact_at(&mut first_sector, 0)?;
    disk.write_all_at(&boot_sector(boot_image, &first_sector)?, 0)?;
    disk.write_all_at(&core(core_image)?, CORE_SECTOR * SECTOR as u64)?;
    Ok(())
}

fn boot_sector(boot_image: &[u8], first_sector: &[u8]) -> Result<Vec<u8>> {
    let mut sector = boot_image.to_vec();
    for kept in [PARAMETER_BLOCK, PARTITION_TABLE] {
        let of_disk = first_sector.get(kept.clone()).context("the disk is shorter than a sector")?;
        put(&mut sector, kept.start, of_disk)?;
    }
    put(&mut sector, KERNEL_SECTOR, &CORE_SECTOR.to_le_bytes())?;
    put(&mut sector, DRIVE_CHECK, &[0x90, 0x90])?;
    Ok(sector)
}

fn core(core_image: &[u8]) -> Result<Vec<u8>> {
    let sectors = core_image.len().div_ceil(SECTOR);
    if sectors as u64 > CORE_ROOM {
        bail!("GRUB's core image has {sectors} sectors, its partition {CORE_ROOM}");
    }
    let mut core = core_image.to_vec();
    put(&mut core, BLOCK_LIST, &(CORE_SECTOR + 1).to_le_bytes())?;
    put(&mut core, BLOCK_LIST + 8, &u16::try_from(sectors - 1)?.to_le_bytes())?;
    put(&mut core, BLOCK_LIST + 10, &LOAD_SEGMENT.to_le_bytes())?;
    Ok(core)
}

fn put(target: &mut [u8], offset: usize, bytes: &[u8]) -> Result<()> {
    let place =
        target.get_mut(offset..offset + bytes.len()).context("a GRUB image is shorter than expected")?;
    place.copy_from_slice(bytes);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_boot_sector_keeps_what_belongs_to_the_disk() {
        let mut first_sector = vec![0; SECTOR];
        first_sector[0x1fe] = 0x55;
        first_sector[0x1ff] = 0xaa;
        first_sector[0x10] = 7;
        let sector = boot_sector(&[0xee; SECTOR], &first_sector).unwrap();
        assert_eq!(sector[0x1fe..], [0x55, 0xaa]);
        assert_eq!((sector[0], sector[0x10]), (0xee, 7));
        assert_eq!(sector[KERNEL_SECTOR..KERNEL_SECTOR + 8], CORE_SECTOR.to_le_bytes());
    }

    #[test]
    fn the_core_knows_where_its_rest_lies() {
        let core = core(&[0; 3 * SECTOR + 1]).unwrap();
        assert_eq!(core[BLOCK_LIST..BLOCK_LIST + 8], 2049_u64.to_le_bytes());
        assert_eq!(core[BLOCK_LIST + 8..BLOCK_LIST + 12], [3, 0, 0x20, 0x08]);
    }

    #[test]
    fn a_core_too_large_for_its_partition_is_refused() {
        assert!(core(&vec![0; 2049 * SECTOR]).is_err());
        assert!(core(&[0; 16]).is_err());
    }
}
