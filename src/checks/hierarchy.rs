//! The hierarchy itself.

use crate::boot::NextBoot;
use crate::boot::hierarchy::Hierarchy;
use crate::config::Settings;
use crate::facts::Facts;
use crate::report::{Finding, Severity};

pub(super) fn check(facts: &Facts, _: &Settings) -> Vec<Finding> {
    match facts.hierarchy() {
        Hierarchy::Unknown => vec![unknown(facts)],
        Hierarchy::Unified => next_boot_is_v1(facts).into_iter().collect(),
        Hierarchy::Legacy | Hierarchy::Hybrid => crippled(facts).into_iter().collect(),
    }
}

fn unknown(facts: &Facts) -> Finding {
    let finding = Finding::new(
        Severity::Blocker,
        "hierarchy-unknown",
        "the cgroup hierarchy could not be found out",
        facts.cgroup.why.clone(),
    );
    if facts.scan.running {
        return finding.remedy("see that /sys is mounted and readable, then try again");
    }
    finding.remedy("say what the host runs with --assume-hierarchy legacy|hybrid|unified")
}

fn next_boot_is_v1(facts: &Facts) -> Option<Finding> {
    let (NextBoot::NotUnified(why) | NextBoot::WontBoot(why)) = facts.next_boot() else { return None };
    Some(Finding::new(
        Severity::Warning,
        "next-boot-not-unified",
        "this host runs cgroup v2, but its next boot would not",
        why,
    ))
}

fn crippled(facts: &Facts) -> Option<Finding> {
    let text = missing_controllers_text(facts.cgroup.missing_controllers.as_deref()?)?;
    Some(Finding::new(
        Severity::Note,
        "v1-controllers-missing",
        "this cgroup v1 is incomplete",
        format!("{text}: the kernel has no cgroup v1 code for them, so limits on them have no effect today"),
    ))
}

/// The controllers that can be used nowhere, as a clause, or `None` if there is none.
#[must_use]
pub fn missing_controllers_text(missing: &[String]) -> Option<String> {
    (!missing.is_empty()).then(|| format!("not usable: {}", missing.join(" and ")))
}
