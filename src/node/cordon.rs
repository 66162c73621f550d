//! Our own cordon: put on with a mark, taken off only where the mark is still there and nobody else cordoned the node
//! meanwhile.
//!
//! Three things say whose a cordon is: the journal (what the node was before), the annotation with our run's id,
//! and the field managers that own `spec.unschedulable`. `kubectl cordon` on a node that is cordoned changes
//! nothing, so a person's second cordon cannot be seen; a person's uncordon and cordon again can.

use k8s_openapi::api::core::v1::Node;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::api::{ApiError, NodeApi};

/// On a node that we cordoned: the id of the run.
pub const CORDONED_BY: &str = "cgroup2-migrate.io/cordoned-by";

/// The name under which the API server keeps what we wrote.
pub const FIELD_MANAGER: &str = "cgroup2-migrate";

/// How often a patch is tried against a node that somebody else writes to at the same time.
const ATTEMPTS: usize = 10;

/// What a node was before we touched it: in the journal before the first patch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Before {
    /// Name of the Node object.
    pub node: String,
    /// Its UID: a node that was deleted and registered anew is another one.
    pub uid: String,
    /// Cordoned by somebody else. A cordon that an earlier run of ours left is none: this run takes it over.
    pub was_unschedulable: bool,
}

/// What became of an uncordon.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Uncordoned {
    /// Our cordon was taken off, or is off already.
    Done,
    /// The cordon is not ours (any more), for this reason; it stays.
    NotOurs(String),
}

/// What cannot be done.
#[derive(Debug, thiserror::Error)]
pub enum CordonError {
    /// The API.
    #[error("{doing} node {node}: {source}")]
    Api {
        /// `cordon`, …
        doing: &'static str,
        /// The node.
        node: String,
        /// What the server said.
        source: Box<ApiError>,
    },
    /// Another node has taken the name.
    #[error(
        "node {node} has the UID {found} and not {expected}: it was registered anew meanwhile; nothing is done to it"
    )]
    OtherNode {
        /// The node.
        node: String,
        /// As remembered.
        expected: String,
        /// As seen.
        found: String,
    },
}

impl CordonError {
    /// An error of looking at a node.
    pub fn looking(node: &str) -> impl Fn(ApiError) -> Self {
        let node = node.to_owned();
        move |error| Self::Api { doing: "look at", node: node.clone(), source: Box::new(error) }
    }

    /// True if the same may succeed later without anybody doing something about it.
    #[must_use]
    pub fn may_pass(&self) -> bool {
        match self {
            Self::Api { source, .. } => source.may_pass(),
            Self::OtherNode { .. } => false,
        }
    }

    /// True if the node that was looked at before is there no more.
    #[must_use]
    pub fn is_of_another_node(&self) -> bool {
        match self {
            Self::Api { source, .. } => source.code() == Some(404),
            Self::OtherNode { .. } => true,
        }
    }
}

impl std::fmt::Display for Uncordoned {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Done => write!(formatter, "our cordon is off"),
            Self::NotOurs(why) => write!(formatter, "the node stays cordoned: {why}"),
        }
    }
}

/// What the node is now, for the journal.
#[must_use]
pub fn before(node: &Node) -> Before {
    let name = node.metadata.name.clone().unwrap_or_default();
    let was_unschedulable = is_cordoned(node) && !is_with_our_mark(node);
    Before { node: name, uid: uid(node), was_unschedulable }
}

/// Cordons the node with the mark of `run`. One that is cordoned already stays as it is, without a mark of ours.
///
/// # Errors
/// [`CordonError`].
pub fn cordon(api: &dyn NodeApi, before: &Before, run: &str) -> Result<(), CordonError> {
    patch(api, before, "cordon", |node| {
        let is_ours = is_with_our_mark(node) && mark(node) == Some(run);
        let is_somebodys = is_cordoned(node) && !is_with_our_mark(node);
        (!is_ours && !is_somebodys).then(|| put_on(node, before, run))
    })
    .map(drop)
}

/// `add` replaces what is there: the cordon of an earlier run gets the mark of this one.
fn put_on(node: &Node, before: &Before, run: &str) -> Value {
    json!([
        {"op": "test", "path": "/metadata/uid", "value": before.uid},
        {"op": "test", "path": "/metadata/resourceVersion", "value": node.metadata.resource_version},
        {"op": "add", "path": "/spec/unschedulable", "value": true},
        with_annotation(node, run),
    ])
}

/// Cordoned by a run of ours, and by nobody since.
fn is_with_our_mark(node: &Node) -> bool {
    mark(node).is_some_and(|run| whose(node, run).is_ours())
}

/// Takes our cordon off. Everything is looked at again first, and the patch holds only if it is still so.
///
/// # Errors
/// [`CordonError`].
pub fn uncordon(api: &dyn NodeApi, before: &Before, run: &str) -> Result<Uncordoned, CordonError> {
    if before.was_unschedulable {
        return Ok(Uncordoned::NotOurs("it was cordoned before the run began".to_owned()));
    }
    let node =
        patch(api, before, "uncordon", |node| whose(node, run).is_ours().then(|| undo(node, before, run)))?;
    Ok(match whose(&node, run) {
        Whose::Nobodys | Whose::Ours => Uncordoned::Done,
        Whose::Others(why) => Uncordoned::NotOurs(why),
    })
}

