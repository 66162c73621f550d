//! The requests that need a body of our own.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::APIResourceList;
use k8s_openapi::apimachinery::pkg::version::Info;
use serde_json::{Value, json};

use super::link::Link;
use crate::node::api::{ApiError, EvictionRequest};
use crate::node::pod::PodKey;

/// Asks for an eviction. The library's own would send its options under a name that the server does not know.
pub(super) async fn evict(link: &Link<'_>, request: &EvictionRequest) -> Result<(), ApiError> {
    let path = format!("{}/eviction", path(&request.pod));
    let outcome = link.ask(sent("POST", &path, &eviction(request))?).await;
    match outcome {
        Ok(_) => Ok(()),
        // Before 1.22 this version of an eviction is not known: a bad request. Asked only then, it costs nothing.
        Err(error) if may_be_unknown(&error, &request.pod) => Err(explained(link, error).await),
        Err(error) => Err(error),
    }
}

/// A 404 that does not name the pod is about the request.
fn may_be_unknown(error: &ApiError, pod: &PodKey) -> bool {
    match error {
        ApiError::Refused(status) => {
            matches!(status.code, 400 | 415) || status.code == 404 && !status.message.contains(&pod.name)
        }
        ApiError::Unreachable(_) | ApiError::Unusable(_) => false,
    }
}

fn eviction(request: &EvictionRequest) -> Value {
    let dry_run = request.dry_run.then_some(["All"]);
    let mut options = json!({
        "preconditions": {"uid": request.pod.uid},
        "gracePeriodSeconds": request.grace_seconds,
        "dryRun": dry_run,
    });
    without_nulls(&mut options);
    json!({
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": request.pod.name, "namespace": request.pod.namespace},
        "deleteOptions": options,
    })
}

/// Leaves out of an object what is not set.
pub(super) fn without_nulls(value: &mut Value) {
    if let Some(fields) = value.as_object_mut() {
        fields.retain(|_, value| !value.is_null());
    }
}

/// A server that has no evictions of this version says no to each; it is not that the pod is gone.
async fn explained(link: &Link<'_>, error: ApiError) -> ApiError {
    let Ok(request) = sent("GET", "/api/v1", &Value::Null) else { return error };
    let Ok(known) = link.ask_for::<APIResourceList>(request).await else { return error };
    let is_served = known.resources.iter().any(|resource| {
        resource.name == "pods/eviction"
            && resource.group.as_deref() == Some("policy")
            && resource.version.as_deref() == Some("v1")
    });
    if is_served {
        return error;
    }
    let version = version(link).await;
    ApiError::Unusable(format!(
        "the API server ({version}) has no evictions of policy/v1, which Kubernetes has since 1.22; drain this node by \
         other means and use no credentials"
    ))
}

async fn version(link: &Link<'_>) -> String {
    let Ok(request) = sent("GET", "/version", &Value::Null) else { return String::new() };
    let info = link.ask_for::<Info>(request).await;
    info.map_or("of an unknown version".to_owned(), |info| info.git_version)
}

/// Deletes without asking any budget.
pub(super) async fn delete(link: &Link<'_>, pod: &PodKey) -> Result<(), ApiError> {
    let options = json!({"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": pod.uid}});
    link.ask(sent("DELETE", &path(pod), &options)?).await.map(drop)
}

fn path(pod: &PodKey) -> String {
    format!("/api/v1/namespaces/{}/pods/{}", pod.namespace, pod.name)
}

/// A request with this body; none if it is null.
pub(super) fn sent(method: &str, path: &str, body: &Value) -> Result<http::Request<Vec<u8>>, ApiError> {
    let bytes = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
    let request =
        http::Request::builder().method(method).uri(path).header("content-type", "application/json");
    request
        .body(bytes)
        .map_err(|error| ApiError::Unusable(format!("a request cannot be built: {method} {path}: {error}")))
}
