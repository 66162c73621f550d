//! The seam to the API server: what a node may ask of it.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Event, Node};
use serde_json::Value;

use super::drain::Port;
use super::pod::{NodePod, PodKey};

/// Why a request did not do what it was to do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ApiError {
    /// The server answered with a refusal.
    #[error("{0}")]
    Refused(ApiStatus),
    /// No answer: no route, refused connection, broken TLS, a time limit. It may be there again later.
    #[error("the API server cannot be reached: {0}")]
    Unreachable(String),
    /// The credentials or the answer cannot be used; trying again brings nothing.
    #[error("{0}")]
    Unusable(String),
}

/// A refusal as the API server words it (`metav1.Status`).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ApiStatus {
    /// HTTP status.
    pub code: u16,
    /// `NotFound`, `TooManyRequests`, `Forbidden`, …
    pub reason: String,
    /// For people.
    pub message: String,
    /// `details.causes`.
    pub causes: Vec<Cause>,
    /// `details.retryAfterSeconds`.
    pub retry_after: Option<Duration>,
}

/// One of `details.causes`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Cause {
    /// `DisruptionBudget`, `NamespaceTerminating`, …
    pub reason: String,
    /// For people; names the budget and its numbers.
    pub message: String,
}

impl std::fmt::Display for ApiStatus {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{} {}", self.code, self.message)?;
        self.causes.iter().try_for_each(|cause| write!(formatter, " ({})", cause.message))
    }
}

impl ApiStatus {
    /// The cause with this reason.
    #[must_use]
    pub fn cause(&self, reason: &str) -> Option<&Cause> {
        self.causes.iter().find(|cause| cause.reason == reason)
    }

    /// True if the server has only just started: kube-apiserver 1.37.2 answers 403 in these words while a part of its
    /// admission does not know its own objects yet.
    #[must_use]
    pub fn is_of_a_start(&self) -> bool {
        self.code == 403 && self.message.ends_with("not yet ready to handle request")
    }
}

impl ApiError {
    /// The HTTP status, if there was an answer.
    #[must_use]
    pub fn code(&self) -> Option<u16> {
        match self {
            Self::Refused(status) => Some(status.code),
            Self::Unreachable(_) | Self::Unusable(_) => None,
        }
    }

    /// True if the same request may succeed later without anybody doing something about it: no answer, a server that
    /// is overloaded or starting.
    #[must_use]
    pub fn may_pass(&self) -> bool {
        match self {
            Self::Unreachable(_) => true,
            Self::Refused(status) => matches!(status.code, 408 | 429 | 500..) || status.is_of_a_start(),
            Self::Unusable(_) => false,
        }
    }
}

/// One thing a run will ask for, as an access review names it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Access {
    /// `patch`, `create`, …
    pub verb: &'static str,
    /// API group; empty for core.
    pub group: &'static str,
    /// `nodes`, `pods`, …
    pub resource: &'static str,
    /// `eviction`, `status`, or empty.
    pub subresource: &'static str,
    /// Empty for all, or for what has none.
    pub namespace: String,
    /// Empty for all.
    pub name: String,
    /// Of a list or watch: the one field, and its value, that limits it. A kubelet may list its own pods and no others.
    pub field: Option<(&'static str, String)>,
}

impl std::fmt::Display for Access {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let dot = if self.group.is_empty() { "" } else { "." };
        let slash = if self.subresource.is_empty() { "" } else { "/" };
        let (verb, resource, subresource, group) = (self.verb, self.resource, self.subresource, self.group);
        write!(formatter, "{verb} {resource}{slash}{subresource}{dot}{group} {}", self.name)
    }
}

/// A pod to be evicted (`policy/v1 Eviction`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EvictionRequest {
    /// Which pod; the UID goes along as a precondition, so that never another pod of the same name is hit.
    pub pod: PodKey,
    /// Seconds instead of the pod's own grace period.
    pub grace_seconds: Option<i64>,
    /// Evaluate only: the server looks at the budgets and changes nothing.
    pub dry_run: bool,
}

/// The API server, as one node sees it. Each call has a time limit of its own.
pub trait NodeApi {
    /// The Node object with this name.
    ///
    /// # Errors
    /// [`ApiError`].
    fn node(&self, name: &str) -> Result<Node, ApiError>;
    /// Every Node object that may be seen; with a kubelet's credential that is none but its own.
    ///
    /// # Errors
    /// [`ApiError`]; 403 with a kubelet's credential.
    fn nodes(&self) -> Result<Vec<Node>, ApiError>;
    /// A JSON patch (RFC 6902) of a Node object. All of it or nothing: a `test` that fails is a 422.
    ///
    /// # Errors
    /// [`ApiError`].
    fn patch_node(&self, name: &str, operations: &Value) -> Result<Node, ApiError>;
    /// Pods bound to a node, of all namespaces.
    ///
    /// # Errors
    /// [`ApiError`].
    fn pods(&self, node: &str) -> Result<Vec<NodePod>, ApiError>;
    /// Asks for an eviction and waits for the answer, not for the pod's end.
    ///
    /// # Errors
    /// [`ApiError`].
    fn evict(&self, request: &EvictionRequest) -> Result<(), ApiError>;
    /// Budgets that select a pod, by name, if they may be seen.
    ///
    /// # Errors
    /// [`ApiError`]; 403 with a kubelet's credential.
    fn budgets_of(&self, pod: &NodePod) -> Result<Vec<String>, ApiError>;
    /// What the kubelet of a node says of its own configuration (`/configz`), through the API server.
    ///
    /// # Errors
    /// [`ApiError`]; 403 with a kubelet's credential.
    fn configz(&self, node: &str) -> Result<Value, ApiError>;
    /// Opens the conversation of a drain: one list, one watch, evictions beside each other.
    fn drain_port(&self, node: &str) -> Box<dyn Port + '_>;
    /// Whether our credential may do this (`SelfSubjectAccessReview`).
    ///
    /// # Errors
    /// [`ApiError`].
    fn may(&self, access: &Access) -> Result<bool, ApiError>;
    /// Writes a core/v1 Event.
    ///
    /// # Errors
    /// [`ApiError`].
    fn create_event(&self, event: &Event) -> Result<(), ApiError>;
    /// Leases of a namespace.
    ///
    /// # Errors
    /// [`ApiError`].
    fn leases(&self, namespace: &str) -> Result<Vec<Lease>, ApiError>;
    /// Creates a lease, or replaces it if it has a resource version: 409 if someone else was first.
    ///
    /// # Errors
    /// [`ApiError`].
    fn put_lease(&self, namespace: &str, lease: &Lease) -> Result<Lease, ApiError>;
}
