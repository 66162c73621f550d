//! Our own cordon, and nobody else's.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

#[path = "support/cluster.rs"]
mod cluster;

use std::time::Duration;

use cgroup2_migrate::node::NodeApi as _;
use cgroup2_migrate::node::cordon::{
    CORDONED_BY, CordonError, Uncordoned, before, cordon, mark, take_back, uncordon,
};
use cluster::Cluster;
use cluster::replies::{Answered, Replies, Reply};
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

/// Someone who keeps nodes with server-side apply owns the cordon beside us, and is listed first.
#[test]
fn a_cordon_that_is_applied_beside_ours_stays() {
    let cluster = Cluster::new(&[NODE]);
    let was = before(&cluster.node(NODE).unwrap());
    cordon(&cluster, &was, RUN).unwrap();
    let owns = |manager: &str, operation: &str| json!({"manager": manager, "operation": operation, "fieldsV1": {"f:spec": {"f:unschedulable": {}}}});
    let fields = json!([owns("gitops", "Apply"), owns("cgroup2-migrate", "Update")]);
    changed(&cluster, json!([{"op": "add", "path": "/metadata/managedFields", "value": fields}]));
    let left = uncordon(&cluster, &was, RUN).unwrap();
    assert!(matches!(&left, Uncordoned::NotOurs(why) if why.contains("gitops")), "{left:?}");
    assert!(cluster.cordoned(NODE));
}

/// The answer is lost and the server away for a while: the cordon is on.
#[test]
fn a_cordon_whose_answer_was_lost_is_taken_back() {
    let cluster = Cluster::new(&[NODE]);
    let was = before(&cluster.node(NODE).unwrap());
    cluster.with(|world| world.replies.push(lost_once("PATCH nodes/n-alder")));
    assert!(cordon(&cluster, &was, RUN).is_err());
    assert!(cluster.cordoned(NODE));
    let now = cluster.elapsed();
    cluster.is_away(now, now + Duration::from_secs(45));
    let again = |_: &CordonError| {
        cluster.passes(Duration::from_secs(10));
        true
    };
    assert_eq!(take_back(&cluster, &was, RUN, again).unwrap(), Uncordoned::Done);
    assert!(!cluster.cordoned(NODE));
    cluster.is_away(cluster.elapsed(), Duration::MAX);
    assert!(take_back(&cluster, &was, RUN, |_| false).is_err());
}

fn lost_once(request: &str) -> Replies {
    let reply = Reply { answer: Answered::Lost, changes: Vec::new() };
    Replies { request: request.to_owned(), answers: [reply].into(), repeats: false, then: Vec::new() }
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
