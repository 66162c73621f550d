//! The files an entry names, looked for on the running system.
//!
//! GRUB's paths begin at the file system that its script took as root. Which one that is at boot time is not asked: on a
//! separate `/boot` its top is `/boot` here, everywhere else `/`; with subvolumes there is more in front.

use std::path::{Path, PathBuf};

use crate::boot::grub::menu::NextEntry;
use crate::host::Fs;

/// Where a file of an entry is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// Here, links followed.
    At(PathBuf),
    /// Nowhere that its path can mean.
    Missing,
    /// Its path does not tell: a device, a variable, a directory of another file system.
    Unknown,
}

/// The files of the entry that will boot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EntryFiles {
    /// Path of the kernel in the entry, and its place; `None` if the entry loads none.
    pub kernel: Option<(String, Place)>,
    /// The same of each part of the initial ramdisk.
    pub initrd: Vec<(String, Place)>,
}

impl EntryFiles {
    /// Paths, as the entry has them, of what is not there.
    #[must_use]
    pub fn missing(&self) -> Vec<&str> {
        let all = self.kernel.iter().chain(&self.initrd);
        all.filter(|(_, place)| *place == Place::Missing).map(|(path, _)| path.as_str()).collect()
    }

    /// Name of the kernel's file.
    #[must_use]
    pub fn kernel_name(&self) -> Option<String> {
        let (path, place) = self.kernel.as_ref()?;
        let path = match place {
            Place::At(path) => path.as_path(),
            Place::Missing | Place::Unknown => Path::new(path),
        };
        Some(path.file_name()?.to_string_lossy().into_owned())
    }
}

/// Looks for the files of an entry.
#[must_use]
pub fn of_entry(fs: &dyn Fs, entry: &NextEntry) -> EntryFiles {
    let look = |path: &String| (path.clone(), find(fs, path));
    EntryFiles {
        kernel: entry.linux.as_ref().map(|linux| look(&linux.kernel)),
        initrd: entry.initrd.iter().flatten().map(look).collect(),
    }
}

fn find(fs: &dyn Fs, path: &str) -> Place {
    if !path.starts_with('/') || path.contains('$') {
        return Place::Unknown;
    }
    match candidates(path).into_iter().find(|candidate| fs.exists(candidate)) {
        Some(found) => Place::At(fs.resolve(&found).unwrap_or(found)),
        None if tells(path) => Place::Missing,
        None => Place::Unknown,
    }
}

/// A path in another directory may belong to a file system (the ESP, a subvolume) that is mounted anywhere, or nowhere.
fn tells(path: &str) -> bool {
    let parent = Path::new(path).parent();
    parent == Some(Path::new("/")) || parent == Some(Path::new("/boot"))
}

fn candidates(path: &str) -> Vec<PathBuf> {
    let mut found = vec![PathBuf::from(format!("/boot{path}")), PathBuf::from(path)];
    // `/@/boot/vmlinuz` of a subvolume, `/BOOT/debian@/vmlinuz` of ZFS.
    found.extend(path.find("/boot/").and_then(|at| path.get(at..)).map(PathBuf::from));
    found.extend(path.rsplit_once("@/").map(|(_, rest)| Path::new("/boot").join(rest)));
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::{Expect, RootedFs};

    #[test]
    fn a_path_of_grub_is_found_wherever_its_file_system_is_mounted() {
        let root = tempfile::tempdir().unwrap();
        let fs = RootedFs::new(root.path());
        fs.create_directory(Path::new("/boot"), 0o755).unwrap();
        fs.replace(Path::new("/boot/vmlinuz-1"), b"", &Expect::Anything, None).unwrap();
        std::os::unix::fs::symlink("boot/vmlinuz-1", root.path().join("vmlinuz")).unwrap();
        let here = Place::At(PathBuf::from("/boot/vmlinuz-1"));
        for path in
            ["/vmlinuz-1", "/boot/vmlinuz-1", "/@/boot/vmlinuz-1", "/BOOT/debian@/vmlinuz-1", "/vmlinuz"]
        {
            assert_eq!(find(&fs, path), here, "{path}");
        }
        for path in ["/vmlinuz-2", "/boot/vmlinuz-2"] {
            assert_eq!(find(&fs, path), Place::Missing, "{path}");
        }
        for path in
            ["/EFI/debian/vmlinuz", "/@/boot/vmlinuz-2", "(hd0,gpt1)/vmlinuz", "/vmlinuz-$v", "newc:a:/b"]
        {
            assert_eq!(find(&fs, path), Place::Unknown, "{path}");
        }
    }
}
