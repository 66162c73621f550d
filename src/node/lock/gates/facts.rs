//! What the gates are told.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::api::core::v1::Node;

use super::EtcdMember;
use crate::host::Finished;
use crate::node::cordon::is_cordoned;
use crate::node::lock::PHASE;
use crate::node::lock::lease::is_ready;
use crate::node::{ApiError, NodeApi, NodePod};

/// Control-plane nodes have one of these labels; the second one is of servers before 1.24.
const CONTROL_PLANE: [&str; 2] = ["node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master"];
/// Labels of a node's zone; the second one is of servers before 1.17.
const ZONE: [&str; 2] = ["topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/zone"];

/// Something, or why it could not be found out.
pub type Known<T> = Result<T, String>;

/// All that the gates look at.
#[derive(Debug, Clone)]
pub struct Seen {
    /// This node.
    pub own: Known<PoolNode>,
    /// All nodes of the cluster.
    pub nodes: Known<Vec<PoolNode>>,
    /// All members of the etcd that has one on this node; none if it has not.
    pub etcd: Known<Vec<EtcdMember>>,
    /// Pods on this node.
    pub pods: Known<Vec<NodePod>>,
    /// How [`super::Rules::command`] ended; `None` if there is none.
    pub command: Option<Known<Finished>>,
    /// Now.
    pub now: jiff::Timestamp,
    /// How long the node will take, drain and reboot and proof together.
    pub expected: Duration,
}

/// A node, as far as the gates are concerned.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PoolNode {
    /// Name.
    pub name: String,
    /// Labels.
    pub labels: BTreeMap<String, String>,
    /// The control plane hears from it, and it is well.
    pub ready: bool,
    /// Cordoned, by whomever.
    pub unschedulable: bool,
    /// Zone, if it has one.
    pub zone: Option<String>,
    /// It runs the control plane.
    pub control_plane: bool,
    /// The phase of its own migration, if it has said one.
    pub phase: Option<String>,
}

impl PoolNode {
    /// True if it is away or about to be: the cordon shows before the reboot does.
    #[must_use]
    pub fn is_unavailable(&self) -> bool {
        !self.ready || self.unschedulable
    }

    /// Why it is unavailable, for people.
    pub(super) fn told(&self) -> String {
        let how = match (self.ready, self.unschedulable) {
            (false, true) => "cordoned and not Ready",
            (false, false) => "not Ready",
            (true, _) => "cordoned",
        };
        format!("{} is {how}", self.name)
    }

    pub(super) fn has(&self, labels: &[(String, String)]) -> bool {
        labels.iter().all(|(key, value)| self.labels.get(key) == Some(value))
    }
}

impl From<&Node> for PoolNode {
    fn from(node: &Node) -> Self {
        let meta = &node.metadata;
        let labels = meta.labels.clone().unwrap_or_default();
        let value = |key: &&str| labels.get(*key).filter(|value| !value.is_empty()).cloned();
        Self {
            name: meta.name.clone().unwrap_or_default(),
            ready: is_ready(node),
            unschedulable: is_cordoned(node),
            zone: ZONE.iter().find_map(value),
            control_plane: CONTROL_PLANE.iter().any(|key| labels.contains_key(*key)),
            phase: meta.annotations.as_ref().and_then(|annotations| annotations.get(PHASE)).cloned(),
            labels,
        }
    }
}

/// All nodes of the cluster, if they may be seen.
///
/// # Errors
/// Why they may not.
pub fn nodes(api: &dyn NodeApi) -> Known<Vec<PoolNode>> {
    let nodes = api.nodes().map_err(|error| match error.code() {
        Some(403) => format!(
            "this credential may not list nodes (a kubelet's never may; give the agent one of its own): {error}"
        ),
        _ => told("list nodes", &error),
    })?;
    Ok(nodes.iter().map(PoolNode::from).collect())
}

/// This node.
///
/// # Errors
/// Why it cannot be seen.
pub fn own(api: &dyn NodeApi, name: &str) -> Known<PoolNode> {
    api.node(name)
        .map(|node| PoolNode::from(&node))
        .map_err(|error| told(&format!("look at node {name}"), &error))
}

fn told(doing: &str, error: &ApiError) -> String {
    format!("{doing}: {error}")
}
