//! Runs the pods of a node on paper: ready at once, gone some time after they are told to stop.

use std::path::Path;
use std::pin::pin;
use std::time::Duration;

use anyhow::{Context as _, Result};
use futures::TryStreamExt as _;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, WatchEvent, WatchParams};
use kube::core::ResourceExt as _;
use serde_json::json;

use crate::caller::Caller;
use crate::cluster::TestCluster;
use crate::objects::{NEVER_RUNS, STOPS_AFTER, running};
use crate::worker::Worker;

/// Works on a thread of its own until dropped. It asks as `fake-kubelet`, so that requests of the node's own user are
/// all of the program under test.
pub struct FakeKubelet(#[expect(dead_code, reason = "works until it is dropped")] Worker);

impl FakeKubelet {
    /// For the pods of this node.
    pub fn start(cluster: &TestCluster, node: &str) -> Result<Self> {
        let kubeconfig = cluster.kubeconfig("fake-kubelet", "system:masters")?;
        let node = node.to_owned();
        Worker::start(async move { run(&kubeconfig, &node).await }).map(Self)
    }
}

/// Begins anew whenever the server is away.
async fn run(kubeconfig: &Path, node: &str) {
    loop {
        let _ = watch(kubeconfig, node).await;
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

async fn watch(kubeconfig: &Path, node: &str) -> Result<()> {
    let caller = Caller::new(kubeconfig).await?;
    let pods: Api<Pod> = Api::all(caller.client());
    let of_node = WatchParams::default().fields(&format!("spec.nodeName={node}"));
    // From "0": the pods that are there come first, as if they had just been added.
    let mut events = pin!(pods.watch(&of_node, "0").await?);
    while let Some(event) = events.try_next().await? {
        match event {
            WatchEvent::Added(pod) | WatchEvent::Modified(pod) => tend(&caller, &pod).await?,
            WatchEvent::Error(why) => anyhow::bail!("{why:?}"),
            WatchEvent::Deleted(_) | WatchEvent::Bookmark(_) => {}
        }
    }
    Ok(())
}

async fn tend(caller: &Caller, pod: &Pod) -> Result<()> {
    let namespace = pod.namespace().context("a pod without a namespace")?;
    if pod.metadata.deletion_timestamp.is_some() {
        if let Some(after) = stops_after(pod)? {
            tokio::spawn(stop(caller.clone(), namespace, pod.name_any(), pod.uid(), after));
        }
    } else if is_to_run(pod) {
        let path = format!("/api/v1/namespaces/{namespace}/pods/{}/status", pod.name_any());
        caller.ask(http::Method::PATCH, &path, Some(running(true))).await?;
    }
    Ok(())
}

fn is_to_run(pod: &Pod) -> bool {
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    phase == Some("Pending") && !pod.annotations().contains_key(NEVER_RUNS)
}

/// `None` if it never stops.
fn stops_after(pod: &Pod) -> Result<Option<Duration>> {
    match pod.annotations().get(STOPS_AFTER).map(String::as_str) {
        None => Ok(Some(Duration::ZERO)),
        Some("never") => Ok(None),
        Some(milliseconds) => Ok(Some(Duration::from_millis(milliseconds.parse()?))),
    }
}

/// Says more than once that a pod is gone if it was changed while it stopped; the server minds not.
async fn stop(caller: Caller, namespace: String, name: String, uid: Option<String>, after: Duration) {
    tokio::time::sleep(after).await;
    let path = format!("/api/v1/namespaces/{namespace}/pods/{name}");
    let options = json!({"gracePeriodSeconds": 0, "preconditions": {"uid": uid}});
    let _ = caller.ask(http::Method::DELETE, &path, Some(options)).await;
}
