//! The gates over a cluster: all answers at once, and what may not be seen is never a yes.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

#[path = "support/cluster.rs"]
mod cluster;

use std::time::Duration;

use cgroup2_migrate::node::NodeApi as _;
use cgroup2_migrate::node::drain::Selector;
use cgroup2_migrate::node::lock::gates::{Gate, HOLD, Rules, Seen, Zones, judged, nodes, own, together};
use cluster::{Cluster, pod};
use serde_json::json;

const NODE: &str = "w-1";

/// Two workers and a control-plane node, all well, in two zones.
fn fleet() -> Cluster {
    let cluster = Cluster::new(&[NODE, "w-2", "c-1"]);
    for (name, zone) in [(NODE, "a"), ("w-2", "b"), ("c-1", "a")] {
        change(&cluster, name, "/metadata/labels", json!({"topology.kubernetes.io/zone": zone}));
        change(&cluster, name, "/status/conditions", json!([{"type": "Ready", "status": "True"}]));
    }
    change(&cluster, "c-1", "/metadata/labels/node-role.kubernetes.io~1control-plane", json!(""));
    cluster
}

fn change(cluster: &Cluster, node: &str, path: &str, value: serde_json::Value) {
    cluster.patch_node(node, &json!([{"op": "add", "path": path, "value": value}])).unwrap();
}

fn rules() -> Rules {
    let db = Selector { namespace: Some("db".into()), labels: Vec::new() };
    Rules { max_unavailable: Some(1), zones: Zones::OneAtATime, pods: vec![db], ..Rules::default() }
}

fn seen(cluster: &Cluster, node: &str) -> Seen {
    Seen {
        own: own(cluster, node),
        nodes: nodes(cluster),
        etcd: Ok(Vec::new()),
        pods: cluster.pods(node).map_err(|error| error.to_string()),
        command: None,
        now: "2026-12-01T00:00:00Z".parse().unwrap(),
        expected: Duration::from_secs(600),
    }
}

fn gate(cluster: &Cluster, node: &str) -> Gate {
    together(&judged(&rules(), &seen(cluster, node), &[]))
}

#[test]
fn a_fleet_that_is_well_lets_a_node_start() {
    let cluster = fleet();
    assert_eq!((gate(&cluster, NODE), gate(&cluster, "c-1")), (Gate::Open, Gate::Open));
    // Its own cordon does not keep a node that is on its way.
    change(&cluster, NODE, "/spec/unschedulable", json!(true));
    assert_eq!(gate(&cluster, NODE), Gate::Open);
}

#[test]
fn every_reason_is_told_at_once() {
    let cluster = fleet();
    change(&cluster, "w-2", "/spec/unschedulable", json!(true));
    change(&cluster, NODE, "/metadata/labels/cgroup2-migrate.io~1hold", json!("restore"));
    cluster.add(pod(NODE, "db", "pg-0"));
    let Gate::Closed { why, try_again_in } = gate(&cluster, NODE) else { panic!() };
    let words =
        [&format!("hold: node w-1 has the label {HOLD}=restore"), "db/pg-0", "w-2 is cordoned", "zones: "];
    assert!(words.into_iter().all(|words| why.contains(words)), "{why}");
    assert!(try_again_in.is_some());
    // Workers do not hold the control plane.
    assert_eq!(gate(&cluster, "c-1"), Gate::Open);
}

#[test]
fn a_kubelets_credential_sees_no_other_nodes_and_says_so() {
    let cluster = fleet();
    cluster.with(|world| world.refused.push("nodes"));
    let Gate::Unknown { why } = gate(&cluster, NODE) else { panic!() };
    assert!(why.contains("pool: this credential may not list nodes (a kubelet's never may"), "{why}");
    // Where nothing is asked about others, nothing has to be seen of them.
    assert_eq!(together(&judged(&Rules::default(), &seen(&cluster, NODE), &[])), Gate::Open);
    // Control-plane nodes always ask.
    let gates = judged(&Rules::default(), &seen(&cluster, "c-1"), &[]);
    assert!(matches!(together(&gates), Gate::Unknown { why } if why.starts_with("control-plane: ")));
}

#[test]
fn a_no_and_a_not_known_are_a_no_with_both_reasons() {
    let closed = |pause| Gate::Closed { why: "x".into(), try_again_in: pause };
    let unknown = Gate::Unknown { why: "y".into() };
    let minute = Some(Duration::from_secs(60));
    let both = together(&[("a", closed(minute)), ("b", unknown.clone()), ("c", Gate::Open)]);
    assert_eq!(both, Gate::Closed { why: "a: x; b: y".into(), try_again_in: minute });
    let hour = Some(Duration::from_secs(3600));
    let later = |one, other| match together(&[("a", closed(one)), ("b", closed(other))]) {
        Gate::Closed { try_again_in, .. } => try_again_in,
        Gate::Open | Gate::Unknown { .. } => panic!(),
    };
    assert_eq!((later(minute, hour), later(hour, None)), (hour, None));
}
