//! The way back: files first, then, only if the running hierarchy is another one than before, one reboot.

use super::{Ending, FileState, Observed, Step, first, is_edited, kubelet, needs_person, path_of};
use crate::boot::NextBoot;
use crate::boot::hierarchy::Hierarchy;
use crate::migration::journal::{Journal, Kind, Purpose, TouchedFile};
use crate::migration::phase::Phase;

pub(super) fn rolling_back(journal: &Journal, seen: &Observed, why: &str) -> Step {
    if let Some(obstacle) = obstacle(journal, seen, why) {
        return needs_person(obstacle);
    }
    // Before the reboot into v1 is even thought of: with the new ones the kubelet would not start there.
    if let Some(index) = kubelet::to_put_back(journal, seen) {
        return Step::Restore(index);
    }
    if let Some(index) = first(journal, seen, |state, file| file.touched && state == FileState::Ours) {
        return Step::Restore(index);
    }
    if let Some(index) = first(journal, seen, |state, file| is_made_by_others(journal, file, state)) {
        return Step::GenerateAnew(index);
    }
    match seen.hierarchy {
        Hierarchy::Unknown => needs_person(format!(
            "every file is as before, but the hierarchy of this boot could not be found out; look at /sys/fs/cgroup, \
             then `rollback` again ({why})"
        )),
        same if same == journal.before.hierarchy => as_before(journal, seen, why),
        Hierarchy::Legacy | Hierarchy::Hybrid | Hierarchy::Unified => by_reboot(journal, seen, why),
    }
}

/// What makes the way back impossible, found before the first file is put back.
fn obstacle(journal: &Journal, seen: &Observed, why: &str) -> Option<String> {
    // First: what is not mounted looks changed.
    if let Err(found) = &seen.storage {
        return Some(format!(
            "nothing more was put back: {found}; set it right, then `rollback` again ({why})"
        ));
    }
    let unreadable = |state, file: &TouchedFile| file.touched && state == FileState::Unknown;
    if let Some(path) = path_of(journal, seen, unreadable) {
        return Some(format!("{path} cannot be read; set it right, then `rollback` again ({why})"));
    }
    let of_others =
        |state, file: &TouchedFile| file.kind != Kind::Generated && file.touched && is_of_others(state);
    if let Some(index) = first(journal, seen, of_others) {
        return Some(not_ours(journal, seen, index, why));
    }
    let needs_reboot = seen.hierarchy != journal.before.hierarchy;
    let refused = seen.way_back.as_ref().err().filter(|_| needs_reboot)?;
    Some(format!(
        "there is no way back to {}: {refused}; nothing was put back ({why})",
        journal.before.hierarchy
    ))
}

/// A menu that someone else generated, from settings that were ours at some time: it is made anew from the
/// restored ones, whether we ever wrote it or not.
fn is_made_by_others(journal: &Journal, file: &TouchedFile, state: FileState) -> bool {
    let settings_were_ours = journal.files.iter().any(|file| is_edited(file) && file.touched);
    file.kind == Kind::Generated && is_of_others(state) && (file.touched || settings_were_ours)
}

/// Files and hierarchy are as before: a node goes back into service. A menu that was made anew is looked at: it is not the old one to the byte.
fn as_before(journal: &Journal, seen: &Observed, why: &str) -> Step {
    let was_made_anew = journal.files.iter().any(|file| file.regenerated.is_some());
    match &seen.next_boot {
        NextBoot::Unified if was_made_anew => needs_person(format!(
            "every file is as before, but the menu that was generated from them still leads to cgroup v2 ({why})"
        )),
        NextBoot::Unified | NextBoot::NotUnified(_) | NextBoot::WontBoot(_) | NextBoot::Unknown(_) => {
            let is_rebooted = journal.reboot(Purpose::Rollback).is_some();
            if journal.kubelet.as_ref().is_some_and(|part| kubelet::runs_with_ours(part) && !is_rebooted) {
                return Step::RestartKubelet;
            }
            if journal.cordoned_node().is_some() {
                return Step::Uncordon;
            }
            if journal.turn_to_end().is_some() {
                return Step::EndTurn;
            }
            Step::Advance(Phase::RolledBack { why: why.to_owned() })
        }
    }
}

/// Every file is as before, but the running hierarchy is not: that takes one reboot, and no second one.
fn by_reboot(journal: &Journal, seen: &Observed, why: &str) -> Step {
    let before = journal.before.hierarchy;
    let asked = journal.reboot(Purpose::Rollback);
    if asked.is_some_and(|request| request.boot_id != seen.boot_id) {
        let hierarchy = seen.hierarchy;
        return needs_person(format!(
            "every file is as before and the host was rebooted, but the hierarchy is {hierarchy} and not {before} again; \
             see what mounts it (`detect`), then `rollback` reboots once more ({why})"
        ));
    }
    match seen.going_down.filter(|_| asked.is_some()) {
        Some(true) => return Step::Stop(Ending::GoingDown),
        None if asked.is_some() => return Step::Stop(super::shutdown_unknown()),
        Some(false) | None => {}
    }
    match &seen.next_boot {
        NextBoot::NotUnified(_) if journal.options.no_reboot => {
            Step::Stop(Ending::Paused("every file is as before; reboot when it suits you".to_owned()))
        }
        NextBoot::NotUnified(_) => Step::RequestReboot(Purpose::Rollback),
        NextBoot::Unified => needs_person(format!(
            "every file is as before, but the entry that will boot still leads to cgroup v2; a reboot would not bring \
             {before} back ({why})"
        )),
        NextBoot::WontBoot(what) | NextBoot::Unknown(what) => {
            needs_person(format!("every file is as before, but the host is not rebooted: {what} ({why})"))
        }
    }
}

fn is_of_others(state: FileState) -> bool {
    matches!(state, FileState::Foreign | FileState::Deleted)
}

fn not_ours(journal: &Journal, seen: &Observed, index: usize, why: &str) -> String {
    let path = journal.files.get(index).map(|file| file.path.display().to_string()).unwrap_or_default();
    let original = journal.saved_path(index, "original");
    let original = original.display();
    if seen.files.get(index) == Some(&FileState::Deleted) {
        return format!(
            "{path} was deleted by someone else since, so it is not put back; put the original in its place (cp \
             {original} {path}) and `rollback` again ({why})"
        );
    }
    format!(
        "{path} was changed by someone else since, so it is not put back; look at the difference (diff {original} \
         {path}), put the original in its place (cp {original} {path}) and `rollback` again, or keep it and undo the \
         change by hand ({why})"
    )
}
