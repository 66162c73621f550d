//! What an answer to an eviction means. The texts are those of kube-apiserver 1.37 and, where noted, older ones.

use std::time::Duration;

use crate::node::api::{ApiError, ApiStatus};

/// What an answer to an eviction means for the pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// It will stop; it is not gone yet.
    Accepted,
    /// Asking again may help.
    Again(Obstacle),
    /// Asking again does not help.
    Never(Obstacle),
}

/// What stands in the way of one or more pods.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Obstacle {
    /// What kind of thing, and which one.
    pub kind: ObstacleKind,
    /// The server's words.
    pub detail: String,
    /// How long the server asks us to wait.
    pub retry_after: Option<Duration>,
}

/// The kinds of obstacles. Those with a name hold back every pod of that name's.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ObstacleKind {
    /// A PodDisruptionBudget, by name; in the namespace of the pod.
    Budget(String),
    /// More than one budget selects the pod: the server does not evict such pods at all.
    TwoBudgets,
    /// The server does not know the pod: it is gone, or so new that the part of the server that was asked has not heard
    /// of it yet. The watch will tell which.
    NotFound,
    /// Its namespace is being deleted: the pod is on its way out without us.
    Namespace,
    /// An admission webhook, by name.
    Webhook(String),
    /// We are not allowed to.
    Forbidden,
    /// The server has too much to do, or an error of its own.
    Overloaded,
    /// No answer.
    Unreachable,
    /// The request is not understood, or something nobody knows.
    Other,
}

impl Answer {
    /// What the outcome of a request means.
    #[must_use]
    pub fn of(outcome: &Result<(), ApiError>) -> Self {
        match outcome {
            Ok(()) => Self::Accepted,
            Err(ApiError::Refused(status)) => refused(status),
            Err(ApiError::Unreachable(why)) => Self::Again(obstacle(ObstacleKind::Unreachable, why)),
            Err(ApiError::Unusable(why)) => Self::Never(obstacle(ObstacleKind::Other, why)),
        }
    }
}

fn refused(status: &ApiStatus) -> Answer {
    // A webhook may choose any code for its no: it is known by its words.
    if let Some(name) = webhook(&status.message) {
        return Answer::Again(told(ObstacleKind::Webhook(name), status));
    }
    if status.cause("NamespaceTerminating").is_some() {
        return Answer::Again(told(ObstacleKind::Namespace, status));
    }
    if let Some(name) = budget(status) {
        return Answer::Again(told(ObstacleKind::Budget(name), status));
    }
    if status.message.contains("more than one PodDisruptionBudget") {
        return Answer::Never(told(ObstacleKind::TwoBudgets, status));
    }
    match status.code {
        404 => Answer::Again(told(ObstacleKind::NotFound, status)),
        409 if is_of_another_uid(status) => Answer::Again(told(ObstacleKind::NotFound, status)),
        // Another writer was first; credentials that are being renewed; a time limit of the server's own.
        401 | 408 | 409 | 429 | 500.. => Answer::Again(told(ObstacleKind::Overloaded, status)),
        403 if status.is_of_a_start() => Answer::Again(told(ObstacleKind::Overloaded, status)),
        403 => Answer::Never(told(ObstacleKind::Forbidden, status)),
        _ => Answer::Never(told(ObstacleKind::Other, status)),
    }
}

/// `the UID in the precondition (X) does not match the UID in record (Y)`, as kube-apiserver 1.37.2 says it; older ones
/// and other places have `Precondition failed: UID in precondition: X, UID in object meta: Y`.
fn is_of_another_uid(status: &ApiStatus) -> bool {
    ["UID in the precondition", "UID in precondition"].iter().any(|words| status.message.contains(words))
}

/// `admission webhook "NAME" denied the request: …`; with `failurePolicy: Fail` and nobody answering it is
/// `failed calling webhook "NAME": …`.
fn webhook(message: &str) -> Option<String> {
    ["admission webhook \"", "failed calling webhook \""].into_iter().find_map(|words| {
        let (_, rest) = message.split_once(words)?;
        rest.split_once('"').map(|(name, _)| name.to_owned())
    })
}

/// A 429 is a budget's only with its cause: an overloaded server answers 429 too.
fn budget(status: &ApiStatus) -> Option<String> {
    let cause = status.cause("DisruptionBudget")?;
    Some(named(&cause.message).unwrap_or_default())
}

