//! What Kubernetes 1.37 took out of the kubelet, and with which it does not start.

use crate::config::Settings;
use crate::facts::Facts;
use crate::kubelet::Effective;
use crate::report::{Finding, Severity};

/// Flags of cAdvisor, refused by 1.37 (its release notes), and one that 1.35 removed.
const FLAGS: [&str; 19] = [
    "application-metrics-count-limit",
    "boot-id-file",
    "container-hints",
    "containerd",
    "containerd-namespace",
    "enable-load-reader",
    "event-storage-age-limit",
    "event-storage-event-limit",
    "global-housekeeping-interval",
    "log-cadvisor-usage",
    "machine-id-file",
    "pod-infra-container-image",
    "storage-driver-buffer-duration",
    "storage-driver-db",
    "storage-driver-host",
    "storage-driver-password",
    "storage-driver-secure",
    "storage-driver-table",
    "storage-driver-user",
];

/// Feature gates that 1.37 does not know any more. The first three are documented; the others are from reports of those
/// who moved to 1.37, and the list is not whole. That an unknown gate stops the kubelet is sure for the flag; for the
/// file it is background knowledge.
const GATES: [&str; 12] = [
    "PreventStaticPodAPIReferences",
    "GangScheduling",
    "WorkloadAwarePreemption",
    "DevicePlugins",
    "KubeletCredentialProviders",
    "OrderedNamespaceDeletion",
    "RelaxedDNSSearchValidation",
    "ResilientWatchCacheInitialization",
    "RetryGenerateName",
    "SidecarContainers",
    "StreamingCollectionEncodingToJSON",
    "StreamingCollectionEncodingToProtobuf",
];

pub(super) fn check(facts: &Facts, _: &Settings) -> Vec<Finding> {
    let setup = &facts.kubelet_setup;
    let effective = Effective::of(setup);
    let flags = setup.flags.iter().filter(|flag| FLAGS.contains(&flag.name.as_str()));
    let flags: Vec<String> = flags.map(|flag| format!("--{} ({})", flag.name, flag.place)).collect();
    let gates = effective.gates().filter(|(name, _)| GATES.contains(name));
    let gates: Vec<String> = gates.map(|(name, setting)| format!("{name} ({})", setting.origin)).collect();
    let told =
        |found: Vec<String>, tell: fn(&str) -> Finding| (!found.is_empty()).then(|| tell(&found.join(", ")));
    told(flags, removed_flags).into_iter().chain(told(gates, removed_gates)).collect()
}

fn removed_flags(found: &str) -> Finding {
    Finding::new(
        Severity::Warning,
        "kubelet-flag-removed",
        "the kubelet is started with flags that Kubernetes 1.37 refuses",
        format!("a kubelet of 1.37 does not start with {found}"),
    )
    .remedy("take them out before the kubelet is updated")
}

fn removed_gates(found: &str) -> Finding {
    Finding::new(
        Severity::Warning,
        "feature-gate-removed",
        "feature gates are set that Kubernetes 1.37 does not know",
        format!("a kubelet of 1.37 may not start with {found}"),
    )
    .remedy("take them out before the kubelet is updated")
}
