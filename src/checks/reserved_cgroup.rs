//! Cgroups that the kubelet wants to find and does not make: what made them on v1 may not make them on v2.

use crate::config::Settings;
use crate::facts::Facts;
use crate::kubelet::{Effective, Setting};
use crate::report::{Finding, Severity};

/// A setting, and the word in `enforceNodeAllocatable` that makes the kubelet use it.
const RESERVED: [(&str, &str); 2] =
    [("kubeReservedCgroup", "kube-reserved"), ("systemReservedCgroup", "system-reserved")];

pub(super) fn check(facts: &Facts, _: &Settings) -> Vec<Finding> {
    let effective = Effective::of(&facts.kubelet_setup);
    RESERVED.iter().filter_map(|(key, word)| judged(&effective, key, word)).collect()
}

fn judged(effective: &Effective, key: &str, word: &str) -> Option<Finding> {
    let setting = effective.get(key)?;
    let cgroup = setting.value.as_str().filter(|cgroup| !cgroup.is_empty())?;
    let is_enforced = effective.get("enforceNodeAllocatable").is_some_and(|list| names(list, word));
    let set = format!("{key} is {cgroup} ({})", setting.origin);
    Some(if is_enforced { needed(&set, word) } else { not_used(&set, word) })
}

/// A list in a file, or words with commas in a flag; `kube-reserved-compressible` is one, too.
fn names(list: &Setting, word: &str) -> bool {
    let in_list = list.value.as_array().into_iter().flatten().filter_map(|name| name.as_str());
    let in_flag = list.value.as_str().unwrap_or_default().split(',');
    in_list.chain(in_flag).any(|name| name.starts_with(word))
}

fn needed(set: &str, word: &str) -> Finding {
    let detail = format!(
        "{set}, and enforceNodeAllocatable has {word}: the kubelet does not start without it, and whether it is made \
         on cgroup v2, too, cannot be seen beforehand"
    );
    Finding::new(
        Severity::Blocker,
        "reserved-cgroup-set",
        "the kubelet wants a cgroup that somebody else makes",
        detail,
    )
    .acceptable()
    .remedy(
        "see that a unit or slice of systemd makes it (one path in one tree, none for each controller), then \
             accept this",
    )
}

fn not_used(set: &str, word: &str) -> Finding {
    Finding::new(
        Severity::Warning,
        "reserved-cgroup-not-enforced",
        "a cgroup is reserved for the kubelet or the system, and not enforced",
        format!("{set}, and enforceNodeAllocatable has no {word}: it is not used today"),
    )
}
