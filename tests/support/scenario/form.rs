//! `scenario.json`, read. What only describes (a pod, a node) is read tolerantly: keys that nobody knows are told.

use std::collections::BTreeMap;
use std::path::Path;

use cgroup2_migrate::node::NodePod;
use k8s_openapi::api::core::v1::{Node, Pod};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::words::readiness;

#[derive(Debug, Deserialize)]
pub(crate) struct Scenario {
    pub(crate) node: NodeForm,
    #[serde(default)]
    pub(crate) pods: Vec<PodForm>,
    #[serde(default)]
    pub(crate) nodes: Vec<NodeForm>,
    #[serde(default)]
    pub(crate) pdbs: Option<Vec<Value>>,
    #[serde(default)]
    pub(crate) lock: Option<LockForm>,
    #[serde(default)]
    pub(crate) on: Vec<On>,
    #[serde(default)]
    pub(crate) options: Map<String, Value>,
    pub(crate) expect: Map<String, Value>,
    #[serde(flatten)]
    rest: Map<String, Value>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct NodeForm {
    pub(crate) name: String,
    uid: Option<String>,
    #[serde(default)]
    unschedulable: bool,
    ready: Option<bool>,
    #[serde(rename = "bootID", alias = "bootId")]
    pub(crate) boot_id: Option<String>,
    #[serde(rename = "machineID", alias = "machineId")]
    machine_id: Option<String>,
    #[serde(rename = "systemUUID", alias = "systemUuid")]
    system_uuid: Option<String>,
    #[serde(default)]
    annotations: BTreeMap<String, String>,
    #[serde(default)]
    labels: BTreeMap<String, String>,
    #[serde(flatten)]
    rest: Map<String, Value>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PodForm {
    #[serde(alias = "namespace")]
    ns: String,
    name: String,
    #[serde(default)]
    uid: Option<String>,
    #[serde(default)]
    owner: Option<String>,
    #[serde(default)]
    phase: Option<String>,
    #[serde(default)]
    node_name: Option<String>,
    #[serde(default)]
    annotations: BTreeMap<String, String>,
    #[serde(default)]
    labels: BTreeMap<String, String>,
    #[serde(default)]
    volumes: Vec<Value>,
    termination_grace_period_seconds: Option<i64>,
    deletion_timestamp: Option<String>,
    deletion_grace_period_seconds: Option<i64>,
    #[serde(default)]
    finalizers: Vec<String>,
    priority: Option<i32>,
    priority_class_name: Option<String>,
    #[serde(default)]
    container_statuses: Vec<Value>,
    #[serde(flatten)]
    rest: Map<String, Value>,
}

/// A lock that somebody has already.
#[derive(Debug, Deserialize)]
pub(crate) struct LockForm {
    /// Name of the holder's node, or text that is not ours.
    #[serde(default)]
    pub(crate) holder: Option<String>,
    #[serde(default)]
    pub(crate) uid: Option<String>,
    #[serde(default)]
    pub(crate) created: Option<String>,
    #[serde(default)]
    pub(crate) ttl_s: Option<u64>,
    /// The text of the lock, whole.
    #[serde(default, alias = "raw", alias = "body", alias = "value", alias = "holderIdentity")]
    pub(crate) text: Option<Value>,
    #[serde(flatten)]
    rest: Map<String, Value>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct On {
    pub(crate) req: String,
    #[serde(default)]
    pub(crate) reply: Vec<ReplyForm>,
    #[serde(default)]
    pub(crate) then: Option<Texts>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
pub(crate) enum Texts {
    One(String),
    Many(Vec<String>),
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ReplyForm {
    #[serde(default, alias = "status")]
    pub(crate) code: Option<u16>,
    #[serde(default)]
    pub(crate) body: Option<Value>,
    #[serde(default)]
    pub(crate) headers: BTreeMap<String, Value>,
    #[serde(default, alias = "error")]
    pub(crate) event: Option<String>,
}

impl Scenario {
    /// # Errors
    /// What is wrong with it, in words.
    pub(crate) fn read(folder: &Path) -> Result<Self, String> {
        serde_json::from_value(text(folder)?).map_err(|error| format!("scenario.json: {error}"))
    }

    /// Keys that only describe and that nobody knows.
    pub(crate) fn not_read(&self) -> Vec<String> {
        let of = |place: &str, rest: &Map<String, Value>| -> Vec<String> {
            rest.keys().map(|key| format!("{place}{key}")).collect()
        };
        let nodes = std::iter::once(&self.node).chain(&self.nodes);
        let mut all = of("", &self.rest);
        all.extend(nodes.flat_map(|node| of("node.", &node.rest)));
        all.extend(self.pods.iter().flat_map(|pod| of("pods.", &pod.rest)));
        all.extend(self.lock.iter().flat_map(|lock| of("lock.", &lock.rest)));
        all
    }
}

/// The file, as JSON of any form.
pub(crate) fn text(folder: &Path) -> Result<Value, String> {
    let text = std::fs::read_to_string(folder.join("scenario.json")).map_err(|error| error.to_string())?;
    serde_json::from_str(&text).map_err(|error| format!("scenario.json: {error}"))
}

impl Texts {
    pub(crate) fn all(&self) -> Vec<String> {
        match self {
            Self::One(text) => vec![text.clone()],
            Self::Many(texts) => texts.clone(),
        }
    }
}

impl NodeForm {
    pub(crate) fn object(&self) -> Node {
        let ready = self.ready.map_or("unknown", |ready| if ready { "true" } else { "false" });
        let word = |word: &Option<String>| word.clone().unwrap_or_default();
        let mut object = json!({
            "metadata": {
                "name": self.name, "uid": self.uid.clone().unwrap_or(format!("uid-of-{}", self.name)),
                "resourceVersion": "1", "labels": self.labels,
            },
            "spec": {},
            "status": {"nodeInfo": {
                "bootID": word(&self.boot_id), "machineID": word(&self.machine_id),
                "systemUUID": word(&self.system_uuid), "kernelVersion": "", "osImage": "",
                "containerRuntimeVersion": "", "kubeletVersion": "v1.35.0", "kubeProxyVersion": "",
                "operatingSystem": "linux", "architecture": "amd64",
            }},
        });
        json_patch::merge(&mut object, &readiness(ready));
        if self.unschedulable {
            object["spec"]["unschedulable"] = json!(true);
        }
        if !self.annotations.is_empty() {
            object["metadata"]["annotations"] = json!(self.annotations);
        }
        serde_json::from_value(object).unwrap()
    }
}

impl PodForm {
    pub(crate) fn full_name(&self) -> String {
        format!("{}/{}", self.ns, self.name)
    }

    /// As the API server would show it, read as the product reads it.
    pub(crate) fn pod(&self, own_node: &str) -> Result<NodePod, String> {
        let owners: Vec<Value> = self.owner.iter().map(|owner| owner_reference(owner)).collect();
        let volumes: Vec<Value> =
            self.volumes.iter().enumerate().map(|(index, volume)| of_volume(index, volume)).collect();
        let object = json!({
            "metadata": {
                "namespace": self.ns, "name": self.name,
                "uid": self.uid.clone().unwrap_or(format!("uid-of-{}", self.name)),
                "annotations": self.annotations, "labels": self.labels, "ownerReferences": owners,
                "finalizers": self.finalizers, "deletionTimestamp": self.deletion_timestamp,
                "deletionGracePeriodSeconds": self.deletion_grace_period_seconds,
            },
            "spec": {
                "containers": [], "nodeName": self.node_name.as_deref().unwrap_or(own_node), "volumes": volumes,
                "terminationGracePeriodSeconds": self.termination_grace_period_seconds,
                "priority": self.priority.or(self.priority_of_class()), "priorityClassName": self.priority_class_name,
            },
            "status": {"phase": self.phase.as_deref().unwrap_or("Running"), "containerStatuses": self.container_statuses},
        });
        let pod: Result<Pod, _> = serde_json::from_value(object);
        Ok(NodePod::from(&pod.map_err(|error| format!("pod {}: {error}", self.full_name()))?))
    }

    fn priority_of_class(&self) -> Option<i32> {
        match self.priority_class_name.as_deref()? {
            "system-node-critical" => Some(2_000_001_000),
            "system-cluster-critical" => Some(2_000_000_000),
            _ => None,
        }
    }
}

fn owner_reference(owner: &str) -> Value {
    let (kind, name) = owner.split_once('/').unwrap_or((owner, "x"));
    let group = match kind {
        "Node" => "v1",
        "Job" => "batch/v1",
        _ => "apps/v1",
    };
    json!({"apiVersion": group, "kind": kind, "name": name, "uid": format!("uid-of-{name}"), "controller": true})
}

/// `"emptyDir"`, or a volume as a pod has it.
fn of_volume(index: usize, volume: &Value) -> Value {
    match volume.as_str() {
        Some(kind) => json!({"name": format!("{kind}-{index}").to_lowercase(), kind: {}}),
        None => volume.clone(),
    }
}
