//! Rules: facts in, findings out. No rule reads anything; every rule says all it has to say at once.
//!
//! A new rule is a new file with one `check` function and a line in [`ALL`].

mod boot_entry;
mod cgroup_driver;
mod container;
mod controllers;
mod drain;
mod fail_cgroup_v1;
mod firmware;
mod fleet;
mod hierarchy;
mod kernel;
mod kubelet;
mod kubelet_files;
mod kubelet_removed;
mod loader;
mod managed;
mod namespace;
mod oom_kill;
mod reboot;
mod reserved_cgroup;
mod resume_unit;
mod storage;
mod systemd;
mod v1_paths;

pub use container::refusal;
pub use drain::of_node;
pub use hierarchy::missing_controllers_text;
pub use loader::KNOWN_LOADERS;
pub use storage::to_put_back;

use crate::boot::hierarchy::Hierarchy;
use crate::config::Settings;
use crate::facts::Facts;
use crate::report::{Finding, Severity};

/// One rule.
pub type Check = fn(&Facts, &Settings) -> Vec<Finding>;

/// Every rule, in the order in which people read the findings.
pub const ALL: &[Check] = &[
    container::check,
    managed::check,
    systemd::check,
    hierarchy::check,
    kernel::check,
    loader::check,
    boot_entry::check,
    firmware::check,
    storage::check,
    namespace::check,
    reboot::check,
    resume_unit::check,
    kubelet::check,
    drain::check,
    fleet::check,
    cgroup_driver::check,
    v1_paths::check,
    reserved_cgroup::check,
    oom_kill::check,
    kubelet_files::check,
    fail_cgroup_v1::check,
    kubelet_removed::check,
];

/// The rules for a host that runs v2 already: nothing is changed there, so what would stand in the way of a change
/// is of no concern.
const ON_UNIFIED: &[Check] = &[
    container::check,
    hierarchy::check,
    controllers::check,
    kernel::check,
    firmware::check,
    namespace::check,
    kubelet_files::check,
    fail_cgroup_v1::check,
    kubelet_removed::check,
];

/// The rules that are asked once more right before the reboot: days may have passed since the plan. Locks, logind and
/// a masked target are left to the request itself, which waits for what goes away by itself.
const BEFORE_REBOOT: &[Check] = &[
    systemd::check,
    hierarchy::check,
    kernel::check,
    loader::check,
    boot_entry::check,
    firmware::check,
    storage::check,
    reboot::schedule,
    resume_unit::check,
    kubelet::check,
];

/// What would make the reboot into cgroup v2 a bad one now.
#[must_use]
pub fn before_reboot(facts: &Facts, settings: &Settings) -> Vec<Finding> {
    BEFORE_REBOOT.iter().flat_map(|check| check(facts, settings)).collect()
}

/// Findings of every rule that matters on this host.
#[must_use]
pub fn run(facts: &Facts, settings: &Settings) -> Vec<Finding> {
    let rules = if facts.hierarchy() == Hierarchy::Unified { ON_UNIFIED } else { ALL };
    rules.iter().flat_map(|check| check(facts, settings)).collect()
}

/// Blockers that nobody accepted.
#[must_use]
pub fn blockers<'a>(findings: &'a [Finding], accepted: &[String]) -> Vec<&'a Finding> {
    findings
        .iter()
        .filter(|finding| finding.severity == Severity::Blocker)
        .filter(|finding| !(finding.acceptable && accepted.contains(&finding.id)))
        .collect()
}
