//! From a root tree to a disk that boots.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::boot_code::{self, CORE_ROOM, CORE_SECTOR};
use super::cache::hash;
use super::state::State;
use crate::command::{command, run};

/// Names of the files of a finished image.
pub(crate) const DISK: &str = "disk.qcow2";
pub(crate) const KERNEL: &str = "vmlinuz";
pub(crate) const INITRD: &str = "initrd";

const SECTOR: u64 = 512;
const ROOT_SECTOR: u64 = CORE_SECTOR + CORE_ROOM;
const ROOT_MEBIBYTES: u64 = 1024;
/// With room behind the root partition for the second copy of the partition table.
const DISK_BYTES: u64 = ROOT_SECTOR * SECTOR + (ROOT_MEBIBYTES + 1) * 1024 * 1024;
const ROOT_UUID: &str = "c2c2c2c2-6d69-4772-a17e-000000000001";

/// Names everything the disk depends on.
pub(crate) fn key(state: State, tree_key: &str, ssh_key: &Path) -> Result<String> {
    let mut parts = vec![
        tree_key.as_bytes().to_vec(),
        fs::read(public_half(ssh_key))?,
        include_bytes!("disk.rs").to_vec(),
        include_bytes!("boot_code.rs").to_vec(),
    ];
    parts.push(fs::read(recipe().join("prepare.sh"))?);
    for tree in [recipe().join("overlay"), recipe().join("states").join(state.name())] {
        read_tree(&tree, &mut parts)?;
    }
    Ok(hash(&parts.iter().map(Vec::as_slice).collect::<Vec<_>>()))
}

/// Fills `directory` with the disk, its kernel and its initrd.
pub(crate) fn build(state: State, tree: &Path, ssh_key: &Path, directory: &Path) -> Result<()> {
    let overlay = directory.join("overlay.tar");
    pack_overlay(state, ssh_key, &overlay)?;
    make_root(state, tree, &overlay, directory)?;
    let raw = directory.join("disk.raw");
    run(command("tar").arg("-C").arg(directory).arg("-xf").arg(directory.join("disk.tar")))?;
    partition(&raw)?;
    boot_code::install(&raw, &fs::read(directory.join("boot.img"))?, &fs::read(directory.join("core.img"))?)?;
    run(command("qemu-img").args(["convert", "-O", "qcow2"]).arg(&raw).arg(directory.join(DISK)))?;
    for intermediate in ["overlay.tar", "disk.tar", "disk.raw", "boot.img", "core.img"] {
        fs::remove_file(directory.join(intermediate))?;
    }
    Ok(())
}

/// The files that make the tree this guest, as one tar owned by root whoever builds it.
fn pack_overlay(state: State, ssh_key: &Path, tar: &Path) -> Result<()> {
    let staging = tempfile::tempdir()?;
    let ssh = staging.path().join("root/.ssh");
    fs::create_dir_all(&ssh)?;
    fs::copy(public_half(ssh_key), ssh.join("authorized_keys"))?;
    run(command("tar")
        .args(["--owner=0", "--group=0", "--mode=u=rwX,go=rX", "-cf"])
        .arg(tar)
        .arg("-C")
        .arg(staging.path())
        .arg("root/.ssh/authorized_keys")
        .arg("-C")
        .arg(recipe())
        .arg("prepare.sh")
        .arg("-C")
        .arg(recipe().join("overlay"))
        .args(["etc", "usr"])
        .arg("-C")
        .arg(recipe().join("states").join(state.name()))
        .arg("etc"))?;
    Ok(())
}

