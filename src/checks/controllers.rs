//! Controllers of a host that runs v2. The freezer and devices have none there, and nobody may ask for them.

use crate::boot::hierarchy::Hierarchy;
use crate::config::Settings;
use crate::facts::Facts;
use crate::facts::cgroup::REQUIRED_CONTROLLERS;
use crate::report::{Finding, Severity};

/// Pods work without them, but for some limits.
const WANTED: [&str; 2] = ["io", "hugetlb"];

pub(super) fn check(facts: &Facts, _: &Settings) -> Vec<Finding> {
    let Some(there) =
        facts.cgroup.v2_controllers.as_ref().filter(|_| facts.cgroup.hierarchy == Hierarchy::Unified)
    else {
        return Vec::new();
    };
    let missing = |names: &[&str]| -> Vec<String> {
        names
            .iter()
            .filter(|name| !there.iter().any(|found| found == *name))
            .map(|name| (*name).to_owned())
            .collect()
    };
    let required = Some(missing(&REQUIRED_CONTROLLERS)).filter(|missing| !missing.is_empty());
    let wanted = Some(missing(&WANTED)).filter(|missing| !missing.is_empty());
    required
        .map(|names| cannot_do_without(&names))
        .into_iter()
        .chain(wanted.map(|names| would_be_good(&names)))
        .collect()
}

fn cannot_do_without(missing: &[String]) -> Finding {
    Finding::new(
        Severity::Blocker,
        "v2-controllers-missing",
        "this cgroup v2 lacks controllers that a node cannot do without",
        format!("not in /sys/fs/cgroup/cgroup.controllers: {}", missing.join(", ")),
    )
    .acceptable()
    .remedy("see that the kernel has them, and that neither cgroup_disable= nor a v1 mount takes them away")
}

fn would_be_good(missing: &[String]) -> Finding {
    Finding::new(
        Severity::Warning,
        "v2-controllers-incomplete",
        "this cgroup v2 lacks controllers that some pods use",
        format!(
            "not in /sys/fs/cgroup/cgroup.controllers: {}; limits on them have no effect",
            missing.join(", ")
        ),
    )
}
