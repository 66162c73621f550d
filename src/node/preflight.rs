//! Everything a drain would meet, read before the cordon and judged in `checks`.
//!
//! Budgets are asked with evictions that are only evaluated (`dryRun: All`): a kubelet's credential may not read
//! them, and kube-apiserver 1.37 looks at the budget without spending of it. One pod of each controller is asked for,
//! since its pods have the same labels and so the same budgets.

use std::collections::BTreeSet;

use super::api::{Access, ApiError, EvictionRequest, NodeApi};
use super::cordon::{self, Before};
use super::drain::{Answer, Obstacle, ObstacleKind};
use super::pod::{NodePod, PodKey};
use super::select::{Allowed, Choice, Objection, choose};

/// What holds a control plane together, by the names of kubeadm's static pods.
const CONTROL_PLANE: [&str; 4] = ["etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler"];

/// What the API server says of this node and its pods.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Preflight {
    /// The Node object, and whether it is cordoned already.
    pub before: Before,
    /// Pods that would be evicted.
    pub to_evict: Vec<PodKey>,
    /// Pods that need somebody's word, as if nothing was allowed yet.
    pub objections: Vec<(PodKey, Vec<Objection>)>,
    /// Pods whose eviction the server would refuse now, and the names of their budgets where those can be read.
    pub obstacles: Vec<(PodKey, Obstacle, Vec<String>)>,
    /// Static pods of a control plane.
    pub control_plane: Vec<PodKey>,
    /// What our credential may not do.
    pub denied: Vec<Access>,
}

/// Asks the API server about a node. What our credential may not do is known already.
///
/// # Errors
/// [`ApiError`] if the node or its pods cannot be read. What is not known of a single pod is an obstacle.
pub fn look(
    api: &dyn NodeApi,
    node: &str,
    denied: Vec<Access>,
    now: jiff::Timestamp,
) -> Result<Preflight, ApiError> {
    let object = api.node(node)?;
    let pods = api.pods(node)?;
    let mut preflight = Preflight {
        before: cordon::before(&object),
        to_evict: Vec::new(),
        objections: Vec::new(),
        obstacles: Vec::new(),
        control_plane: pods.iter().filter(|pod| is_control_plane(pod)).map(|pod| pod.key.clone()).collect(),
        denied,
    };
    let mut to_ask = Vec::new();
    for pod in &pods {
        match choose(pod, node, Allowed::default(), now) {
            Choice::Leave(_) => continue,
            Choice::Object(objections) => preflight.objections.push((pod.key.clone(), objections)),
            Choice::Evict => preflight.to_evict.push(pod.key.clone()),
        }
        to_ask.push(pod);
    }
    preflight.obstacles = one_of_each(&to_ask).into_iter().filter_map(|pod| evaluated(api, pod)).collect();
    Ok(preflight)
}

fn is_control_plane(pod: &NodePod) -> bool {
    let begins = |part: &str| pod.key.name.strip_prefix(part).is_some_and(|rest| rest.starts_with('-'));
    pod.mirror && CONTROL_PLANE.into_iter().any(begins)
}

/// The first pod of each controller; every pod without one. What is on its way out, or never ran, needs no budget.
fn one_of_each<'a>(pods: &[&'a NodePod]) -> Vec<&'a NodePod> {
    let mut seen = BTreeSet::new();
    let needs_budget = pods.iter().filter(|pod| pod.deletion.is_none() && !pod.finished && !pod.pending);
    needs_budget
        .filter(|pod| match &pod.owner {
            Some(owner) => seen.insert((pod.key.namespace.clone(), owner.kind.clone(), owner.name.clone())),
            None => true,
        })
        .copied()
        .collect()
}

fn evaluated(api: &dyn NodeApi, pod: &NodePod) -> Option<(PodKey, Obstacle, Vec<String>)> {
    let request = EvictionRequest { pod: pod.key.clone(), grace_seconds: None, dry_run: true };
    match Answer::of(&api.evict(&request)) {
        Answer::Accepted => None,
        // It is going, or the server cannot tell now: nothing about the pod.
        Answer::Again(obstacle) if !is_about_the_pod(&obstacle.kind) => None,
        Answer::Again(obstacle) | Answer::Never(obstacle) => {
            let asks_for_names = obstacle.kind == ObstacleKind::TwoBudgets;
            let names = if asks_for_names { api.budgets_of(pod).unwrap_or_default() } else { Vec::new() };
            Some((pod.key.clone(), obstacle, names))
        }
    }
}

fn is_about_the_pod(kind: &ObstacleKind) -> bool {
    matches!(kind, ObstacleKind::Budget(_) | ObstacleKind::Webhook(_))
}
