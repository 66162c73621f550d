//! The kubelet, after v2 is proven and before the node goes back into service: it is told to refuse cgroup v1. What
//! fails before its restart does no harm and is noted; what fails after it is a reason to go back.

use super::{
    FileState, Observed, Step, first, into_service, is_of_kubelet, needs_person, path_of, roll_back,
};
use crate::boot::hierarchy::Hierarchy;
use crate::migration::journal::{Journal, KubeletPart, TouchedFile};

pub(super) fn kubelet_final(journal: &Journal, seen: &Observed) -> Step {
    let Some(kubelet) = &journal.kubelet else { return Step::LookAtKubelet };
    match seen.hierarchy {
        Hierarchy::Unified => {}
        hierarchy @ (Hierarchy::Legacy | Hierarchy::Hybrid) => {
            return roll_back(format!(
                "this boot runs {hierarchy} again, and the kubelet is being told to refuse it"
            ));
        }
        Hierarchy::Unknown => {
            return needs_person(
                "the hierarchy of this boot could not be found out; look at /sys/fs/cgroup, then `resume` or `rollback`"
                    .to_owned(),
            );
        }
    }
    match &kubelet.given_up {
        _ if kubelet.proven || kubelet.unit.is_none() => into_service(journal, seen),
        Some(why) => gives_up(journal, seen, kubelet, why),
        None => goes_on(journal, seen, kubelet),
    }
}

fn goes_on(journal: &Journal, seen: &Observed, kubelet: &KubeletPart) -> Step {
    let is_of_others = |state, file: &TouchedFile| {
        is_of_kubelet(file) && !matches!(state, FileState::Original | FileState::Ours)
    };
    if let Some(path) = path_of(journal, seen, is_of_others) {
        let is_touched = journal.files.iter().any(|file| is_of_kubelet(file) && file.touched);
        let why = format!("{path} was changed by someone else before the kubelet was proven with it");
        return if is_touched { Step::GiveUpKubelet(why) } else { Step::LookAtKubelet };
    }
    let is_old = |state, file: &TouchedFile| is_of_kubelet(file) && state == FileState::Original;
    if let Some(index) = first(journal, seen, is_old) {
        return Step::WriteFile(index);
    }
    let is_restarted =
        kubelet.restart.as_ref().is_some_and(|restart| restart.done && restart.boot_id == seen.boot_id);
    if is_restarted { Step::ProveKubelet } else { Step::RestartKubelet }
}

fn gives_up(journal: &Journal, seen: &Observed, kubelet: &KubeletPart, why: &str) -> Step {
    if let Some(index) = to_put_back(journal, seen) {
        return Step::Restore(index);
    }
    match &kubelet.restart {
        None => into_service(journal, seen),
        Some(_) if !kubelet.put_back => Step::RestartKubelet,
        Some(_) => roll_back(why.to_owned()),
    }
}

/// A file of the kubelet that is as we made it.
pub(super) fn to_put_back(journal: &Journal, seen: &Observed) -> Option<usize> {
    let is_ours = |state, file: &TouchedFile| is_of_kubelet(file) && file.touched && state == FileState::Ours;
    first(journal, seen, is_ours)
}

/// The kubelet runs with files that are put back by now, and no reboot has started it anew.
pub(super) fn runs_with_ours(kubelet: &KubeletPart) -> bool {
    kubelet.restart.is_some() && !kubelet.put_back
}
