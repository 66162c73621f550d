//! Which Node object this host is. A host name is no answer: the kubelet may have been given another one, and a Node
//! of that name may be somebody else's.

use std::path::Path;

use k8s_openapi::api::core::v1::{Node, NodeSystemInfo};

use super::Client;
use super::certificate::KUBELET;
use super::flags::{Flags, Told};
use crate::host::Fs;
use crate::node::api::{ApiError, NodeApi};

/// What tells a machine from all others, as far as it can be read; a kubelet reports the same.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Machine {
    /// `/etc/machine-id`.
    pub machine_id: Option<String>,
    /// Of the firmware.
    pub system_uuid: Option<String>,
    /// Of this boot.
    pub boot_id: Option<String>,
}

/// What a Node object says about the machine behind it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Likeness {
    /// It is this one.
    Same,
    /// It is another one.
    Other,
    /// Nothing can be compared.
    Unknown,
}

impl Machine {
    /// Reads what there is.
    #[must_use]
    pub fn read(fs: &dyn Fs) -> Self {
        let word = |path: &str| {
            let bytes = fs.read(Path::new(path)).ok()?;
            let word = String::from_utf8_lossy(&bytes).trim().to_ascii_lowercase();
            (!word.is_empty() && word != "uninitialized").then_some(word)
        };
        Self {
            machine_id: word("/etc/machine-id").or_else(|| word("/var/lib/dbus/machine-id")),
            system_uuid: word("/sys/class/dmi/id/product_uuid"),
            boot_id: word("/proc/sys/kernel/random/boot_id"),
        }
    }

    /// Two of the three are told when a machine is installed, and copied with its disk: one that agrees is enough. The
    /// boot id changes with each boot, and the object has that of the last one for a while.
    fn compare(&self, node: &Node) -> Likeness {
        let Some(told) = node.status.as_ref().and_then(|status| status.node_info.as_ref()) else {
            return Likeness::Unknown;
        };
        if equal(self.boot_id.as_ref(), &told.boot_id) == Some(true) {
            return Likeness::Same;
        }
        let lasting = [
            equal(self.machine_id.as_ref(), &told.machine_id),
            equal(self.system_uuid.as_ref(), &told.system_uuid),
        ];
        match lasting {
            [None, None] => Likeness::Unknown,
            known if known.contains(&Some(true)) => Likeness::Same,
            _ => Likeness::Other,
        }
    }

    fn differences(&self, told: Option<&NodeSystemInfo>) -> String {
        let shown = |ours: &Option<String>| ours.clone().unwrap_or("unknown".to_owned());
        let (machine, system) =
            told.map_or(("unknown", "unknown"), |told| (&told.machine_id, &told.system_uuid));
        format!(
            "machineID {machine} there and {} here, systemUUID {system} there and {} here",
            shown(&self.machine_id),
            shown(&self.system_uuid)
        )
    }
}

fn equal(ours: Option<&String>, theirs: &str) -> Option<bool> {
    let theirs = theirs.trim();
    ours.filter(|_| !theirs.is_empty()).map(|ours| ours.eq_ignore_ascii_case(theirs))
}

/// Under which names this host may be registered.
#[derive(Debug, Default)]
pub struct Names {
    /// What a kubelet's credential is for: no other node may be touched with it.
    of_credential: Option<Told>,
    /// What the kubelet was told, the surest first.
    told: Vec<Told>,
}

impl Names {
    /// What the files of a host say, and what its kubeconfig (the path) calls its user.
    #[must_use]
    pub fn on_host(fs: &dyn Fs, user: Option<(&str, &Path)>) -> Self {
        let flags = Flags::read(fs);
        let mut told = flags.told("--hostname-override");
        told.extend(flags.told("--node-name"));
        told.extend(user.and_then(|(user, path)| {
            let by = format!("the user in {}", path.display());
            user.strip_prefix(KUBELET).map(|name| Told { value: name.to_owned(), by })
        }));
        Self { of_credential: None, told }
    }

    fn of(client: &Client<'_>) -> Result<Self, ApiError> {
        let of_credential = of_credential(client)?;
        let (user, _) = client.user();
        Ok(Self { of_credential, ..Self::on_host(client.host().fs, Some((&user, client.path()))) })
    }
}

