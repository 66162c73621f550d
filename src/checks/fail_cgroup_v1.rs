//! Whether `failCgroupV1` can be set right when the node runs v2, and what would undo it.

use crate::config::Settings;
use crate::facts::Facts;
use crate::kubelet::{Effective, FAIL_CGROUP_V1, Goal, Origin, Owner, Refusal, Setup, flip};
use crate::report::{Finding, Severity};

pub(super) fn check(facts: &Facts, _: &Settings) -> Vec<Finding> {
    let setup = &facts.kubelet_setup;
    let mut findings: Vec<Finding> = patches(setup).into_iter().collect();
    let effective = Effective::of(setup);
    let is_taken = effective
        .get(FAIL_CGROUP_V1)
        .filter(|setting| setting.value == false && setting.origin != Origin::Default);
    if is_taken.is_some() {
        findings.extend(flip(setup, Goal::RefuseV1).err().unwrap_or_default().iter().map(not_editable));
        findings.extend((setup.owner == Owner::Kubeadm).then(config_map));
    }
    findings
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
