//! What there is: read through the traits of [`crate::host`], and not judged here.
//!
//! | module | what it reads |
//! |---|---|
//! | [`cgroup`] | the hierarchy in use and its controllers |
//! | [`kernel`] | release, command line, boot id, what it can still do of v1 |
//! | [`systemd`] | PID 1, systemd's version and built-in default, without running it |
//! | [`container`] | whether this is the host at all |
//! | [`firmware`] | arguments for systemd in an EFI variable |
//! | [`os`] | the distribution, and who owns its kernel command line |
//! | [`grub`], [`bootloader`] | the boot loader's files and what boots next |
//! | [`storage`] | places that must be written |
//! | [`reboot`] | whether a reboot is possible |
//! | [`resume_unit`] | whether anything goes on after the reboot |
//! | [`kubelet`] | whether this is a node of a cluster, and which release of the kubelet it has |
//! | [`runtime`] | the container runtime's cgroup driver |
//! | [`source`] | the files a kernel argument can come from |

pub mod bootloader;
pub mod cgroup;
pub mod container;
pub mod firmware;
pub mod grub;
pub mod kernel;
pub mod kubelet;
pub mod os;
pub mod reboot;
pub mod resume_unit;
pub mod runtime;
mod scan;
pub mod source;
pub mod storage;
pub mod systemd;
pub mod told;

use std::path::Path;

pub use scan::{Facts, Scan, scan};

use crate::host::Fs;

/// An error with its reasons, as facts keep it.
pub(crate) fn said(error: impl Into<anyhow::Error>) -> String {
    format!("{:#}", error.into())
}

/// A file's text without the blanks around it; `None` if it is not there or cannot be read.
pub(crate) fn text(fs: &dyn Fs, path: &str) -> Option<String> {
    let bytes = fs.read(Path::new(path)).ok()?;
    Some(String::from_utf8_lossy(&bytes).trim().to_owned())
}
