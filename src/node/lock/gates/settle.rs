//! After the uncordon: what was moved has found its place again before the next node's turn.

use std::time::Duration;

use super::{Gate, Known, PoolNode, SOON};
use crate::node::NodePod;

/// A pod of a DaemonSet on this node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DaemonPod {
    /// `namespace/name`.
    pub name: String,
    /// Its condition `Ready`.
    pub ready: bool,
}

impl DaemonPod {
    /// `None` for any other pod, and for one that is on its way out.
    #[must_use]
    pub fn of(pod: &NodePod) -> Option<Self> {
        let is_daemon = pod.owner.as_ref().is_some_and(|owner| owner.kind == "DaemonSet");
        let stays = pod.deletion.is_none() && !pod.finished;
        (is_daemon && stays).then(|| Self { name: pod.key.to_string(), ready: pod.ready })
    }
}

/// What is looked at after the uncordon.
#[derive(Debug, Clone)]
pub struct Settled {
    /// This node.
    pub own: Known<PoolNode>,
    /// Pods of DaemonSets on it.
    pub daemons: Known<Vec<DaemonPod>>,
    /// How long ago it was uncordoned.
    pub since_uncordon: Duration,
    /// [`super::Rules::settle`].
    pub delay: Duration,
}

/// Whether the lock may be given back.
#[must_use]
pub fn settle(settled: &Settled) -> Gate {
    Gate::of(&settled.own, |own| {
        if !own.ready {
            return Gate::closed(own.told());
        }
        Gate::of(&settled.daemons, |daemons| quiet(daemons, settled))
    })
}

fn quiet(daemons: &[DaemonPod], settled: &Settled) -> Gate {
    let waited_for: Vec<&str> =
        daemons.iter().filter(|pod| !pod.ready).map(|pod| pod.name.as_str()).collect();
    if !waited_for.is_empty() {
        let why = format!("pods of DaemonSets are not Ready: {}", waited_for.join(", "));
        return Gate::Closed { why, try_again_in: Some(SOON / 6) };
    }
    let left = settled.delay.saturating_sub(settled.since_uncordon);
    if left.is_zero() {
        return Gate::Open;
    }
    Gate::Closed { why: format!("gates.settle_seconds: {} s left", left.as_secs()), try_again_in: Some(left) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settled() -> Settled {
        Settled {
            own: Ok(PoolNode { name: "n".into(), ready: true, ..PoolNode::default() }),
            daemons: Ok(vec![DaemonPod { name: "kube-system/cni-x".into(), ready: true }]),
            since_uncordon: Duration::from_secs(30),
            delay: Duration::from_secs(30),
        }
    }

    #[test]
    fn the_node_its_daemons_and_the_clock_each_have_a_say() {
        assert_eq!(settle(&settled()), Gate::Open);
        let down = Settled { own: Ok(PoolNode { name: "n".into(), ..PoolNode::default() }), ..settled() };
        assert!(matches!(settle(&down), Gate::Closed { why, .. } if why == "n is not Ready"));
        let daemons = Ok(vec![DaemonPod { name: "kube-system/cni-x".into(), ready: false }]);
        let daemon = Settled { daemons, ..settled() };
        assert!(matches!(settle(&daemon), Gate::Closed { why, .. } if why.ends_with("kube-system/cni-x")));
        let soon = Settled { since_uncordon: Duration::from_secs(10), ..settled() };
        let left = Some(Duration::from_secs(20));
        assert!(matches!(settle(&soon), Gate::Closed { try_again_in, .. } if try_again_in == left));
        assert!(matches!(settle(&Settled { daemons: Err("x".into()), ..settled() }), Gate::Unknown { .. }));
    }

    #[test]
    fn only_pods_of_daemon_sets_that_stay_are_waited_for() {
        let pod = |kind: &str, ready: &str, deleted: Option<&str>| -> NodePod {
            let pod: k8s_openapi::api::core::v1::Pod = serde_json::from_value(serde_json::json!({
                "metadata": {"namespace": "kube-system", "name": "cni", "deletionTimestamp": deleted,
                    "ownerReferences": [{"apiVersion": "apps/v1", "kind": kind, "name": "o", "uid": "u", "controller": true}]},
                "status": {"conditions": [{"type": "Ready", "status": ready}]},
            }))
            .unwrap();
            NodePod::from(&pod)
        };
        let seen = |kind, ready, deleted| DaemonPod::of(&pod(kind, ready, deleted)).map(|pod| pod.ready);
        assert_eq!(seen("DaemonSet", "True", None), Some(true));
        assert_eq!(seen("DaemonSet", "False", None), Some(false));
        assert_eq!(seen("DaemonSet", "False", Some("2026-01-01T00:00:00Z")), None);
        assert_eq!(seen("ReplicaSet", "False", None), None);
    }
}
