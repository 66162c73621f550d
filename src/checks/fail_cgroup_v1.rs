//! Whether `failCgroupV1` can be set right when the node runs v2, and what would undo it.

use crate::boot::hierarchy::Hierarchy;
use crate::config::Settings;
use crate::facts::Facts;
use crate::kubelet::{Effective, FAIL_CGROUP_V1, Goal, Origin, Owner, Refusal, Setting, Setup, flip};
use crate::report::{Finding, Severity};

pub(super) fn check(facts: &Facts, _: &Settings) -> Vec<Finding> {
    let setup = &facts.kubelet_setup;
    let mut findings: Vec<Finding> = patches(setup).into_iter().collect();
    let effective = Effective::of(setup);
    let refuses = effective.get(FAIL_CGROUP_V1).filter(|setting| setting.value == true);
    let is_on_v1 = matches!(facts.hierarchy(), Hierarchy::Legacy | Hierarchy::Hybrid);
    findings.extend(refuses.filter(|_| is_on_v1).map(refuses_v1));
    let is_taken = effective
        .get(FAIL_CGROUP_V1)
        .filter(|setting| setting.value == false && setting.origin != Origin::Default);
    if is_taken.is_some() {
        findings.extend(flip(setup, Goal::RefuseV1).err().unwrap_or_default().iter().map(not_editable));
        findings.extend((setup.owner == Owner::Kubeadm).then(config_map));
    }
    findings
}

/// From 1.35 on that is the built-in default.
fn refuses_v1(setting: &Setting) -> Finding {
    Finding::new(
        Severity::Warning,
        "kubelet-refuses-v1",
        "the kubelet does not start on cgroup v1 as it is set up",
        format!(
            "failCgroupV1 is true ({}): after a way back to cgroup v1 the kubelet would not start",
            setting.origin
        ),
    )
    .remedy(
        "set failCgroupV1: false until the migration is done; this program sets it to true once v2 is proven",
    )
}

fn not_editable(refusal: &Refusal) -> Finding {
    let finding = Finding::new(
        Severity::Warning,
        "fail-cgroup-v1-not-editable",
        "failCgroupV1 is false, and this program cannot set it back to true",
        refusal.why.clone(),
    );
    let finding = match &refusal.path {
        Some(path) => finding.about(path),
        None => finding,
    };
    finding.remedy(format!("when the node runs cgroup v2: {}", refusal.remedy))
}

/// kubeadm renders the file anew from the cluster at every upgrade.
fn config_map() -> Finding {
    Finding::new(
        Severity::Note,
        "kubelet-config-map",
        "kubeadm writes the kubelet's file anew at its next upgrade",
        "failCgroupV1 is false on this node; if ConfigMap kube-system/kubelet-config says so, too, an upgrade brings \
         it back",
    )
    .remedy("when the last node has left cgroup v1, set it to true there; never before: nodes on v1 would not start")
}

fn patches(setup: &Setup) -> Option<Finding> {
    let first = setup.patches.first()?;
    let finding = Finding::new(
        Severity::Note,
        "kubeadm-patches",
        "kubeadm has patches for the kubelet's file",
        "what they say wins over the file at the next upgrade by kubeadm",
    );
    Some(finding.about(first).remedy("see that they do not set failCgroupV1 or the cgroup driver"))
}
