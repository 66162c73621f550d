//! Looks at the host the way [`super::decide`] needs it.

use std::path::Path;

use super::decide::{FileState, Observed};
use super::journal::{Journal, TouchedFile};
use super::phase::PhaseName;
use crate::boot::hierarchy::{Hierarchy, Outcome};
use crate::boot::kargs::{Kargs, is_v1_pin};
use crate::checks;
use crate::facts::{cgroup, grub, kernel, storage, systemd::SystemdFacts};
use crate::host::{FsError, Host, sha256};
use crate::report::Finding;

/// Everything the next decision needs.
///
/// # Errors
/// [`FsError`] where the boot id cannot be read: then nothing is decided. Everything else may be unknown.
pub fn observe(host: Host<'_>, systemd: &SystemdFacts, journal: &Journal) -> Result<Observed, FsError> {
    let cmdline = kernel::scan(host.fs).command_line.unwrap_or_default();
    let files = states(host, journal);
    Ok(Observed {
        boot_id: kernel::boot_id(host.fs)?,
        hierarchy: cgroup::scan(host.fs, host.mounts, &host.mounts.table()).hierarchy,
        arguments_active: systemd.decide(&cmdline).hierarchy == Hierarchy::Unified,
        storage: storage(host, journal, &files),
        files,
        way_back: way_back(systemd, journal),
        next_boot: grub::next_boot(host.fs, systemd),
        going_down: host.init.is_going_down().ok(),
    })
}

/// Whether the file systems that have to be written now can be: on the way back only those of what is put back.
fn storage(host: Host<'_>, journal: &Journal, files: &[FileState]) -> Result<(), String> {
    let files = journal.files.iter().zip(files);
    let to_write: Vec<&Path> = match journal.state.name() {
        PhaseName::Planned
        | PhaseName::Locked
        | PhaseName::Cordoned
        | PhaseName::Drained
        | PhaseName::Staged => files.map(|(file, _)| file.path.as_path()).collect(),
        PhaseName::RollingBack if journal.files.iter().any(|file| file.touched) => {
            let changed = files.filter(|(_, state)| **state != FileState::Original);
            changed.map(|(file, _)| file.path.as_path()).collect()
        }
        PhaseName::RollingBack
        | PhaseName::Rebooting
        | PhaseName::Booted
        | PhaseName::Verified
        | PhaseName::KubeletFinal
        | PhaseName::Uncordoned
        | PhaseName::Done
        | PhaseName::RolledBack
        | PhaseName::NeedsPerson => Vec::new(),
    };
    if to_write.is_empty() {
        return Ok(());
    }
    let findings = checks::to_put_back(&storage::scan_files(host, &to_write));
    let told: Vec<String> = findings.iter().map(Finding::line).collect();
    if told.is_empty() { Ok(()) } else { Err(told.join("; ")) }
}

/// What the installed systemd would make of the kernel line of before: it may have been upgraded since.
fn way_back(systemd: &SystemdFacts, journal: &Journal) -> Result<(), String> {
    let decision = systemd.decide(&journal.before.cmdline);
    match (decision.outcome, decision.hierarchy) {
        (Outcome::RefusesToBoot, _) => {
            Err(format!("the systemd installed now refuses the old kernel line: {}", decision.reason))
        }
        (_, Hierarchy::Unified) if has_pin(&journal.before.cmdline) => Err(format!(
            "the systemd installed now makes cgroup v2 of the old kernel line: {}",
            decision.reason
        )),
        (Outcome::Boots | Outcome::BootsAfterDelay, _) => Ok(()),
    }
}

/// Without a pin something else than the line made v1, an initramfs for instance, and may do so again.
fn has_pin(line: &str) -> bool {
    Kargs::parse(line).iter().any(is_v1_pin)
}

/// The state of each file of the journal.
#[must_use]
pub fn states(host: Host<'_>, journal: &Journal) -> Vec<FileState> {
    let rolling_back = journal.state.name() == PhaseName::RollingBack;
    journal.files.iter().map(|file| state_of(host, file, rolling_back)).collect()
}

fn state_of(host: Host<'_>, file: &TouchedFile, rolling_back: bool) -> FileState {
    let Ok(found) = content_hash(host, &file.path) else { return FileState::Unknown };
    let neither = if found.is_none() { FileState::Deleted } else { FileState::Foreign };
    if rolling_back && file.original_outdated {
        // Neither our content nor the saved one is wanted: only one made anew from the restored files.
        let anew = found.is_some() && found == file.regenerated;
        return if anew { FileState::Original } else { neither };
    }
    let original = found == file.before || (found.is_some() && found == file.regenerated);
    let ours = found.is_some() && found == file.after;
    match (original, ours) {
        // Both, where the tool generated what was there already: then it is whatever is wanted.
        (true, true) if rolling_back => FileState::Original,
        (_, true) => FileState::Ours,
        (true, false) => FileState::Original,
        (false, false) => neither,
    }
}

/// SHA-256 of a file's content, or `None` if there is no such file.
///
/// # Errors
/// [`FsError`].
pub fn content_hash(host: Host<'_>, path: &Path) -> Result<Option<String>, FsError> {
    Ok(host.fs.snapshot(path)?.map(|found| sha256(&found.bytes)))
}
