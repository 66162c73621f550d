//! Disk images of Debian, built from its packages with tools of Debian and GRUB alone, without loop devices,
//! mounts or a first boot; kept in a cache under the hash of everything they are made from.
//!
//! ```text
//! suite + packages ──mmdebstrap──► root tree (tar) ──prepare.sh + a state's files──► ext4 ──+ boot code──► qcow2
//! ```

mod boot_code;
mod cache;
mod disk;
mod root_tree;
mod state;

use std::path::PathBuf;

use anyhow::Result;

pub(crate) use cache::{Cache, hash};
pub(crate) use state::State;

use crate::progress::step;

/// A bootable disk and what is needed to reach it.
#[derive(Debug, Clone)]
pub(crate) struct Image {
    /// The qcow2 file. Never booted itself, only overlays of it.
    pub(crate) disk: PathBuf,
    /// Its kernel, for a boot without GRUB.
    pub(crate) kernel: PathBuf,
    /// Its initrd, likewise.
    pub(crate) initrd: PathBuf,
    /// The private key that opens root's account.
    pub(crate) ssh_key: PathBuf,
}

/// The image of a state: from the cache, or built now. Two callers at once build it once.
pub(crate) fn image(state: State) -> Result<Image> {
    let cache = Cache::open()?;
    let ssh_key = cache.ssh_key()?;
    let tree_key = root_tree::key(state.suite());
    let tree = cache.file(&format!("tree-{}", state.suite().name()), &tree_key, |tree| {
        step(&format!("installing Debian {} into a directory", state.suite().name()));
        root_tree::build(state.suite(), tree)
    })?;
    let disk_key = disk::key(state, &tree_key, &ssh_key)?;
    let directory = cache.directory(&format!("image-{}", state.name()), &disk_key, |directory| {
        step(&format!("building the disk image {}", state.name()));
        disk::build(state, &tree, &ssh_key, directory)
    })?;
    Ok(Image {
        disk: directory.join(disk::DISK),
        kernel: directory.join(disk::KERNEL),
        initrd: directory.join(disk::INITRD),
        ssh_key,
    })
}
