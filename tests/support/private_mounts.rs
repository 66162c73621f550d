//! Mounts that nobody else sees.
#![expect(clippy::disallowed_methods, reason = "runs this test binary again, and makes file systems")]
#![allow(dead_code, reason = "each test uses its part")]

use std::path::Path;
use std::process::Command;

use nix::mount::{MsFlags, mount};

/// Runs `scenario` of the test with this name in a mount namespace of its own. Printed reason and no run where
/// that is not possible.
pub(crate) fn in_private_namespace(test: &str, scenario: impl FnOnce()) {
    if std::env::var_os("C2M_INSIDE").is_some() {
        return scenario();
    }
    if !may_unshare() {
        println!("SKIP: {test}: mounting needs root and a mount namespace");
        return;
    }
    let status = Command::new("unshare")
        .args(["--mount", "--propagation", "private"])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture"])
        .env("C2M_INSIDE", "1")
        .status();
    assert!(status.unwrap().success(), "{test} failed in its namespace, see above");
}

fn may_unshare() -> bool {
    Command::new("unshare").args(["--mount", "true"]).status().is_ok_and(|status| status.success())
}

pub(crate) fn mount_tmpfs(at: &Path, options: &str) {
    mount(Some("tmpfs"), at, Some("tmpfs"), MsFlags::empty(), Some(options)).unwrap();
}

pub(crate) fn make_read_only(at: &Path) {
    let nothing = None::<&str>;
    mount(Some(at), at, nothing, MsFlags::MS_BIND, nothing).unwrap();
    let flags = MsFlags::MS_BIND | MsFlags::MS_REMOUNT | MsFlags::MS_RDONLY;
    mount(nothing, at, nothing, flags, nothing).unwrap();
}

/// Mounts a new vfat there; false if this machine cannot.
pub(crate) fn mount_vfat(image: &Path, at: &Path) -> bool {
    std::fs::File::create(image).unwrap().set_len(4 << 20).unwrap();
    let runs = |command: &mut Command| command.output().is_ok_and(|output| output.status.success());
    runs(Command::new("mkfs.vfat").arg(image))
        && runs(Command::new("mount").args(["-o", "loop,uid=7,gid=7,umask=0077"]).arg(image).arg(at))
}

pub(crate) fn chattr(flag: &str, path: &Path) -> bool {
    Command::new("chattr").arg(flag).arg(path).status().is_ok_and(|status| status.success())
}
