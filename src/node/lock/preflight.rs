//! What a run's turn will need, read before anything is written and judged in `checks`.

use super::gates::{EtcdMember, Known, PoolNode, Rules, members, nodes, own};
use crate::host::Fs;
use crate::node::{Access, ApiError, NodeApi};

/// What is known beforehand of the lock and the gates.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Preflight {
    /// Name of the Node object.
    pub node: String,
    /// Its UID.
    pub uid: String,
    /// This node, as gates see it.
    pub own: PoolNode,
    /// Members of the etcd on this node.
    pub etcd: Known<Vec<EtcdMember>>,
    /// What the lock's credential may not do.
    pub denied: Vec<Access>,
}

/// Looks at the node `name` with the credential of the lock.
///
/// # Errors
/// [`ApiError`].
pub fn look(
    api: &dyn NodeApi,
    fs: &dyn Fs,
    name: &str,
    rules: &Rules,
    leases_in: Option<&str>,
) -> Result<Preflight, ApiError> {
    let object = api.node(name)?;
    let this = PoolNode::from(&object);
    let mut denied = Vec::new();
    for access in needed(&this, rules, leases_in) {
        if !api.may(&access)? {
            denied.push(access);
        }
    }
    let etcd = members(api, fs, &own(api, name), &nodes(api));
    Ok(Preflight {
        node: name.to_owned(),
        uid: object.metadata.uid.unwrap_or_default(),
        own: this,
        etcd,
        denied,
    })
}

/// Every right that lock and gates need beside those of a drain.
fn needed(own: &PoolNode, rules: &Rules, leases_in: Option<&str>) -> Vec<Access> {
    let of_nodes = |verb| access(verb, "", "nodes", "");
    let mut needed = Vec::new();
    if rules.look_at_others() || own.control_plane {
        needed.push(of_nodes("list"));
    }
    if let Some(namespace) = leases_in {
        // Whoever finds a slot taken looks at its holder's node.
        needed.push(of_nodes("get"));
        let of_lease = |verb| access(verb, "coordination.k8s.io", "leases", namespace);
        needed.extend(["list", "create", "update"].map(of_lease));
    }
    needed
}

fn access(verb: &'static str, group: &'static str, resource: &'static str, namespace: &str) -> Access {
    Access {
        verb,
        group,
        resource,
        subresource: "",
        namespace: namespace.to_owned(),
        name: String::new(),
        field: None,
    }
}