/// `The disruption budget NAME needs 2 healthy pods and has 2 currently`, and `… NAME is still being processed by
/// the server.`
fn named(message: &str) -> Option<String> {
    let (_, rest) = message.split_once("disruption budget ")?;
    rest.split_whitespace().next().map(str::to_owned)
}

fn told(kind: ObstacleKind, status: &ApiStatus) -> Obstacle {
    Obstacle { kind, detail: status.to_string(), retry_after: status.retry_after }
}

fn obstacle(kind: ObstacleKind, detail: &str) -> Obstacle {
    Obstacle { kind, detail: detail.to_owned(), retry_after: None }
}

impl std::fmt::Display for ObstacleKind {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Budget(name) if name.is_empty() => write!(formatter, "a disruption budget"),
            Self::Budget(name) => write!(formatter, "disruption budget {name}"),
            Self::NotFound => write!(formatter, "a server that does not know it (any more)"),
            Self::Namespace => write!(formatter, "the end of its namespace"),
            Self::TwoBudgets => write!(formatter, "more than one disruption budget"),
            Self::Webhook(name) => write!(formatter, "admission webhook {name}"),
            Self::Forbidden => write!(formatter, "missing rights"),
            Self::Overloaded => write!(formatter, "the API server"),
            Self::Unreachable => write!(formatter, "the API server cannot be reached"),
            Self::Other => write!(formatter, "an answer that was not expected"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::api::Cause;

    fn answer(code: u16, message: &str, cause: Option<(&str, &str)>) -> Answer {
        let cause = cause.map(|(reason, message)| Cause { reason: reason.into(), message: message.into() });
        let status = ApiStatus {
            code,
            message: message.into(),
            causes: cause.into_iter().collect(),
            ..ApiStatus::default()
        };
        Answer::of(&Err(ApiError::Refused(status)))
    }

    fn kind(answer: &Answer) -> Option<&ObstacleKind> {
        match answer {
            Answer::Again(obstacle) | Answer::Never(obstacle) => Some(&obstacle.kind),
            Answer::Accepted => None,
        }
    }

    #[test]
    fn the_budget_is_known_by_name_and_the_two_meanings_of_429_are_told_apart() {
        let words = "The disruption budget api-pdb needs 2 healthy pods and has 2 currently";
        let no = answer(429, "Cannot evict pod as it would violate …", Some(("DisruptionBudget", words)));
        assert_eq!(kind(&no), Some(&ObstacleKind::Budget("api-pdb".into())));
        let busy = answer(429, "Too many requests, please try again later.", None);
        assert_eq!(kind(&busy), Some(&ObstacleKind::Overloaded));
    }

    #[test]
    fn a_webhook_is_a_webhook_whatever_code_it_chose() {
        for code in [400, 403, 429, 500] {
            let no =
                answer(code, "admission webhook \"drain.guard.example\" denied the request: later", None);
            assert!(matches!(&no, Answer::Again(_)), "{code}");
            assert_eq!(kind(&no), Some(&ObstacleKind::Webhook("drain.guard.example".into())));
        }
    }

    #[test]
    fn what_will_never_pass_is_told_apart_from_what_may() {
        assert!(matches!(
            answer(500, "This pod has more than one PodDisruptionBudget, which …", None),
            Answer::Never(_)
        ));
        assert!(matches!(answer(500, "etcdserver: request timed out", None), Answer::Again(_)));
        assert!(matches!(answer(403, "pods is forbidden: User …", None), Answer::Never(_)));
        let starts = answer(403, "pods \"x\" is forbidden: not yet ready to handle request", None);
        assert_eq!(kind(&starts), Some(&ObstacleKind::Overloaded));
        let going = answer(403, "…", Some(("NamespaceTerminating", "namespace ci is being terminated")));
        assert_eq!(kind(&going), Some(&ObstacleKind::Namespace));
    }

    #[test]
    fn a_pod_that_is_not_known_is_left_to_the_watch_and_a_conflict_is_no_end() {
        for (code, words) in [
            (404, "pods \"x\" not found"),
            (409, "Precondition failed: UID in precondition: a, UID in object meta: b"),
            (409, "the UID in the precondition (a) does not match the UID in record (b)"),
        ] {
            assert_eq!(kind(&answer(code, words, None)), Some(&ObstacleKind::NotFound), "{words}");
        }
        assert_eq!(kind(&answer(409, "the object has been modified", None)), Some(&ObstacleKind::Overloaded));
    }
}
