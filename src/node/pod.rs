//! A pod, as far as a drain is concerned.

use std::time::Duration;

use k8s_openapi::api::core::v1::{ContainerStatus, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;

/// What the server takes for a pod that sets no grace period.
const DEFAULT_GRACE: Duration = Duration::from_secs(30);

/// On the API's copy of a static pod.
const MIRROR: &str = "kubernetes.io/config.mirror";

/// One pod for ever: a pod of the same name with another UID is another one.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PodKey {
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// UID.
    pub uid: String,
}

impl std::fmt::Display for PodKey {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{}/{}", self.namespace, self.name)
    }
}

/// Who makes a new pod when this one goes: the owner reference with `controller: true`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Owner {
    /// `apps/v1`.
    pub api_version: String,
    /// `ReplicaSet`.
    pub kind: String,
    /// Name.
    pub name: String,
}

/// A deletion that was accepted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Deletion {
    /// When the grace period is over, by the server's clock.
    pub deadline: jiff::Timestamp,
    /// The grace period.
    pub grace: Duration,
}

/// A container that runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Running {
    /// Name.
    pub name: String,
    /// The runtime's id: another one is another container.
    pub id: String,
    /// When it started.
    pub started: jiff::Timestamp,
}

/// A pod, as far as a drain is concerned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodePod {
    /// Which.
    pub key: PodKey,
    /// The node it is bound to.
    pub node: String,
    /// Labels.
    pub labels: Vec<(String, String)>,
    /// Who makes a new one.
    pub owner: Option<Owner>,
    /// The API's copy of a static pod.
    pub mirror: bool,
    /// `Succeeded` or `Failed`.
    pub finished: bool,
    /// `Pending`: nothing of it ran yet.
    pub pending: bool,
    /// Names of `emptyDir` volumes.
    pub empty_dirs: Vec<String>,
    /// Resolved priority.
    pub priority: i32,
    /// How long it may take to stop.
    pub grace: Duration,
    /// A deletion that was accepted.
    pub deletion: Option<Deletion>,
    /// What must be taken off before the object goes.
    pub finalizers: Vec<String>,
    /// True if the kubelet has said of every container that it ended.
    pub containers_gone: bool,
    /// Its condition `Ready`.
    pub ready: bool,
    /// Containers that run and are ready.
    pub running: Vec<Running>,
}

impl From<&Pod> for NodePod {
    fn from(pod: &Pod) -> Self {
        let meta = &pod.metadata;
        let spec = pod.spec.as_ref();
        let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or_default();
        Self {
            key: PodKey {
                namespace: meta.namespace.clone().unwrap_or_default(),
                name: meta.name.clone().unwrap_or_default(),
                uid: meta.uid.clone().unwrap_or_default(),
            },
            node: spec.and_then(|spec| spec.node_name.clone()).unwrap_or_default(),
            labels: meta.labels.clone().unwrap_or_default().into_iter().collect(),
            owner: meta.owner_references.iter().flatten().find_map(controller),
            mirror: meta.annotations.as_ref().is_some_and(|annotations| annotations.contains_key(MIRROR)),
            finished: matches!(phase, "Succeeded" | "Failed"),
            pending: phase == "Pending",
            empty_dirs: empty_dirs(pod),
            priority: spec.and_then(|spec| spec.priority).unwrap_or_default(),
            grace: spec.and_then(|spec| spec.termination_grace_period_seconds).map_or(DEFAULT_GRACE, seconds),
            deletion: deletion(pod),
            finalizers: meta.finalizers.clone().unwrap_or_default(),
            containers_gone: containers_gone(pod),
            ready: is_ready(pod),
            running: running(pod),
        }
    }
}

fn controller(owner: &OwnerReference) -> Option<Owner> {
    owner.controller.unwrap_or_default().then(|| Owner {
        api_version: owner.api_version.clone(),
        kind: owner.kind.clone(),
        name: owner.name.clone(),
    })
}

fn empty_dirs(pod: &Pod) -> Vec<String> {
    let volumes = pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten());
    volumes.filter(|volume| volume.empty_dir.is_some()).map(|volume| volume.name.clone()).collect()
}

fn deletion(pod: &Pod) -> Option<Deletion> {
    let deadline = pod.metadata.deletion_timestamp.as_ref()?.0;
    let grace = pod.metadata.deletion_grace_period_seconds.map_or(DEFAULT_GRACE, seconds);
    Some(Deletion { deadline, grace })
}

fn is_ready(pod: &Pod) -> bool {
    let conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions.into_iter().any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

fn containers_gone(pod: &Pod) -> bool {
    let Some(status) = &pod.status else { return false };
    let lists =
        [&status.container_statuses, &status.init_container_statuses, &status.ephemeral_container_statuses];
    let mut containers = lists.into_iter().flatten().flatten().peekable();
    containers.peek().is_some() && containers.all(has_ended)
}

/// One that is in a loop of crashes is not ready for most of the time, and says nothing when it is another one.
fn running(pod: &Pod) -> Vec<Running> {
    let statuses = pod.status.iter().flat_map(|status| status.container_statuses.iter().flatten());
    let ready = statuses.filter(|container| container.ready);
    let named = ready.filter_map(|container| {
        let started = container.state.as_ref()?.running.as_ref()?.started_at.as_ref()?.0;
        Some(Running { name: container.name.clone(), id: container.container_id.clone()?, started })
    });
    named.collect()
}

fn has_ended(container: &ContainerStatus) -> bool {
    container.state.as_ref().is_some_and(|state| state.terminated.is_some())
}

fn seconds(seconds: i64) -> Duration {
    Duration::from_secs(u64::try_from(seconds).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_container_counts_while_it_runs_and_is_ready() {
        let status = |name: &str, ready, state| {
            serde_json::json!({
                "name": name, "ready": ready, "restartCount": 3, "image": "i", "imageID": "", "state": state,
                "containerID": format!("containerd://{name}"),
            })
        };
        let running = serde_json::json!({"running": {"startedAt": "2026-12-01T00:00:00Z"}});
        let waiting = serde_json::json!({"waiting": {"reason": "CrashLoopBackOff"}});
        let statuses =
            [status("a", true, &running), status("b", false, &running), status("c", false, &waiting)];
        let pod: Pod =
            serde_json::from_value(serde_json::json!({"status": {"containerStatuses": statuses}})).unwrap();
        let found = NodePod::from(&pod).running;
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].name.as_str(), found[0].id.as_str()), ("a", "containerd://a"));
        assert_eq!(found[0].started.to_string(), "2026-12-01T00:00:00Z");
    }
}
