//! Makes new pods for those that go, and counts the budgets of a namespace anew: what the controllers of workloads and
//! of disruptions would do.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result};
use k8s_openapi::List;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::core::ResourceExt as _;
use serde_json::{Value, json};

use crate::caller::Caller;
use crate::cluster::TestCluster;
use crate::objects;
use crate::worker::Worker;

/// How often it looks.
const EACH: Duration = Duration::from_millis(50);

/// Works on a thread of its own until dropped.
pub struct FakeController(#[expect(dead_code, reason = "works until it is dropped")] Worker);

impl FakeController {
    /// For the budgets of this namespace. Each is for the pods of the `app` of its own name, and `expectedPods` of its
    /// status are to be there; new ones are ready at once, on the node `elsewhere`.
    pub fn start(cluster: &TestCluster, namespace: &str) -> Result<Self> {
        let kubeconfig = cluster.kubeconfig("fake-controller", "system:masters")?;
        let namespace = namespace.to_owned();
        Worker::start(async move { run(&kubeconfig, &namespace).await }).map(Self)
    }
}

/// Begins anew whenever the server is away, or somebody wrote in between.
async fn run(kubeconfig: &Path, namespace: &str) {
    let mut made = 0;
    loop {
        let _ = all(kubeconfig, namespace, &mut made).await;
        tokio::time::sleep(EACH).await;
    }
}

async fn all(kubeconfig: &Path, namespace: &str, made: &mut usize) -> Result<()> {
    let admin = Caller::new(kubeconfig).await?;
    loop {
        let budgets = format!("/apis/policy/v1/namespaces/{namespace}/poddisruptionbudgets");
        // Before the pods: an eviction in between changes the budget, and what is written then is refused.
        let budgets: List<PodDisruptionBudget> = list(&admin, &budgets).await?;
        let pods: List<Pod> = list(&admin, &format!("/api/v1/namespaces/{namespace}/pods")).await?;
        for budget in &budgets.items {
            let of_budget =
                pods.items.iter().filter(|pod| pod.labels().get("app") == Some(&budget.name_any()));
            let staying: Vec<&Pod> =
                of_budget.filter(|pod| pod.metadata.deletion_timestamp.is_none()).collect();
            recount(&admin, budget, &staying).await?;
            replace(&admin, budget, staying.len(), made).await;
        }
        tokio::time::sleep(EACH).await;
    }
}

async fn list<T: serde::de::DeserializeOwned>(admin: &Caller, path: &str) -> Result<T> {
    let answer = admin.ask(http::Method::GET, path, None).await?;
    Ok(serde_json::from_str(&answer.text)?)
}

/// What the server let go, and has not begun to delete yet, does not count.
async fn recount(admin: &Caller, budget: &PodDisruptionBudget, staying: &[&Pod]) -> Result<()> {
    let status = budget.status.as_ref().context("a budget without a status")?;
    let disrupted = status.disrupted_pods.clone().unwrap_or_default();
    let going: BTreeMap<String, Value> = staying
        .iter()
        .filter_map(|pod| Some((pod.name_any(), json!(disrupted.get(&pod.name_any())?))))
        .collect();
    let is_healthy = |pod: &&&Pod| is_ready(pod) && !going.contains_key(&pod.name_any());
    let healthy = i32::try_from(staying.iter().filter(is_healthy).count())?;
    let allowed = (healthy - status.desired_healthy).max(0);
    if (healthy, allowed, going.len())
        == (status.current_healthy, status.disruptions_allowed, disrupted.len())
    {
        return Ok(());
    }
    let removed =
        disrupted.keys().filter(|name| !going.contains_key(*name)).map(|name| (name.clone(), Value::Null));
    let disrupted: BTreeMap<String, Value> = removed.chain(going.clone()).collect();
    let counted = json!({
        "metadata": {"resourceVersion": budget.metadata.resource_version},
        "status": {"currentHealthy": healthy, "disruptionsAllowed": allowed, "disruptedPods": disrupted},
    });
    let namespace = budget.namespace().unwrap_or_default();
    let path =
        format!("/apis/policy/v1/namespaces/{namespace}/poddisruptionbudgets/{}/status", budget.name_any());
    admin.ask(http::Method::PATCH, &path, Some(counted)).await.map(drop)
}

fn is_ready(pod: &Pod) -> bool {
    let conditions = pod.status.as_ref().and_then(|status| status.conditions.as_ref());
    conditions.into_iter().flatten().any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

async fn replace(admin: &Caller, budget: &PodDisruptionBudget, there: usize, made: &mut usize) {
    let expected = budget.status.as_ref().map(|status| status.expected_pods).unwrap_or_default();
    let namespace = budget.namespace().unwrap_or_default();
    for _ in there..usize::try_from(expected).unwrap_or_default() {
        *made += 1;
        let (app, name) = (budget.name_any(), format!("{}-new-{made}", budget.name_any()));
        objects::create_pod(admin, &namespace, objects::pod("elsewhere", &name, &app)).await;
        objects::set_running(admin, &namespace, &name, true).await;
    }
}