/// The Node object of this host, proven by what it says about the machine.
///
/// # Errors
/// [`ApiError::Unusable`] where no object, another machine's or more than one fits.
pub fn node_of_host(client: &Client<'_>) -> Result<Node, ApiError> {
    node_of(client, &Names::of(client)?, &Machine::read(client.host().fs))
}

/// The Node object of a machine that may have these names.
///
/// # Errors
/// As [`node_of_host`].
pub fn node_of(api: &dyn NodeApi, names: &Names, machine: &Machine) -> Result<Node, ApiError> {
    if let Some(told) = &names.of_credential {
        let node = api.node(&told.value).map_err(|error| not_there(told, error))?;
        return confirmed(node, told, machine);
    }
    for told in &names.told {
        match api.node(&told.value) {
            Ok(node) if machine.compare(&node) == Likeness::Same => return Ok(node),
            Ok(_) | Err(ApiError::Refused(_)) => {}
            Err(error) => return Err(error),
        }
    }
    let nodes = api.nodes().map_err(|error| not_found(&names.told, &error))?;
    picked(nodes, machine)
}

/// A kubelet's credential is for one node.
fn of_credential(client: &Client<'_>) -> Result<Option<Told>, ApiError> {
    let (_, certificate) = client.user();
    if let Some(certificate) = certificate {
        let by = format!("the client certificate in {}", client.path().display());
        return Ok(certificate.node().map(|name| Told { value: name.to_owned(), by }));
    }
    let user = client.who_am_i()?;
    let name = user.as_deref().and_then(|user| user.strip_prefix(KUBELET));
    Ok(name.map(|name| Told {
        value: name.to_owned(),
        by: "the user that the API server knows us as".to_owned(),
    }))
}

fn confirmed(node: Node, told: &Told, machine: &Machine) -> Result<Node, ApiError> {
    let Told { value, by } = told;
    let info = node.status.as_ref().and_then(|status| status.node_info.as_ref());
    match machine.compare(&node) {
        Likeness::Same => Ok(node),
        Likeness::Other => Err(ApiError::Unusable(format!(
            "the node {value} (by {by}) is another machine: {}; nothing is done to it",
            machine.differences(info)
        ))),
        Likeness::Unknown => Err(ApiError::Unusable(format!(
            "whether the node {value} (by {by}) is this machine cannot be told: {}; wait until its kubelet has \
             reported once",
            machine.differences(info)
        ))),
    }
}

fn not_there(told: &Told, error: ApiError) -> ApiError {
    match error.code() {
        Some(404) => ApiError::Unusable(format!(
            "there is no node {} (by {}); has the kubelet registered, or was the node deleted?",
            told.value, told.by
        )),
        _ => error,
    }
}

fn not_found(told: &[Told], error: &ApiError) -> ApiError {
    let told: Vec<String> = told.iter().map(|told| format!("{} (by {})", told.value, told.by)).collect();
    let tried =
        if told.is_empty() { "no name was found".to_owned() } else { format!("tried: {}", told.join(", ")) };
    match error {
        ApiError::Refused(_) => ApiError::Unusable(format!(
            "which node this host is cannot be told: {tried}, and the nodes cannot be listed ({error}); use the \
             kubelet's own credentials, or let this one list nodes"
        )),
        ApiError::Unreachable(_) | ApiError::Unusable(_) => error.clone(),
    }
}

