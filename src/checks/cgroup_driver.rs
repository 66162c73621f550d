//! Kubelet and container runtime must use the same cgroup driver, or no sandbox starts.

use crate::config::Settings;
use crate::facts::Facts;
use crate::facts::runtime::{Runtime, RuntimeFacts};
use crate::kubelet::{Effective, Setting, Version};
use crate::report::{Finding, Severity};

pub(super) fn check(facts: &Facts, _: &Settings) -> Vec<Finding> {
    let setup = &facts.kubelet_setup;
    if let Some(why) = &facts.runtime.problem {
        return vec![unknown(why)];
    }
    let effective = Effective::of(setup);
    let Some((runtime, of_runtime)) = facts.runtime.runtime.zip(facts.runtime.driver) else {
        return Vec::new();
    };
    let Some(of_kubelet) = effective.get("cgroupDriver").filter(|_| setup.has_a_kubelet()) else {
        return Vec::new();
    };
    if of_kubelet.value == of_runtime {
        return Vec::new();
    }
    let asks = setup.version.is_some_and(Version::asks_the_runtime_for_the_driver);
    let finding = if asks && facts.runtime.tells_its_driver { overridden } else { mismatch };
    vec![about(finding(runtime, of_runtime, of_kubelet), &facts.runtime)]
}

fn about(finding: Finding, runtime: &RuntimeFacts) -> Finding {
    match &runtime.file {
        Some(file) => finding.about(file),
        None => finding,
    }
}

fn described(runtime: Runtime, of_runtime: &str, of_kubelet: &Setting) -> String {
    let value = of_kubelet.value.as_str().unwrap_or_default();
    format!("the kubelet's driver is {value} ({}), {runtime}'s is {of_runtime}", of_kubelet.origin)
}

fn mismatch(runtime: Runtime, of_runtime: &str, of_kubelet: &Setting) -> Finding {
    Finding::new(
        Severity::Blocker,
        "cgroup-driver-mismatch",
        "the kubelet and the container runtime use different cgroup drivers",
        format!("{}; on cgroup v2 no sandbox may start", described(runtime, of_runtime, of_kubelet)),
    )
    .acceptable()
    .remedy("give both the driver systemd while the node is drained and no pod runs, then look at one pod")
}

/// From kubelet 1.31 on the answer of a runtime that tells its driver counts.
fn overridden(runtime: Runtime, of_runtime: &str, of_kubelet: &Setting) -> Finding {
    Finding::new(
        Severity::Warning,
        "cgroup-driver-overridden",
        "the kubelet takes another cgroup driver than its configuration says",
        format!(
            "{}; the kubelet asks the runtime and takes its answer",
            described(runtime, of_runtime, of_kubelet)
        ),
    )
    .remedy("set the driver that is meant in the configuration of the runtime")
}

fn unknown(why: &str) -> Finding {
    Finding::new(
        Severity::Warning,
        "cgroup-driver-unknown",
        "the cgroup driver of the container runtime could not be found out",
        why,
    )
    .remedy("see why its configuration cannot be read, and compare the drivers by hand")
}
