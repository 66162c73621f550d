//! What the server was asked, by whom, and what it said.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::{Context as _, Result};
use serde_json::Value;

/// One request, from the audit log of the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// `get`, `list`, `watch`, `create`, `patch`, `update`, `delete`, …
    pub verb: String,
    /// With the subresource: `pods/eviction`.
    pub resource: String,
    /// Empty for what has no namespace.
    pub namespace: String,
    /// Empty for lists.
    pub name: String,
    /// The HTTP status; of a watch the one it began with.
    pub code: u16,
    /// What the client calls itself.
    pub agent: String,
    /// Path and query.
    pub uri: String,
}

/// How many requests of each verb, resource and code.
pub fn tally(requests: &[Request]) -> BTreeMap<(String, String, u16), usize> {
    let mut counts = BTreeMap::new();
    for request in requests {
        *counts.entry((request.verb.clone(), request.resource.clone(), request.code)).or_default() += 1;
    }
    counts
}

pub(crate) fn read(log: &Path, user: &str) -> Result<Vec<Request>> {
    let text = std::fs::read_to_string(log).with_context(|| format!("cannot read {}", log.display()))?;
    // The server may be in the middle of a line.
    let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
    let events = whole.lines().map(serde_json::from_str::<Value>).collect::<Result<Vec<_>, _>>()?;
    let of_user = events.iter().filter(|event| event["user"]["username"] == user);
    // A watch is logged when it begins and when it ends.
    let mut seen = BTreeSet::new();
    Ok(of_user.filter(|event| seen.insert(event["auditID"].as_str())).map(request).collect())
}

fn request(event: &Value) -> Request {
    let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let object = &event["objectRef"];
    let resource = [word(&object["resource"]), word(&object["subresource"])];
    Request {
        verb: word(&event["verb"]),
        resource: resource.join("/").trim_end_matches('/').to_owned(),
        namespace: word(&object["namespace"]),
        name: word(&object["name"]),
        code: event["responseStatus"]["code"]
            .as_u64()
            .and_then(|code| code.try_into().ok())
            .unwrap_or_default(),
        agent: word(&event["userAgent"]),
        uri: word(&event["requestURI"]),
    }
}
