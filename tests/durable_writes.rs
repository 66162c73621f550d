//! Writing to file systems that will not have it: nothing is lost and nothing is left behind.

use std::io::Write as _;
use std::path::Path;

use cgroup2_migrate::host::fs::RootedFs;
use cgroup2_migrate::host::{Expect, Fs, FsError};
use nix::errno::Errno;

#[cfg(test)] // so that clippy takes its helpers for test code
#[path = "support/private_mounts.rs"]
mod private_mounts;
use private_mounts::{chattr, in_private_namespace, make_read_only, mount_tmpfs, mount_vfat};

const GRUB: &str = "/grub";

fn errno(error: &FsError) -> Option<Errno> {
    match error {
        FsError::Io { source, .. } => source.raw_os_error().map(Errno::from_raw),
        FsError::Changed { .. } | FsError::TestHost { .. } => None,
    }
}

fn replace(fs: &RootedFs, text: &[u8]) -> Result<(), FsError> {
    fs.replace(Path::new(GRUB), text, &Expect::Anything, None)
}

#[test]
fn a_full_file_system_keeps_the_old_file() {
    in_private_namespace("a_full_file_system_keeps_the_old_file", || {
        let directory = tempfile::tempdir().unwrap();
        mount_tmpfs(directory.path(), "size=64k");
        let fs = RootedFs::new(directory.path());
        replace(&fs, b"old").unwrap();
        let mut filler = std::fs::File::create(directory.path().join("filler")).unwrap();
        while filler.write_all(&[0; 4096]).is_ok() {}
        let error = replace(&fs, &[b'n'; 8192]).unwrap_err();
        assert_eq!(errno(&error), Some(Errno::ENOSPC));
        assert_eq!(error.to_string(), "write the temporary file beside /grub");
        assert_eq!(fs.read(Path::new(GRUB)).unwrap(), b"old");
        assert_eq!(fs.list(Path::new("/")).unwrap(), ["filler", "grub"]);
        assert_eq!(fs.space(Path::new(GRUB)).unwrap().available_bytes, 0);
    });
}

#[test]
fn no_inode_left_is_a_full_file_system_too() {
    in_private_namespace("no_inode_left_is_a_full_file_system_too", || {
        let directory = tempfile::tempdir().unwrap();
        mount_tmpfs(directory.path(), "nr_inodes=2");
        let fs = RootedFs::new(directory.path());
        replace(&fs, b"old").unwrap();
        let error = replace(&fs, b"new").unwrap_err();
        assert_eq!(errno(&error), Some(Errno::ENOSPC));
        assert_eq!(fs.read(Path::new(GRUB)).unwrap(), b"old");
    });
}

#[test]
fn a_read_only_mount_is_seen_and_not_written() {
    in_private_namespace("a_read_only_mount_is_seen_and_not_written", || {
        let directory = tempfile::tempdir().unwrap();
        let fs = RootedFs::new(directory.path());
        replace(&fs, b"old").unwrap();
        make_read_only(directory.path());
        assert!(fs.space(Path::new(GRUB)).unwrap().read_only);
        let path = Path::new(GRUB);
        let errors = [
            replace(&fs, b"new").unwrap_err(),
            fs.remove(path, &Expect::Anything).unwrap_err(),
            fs.create_directory(Path::new("/new"), 0o755).unwrap_err(),
        ];
        assert!(errors.iter().all(|error| errno(error) == Some(Errno::EROFS)), "{errors:?}");
        assert_eq!(fs.read(path).unwrap(), b"old");
    });
}

#[test]
fn vfat_keeps_no_owner_and_that_is_no_failure() {
    in_private_namespace("vfat_keeps_no_owner_and_that_is_no_failure", || {
        let directory = tempfile::tempdir().unwrap();
        let mount_point = tempfile::tempdir().unwrap();
        if !mount_vfat(&directory.path().join("image"), mount_point.path()) {
            println!("SKIP: no vfat here (mkfs.vfat, a loop device and the kernel's vfat)");
            return;
        }
        let fs = RootedFs::new(mount_point.path());
        replace(&fs, b"old").unwrap();
        let before = fs.snapshot(Path::new(GRUB)).unwrap().unwrap();
        replace(&fs, b"new").unwrap();
        let after = fs.snapshot(Path::new(GRUB)).unwrap().unwrap();
        assert_eq!((after.attributes, after.bytes), (before.attributes, b"new".to_vec()));
        fs.replace(Path::new("/new"), b"", &Expect::Absent, None).unwrap();
        fs.sync_file_system(Path::new(GRUB)).unwrap();
    });
}

#[test]
fn an_immutable_file_says_why() {
    let directory = tempfile::tempdir().unwrap();
    let fs = RootedFs::new(directory.path());
    replace(&fs, b"old").unwrap();
    let file = directory.path().join("grub");
    if !chattr("+i", &file) {
        println!("SKIP: no immutable files here (chattr, root, a file system that has them)");
        return;
    }
    let errors =
        [replace(&fs, b"new").unwrap_err(), fs.remove(Path::new(GRUB), &Expect::Anything).unwrap_err()];
    let left = fs.list(Path::new("/")).unwrap();
    assert!(chattr("-i", &file));
    for error in errors {
        let source = std::error::Error::source(&error).unwrap().to_string();
        assert!(source.contains("immutable (chattr +i)"), "{error}: {source}");
    }
    assert_eq!(left, ["grub"]);
    assert_eq!(fs.read(Path::new(GRUB)).unwrap(), b"old");
}
