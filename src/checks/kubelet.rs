//! A node in service must be drained first.

use crate::config::Settings;
use crate::facts::Facts;
use crate::report::{Finding, Severity};

pub(super) fn check(facts: &Facts, settings: &Settings) -> Vec<Finding> {
    // Where the API server was asked, `drain` judges the answer.
    if settings.no_drain || facts.node.is_some() {
        return Vec::new();
    }
    match &facts.kubelet {
        None => Vec::new(),
        Some(Err(why)) => vec![unknown(why)],
        Some(Ok(kubelet)) if kubelet.found.is_empty() => Vec::new(),
        Some(Ok(kubelet)) => vec![not_drained(&kubelet.found)],
    }
}

fn not_drained(found: &[String]) -> Finding {
    Finding::new(
        Severity::Blocker,
        "node-not-drained",
        "this host is a node of a Kubernetes cluster",
        format!("{}; it is not drained by this program (credentials = \"none\")", found.join(", ")),
    )
    .acceptable()
    .remedy("drain the node with the tool you use (kubectl drain), then say so with --no-drain")
}

fn unknown(why: &str) -> Finding {
    Finding::new(
        Severity::Blocker,
        "kubelet-unknown",
        "it could not be found out whether this host is a node of a Kubernetes cluster",
        why,
    )
    .acceptable()
    .remedy("see why it cannot be read; where no pod runs (any more), say so with --no-drain")
}
