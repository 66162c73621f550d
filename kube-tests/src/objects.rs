//! Nodes, pods, disruption budgets. What controllers would write to them, the test writes.

use serde_json::{Value, json};

use crate::caller::Caller;

/// How many milliseconds the fake kubelet lets pass from the order to stop until the pod is gone; `never` for a pod
/// that hangs. At once where it is missing.
pub const STOPS_AFTER: &str = "kube-tests/stops-after";

/// On a pod that the fake kubelet leaves Pending.
pub const NEVER_RUNS: &str = "kube-tests/never-runs";

/// A node that is Ready, with a label as a kubelet gives it: of an object that is created with nothing but a name the
/// server never keeps who wrote which field.
pub async fn create_node(admin: &Caller, name: &str) {
    let labels = json!({"kubernetes.io/hostname": name});
    admin.post("/api/v1/nodes", json!({"metadata": {"name": name, "labels": labels}})).await.ok();
    let ready = json!({"type": "Ready", "status": "True", "reason": "KubeletReady"});
    let status = json!({"status": {"conditions": [ready]}});
    admin.patch(&format!("/api/v1/nodes/{name}/status"), status).await.ok();
}

/// A namespace in which pods can be created: with its default ServiceAccount, which a controller would make.
pub async fn create_namespace(admin: &Caller, name: &str) {
    admin.post("/api/v1/namespaces", json!({"metadata": {"name": name}})).await.ok();
    let account = json!({"metadata": {"name": "default"}});
    admin.post(&format!("/api/v1/namespaces/{name}/serviceaccounts"), account).await.ok();
}

/// A pod on a node, to be changed as the test likes. Its label `app` is `app`.
pub fn pod(node: &str, name: &str, app: &str) -> Value {
    json!({
        "metadata": {"name": name, "labels": {"app": app}, "annotations": {}},
        "spec": {"nodeName": node, "containers": [{"name": "main", "image": "none"}]},
    })
}

/// Creates it, and gives what the server made of it. It is Pending.
pub async fn create_pod(admin: &Caller, namespace: &str, pod: Value) -> Value {
    admin.post(&format!("/api/v1/namespaces/{namespace}/pods"), pod).await.ok()
}

/// Lets a pod be Running, and Ready or not, as its kubelet would say.
pub async fn set_running(admin: &Caller, namespace: &str, name: &str, is_ready: bool) {
    admin.patch(&format!("/api/v1/namespaces/{namespace}/pods/{name}/status"), running(is_ready)).await.ok();
}

pub(crate) fn running(is_ready: bool) -> Value {
    let ready = json!({"type": "Ready", "status": if is_ready { "True" } else { "False" }});
    json!({"status": {"phase": "Running", "conditions": [ready]}})
}

/// A budget for the pods of `app`, and what the disruption controller has not said about it yet.
pub async fn create_budget(admin: &Caller, namespace: &str, name: &str, app: &str) {
    let spec = json!({"minAvailable": 1, "selector": {"matchLabels": {"app": app}}});
    let budget = json!({"metadata": {"name": name}, "spec": spec});
    admin.post(&budgets(namespace), budget).await.ok();
}

/// What the disruption controller would say: `healthy` pods are there, `desired` are needed, the rest may go.
pub async fn set_budget(admin: &Caller, namespace: &str, name: &str, healthy: u32, desired: u32) {
    let path = format!("{}/{name}", budgets(namespace));
    let generation = admin.get(&path).await.ok()["metadata"]["generation"].clone();
    let status = json!({
        "observedGeneration": generation, "expectedPods": healthy, "currentHealthy": healthy,
        "desiredHealthy": desired, "disruptionsAllowed": healthy.saturating_sub(desired), "disruptedPods": null,
    });
    admin.patch(&format!("{path}/status"), json!({"status": status})).await.ok();
}

/// How many pods of this budget may go now.
pub async fn disruptions_allowed(admin: &Caller, namespace: &str, name: &str) -> i64 {
    let budget = admin.get(&format!("{}/{name}", budgets(namespace))).await.ok();
    budget["status"]["disruptionsAllowed"].as_i64().unwrap_or_default()
}

fn budgets(namespace: &str) -> String {
    format!("/apis/policy/v1/namespaces/{namespace}/poddisruptionbudgets")
}