/// As [`uncordon`], after something went wrong: a server that does not answer is asked again for as long as `again`
/// says. What went wrong may have been the answer to the cordon alone, so that it is on.
///
/// # Errors
/// [`CordonError`].
pub fn take_back(
    api: &dyn NodeApi,
    before: &Before,
    run: &str,
    mut again: impl FnMut(&CordonError) -> bool,
) -> Result<Uncordoned, CordonError> {
    loop {
        match uncordon(api, before, run) {
            Err(error) if error.may_pass() && again(&error) => {}
            outcome => return outcome,
        }
    }
}

/// Whose the cordon of a node is, by its mark.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Whose {
    /// It is not cordoned.
    Nobodys,
    /// The mark of this run is there, and nobody wrote the field since.
    Ours,
    /// Somebody else's, and how that shows.
    Others(String),
}

impl Whose {
    fn is_ours(&self) -> bool {
        *self == Self::Ours
    }
}

/// Whose the cordon is, for the run with this id.
#[must_use]
pub fn whose(node: &Node, run: &str) -> Whose {
    if !is_cordoned(node) {
        return Whose::Nobodys;
    }
    match mark(node) {
        None => {
            return Whose::Others(format!("it has no annotation {CORDONED_BY}: somebody else cordoned it"));
        }
        Some(other) if other != run => {
            return Whose::Others(format!("its annotation {CORDONED_BY} names another run: {other}"));
        }
        Some(_) => {}
    }
    match other_writer_of_cordon(node) {
        Some(writer) => Whose::Others(format!("{writer} wants it cordoned, too")),
        // Nobody known: the mark alone counts. kube-apiserver 1.37 keeps who wrote what of each node that a kubelet
        // registers; of an object that was created with nothing but a name it never begins to.
        None => Whose::Ours,
    }
}

/// The run whose mark a node has.
#[must_use]
pub fn mark(node: &Node) -> Option<&str> {
    node.metadata.annotations.as_ref()?.get(CORDONED_BY).map(String::as_str)
}

/// True if nothing new is scheduled onto the node.
#[must_use]
pub fn is_cordoned(node: &Node) -> bool {
    node.spec.as_ref().and_then(|spec| spec.unschedulable).unwrap_or_default()
}

/// A field manager other than ours that owns `spec.unschedulable`: who changed it after us, or applies the same value.
fn other_writer_of_cordon(node: &Node) -> Option<&str> {
    let entries = node.metadata.managed_fields.iter().flatten();
    let owners = entries.filter(|entry| {
        let fields = entry.fields_v1.as_ref().map(|fields| &fields.0);
        fields.is_some_and(|fields| fields.pointer("/f:spec/f:unschedulable").is_some())
    });
    owners.filter_map(|entry| entry.manager.as_deref()).find(|manager| *manager != FIELD_MANAGER)
}

fn undo(node: &Node, before: &Before, run: &str) -> Value {
    let key = pointer(CORDONED_BY);
    json!([
        {"op": "test", "path": "/metadata/uid", "value": before.uid},
        {"op": "test", "path": "/metadata/resourceVersion", "value": node.metadata.resource_version},
        {"op": "test", "path": format!("/metadata/annotations/{key}"), "value": run},
        {"op": "remove", "path": format!("/metadata/annotations/{key}")},
        {"op": "remove", "path": "/spec/unschedulable"},
    ])
}

/// Adds the mark; a node without any annotation needs the map first.
fn with_annotation(node: &Node, run: &str) -> Value {
    if node.metadata.annotations.is_none() {
        return json!({"op": "add", "path": "/metadata/annotations", "value": {CORDONED_BY: run}});
    }
    json!({"op": "add", "path": format!("/metadata/annotations/{}", pointer(CORDONED_BY)), "value": run})
}

/// A key in a JSON pointer (RFC 6901).
fn pointer(key: &str) -> String {
    key.replace('~', "~0").replace('/', "~1")
}

/// Reads, patches what was read, and begins again if somebody wrote in between: 409, or 422 for a `test` that failed.
/// The node as it is at the end.
fn patch(
    api: &dyn NodeApi,
    before: &Before,
    doing: &'static str,
    operations: impl Fn(&Node) -> Option<Value>,
) -> Result<Node, CordonError> {
    let name = &before.node;
    let mut attempt = 0;
    loop {
        let node = get(api, doing, name)?;
        if uid(&node) != before.uid {
            let (node, expected, found) = (name.clone(), before.uid.clone(), uid(&node));
            return Err(CordonError::OtherNode { node, expected, found });
        }
        let Some(operations) = operations(&node) else { return Ok(node) };
        attempt += 1;
        match api.patch_node(name, &operations) {
            Ok(node) => return Ok(node),
            Err(error) if matches!(error.code(), Some(409 | 422)) && attempt < ATTEMPTS => {}
            Err(error) => {
                return Err(CordonError::Api { doing, node: name.clone(), source: Box::new(error) });
            }
        }
    }
}

fn get(api: &dyn NodeApi, doing: &'static str, name: &str) -> Result<Node, CordonError> {
    let failed = |error| CordonError::Api { doing, node: name.to_owned(), source: Box::new(error) };
    api.node(name).map_err(failed)
}

fn uid(node: &Node) -> String {
    node.metadata.uid.clone().unwrap_or_default()
}
