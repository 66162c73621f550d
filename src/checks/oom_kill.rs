//! A setting that is right on v2 and stops the kubelet on v1: it closes the way back.

use crate::config::Settings;
use crate::facts::Facts;
use crate::kubelet::{Effective, Setting};
use crate::report::{Finding, Severity};

pub(super) fn check(facts: &Facts, _: &Settings) -> Vec<Finding> {
    let effective = Effective::of(&facts.kubelet_setup);
    let setting = effective.get("singleProcessOOMKill").filter(|setting| setting.value == false);
    setting.map(closes_the_way_back).into_iter().collect()
}

fn closes_the_way_back(setting: &Setting) -> Finding {
    Finding::new(
        Severity::Warning,
        "kubelet-needs-v2",
        "the kubelet would not start on cgroup v1 as it is set up",
        format!(
            "singleProcessOOMKill is false ({}), which its validation refuses on cgroup v1",
            setting.origin
        ),
    )
    .remedy("take it out until the migration is done: on cgroup v2 false is the default")
}
