//! Our own cordon, and nobody else's.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

#[path = "support/cluster.rs"]
mod cluster;

use cgroup2_migrate::node::NodeApi as _;
use cgroup2_migrate::node::cordon::{CORDONED_BY, CordonError, Uncordoned, before, cordon, mark, uncordon};
use cluster::Cluster;
use serde_json::json;

const NODE: &str = "n-alder";
const RUN: &str = "20261201T100000Z-1";

fn changed(cluster: &Cluster, operations: serde_json::Value) {
    cluster.patch_node(NODE, &operations).unwrap();
}

#[test]
fn what_we_put_on_we_take_off() {
    let cluster = Cluster::new(&[NODE]);
    let was = before(&cluster.node(NODE).unwrap());
    cordon(&cluster, &was, RUN).unwrap();
    assert!(cluster.cordoned(NODE));
    assert_eq!(mark(&cluster.node(NODE).unwrap()), Some(RUN));
    // Once more changes nothing.
    cordon(&cluster, &was, RUN).unwrap();
    assert_eq!(cluster.count("PATCH"), 1);
    assert_eq!(uncordon(&cluster, &was, RUN).unwrap(), Uncordoned::Done);
    assert!(!cluster.cordoned(NODE));
    assert_eq!(mark(&cluster.node(NODE).unwrap()), None);
    assert_eq!(uncordon(&cluster, &was, RUN).unwrap(), Uncordoned::Done);
    assert_eq!(cluster.count("PATCH"), 2);
}

#[test]
fn a_cordon_from_before_stays() {
    let cluster = Cluster::new(&[NODE]);
    changed(&cluster, json!([{"op": "add", "path": "/spec/unschedulable", "value": true}]));
    let was = before(&cluster.node(NODE).unwrap());
    assert!(was.was_unschedulable);
    cordon(&cluster, &was, RUN).unwrap();
    assert!(matches!(uncordon(&cluster, &was, RUN).unwrap(), Uncordoned::NotOurs(_)));
    assert!(cluster.cordoned(NODE));
    assert_eq!(cluster.count("PATCH"), 1, "nothing but the person's own");
}

#[test]
fn a_cordon_that_a_person_put_on_in_between_stays() {
    let cluster = Cluster::new(&[NODE]);
    let was = before(&cluster.node(NODE).unwrap());
    cordon(&cluster, &was, RUN).unwrap();
    changed(&cluster, json!([{"op": "remove", "path": "/spec/unschedulable"}]));
    changed(
        &cluster,
        json!([
            {"op": "add", "path": "/spec/unschedulable", "value": true},
            {"op": "add", "path": "/metadata/managedFields", "value": [
                {"manager": "kubectl-cordon", "operation": "Update", "fieldsV1": {"f:spec": {"f:unschedulable": {}}}},
            ]},
        ]),
    );
    let left = uncordon(&cluster, &was, RUN).unwrap();
    assert!(matches!(&left, Uncordoned::NotOurs(why) if why.contains("kubectl-cordon")), "{left:?}");
    assert!(cluster.cordoned(NODE));
}

#[test]
fn a_mark_of_another_run_or_none_is_not_ours() {
    for patch in [
        json!([{"op": "remove", "path": format!("/metadata/annotations/{}", CORDONED_BY.replace('/', "~1"))}]),
        json!([{"op": "replace", "path": format!("/metadata/annotations/{}", CORDONED_BY.replace('/', "~1")), "value": "x"}]),
    ] {
        let cluster = Cluster::new(&[NODE]);
        let was = before(&cluster.node(NODE).unwrap());
        cordon(&cluster, &was, RUN).unwrap();
        changed(&cluster, patch);
        assert!(matches!(uncordon(&cluster, &was, RUN).unwrap(), Uncordoned::NotOurs(_)));
        assert!(cluster.cordoned(NODE));
    }
}

#[test]
fn a_node_that_was_registered_anew_is_another_one() {
    let cluster = Cluster::new(&[NODE]);
    let was = before(&cluster.node(NODE).unwrap());
    changed(&cluster, json!([{"op": "replace", "path": "/metadata/uid", "value": "another"}]));
    assert!(matches!(cordon(&cluster, &was, RUN), Err(CordonError::OtherNode { .. })));
    assert!(matches!(uncordon(&cluster, &was, RUN), Err(CordonError::OtherNode { .. })));
    assert!(!cluster.cordoned(NODE));
}
