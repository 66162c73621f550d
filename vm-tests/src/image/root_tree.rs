//! The root tree of a suite: Debian's own packages, unpacked and configured by mmdebstrap.

use std::path::Path;

use anyhow::Result;

use super::cache::hash;
use super::state::Suite;
use crate::command::{command, run};

/// What is in every guest: enough to boot by GRUB as a real machine does, and to be reached by ssh.
const PACKAGES: &str = "systemd,systemd-sysv,udev,dbus,kmod,iproute2,procps,openssh-server,e2fsprogs,\
    initramfs-tools,zstd,linux-image-cloud-amd64,grub-pc";

/// A test machine keeps no manuals, needs no fsync while it is built, and may be built from a mirror that lags.
const OPTIONS: &[&str] = &[
    "--variant=minbase",
    "--format=tar",
    // Device nodes cannot be unpacked without root; the kernel fills /dev by itself.
    "--skip=output/dev",
    "--quiet",
    "--aptopt=APT::Install-Recommends \"false\"",
    "--aptopt=Acquire::Check-Valid-Until \"false\"",
    "--aptopt=Acquire::Retries \"3\"",
    "--dpkgopt=force-unsafe-io",
    "--dpkgopt=path-exclude=/usr/share/doc/*",
    "--dpkgopt=path-exclude=/usr/share/man/*",
    "--dpkgopt=path-exclude=/usr/share/locale/*",
];

/// Names everything the tree depends on.
pub(crate) fn key(suite: Suite) -> String {
    hash(&[suite.name().as_bytes(), PACKAGES.as_bytes(), OPTIONS.join("\n").as_bytes()])
}

/// Writes the tree as a tar file. As root by plain chroot, as anyone else by a user namespace: mmdebstrap chooses.
pub(crate) fn build(suite: Suite, tar: &Path) -> Result<()> {
    run(command("mmdebstrap").args(OPTIONS).arg(format!("--include={PACKAGES}")).arg(suite.name()).arg(tar))?;
    Ok(())
}
