//! Whether the places that must be written can be written.

use std::io;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use serde::Serialize;

use crate::host::{Host, Mount, STATE_DIRECTORY};

/// One place that will be written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Place {
    /// The directory.
    pub path: PathBuf,
    /// Mounted read-only, or why it is not known.
    pub read_only: Result<bool, String>,
    /// Free bytes for root; 0 if not known.
    pub available_bytes: u64,
    /// Files that may still be made; `None` if nothing limits them, or if not known.
    pub available_files: Option<u64>,
}

/// All places, and whether `/boot` is what it should be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct StorageFacts {
    /// Places that will be written.
    pub places: Vec<Place>,
    /// Size of the menu that is generated anew; `None` if there is none.
    pub menu_bytes: Option<u64>,
    /// Mount points for boot files that `/etc/fstab` names but that are not mounted, or why that is not known.
    pub unmounted: Result<Vec<PathBuf>, String>,
    /// Places that are read and written here and that PID 1 has something else at, or why that is not known.
    pub elsewhere: Result<Vec<PathBuf>, String>,
}

/// Looks at the directories of the boot configuration and of our own state.
#[must_use]
pub fn scan(host: Host<'_>, table: &io::Result<Vec<Mount>>, boot_directory: &Path) -> StorageFacts {
    let paths = [Path::new("/etc/default"), boot_directory, Path::new(STATE_DIRECTORY)];
    let menu = host.fs.snapshot(&boot_directory.join("grub.cfg")).ok().flatten();
    StorageFacts {
        places: paths.into_iter().map(|path| place(host, path)).collect(),
        menu_bytes: menu.and_then(|menu| u64::try_from(menu.bytes.len()).ok()),
        unmounted: unmounted(host, table),
        elsewhere: elsewhere(host, boot_directory),
    }
}

/// Looks at where these files lie, and our own state: what has to be written to put them back. The largest of them
/// stands for the menu.
#[must_use]
pub fn scan_files(host: Host<'_>, files: &[&Path]) -> StorageFacts {
    // Behind a link it is another file system that is written.
    let real = |path: &&Path| host.fs.resolve(path).unwrap_or_else(|_| path.to_path_buf());
    let mut directories: Vec<PathBuf> =
        files.iter().map(real).filter_map(|path| Some(path.parent()?.to_owned())).collect();
    directories.push(PathBuf::from(STATE_DIRECTORY));
    directories.sort();
    directories.dedup();
    let found = files.iter().filter_map(|path| host.fs.snapshot(path).ok().flatten());
    StorageFacts {
        places: directories.iter().map(|path| place(host, path)).collect(),
        menu_bytes: found.filter_map(|file| u64::try_from(file.bytes.len()).ok()).max(),
        unmounted: unmounted(host, &host.mounts.table()),
        // A person is asked for it before the first step (`migration::begin`); the unit runs where process 1 is.
        elsewhere: Ok(Vec::new()),
    }
}

fn place(host: Host<'_>, path: &Path) -> Place {
    let space = host.fs.space(path);
    Place {
        path: path.to_owned(),
        available_bytes: space.as_ref().map_or(0, |space| space.available_bytes),
        available_files: space.as_ref().ok().and_then(|space| space.available_files),
        read_only: space.map(|space| space.read_only).map_err(super::said),
    }
}

/// In another mount namespace than the host's own, its files and ours can be two things by one name.
fn elsewhere(host: Host<'_>, boot_directory: &Path) -> Result<Vec<PathBuf>, String> {
    let menu = boot_directory.join("grub.cfg");
    let own = ["/etc/default", "/etc/default/grub", "/etc/default/grub.d", "/boot", STATE_DIRECTORY];
    let mut differ = Vec::new();
    for path in own.map(Path::new).into_iter().chain([boot_directory, &menu]) {
        if !is_of_host(host, path)? {
            differ.push(path.to_owned());
        }
    }
    Ok(differ)
}

/// Whether a path leads to the same here and for process 1.
///
/// # Errors
/// If PID 1's view is closed to us.
pub fn is_of_host(host: Host<'_>, path: &Path) -> Result<bool, String> {
    let place = host.fs.resolve(path).map_err(super::said)?;
    let looked = || format!("compare {} with that of process 1", path.display());
    host.mounts.same_for_pid1(&place).with_context(looked).map_err(super::said)
}

/// `/boot` of fstab that is not mounted: what is written then lands on the wrong file system.
fn unmounted(host: Host<'_>, table: &io::Result<Vec<Mount>>) -> Result<Vec<PathBuf>, String> {
    let fstab = host.fs.snapshot(Path::new("/etc/fstab"));
    let fstab = fstab.map_err(super::said)?;
    let mut wanted = boot_mounts(&String::from_utf8_lossy(&fstab.map(|file| file.bytes).unwrap_or_default()));
    if wanted.is_empty() {
        return Ok(wanted);
    }
    let mounted = table.as_deref().map_err(|error| format!("read the mount table: {error}"))?;
    let is_mounted = |point: &PathBuf| {
        mounted.iter().any(|mount| mount.mount_point == *point && mount.fs_type != "autofs")
    };
    wanted.retain(|point| !is_mounted(point));
    Ok(wanted)
}

/// Mount points below `/boot` that GRUB's files may live in. The ESP holds only a stub that is left alone, so
/// that it is `noauto` or not mounted does no harm.
fn boot_mounts(fstab: &str) -> Vec<PathBuf> {
    fstab
        .lines()
        .filter(|line| !line.trim_start().starts_with('#'))
        .filter_map(|line| line.split_whitespace().nth(1))
        .map(|point| if point.len() > 1 { point.trim_end_matches('/') } else { point })
        .filter(|point| matches!(*point, "/boot" | "/boot/grub" | "/boot/grub2"))
        .map(PathBuf::from)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_places_of_grubs_files_count() {
        let fstab = "# /boot x\nUUID=1 /boot ext4 defaults 0 2\nUUID=2 /boot/efi vfat umask=0077 0 1\nUUID=3 / ext4 x 0 1\n";
        assert_eq!(boot_mounts(fstab), [PathBuf::from("/boot")]);
        assert_eq!(boot_mounts("UUID=1 /boot/ ext4 defaults 0 2"), [PathBuf::from("/boot")]);
    }
}
