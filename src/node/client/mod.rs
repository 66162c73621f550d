//! The real API server.
//!
//! [`Client`] is a [`NodeApi`] over a kubeconfig: that of the kubelet, or one of its own. It makes its connections on a
//! runtime of its own, on the thread of the caller; nothing is made before it is opened.

mod certificate;
mod exchange;
mod feed;
mod find;
mod flags;
mod interrupt;
mod kubeconfig;
mod link;
mod name;
mod plugin;
mod port;
mod proxy;
mod requests;
mod review;

use std::collections::BTreeMap;
use std::path::Path;

use k8s_openapi::Resource as _;
use k8s_openapi::api::authentication::v1::SelfSubjectReview;
use k8s_openapi::api::authorization::v1::SelfSubjectAccessReview;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Event, Node, Pod};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::core::{Selector, SelectorExt as _};
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use certificate::Certificate;
pub use exchange::refusal;
pub use find::{Credentials, kubeconfig};
use link::Link;
pub use name::{Machine, Names, node_of, node_of_host};
use port::LivePort;
use requests::{sent, without_nulls};
pub use review::{Doings, accesses, missing};

use super::api::{Access, ApiError, EvictionRequest, NodeApi};
use super::drain::Port;
use super::pod::NodePod;
use crate::host::{Host, Interrupt};

/// Who is named as the author of a change.
const MANAGER: &str = "cgroup2-migrate";

/// The API server behind a kubeconfig.
pub struct Client<'a> {
    link: Link<'a>,
    runtime: Runtime,
    interrupt: Interrupt,
}

impl<'a> Client<'a> {
    /// Reads a kubeconfig and what it leads to. Nothing is asked of the server yet.
    ///
    /// # Errors
    /// [`ApiError::Unusable`] if the kubeconfig, or a certificate it leads to, is of no use: missing, not understood, out
    /// of its time.
    pub fn open(host: Host<'a>, kubeconfig: &Path) -> Result<Self, ApiError> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime =
            runtime.map_err(|error| ApiError::Unusable(format!("no connection can be made: {error}")))?;
        let link = {
            let _within = runtime.enter();
            Link::new(host, kubeconfig)?
        };
        Ok(Self { link, runtime, interrupt: Interrupt::default() })
    }

    /// A drain ends when a signal comes.
    #[must_use]
    pub fn with_interrupt(self, interrupt: Interrupt) -> Self {
        Self { interrupt, ..self }
    }