/// Copies of one disk have one machine id; then the boot tells them apart.
fn picked(nodes: Vec<Node>, machine: &Machine) -> Result<Node, ApiError> {
    let all = nodes.len();
    let mut fitting: Vec<Node> =
        nodes.into_iter().filter(|node| machine.compare(node) == Likeness::Same).collect();
    if fitting.len() > 1 {
        let of_boot = Machine { boot_id: machine.boot_id.clone(), ..Machine::default() };
        let is_of_boot = |node: &Node| of_boot.compare(node) == Likeness::Same;
        if fitting.iter().any(is_of_boot) {
            fitting.retain(is_of_boot);
        }
    }
    let names: Vec<String> = fitting.iter().filter_map(|node| node.metadata.name.clone()).collect();
    match (fitting.pop(), names.len()) {
        (Some(node), 1) => Ok(node),
        (None, _) => Err(ApiError::Unusable(format!(
            "none of the {all} nodes is this machine ({})",
            machine.differences(None)
        ))),
        (Some(_), _) => Err(ApiError::Unusable(format!(
            "more than one node is this machine by its machine id or its UUID: {}; they are copies of one disk: use the \
             kubelet's own credentials",
            names.join(", ")
        ))),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::host::fs::RootedFs;
    use crate::node::client::tree;

    fn node(name: &str, machine_id: &str, system_uuid: &str, boot_id: &str) -> Node {
        let info = json!({
            "machineID": machine_id, "systemUUID": system_uuid, "bootID": boot_id, "architecture": "",
            "containerRuntimeVersion": "", "kernelVersion": "", "kubeProxyVersion": "", "kubeletVersion": "",
            "operatingSystem": "", "osImage": "",
        });
        serde_json::from_value(json!({"metadata": {"name": name}, "status": {"nodeInfo": info}})).unwrap()
    }

    fn machine() -> Machine {
        let word = |text: &str| Some(text.to_owned());
        Machine { machine_id: word("4f1c"), system_uuid: word("aa-bb"), boot_id: word("b1") }
    }

    #[test]
    fn what_is_read_of_a_host() {
        let tree = tree(&[
            ("etc/machine-id", "4F1C\n"),
            ("sys/class/dmi/id/product_uuid", "AA-BB\n"),
            ("proc/sys/kernel/random/boot_id", "b1\n"),
        ]);
        assert_eq!(Machine::read(&RootedFs::new(tree.path())), machine());
        let first_boot = self::tree(&[("etc/machine-id", "uninitialized\n")]);
        assert_eq!(Machine::read(&RootedFs::new(first_boot.path())), Machine::default());
    }

    #[test]
    fn one_lasting_mark_that_agrees_is_enough_and_none_is_refused() {
        let told = Told { value: "w0".into(), by: "the client certificate".into() };
        for (machine_id, system_uuid, boot_id) in [
            ("4f1c", "other", "b0"),
            ("other", "AA-BB", "b0"),
            ("other", "other", "b1"),
            ("4f1c", "aa-bb", "b1"),
        ] {
            assert!(confirmed(node("w0", machine_id, system_uuid, boot_id), &told, &machine()).is_ok());
        }
        let other = confirmed(node("w0", "dead", "beef", "b0"), &told, &machine()).unwrap_err().to_string();
        assert!(other.contains("the node w0 (by the client certificate) is another machine"), "{other}");
        assert!(
            other.contains("machineID dead there and 4f1c here, systemUUID beef there and aa-bb here"),
            "{other}"
        );
    }

    #[test]
    fn what_cannot_be_compared_is_not_taken_for_the_same() {
        let told = Told { value: "w0".into(), by: "a test".into() };
        for node in [Node::default(), node("w0", "", "", "")] {
            let error = confirmed(node, &told, &machine()).unwrap_err().to_string();
            assert!(error.contains("cannot be told"), "{error}");
        }
        assert!(confirmed(node("w0", "4f1c", "", ""), &told, &Machine::default()).is_err());
    }

    #[test]
    fn the_one_among_many_that_is_this_machine() {
        // The host's name is that of the second one.
        let nodes =
            || vec![node("alder-w0.example", "4f1c", "", "b0"), node("alder-worker-0", "dead", "", "b7")];
        let found = picked(nodes(), &machine()).unwrap();
        assert_eq!(found.metadata.name.as_deref(), Some("alder-w0.example"));
        let none = picked(nodes(), &Machine { machine_id: Some("1234".into()), ..Machine::default() });
        assert!(none.unwrap_err().to_string().contains("none of the 2 nodes"));
    }

    #[test]
    fn copies_of_one_disk_are_told_apart_by_their_boot_or_not_at_all() {
        let copies = |boot| vec![node("w0", "4f1c", "", boot), node("w1", "4f1c", "", "b7")];
        assert_eq!(picked(copies("b1"), &machine()).unwrap().metadata.name.as_deref(), Some("w0"));
        let error = picked(copies("b0"), &machine()).unwrap_err().to_string();
        assert!(error.contains("w0, w1"), "{error}");
    }
}
