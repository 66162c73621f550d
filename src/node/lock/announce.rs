//! The node's own word about its run, where the rest of the fleet can read it.

use k8s_openapi::api::core::v1::Node;
use serde_json::{Value, json};

use super::lease::{Hold, Me};
use super::{FENCING, PHASE, RUN};
use crate::node::{ApiError, NodeApi};

/// How often a patch is tried against a node that somebody else writes to at the same time.
const ATTEMPTS: usize = 10;

/// Writes phase, run and fencing number onto the Node object of this node. A node that was registered anew meanwhile
/// is not touched: 422.
///
/// # Errors
/// [`ApiError`].
pub fn announce(api: &dyn NodeApi, me: &Me, phase: &str, hold: Option<&Hold>) -> Result<(), ApiError> {
    let mut attempt = 1;
    loop {
        let node = api.node(&me.node)?;
        match api.patch_node(&me.node, &patch(&node, me, phase, hold)) {
            Ok(_) => return Ok(()),
            Err(error) if matches!(error.code(), Some(409 | 422)) && attempt < ATTEMPTS => attempt += 1,
            Err(error) => return Err(error),
        }
    }
}

fn patch(node: &Node, me: &Me, phase: &str, hold: Option<&Hold>) -> Value {
    let mut all = node.metadata.annotations.clone().unwrap_or_default();
    all.insert(PHASE.to_owned(), phase.to_owned());
    all.insert(RUN.to_owned(), me.holder.run.clone());
    match hold {
        Some(hold) => all.insert(FENCING.to_owned(), format!("{}/{}", hold.slot, hold.fencing)),
        None => all.remove(FENCING),
    };
    // All of them are written: held by the resource version, nobody's are lost.
    json!([
        {"op": "test", "path": "/metadata/uid", "value": me.holder.node_uid},
        {"op": "test", "path": "/metadata/resourceVersion", "value": node.metadata.resource_version},
        {"op": "add", "path": "/metadata/annotations", "value": all},
    ])
}
