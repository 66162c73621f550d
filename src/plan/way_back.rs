//! Whether a host on v2 could go back to v1: told before, not found out after.

use serde::Serialize;

use crate::boot::hierarchy::{Hierarchy, Outcome};
use crate::facts::Facts;
use crate::report::{Finding, Severity};

/// The first systemd without any cgroup v1 code.
const FIRST_WITHOUT_V1: u32 = 258;

/// The first systemd that boots v1 only when forced.
const FIRST_THAT_NEEDS_FORCE: u32 = 256;

/// The answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Possible {
    /// `rollback` can bring v1 back.
    Yes,
    /// Nothing can.
    No,
    /// Could not be found out.
    Unknown,
}

/// The answer and its reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct WayBack {
    /// The answer.
    pub possible: Possible,
    /// Its reason.
    pub why: String,
}

/// Judges the way back. A host that runs v1 now can do it again, unless systemd was replaced since it booted. What
/// was not read but assumed, as of an image, answers nothing for certain.
#[must_use]
pub fn way_back(facts: &Facts) -> WayBack {
    let answer = |possible, why: String| WayBack { possible, why };
    if let Some(why) = systemd_forbids(facts) {
        return answer(if facts.systemd.version_read { Possible::No } else { Possible::Unknown }, why);
    }
    match facts.hierarchy() {
        Hierarchy::Legacy | Hierarchy::Hybrid if facts.scan.assumed_hierarchy.is_some() => as_assumed(facts),
        Hierarchy::Legacy | Hierarchy::Hybrid => answer(Possible::Yes, on_v1_now(facts)),
        Hierarchy::Unified | Hierarchy::Unknown => from_v2(facts),
    }
}

/// systemd by its version, and whether that was read.
fn name(facts: &Facts) -> Option<String> {
    let version = facts.systemd.version?;
    let assumed = if facts.systemd.version_read { "" } else { " (assumed by os-release, not read)" };
    Some(format!("systemd {version}{assumed}"))
}

fn as_assumed(facts: &Facts) -> WayBack {
    match name(facts).filter(|_| facts.systemd.version_read) {
        Some(name) => WayBack {
            possible: Possible::Yes,
            why: format!(
                "{name} knows cgroup v1; that the host runs it now is assumed, and its kernel is not known"
            ),
        },
        None => WayBack {
            possible: Possible::Unknown,
            why: format!(
                "that the host runs cgroup v1 now is assumed, and {}",
                name(facts).unwrap_or_else(|| "no systemd was found in the tree to say more".to_owned())
            ),
        },
    }
}

fn from_v2(facts: &Facts) -> WayBack {
    let answer = |possible, why: String| WayBack { possible, why };
    let (Some(version), Some(name)) = (facts.systemd.version, name(facts)) else {
        return answer(Possible::Unknown, "the version of systemd is not known".to_owned());
    };
    let forced = format!("{name} boots v1 only with SYSTEMD_CGROUP_ENABLE_LEGACY_FORCE=1");
    let forced = (version >= FIRST_THAT_NEEDS_FORCE).then_some(forced);
    // What the kernel lacks is not a no: a host that lacked it before would be as it was.
    let doubts: Vec<String> = forced.into_iter().chain(kernel_lacks(facts)).collect();
    if !doubts.is_empty() {
        return answer(Possible::Unknown, doubts.join("; "));
    }
    let possible = if facts.systemd.version_read { Possible::Yes } else { Possible::Unknown };
    answer(possible, format!("{name} still knows cgroup v1"))
}

/// The systemd on disk is the one that boots next, and not always the one that runs.
fn systemd_forbids(facts: &Facts) -> Option<String> {
    let version = facts.systemd.version.filter(|version| *version >= FIRST_THAT_NEEDS_FORCE)?;
    let name = name(facts)?;
    if version >= FIRST_WITHOUT_V1 {
        return Some(format!("{name} has no cgroup v1 any more"));
    }
    if !matches!(facts.hierarchy(), Hierarchy::Legacy | Hierarchy::Hybrid) {
        return None;
    }
    let line = facts.grub.next_arguments().or(facts.kernel.command_line.as_deref())?;
    let decision = facts.systemd.decide(line);
    let is_v1 = decision.outcome != Outcome::RefusesToBoot && decision.hierarchy != Hierarchy::Unified;
    (!is_v1).then(|| {
        format!(
            "the systemd installed now, {name}, would not boot the kernel line of before as v1: {}",
            decision.reason
        )
    })
}

/// Controllers that this kernel has on v2 only.
fn kernel_lacks(facts: &Facts) -> Option<String> {
    let sides = [("memory", facts.kernel.has_v1_memory), ("cpuset", facts.kernel.has_v1_cpuset)];
    let lacking: Vec<&str> =
        sides.into_iter().filter(|(_, there)| *there == Some(false)).map(|(name, _)| name).collect();
    (!lacking.is_empty()).then(|| {
        format!(
            "this kernel was built without the cgroup v1 side of {}: on v1 the host would be without it",
            lacking.join(" and ")
        )
    })
}

fn on_v1_now(facts: &Facts) -> String {
    let name = name(facts).unwrap_or_else(|| "this systemd (its version is not known)".to_owned());
    let missing = facts.cgroup.missing_controllers.as_deref().unwrap_or_default();
    let without =
        if missing.is_empty() { String::new() } else { format!(" (without {})", missing.join(" and ")) };
    format!("{name} and this kernel run cgroup v1 now{without}; `rollback` puts every file back and reboots")
}

impl WayBack {
    /// A warning where there is none.
    pub(super) fn finding(&self, nothing_to_do: bool) -> Option<Finding> {
        (self.possible == Possible::No && !nothing_to_do).then(|| {
            Finding::new(
                Severity::Warning,
                "no-way-back",
                "there is no way back to cgroup v1",
                self.why.clone(),
            )
        })
    }
}
