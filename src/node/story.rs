//! What is told about a run at the Node object, so that `kubectl describe node` tells the story: an annotation with
//! the phase, and core/v1 Events. A kubelet's credential may write both.
//!
//! It is told as well as can be: that nobody hears it is no reason to stop.

use k8s_openapi::api::core::v1::{Event, EventSource, ObjectReference};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use serde_json::{Value, json};

use super::api::NodeApi;
use super::cordon::{Before, FIELD_MANAGER};

/// The phase of the run, for people and for other nodes' locks.
pub const PHASE: &str = "cgroup2-migrate.io/phase";

/// The longest message the API server takes in an Event is 1024 bytes.
const MESSAGE_AT_MOST: usize = 1000;

/// One thing that happened.
#[derive(Debug, Clone, Copy)]
pub struct Chapter<'a> {
    /// `CgroupMigrationCordoned`, in the style of the kubelet's reasons.
    pub reason: &'a str,
    /// For people.
    pub message: &'a str,
    /// True for what somebody should look at.
    pub is_warning: bool,
}

/// Writes the phase at the node.
pub fn phase(api: &dyn NodeApi, before: &Before, phase: &str) {
    let result = api.node(&before.node).and_then(|node| {
        let has_annotations = node.metadata.annotations.is_some();
        api.patch_node(&before.node, &phase_patch(before, phase, has_annotations))
    });
    if let Err(error) = result {
        log::warn!("write the phase at node {}: {error}", before.node);
    }
}

fn phase_patch(before: &Before, phase: &str, has_annotations: bool) -> Value {
    let test = json!({"op": "test", "path": "/metadata/uid", "value": before.uid});
    let add = if has_annotations {
        json!({"op": "add", "path": format!("/metadata/annotations/{}", PHASE.replace('/', "~1")), "value": phase})
    } else {
        json!({"op": "add", "path": "/metadata/annotations", "value": {PHASE: phase}})
    };
    json!([test, add])
}

/// Writes an Event about the node.
pub fn event(api: &dyn NodeApi, before: &Before, chapter: Chapter<'_>, now: jiff::Timestamp) {
    let node = &before.node;
    if let Err(error) = api.create_event(&made(node, chapter, now)) {
        log::warn!("write an Event about node {node}: {error}");
    }
}

/// Events about nodes stand in `default`, with the node's name for a UID: that is how the kubelet writes them and how
/// `kubectl describe node` looks for them.
fn made(node: &str, chapter: Chapter<'_>, now: jiff::Timestamp) -> Event {
    let message: String = chapter.message.chars().take(MESSAGE_AT_MOST).collect();
    Event {
        metadata: ObjectMeta {
            name: Some(format!("{node}.{:x}", now.as_nanosecond())),
            namespace: Some("default".to_owned()),
            ..ObjectMeta::default()
        },
        involved_object: ObjectReference {
            api_version: Some("v1".to_owned()),
            kind: Some("Node".to_owned()),
            name: Some(node.to_owned()),
            uid: Some(node.to_owned()),
            ..ObjectReference::default()
        },
        reason: Some(chapter.reason.to_owned()),
        message: Some(message),
        type_: Some(if chapter.is_warning { "Warning" } else { "Normal" }.to_owned()),
        source: Some(EventSource { component: Some(FIELD_MANAGER.to_owned()), host: Some(node.to_owned()) }),
        first_timestamp: Some(Time(now)),
        last_timestamp: Some(Time(now)),
        count: Some(1),
        ..Event::default()
    }
}
