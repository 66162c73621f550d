//! The only writer: carries a plan out, survives a crash between any two effects, and finds its way back.
//!
//! [`journal`] is what is remembered, [`observe`] what is seen, [`decide`] the pure choice of the next step
//! from both, [`drive`] the loop that takes one step at a time, [`effects`] what each step does to the host,
//! [`service`] what it does to the Node object, `kubelet` what it does to the kubelet, [`fleet`] how it waits for its
//! turn.

pub mod begin;
pub mod decide;
pub mod drive;
pub mod effects;
pub mod failpoint;
pub mod fleet;
pub mod journal;
mod kubelet;
pub mod leftovers;
pub mod lock;
pub mod observe;
pub mod originals;
pub mod phase;
pub mod reboot;
pub mod regenerate;
pub mod service;
pub mod status;
pub mod store;

use std::path::PathBuf;

use crate::host::{Attributes, STATE_DIRECTORY};

/// A path below [`STATE_DIRECTORY`].
#[must_use]
pub fn state_path(name: &str) -> PathBuf {
    PathBuf::from(STATE_DIRECTORY).join(name)
}

/// Our own files are for root alone: an original may hold what others must not read.
fn private() -> Attributes {
    Attributes { mode: 0o600, uid: 0, gid: 0, xattrs: std::collections::BTreeMap::new() }
}
