//! Places that must be written: there, writable, with room.

use std::path::{Path, PathBuf};

use crate::config::Settings;
use crate::facts::Facts;
use crate::facts::storage::{Place, StorageFacts};
use crate::report::{Finding, Severity};

/// Files that are made anew beside the old ones at the same time, the journal and the originals among them.
const NEEDED_FILES: u64 = 16;

/// What is needed beside the menus: settings, journal.
const NEEDED_BESIDE: u64 = 1 << 20;

/// What is needed beside a file that is put back: a journal, a few blocks of directories.
const NEEDED_TO_PUT_BACK: u64 = 64 << 10;

/// The menu to reckon with where there is none to measure.
const LARGE_MENU: u64 = 2 << 20;

pub(super) fn check(facts: &Facts, _: &Settings) -> Vec<Finding> {
    let Some(storage) = &facts.storage else { return Vec::new() };
    let mut findings = with_room(storage, needed_bytes(storage));
    findings.extend(facts.grub.hard_linked.iter().map(hard_linked));
    findings
}

/// What stands in the way of putting files back. That needs less room than a migration: the way back is not forbidden
/// for want of what it does not use.
#[must_use]
pub fn to_put_back(storage: &StorageFacts) -> Vec<Finding> {
    with_room(storage, storage.menu_bytes.unwrap_or(LARGE_MENU).saturating_add(NEEDED_TO_PUT_BACK))
}

fn with_room(storage: &StorageFacts, needed: u64) -> Vec<Finding> {
    let places = storage.places.iter().filter_map(|place| judge(place, needed));
    places.chain(boot_mounts(storage)).collect()
}

/// Old and new menu lie beside each other for a while.
fn needed_bytes(storage: &StorageFacts) -> u64 {
    storage.menu_bytes.unwrap_or(LARGE_MENU).saturating_mul(2).saturating_add(NEEDED_BESIDE)
}

fn judge(place: &Place, needed: u64) -> Option<Finding> {
    match &place.read_only {
        Err(why) => Some(unknown(&place.path, why)),
        Ok(true) => Some(read_only(&place.path)),
        Ok(false) if place.available_bytes < needed => {
            let detail =
                format!("{} KiB are free, {} KiB are needed", place.available_bytes >> 10, needed >> 10);
            Some(full(&place.path, detail))
        }
        Ok(false) => {
            let left = place.available_files.filter(|files| *files < NEEDED_FILES)?;
            Some(full(&place.path, format!("{left} inodes are free, {NEEDED_FILES} are needed")))
        }
    }
}

fn unknown(path: &Path, why: &str) -> Finding {
    let title = format!("{} cannot be looked at", path.display());
    Finding::new(Severity::Blocker, "storage-unknown", title, why).about(path).remedy(
        "see what is there (ls -ld, findmnt --target) and whether the file system is sound, then try again",
    )
}

fn read_only(path: &Path) -> Finding {
    let path = path.display();
    Finding::new(
        Severity::Blocker,
        "read-only-file-system",
        format!("{path} is on a file system that is mounted read-only"),
        "what is there has to be written",
    )
    .about(path.to_string())
    .remedy(format!("mount it writable: mount -o remount,rw on the mount point of {path}"))
}

fn full(path: &Path, detail: String) -> Finding {
    let title = format!("{} is on a file system that is full", path.display());
    Finding::new(Severity::Blocker, "no-space", title, detail)
        .about(path)
        .remedy("make room, for example by removing old kernels")
}

fn boot_mounts(storage: &StorageFacts) -> Vec<Finding> {
    match &storage.unmounted {
        Ok(points) => points.iter().map(|point| unmounted(&point.display().to_string())).collect(),
        Err(why) => vec![boot_mounts_unknown(why)],
    }
}

fn boot_mounts_unknown(why: &str) -> Finding {
    Finding::new(
        Severity::Blocker,
        "boot-mounts-unknown",
        "it could not be found out whether all that boots is mounted",
        format!("{why}; what is written could land on another file system than the one that boots"),
    )
    .about("/etc/fstab")
    .remedy("see that /etc/fstab and /proc/1/mountinfo can be read, then try again")
}

fn hard_linked(path: &PathBuf) -> Finding {
    Finding::new(
        Severity::Blocker,
        "hard-linked-file",
        format!("{} has more than one name", path.display()),
        "a replaced file would no longer be the one behind its other names",
    )
    .about(path)
    .remedy("find the other name (find / -xdev -samefile FILE) and make it a copy or a symbolic link")
}

fn unmounted(path: &str) -> Finding {
    Finding::new(
        Severity::Blocker,
        "boot-not-mounted",
        format!("{path} is in /etc/fstab but not mounted"),
        "what is written below it would land on another file system than the one that boots",
    )
    .about(path)
    .remedy_command("mount it", &["mount", path])
}
