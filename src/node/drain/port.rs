//! The conversation of a drain with the API server: requests go out beside each other, happenings come in one by one.

use std::time::Duration;

use super::answer::Answer;
use crate::node::api::ApiError;
use crate::node::pod::{NodePod, PodKey};

/// One request of a drain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Request {
    /// Ask for an eviction, with the UID as a precondition.
    Evict(PodKey),
    /// Delete without asking any budget, with the UID as a precondition: only where a person said so twice.
    Delete(PodKey),
}

/// What comes in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Happening {
    /// All pods of the node, at the start and after each broken watch.
    Listed(Vec<NodePod>),
    /// A pod is new or has changed.
    Seen(NodePod),
    /// A pod is gone.
    Gone(PodKey),
    /// The answer to a request for this pod.
    Answered(PodKey, Answer),
    /// The list or the watch broke; it is tried again by itself.
    Lost(ApiError),
    /// The time that was asked for has come.
    Time,
    /// Somebody asked the program to stop.
    Interrupted,
}

/// The conversation. List and watch are the port's own business: it begins them, renews them and backs off.
pub trait Port {
    /// Time since the drain began; it never goes back and does not care about the wall clock.
    fn elapsed(&self) -> Duration;
    /// Wall clock.
    fn now(&self) -> jiff::Timestamp;
    /// Sends a request and returns at once; its answer is one of the happenings.
    fn send(&mut self, request: Request);
    /// Waits for the next happening, until `limit` (since the beginning).
    fn next(&mut self, limit: Duration) -> Happening;
}
