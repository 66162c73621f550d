//! What a run will ask for, and whether our credential may.

use crate::node::api::{Access, ApiError, NodeApi};

/// What a run will do to the API.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Doings<'a> {
    /// Name of the Node object.
    pub node: &'a str,
    /// It evicts.
    pub drains: bool,
    /// It deletes what evictions do not move.
    pub deletes: bool,
    /// It takes a lock in this namespace.
    pub locks_in: Option<&'a str>,
}

/// Every right that such a run needs.
#[must_use]
pub fn accesses(doings: &Doings<'_>) -> Vec<Access> {
    let Doings { node, drains, deletes, locks_in } = doings;
    let of_node = |verb| Access { name: (*node).to_owned(), ..access(verb, "", "nodes") };
    let of_pods =
        |verb| Access { field: Some(("spec.nodeName", (*node).to_owned())), ..access(verb, "", "pods") };
    let mut needed = vec![of_node("get"), of_node("patch"), access("create", "", "events")];
    if *drains {
        needed.extend([of_pods("list"), of_pods("watch")]);
        needed.push(Access { subresource: "eviction", ..access("create", "", "pods") });
    }
    if *deletes {
        needed.push(access("delete", "", "pods"));
    }
    if let Some(namespace) = locks_in {
        let of_lease = |verb| Access {
            namespace: (*namespace).to_owned(),
            ..access(verb, "coordination.k8s.io", "leases")
        };
        needed.extend(["list", "create", "update"].map(of_lease));
    }
    needed
}

fn access(verb: &'static str, group: &'static str, resource: &'static str) -> Access {
    Access {
        verb,
        group,
        resource,
        subresource: "",
        namespace: String::new(),
        name: String::new(),
        field: None,
    }
}

/// Those that our credential does not have: to be known before the first write.
///
/// # Errors
/// [`ApiError`].
pub fn missing(api: &dyn NodeApi, needed: Vec<Access>) -> Result<Vec<Access>, ApiError> {
    let mut missing = Vec::new();
    for access in needed {
        if !api.may(&access)? {
            missing.push(access);
        }
    }
    Ok(missing)
}
