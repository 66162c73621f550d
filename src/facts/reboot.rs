//! Whether and how this host would reboot.

use std::path::Path;

use serde::Serialize;

use crate::host::{Fs, FsError, Host, Inhibitor, REBOOT_TARGET};

/// What logind, systemd and the kernel say about a reboot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RebootFacts {
    /// `UnitFileState` of `reboot.target`, or why it is not known.
    pub target_state: Result<String, String>,
    /// logind's `CanReboot`, or why it is not known.
    pub can_reboot: Result<String, String>,
    /// Locks on shutdown, or why they are not known.
    pub inhibitors: Result<Vec<Inhibitor>, String>,
    /// Type of a shutdown someone else scheduled, or why it is not known.
    pub scheduled: Result<Option<String>, String>,
    /// A kernel is loaded for kexec: `systemctl reboot` would skip the boot loader from systemd 255 on.
    pub kexec_loaded: Result<bool, String>,
    /// `/run/nextroot` is there: `systemctl reboot` would be a soft-reboot from systemd 255 on.
    pub soft_reboot_prepared: bool,
}

/// Asks; changes nothing.
#[must_use]
pub fn scan(host: Host<'_>) -> RebootFacts {
    let init = host.init;
    RebootFacts {
        target_state: init.unit_file_state(REBOOT_TARGET).map_err(super::said),
        can_reboot: init.can_reboot().map_err(super::said),
        inhibitors: init.inhibitors().map_err(super::said),
        scheduled: init.scheduled_shutdown().map_err(super::said),
        kexec_loaded: kexec_loaded(host.fs).map_err(super::said),
        soft_reboot_prepared: host.fs.exists(Path::new("/run/nextroot")),
    }
}

/// A kernel without kexec has no such file.
fn kexec_loaded(fs: &dyn Fs) -> Result<bool, FsError> {
    match fs.read(Path::new("/sys/kernel/kexec_loaded")) {
        Ok(text) => Ok(text.starts_with(b"1")),
        Err(error) if error.is_not_found() => Ok(false),
        Err(error) => Err(error),
    }
}
