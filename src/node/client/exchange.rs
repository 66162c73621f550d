//! One request and what came back, told apart as a caller has to tell it apart.

use std::error::Error;
use std::io;
use std::time::Duration;

use http::header::RETRY_AFTER;
use http::{HeaderMap, Request, StatusCode};
use kube::client::Body;
use kube::core::Status;
use rustls::CertificateError;

use crate::node::api::{ApiError, ApiStatus, Cause};

/// For a whole request, from the first packet to the last byte of its answer.
pub(super) const TIME_LIMIT: Duration = Duration::from_secs(30);

/// Sends a request and takes in its answer.
pub(super) async fn exchange(client: &kube::Client, request: Request<Vec<u8>>) -> Result<Vec<u8>, ApiError> {
    let asked = format!("{} {}", request.method(), request.uri().path());
    let answer = async {
        let (head, body) = client.send(request.map(Body::from)).await?.into_parts();
        Ok((head, body.collect_bytes().await?))
    };
    match tokio::time::timeout(TIME_LIMIT, answer).await {
        Ok(Ok((head, body))) if head.status.is_success() => Ok(body.to_vec()),
        Ok(Ok((head, body))) => Err(ApiError::Refused(refusal(head.status, &head.headers, &body))),
        Ok(Err(error)) => Err(unanswered(&error)),
        Err(_) => Err(ApiError::Unreachable(format!("no answer to {asked} within {TIME_LIMIT:?}"))),
    }
}

/// A refusal. A proxy, or a server with too much to do, says no in words of its own and not in a `Status`.
#[must_use]
pub fn refusal(code: StatusCode, headers: &HeaderMap, body: &[u8]) -> ApiStatus {
    let mut status = match serde_json::from_slice::<Status>(body) {
        Ok(status) if status.status.is_some() => refused(&status),
        Ok(_) | Err(_) => ApiStatus { message: in_short(body), ..ApiStatus::default() },
    };
    status.code = code.as_u16();
    let header = headers.get(RETRY_AFTER).and_then(|value| value.to_str().ok()?.parse().ok());
    status.retry_after = status.retry_after.or(header.map(Duration::from_secs));
    status
}

fn in_short(body: &[u8]) -> String {
    String::from_utf8_lossy(body).split_whitespace().collect::<Vec<_>>().join(" ").chars().take(300).collect()
}

/// The same, from what the library read.
pub(super) fn refused(status: &Status) -> ApiStatus {
    let details = status.details.as_ref();
    let causes = details.iter().flat_map(|details| &details.causes);
    let causes = causes.map(|cause| Cause { reason: cause.reason.clone(), message: cause.message.clone() });
    let retry_after =
        details.map(|details| u64::from(details.retry_after_seconds)).filter(|seconds| *seconds > 0);
    ApiStatus {
        code: status.code,
        reason: status.reason.clone(),
        message: status.message.clone(),
        causes: causes.collect(),
        retry_after: retry_after.map(Duration::from_secs),
    }
}

/// No answer: whether one may come later, and what a person can do.
pub(super) fn unanswered(error: &kube::Error) -> ApiError {
    if let kube::Error::Api(status) = error {
        return ApiError::Refused(refused(status));
    }
    let chain: Vec<&(dyn Error + 'static)> = chain(error).collect();
    if let Some(advice) = chain.iter().find_map(|error| tls(error)).and_then(untrusted) {
        return ApiError::Unusable(advice);
    }
    if matches!(error, kube::Error::Auth(_) | kube::Error::RustlsTls(_)) {
        return ApiError::Unusable(format!("the credentials cannot be used: {}", words(&chain)));
    }
    ApiError::Unreachable(words(&chain))
}

fn chain<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    std::iter::successors(Some(error), |error| inner(*error))
}

/// An I/O error's own `source` leaves out the error that it wraps.
fn inner<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a (dyn Error + 'static)> {
    let wrapped = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
    wrapped.map(|wrapped| wrapped as &(dyn Error + 'static)).or_else(|| error.source())
}

fn tls<'a>(error: &&'a (dyn Error + 'static)) -> Option<&'a rustls::Error> {
    error.downcast_ref::<rustls::Error>()
}

/// What is wrong with a certificate, of the server or of ours, and stays so until somebody acts.
fn untrusted(error: &rustls::Error) -> Option<String> {
    if let rustls::Error::AlertReceived(alert) = error {
        return Some(format!("the server, or what stands before it, refuses the TLS connection: {alert:?}"));
    }
    let rustls::Error::InvalidCertificate(fault) = error else { return None };
    Some(format!("the certificate of the API server is not trusted: {} ({error})", advice(fault)))
}

fn advice(fault: &CertificateError) -> &'static str {
    use CertificateError::{
        BadSignature, Expired, ExpiredContext, NotValidForName, NotValidForNameContext, UnknownIssuer,
    };
    // Every authority that kubeadm makes has the same name: then it is the signature that does not fit.
    if matches!(fault, UnknownIssuer | BadSignature) {
        return "it is not signed by the certificate authority in the kubeconfig: that one is of another or an \
                older cluster, or a proxy breaks the connection open";
    }
    if matches!(fault, NotValidForName | NotValidForNameContext { .. }) {
        return "it is not for the name in the kubeconfig; correct the server there, or set tls-server-name";
    }
    if matches!(fault, Expired | ExpiredContext { .. }) {
        return "it has expired; renew it on the control plane, or set the clock of this host right";
    }
    "it is not valid"
}

/// The innermost words say what happened; what the library puts around them does not.
fn words(chain: &[&(dyn Error + 'static)]) -> String {
    let mut words: Vec<String> = Vec::new();
    for text in chain.iter().skip(1).map(ToString::to_string) {
        match words.last_mut() {
            Some(last) if last.contains(&text) => {}
            Some(last) if text.contains(last.as_str()) => *last = text,
            _ => words.push(text),
        }
    }
    if words.is_empty() {
        words.extend(chain.first().map(ToString::to_string));
    }
    words.join(": ")
}
