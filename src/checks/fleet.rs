//! What would keep this node from its turn for good: the lock cannot be had, or etcd cannot spare its member.

use crate::config::Settings;
use crate::facts::Facts;
use crate::node::lock::gates::{Gate, etcd};
use crate::node::lock::preflight::Preflight;
use crate::report::{Finding, Severity};

pub(super) fn check(facts: &Facts, _settings: &Settings) -> Vec<Finding> {
    match &facts.fleet {
        None => Vec::new(),
        Some(Err(why)) => vec![not_reached(why)],
        Some(Ok(preflight)) => [denied(preflight), outage(preflight)].into_iter().flatten().collect(),
    }
}

fn not_reached(why: &str) -> Finding {
    Finding::new(Severity::Blocker, "lock-unavailable", "the lock of the fleet cannot be asked for", why).remedy(
        "see that the API server can be reached with lock.kubeconfig; who wants no lock sets lock.mode = \"none\" and no gates",
    )
}

fn denied(preflight: &Preflight) -> Option<Finding> {
    let denied: Vec<String> = preflight.denied.iter().map(ToString::to_string).collect();
    (!denied.is_empty()).then(|| {
        Finding::new(
            Severity::Blocker,
            "lock-rights-missing",
            "the credential lacks rights that the lock and the gates need",
            denied.join("\n"),
        )
        .remedy(
            "grant these to a credential of its own and name it with lock.kubeconfig; a kubelet's own never has them",
        )
    })
}

/// Members that are ill now may be well when it is this node's turn: that is left to the gate.
fn outage(preflight: &Preflight) -> Option<Finding> {
    let why = match etcd(&Ok(preflight.own.clone()), &preflight.etcd, &[]) {
        Gate::Open | Gate::Closed { try_again_in: Some(_), .. } => return None,
        Gate::Closed { why, try_again_in: None } | Gate::Unknown { why } => why,
    };
    let finding = Finding::new(
        Severity::Blocker,
        "control-plane-outage",
        "the API may be away while this node reboots",
        why,
    );
    Some(finding.acceptable().remedy("more members of etcd; or let it be away for that time"))
}