/// Unpacks the tree, prepares it, and takes out a disk that holds it, and the boot files. All inside mmdebstrap, which
/// can be root of the tree without being root of the machine.
fn make_root(state: State, tree: &Path, overlay: &Path, directory: &Path) -> Result<()> {
    let prepare = format!("chroot \"$1\" sh /prepare.sh {ROOT_UUID} /dev/vda2 hd0,gpt2");
    let hand_out = r#"mkdir "$1.out" "$1.out/tree" && mv "$1/boot-code" "$1.out/""#;
    // What mmdebstrap has mounted inside the tree, from the host, is not seen through a bind mount of the tree.
    let fill_disk = format!(
        "mount --bind \"$1\" \"$1.out/tree\" && truncate -s {DISK_BYTES} \"$1.out/disk.raw\" &&
        mke2fs -q -F -t ext4 -L root -U {ROOT_UUID} -E offset={} -d \"$1.out/tree\" \"$1.out/disk.raw\" {ROOT_MEBIBYTES}M &&
        umount \"$1.out/tree\" && rmdir \"$1.out/tree\"",
        ROOT_SECTOR * SECTOR
    );
    // Most of the disk is a hole, which only tar can hand on as one.
    let pack_disk = r#"tar -C "$1.out" -cSf "$1.out/disk.tar" disk.raw && rm "$1.out/disk.raw""#;
    let take_back = r#"mv "$1.out" "$1/out""#;
    let mut mmdebstrap = command("mmdebstrap");
    mmdebstrap
        .args([
            "--variant=custom",
            "--quiet",
            "--skip=update,cleanup,chroot/mount/proc,chroot/mount/sys",
            "--format=null",
        ])
        .arg(format!("--setup-hook=tar-in {} /", quoted(tree)))
        .arg(r#"--setup-hook=mkdir -p "$1/dev""#)
        .arg(format!("--customize-hook=tar-in {} /", quoted(overlay)))
        .arg(format!("--customize-hook={prepare}"))
        .arg(format!("--customize-hook={hand_out}"))
        .arg(format!("--customize-hook={fill_disk}"))
        .arg(format!("--customize-hook={pack_disk}"))
        .arg(format!("--customize-hook={take_back}"));
    for (inside, outside) in [
        ("disk.tar", "disk.tar"),
        ("boot-code/boot.img", "boot.img"),
        ("boot-code/core.img", "core.img"),
        ("boot-code/vmlinuz", KERNEL),
        ("boot-code/initrd", INITRD),
    ] {
        mmdebstrap
            .arg(format!("--customize-hook=download /out/{inside} {}", quoted(&directory.join(outside))));
    }
    run(mmdebstrap.arg(state.suite().name()).arg("/dev/null"))?;
    Ok(())
}

fn partition(raw: &Path) -> Result<()> {
    let root_sectors = ROOT_MEBIBYTES * 1024 * 1024 / SECTOR;
    let bios_boot =
        format!("start={CORE_SECTOR}, size={CORE_ROOM}, type=21686148-6449-6E6F-744E-656564454649");
    let root = format!("start={ROOT_SECTOR}, size={root_sectors}, type=L");
    let script = raw.with_extension("sfdisk");
    fs::write(&script, format!("label: gpt\n{bios_boot}\n{root}\n"))?;
    run(command("sfdisk").arg("--quiet").arg(raw).stdin(File::open(&script)?))?;
    fs::remove_file(&script)?;
    Ok(())
}

/// The recipe's files, read where the sources lie.
fn recipe() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("image")
}

fn public_half(ssh_key: &Path) -> PathBuf {
    ssh_key.with_extension("pub")
}

/// A path as one word of a hook's line.
fn quoted(path: &Path) -> String {
    format!("'{}'", path.display().to_string().replace('\'', r"'\''"))
}

/// Appends the path and content of every file below `directory`, in a fixed order.
fn read_tree(directory: &Path, parts: &mut Vec<Vec<u8>>) -> Result<()> {
    let mut entries = fs::read_dir(directory)
        .with_context(|| format!("cannot read {}", directory.display()))?
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<io::Result<Vec<_>>>()?;
    entries.sort();
    for path in entries {
        let name = path.strip_prefix(recipe()).unwrap_or(&path);
        parts.push(name.to_string_lossy().into_owned().into_bytes());
        if path.is_dir() {
            read_tree(&path, parts)?;
        } else {
            parts.push(fs::read(&path)?);
        }
    }
    Ok(())
}
