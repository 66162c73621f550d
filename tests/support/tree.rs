//! Trees of files, and the menu in one.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::path::Path;

use cgroup2_migrate::host::sha256;

/// Every file and directory below, with what it holds.
pub(crate) fn collect(directory: &Path, files: &mut Vec<(String, String)>) {
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files.push((path.display().to_string(), "a directory".to_owned()));
            collect(&path, files);
        } else {
            files.push((path.display().to_string(), sha256(&std::fs::read(&path).unwrap())));
        }
    }
}

/// Links are copied as links.
pub(crate) fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let (path, target) = (entry.path(), to.join(entry.file_name()));
        if entry.file_type().unwrap().is_dir() {
            copy(&path, &target);
        } else if let Ok(link) = std::fs::read_link(&path) {
            std::os::unix::fs::symlink(link, target).unwrap();
        } else {
            std::fs::copy(path, target).unwrap();
        }
    }
}

/// A menu as 00_header and 10_linux write it, the newest kernel first.
pub(crate) fn menu(arguments: &str, kernels: &[String]) -> String {
    let header = "if [ -s $prefix/grubenv ]; then\n  load_env\nfi\nif [ \"${next_entry}\" ] ; then\n   set \
         default=\"${next_entry}\"\n   set next_entry=\n   save_env next_entry\nelse\n   set default=\"0\"\nfi\nset \
         timeout=5\n";
    let entry = |kernel: &String| {
        format!(
            "menuentry 'Debian {kernel}' --class debian $menuentry_id_option 'debian-{kernel}' \
             {{\n\tlinux\t/boot/vmlinuz-{kernel} root=UUID=1 ro {arguments}\n\tinitrd\t/boot/initrd.img-{kernel}\n}}\n"
        )
    };
    header.to_owned() + &kernels.iter().map(entry).collect::<String>()
}

/// In memory where there is such a place: every write is synced, and there are tens of thousands.
pub(crate) fn scratch() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
}
