//! What a server lets a kubelet do with nothing but its own certificate. Each assertion was seen, not read somewhere.

use kube_tests::{Caller, TestCluster, objects, until};
use serde_json::{Value, json};

/// The kubelet of a new node, and somebody who may do everything.
async fn kubelet_of(cluster: &TestCluster, node: &str) -> (Caller, Caller) {
    let admin = cluster.admin().await;
    objects::create_node(&admin, node).await;
    (cluster.kubelet(node).await, admin)
}

#[tokio::test]
async fn it_cordons_and_annotates_its_own_node_only() {
    let Some(cluster) = kube_tests::shared().await else { return };
    let (kubelet, admin) = kubelet_of(cluster, "cordon").await;
    objects::create_node(&admin, "cordon-other").await;
    let (own, other) = ("/api/v1/nodes/cordon", "/api/v1/nodes/cordon-other");
    let cordon =
        json!({"spec": {"unschedulable": true}, "metadata": {"annotations": {"any.example/key": "v"}}});

    let node = kubelet.patch(own, cordon.clone()).await.ok();
    assert_eq!(node["spec"]["unschedulable"], true);
    assert_eq!(node["metadata"]["annotations"]["any.example/key"], "v");
    let node = kubelet.patch(own, json!({"spec": {"unschedulable": null}})).await.ok();
    assert_eq!(node["spec"]["unschedulable"], Value::Null);

    let why = kubelet.patch(other, cordon).await.refused(403);
    assert!(why.ends_with(r#"node "cordon" is not allowed to modify node "cordon-other""#), "{why}");
    let why = kubelet.get(other).await.refused(403);
    assert!(why.ends_with("cannot read 'cordon-other', only its own Node object"), "{why}");
    kubelet.get("/api/v1/nodes").await.refused(403);
    kubelet.get("/api/v1/nodes?fieldSelector=metadata.name%3Dcordon").await.ok();
    kubelet.delete(own, json!({})).await.refused(403);
}

#[tokio::test]
async fn a_change_of_its_node_can_be_made_to_depend_on_what_was_read() {
    let Some(cluster) = kube_tests::shared().await else { return };
    let (kubelet, _) = kubelet_of(cluster, "precondition").await;
    let own = "/api/v1/nodes/precondition";
    let stale = json!({"metadata": {"resourceVersion": "1"}, "spec": {"unschedulable": true}});
    kubelet.patch(own, stale).await.refused(409);
    let other_uid = "00000000-0000-0000-0000-000000000000";
    let recreated = json!({"metadata": {"uid": other_uid}, "spec": {"unschedulable": true}});
    kubelet.patch(own, recreated).await.refused(422);
}

#[tokio::test]
async fn it_may_not_touch_taints_nor_the_labels_others_rely_on() {
    let Some(cluster) = kube_tests::shared().await else { return };
    let (kubelet, _) = kubelet_of(cluster, "taints").await;
    let own = "/api/v1/nodes/taints";
    let taint = json!({"spec": {"taints": [{"key": "a", "effect": "NoSchedule"}]}});
    let why = kubelet.patch(own, taint).await.refused(403);
    assert!(why.ends_with("is not allowed to modify taints"), "{why}");
    let label = |key: &str| json!({"metadata": {"labels": {key: "v"}}});
    for free in ["any.example/key", "node.kubernetes.io/key"] {
        kubelet.patch(own, label(free)).await.ok();
    }
    for taken in ["node-role.kubernetes.io/key", "node-restriction.kubernetes.io/key", "kubernetes.io/key"] {
        let why = kubelet.patch(own, label(taken)).await.refused(403);
        assert!(why.contains("is not allowed to modify labels"), "{why}");
    }
    let drain = json!({"status": {"conditions": [{"type": "DrainInProgress", "status": "True"}]}});
    kubelet.patch(&format!("{own}/status"), drain).await.ok();
}

#[tokio::test]
async fn it_lists_and_watches_pods_only_with_the_selector_of_its_node() {
    let Some(cluster) = kube_tests::shared().await else { return };
    let (kubelet, _) = kubelet_of(cluster, "lists").await;
    let own = "/api/v1/pods?fieldSelector=spec.nodeName%3Dlists";
    kubelet.get(own).await.ok();
    kubelet.get(&format!("{own}&labelSelector=app%3Da")).await.ok();
    kubelet.get(&format!("{own}&watch=1&timeoutSeconds=1")).await.ok();
    for refused in
        ["/api/v1/pods", "/api/v1/pods?watch=1", "/api/v1/pods?fieldSelector=spec.nodeName%3Dother"]
    {
        let why = kubelet.get(refused).await.refused(403);
        assert!(why.ends_with("can only list/watch pods with spec.nodeName field selector"), "{why}");
    }
}

/// What it may read the server learns a moment after the pod is there or gone: at first a pod that is new is forbidden,
/// and one that is gone is not found.
#[tokio::test]
async fn a_pod_that_is_gone_is_forbidden_to_read_and_not_found_by_eviction_and_deletion() {
    let Some(cluster) = kube_tests::shared().await else { return };
    let (kubelet, admin) = kubelet_of(cluster, "gone").await;
    objects::create_namespace(&admin, "gone").await;
    objects::create_pod(&admin, "gone", objects::pod("gone", "p", "a")).await;
    let pod = "/api/v1/namespaces/gone/pods/p";

    until(async || kubelet.get(pod).await.code == 200).await;
    kubelet.patch(pod, json!({"metadata": {"labels": {"b": "c"}}})).await.refused(403);
    kubelet.delete(pod, json!({"gracePeriodSeconds": 0})).await.ok();
    until(async || kubelet.get(pod).await.code != 404).await;
    let why = kubelet.get(pod).await.refused(403);
    assert!(why.ends_with("no relationship found between node 'gone' and this object"), "{why}");
    let eviction = json!({"metadata": {"name": "p"}});
    kubelet.post(&format!("{pod}/eviction"), eviction).await.refused(404);
    kubelet.delete(pod, json!({})).await.refused(404);
}

#[tokio::test]
async fn pods_of_another_node_are_out_of_its_reach() {
    let Some(cluster) = kube_tests::shared().await else { return };
    let (kubelet, admin) = kubelet_of(cluster, "reach").await;
    objects::create_namespace(&admin, "reach").await;
    objects::create_pod(&admin, "reach", objects::pod("elsewhere", "p", "a")).await;
    let pod = "/api/v1/namespaces/reach/pods/p";
    kubelet.get(pod).await.refused(403);
    let evict = async || kubelet.post(&format!("{pod}/eviction"), json!({"metadata": {"name": "p"}})).await;
    // Until the server's admission has heard of the pod.
    until(async || evict().await.code != 404).await;
    let why = evict().await.refused(403);
    assert!(why.ends_with("node reach can only evict pods with spec.nodeName set to itself"), "{why}");
    kubelet.delete(pod, json!({})).await.refused(403);
}

#[tokio::test]
async fn it_cannot_see_budgets_controllers_and_configuration() {
    let Some(cluster) = kube_tests::shared().await else { return };
    let (kubelet, _) = kubelet_of(cluster, "sees").await;
    for hidden in [
        "/apis/policy/v1/namespaces/default/poddisruptionbudgets",
        "/apis/apps/v1/namespaces/default/daemonsets/d",
        "/api/v1/namespaces/kube-system/configmaps/kubelet-config",
        "/api/v1/namespaces/default",
    ] {
        kubelet.get(hidden).await.refused(403);
    }
    kubelet.get("/version").await.ok();
}

/// 1.37 lets it write both kinds; the older rules had core/v1 alone.
#[tokio::test]
async fn it_writes_events_in_any_namespace_and_cannot_read_them() {
    let Some(cluster) = kube_tests::shared().await else { return };
    let (kubelet, admin) = kubelet_of(cluster, "events").await;
    objects::create_namespace(&admin, "events").await;
    for namespace in ["default", "events"] {
        let node = json!({"kind": "Node", "name": "events", "namespace": namespace});
        let event = json!({"metadata": {"name": "e"}, "involvedObject": node, "reason": "R", "message": "m"});
        let path = format!("/api/v1/namespaces/{namespace}/events");
        // An event of an object without a namespace belongs to `default`; elsewhere the object must say the namespace.
        kubelet.post(&path, event).await.ok();
        kubelet.patch(&format!("{path}/e"), json!({"count": 2})).await.ok();
        kubelet.get(&format!("{path}/e")).await.refused(403);
    }
    let event = json!({
        "metadata": {"name": "n"}, "eventTime": "2026-01-01T00:00:00.000000Z", "action": "a", "reason": "R",
        "reportingController": "c", "reportingInstance": "i", "regarding": {"kind": "Node", "name": "events"},
        "type": "Normal",
    });
    kubelet.post("/apis/events.k8s.io/v1/namespaces/default/events", event).await.ok();
}

#[tokio::test]
async fn it_has_one_lease_and_no_other() {
    let Some(cluster) = kube_tests::shared().await else { return };
    let (kubelet, _) = kubelet_of(cluster, "leases").await;
    let leases = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases";
    let lease = |name: &str| json!({"metadata": {"name": name}, "spec": {"holderIdentity": "h"}});
    kubelet.post(leases, lease("leases")).await.ok();
    kubelet.patch(&format!("{leases}/leases"), json!({"spec": {"holderIdentity": "i"}})).await.ok();
    let why = kubelet.post(leases, lease("slot-0")).await.refused(403);
    assert!(why.ends_with("can only access node lease with the same name as the requesting node"), "{why}");
    kubelet.get(&format!("{leases}/slot-0")).await.refused(403);
    kubelet.get(leases).await.refused(403);
    let elsewhere = leases.replace("kube-node-lease", "default");
    kubelet.post(&elsewhere, lease("leases")).await.refused(403);
}

/// The review asks the authorizer; what NodeRestriction forbids at admission it does not know.
#[tokio::test]
async fn it_can_ask_beforehand_what_it_may_do_except_about_other_nodes() {
    let Some(cluster) = kube_tests::shared().await else { return };
    let (kubelet, _) = kubelet_of(cluster, "asks").await;
    let may = async |attributes: Value| {
        let review = json!({"spec": {"resourceAttributes": attributes}});
        let path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
        kubelet.post(path, review).await.ok()["status"]["allowed"] == true
    };
    assert!(may(json!({"verb": "patch", "resource": "nodes", "name": "asks"})).await);
    assert!(may(json!({"verb": "create", "resource": "pods", "subresource": "eviction"})).await);
    let own = json!({"rawSelector": "spec.nodeName=asks"});
    assert!(may(json!({"verb": "watch", "resource": "pods", "fieldSelector": own})).await);
    assert!(!may(json!({"verb": "watch", "resource": "pods"})).await);
    assert!(!may(json!({"verb": "list", "group": "policy", "resource": "poddisruptionbudgets"})).await);
    let other_node = json!({"verb": "patch", "resource": "nodes", "name": "another"});
    assert!(may(other_node).await, "says yes, though the patch itself is refused");
}