    /// The kubeconfig.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.link.path
    }

    fn host(&self) -> Host<'a> {
        self.link.host
    }

    fn user(&self) -> (String, Option<Certificate>) {
        self.link.user()
    }

    /// How the server calls us; `None` before Kubernetes 1.28, which does not say.
    ///
    /// # Errors
    /// [`ApiError`].
    pub fn who_am_i(&self) -> Result<Option<String>, ApiError> {
        let body = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"});
        let asked = self.ask_for("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", &body);
        match asked {
            Ok(SelfSubjectReview { status, .. }) => {
                Ok(status.and_then(|status| status.user_info).and_then(|user| user.username))
            }
            Err(ApiError::Refused(status)) if matches!(status.code, 403 | 404) => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn ask_for<T: serde::de::DeserializeOwned>(
        &self,
        method: &str,
        path: &str,
        body: &Value,
    ) -> Result<T, ApiError> {
        self.runtime.block_on(self.link.ask_for(sent(method, path, body)?))
    }

    fn list<K>(&self, path: &str, fields: Option<&str>) -> Result<Vec<K>, ApiError>
    where
        K: k8s_openapi::Resource + serde::de::DeserializeOwned,
    {
        self.runtime.block_on(self.link.list(path, fields)).map(|(all, _)| all)
    }
}

impl NodeApi for Client<'_> {
    fn node(&self, name: &str) -> Result<Node, ApiError> {
        self.ask_for("GET", &node_path(name)?, &Value::Null)
    }

    fn nodes(&self) -> Result<Vec<Node>, ApiError> {
        self.list("/api/v1/nodes", None)
    }

    fn patch_node(&self, name: &str, operations: &Value) -> Result<Node, ApiError> {
        let path = format!("{}?fieldManager={MANAGER}", node_path(name)?);
        let mut request = sent("PATCH", &path, operations)?;
        let kind = http::HeaderValue::from_static("application/json-patch+json");
        request.headers_mut().insert(http::header::CONTENT_TYPE, kind);
        self.runtime.block_on(self.link.ask_for(request))
    }

    fn pods(&self, node: &str) -> Result<Vec<NodePod>, ApiError> {
        let pods: Vec<Pod> = self.list(feed::PODS, Some(&feed::of_node(node)))?;
        Ok(pods.iter().map(NodePod::from).collect())
    }

    fn evict(&self, request: &EvictionRequest) -> Result<(), ApiError> {
        self.runtime.block_on(requests::evict(&self.link, request))
    }

    fn budgets_of(&self, pod: &NodePod) -> Result<Vec<String>, ApiError> {
        let path = format!("/apis/policy/v1/namespaces/{}/poddisruptionbudgets", pod.key.namespace);
        let budgets: Vec<PodDisruptionBudget> = self.list(&path, None)?;
        let labels = pod.labels.iter().cloned().collect();
        let of_pod = budgets.into_iter().filter(|budget| selects(budget, &labels));
        Ok(of_pod.filter_map(|budget| budget.metadata.name).collect())
    }

    fn configz(&self, node: &str) -> Result<Value, ApiError> {
        self.ask_for("GET", &format!("{}/proxy/configz", node_path(node)?), &Value::Null)
    }

    fn drain_port(&self, node: &str) -> Box<dyn Port + '_> {
        Box::new(LivePort::new(&self.runtime, &self.link, node, self.interrupt.clone()))
    }

    fn may(&self, access: &Access) -> Result<bool, ApiError> {
        let path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
        let review: SelfSubjectAccessReview = self.ask_for("POST", path, &review(access))?;
        Ok(review.status.is_some_and(|status| status.allowed))
    }

    fn create_event(&self, event: &Event) -> Result<(), ApiError> {
        let namespace = event.metadata.namespace.as_deref().unwrap_or("default");
        let path = format!("/api/v1/namespaces/{namespace}/events?fieldManager={MANAGER}");
        self.ask_for::<Value>("POST", &path, &body(event)?).map(drop)
    }

    fn leases(&self, namespace: &str) -> Result<Vec<Lease>, ApiError> {
        self.list(&leases(namespace), None)
    }

    fn put_lease(&self, namespace: &str, lease: &Lease) -> Result<Lease, ApiError> {
        let path = leases(namespace);
        match (&lease.metadata.resource_version, &lease.metadata.name) {
            (Some(_), Some(name)) => self.ask_for("PUT", &format!("{path}/{name}"), &body(lease)?),
            (_, _) => self.ask_for("POST", &path, &body(lease)?),
        }
    }
}

/// A name that is none would lead to another path.
fn node_path(name: &str) -> Result<String, ApiError> {
    let is_of_name =
        |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit() || ".-".contains(letter);
    if name.is_empty() || !name.chars().all(is_of_name) {
        return Err(ApiError::Unusable(format!("{name:?} is no name of a node")));
    }
    Ok(format!("/api/v1/nodes/{name}"))
}

fn leases(namespace: &str) -> String {
    format!("/apis/{}/namespaces/{namespace}/leases", Lease::API_VERSION)
}

/// An empty selector selects all pods of the namespace, none at all selects none.
fn selects(budget: &PodDisruptionBudget, labels: &BTreeMap<String, String>) -> bool {
    let selector = budget.spec.as_ref().and_then(|spec| spec.selector.clone());
    selector
        .is_some_and(|selector| Selector::try_from(selector).is_ok_and(|selector| selector.matches(labels)))
}

fn review(access: &Access) -> Value {
    let selected = |(key, value): &(&str, String)| json!({"requirements": [{"key": key, "operator": "In", "values": [value]}]});
    let mut wanted = json!({
        "verb": access.verb, "group": access.group, "resource": access.resource,
        "subresource": access.subresource, "namespace": access.namespace, "name": access.name,
        "fieldSelector": access.field.as_ref().map(selected),
    });
    without_nulls(&mut wanted);
    json!({
        "apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": wanted},
    })
}

fn body<T: serde::Serialize>(object: &T) -> Result<Value, ApiError> {
    serde_json::to_value(object)
        .map_err(|error| ApiError::Unusable(format!("a request cannot be built: {error}")))
}

/// A host with these files.
#[cfg(test)]
fn tree(files: &[(&str, &str)]) -> tempfile::TempDir {
    let tree = tempfile::tempdir().unwrap();
    for (path, content) in files {
        let path = tree.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::io::Write::write_all(&mut std::fs::File::create(path).unwrap(), content.as_bytes()).unwrap();
    }
    tree
}
