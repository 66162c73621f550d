//! One pod of a drain, by its UID.

use std::time::Duration;

use super::answer::{Obstacle, ObstacleKind};
use super::backoff::Place;
use crate::node::pod::NodePod;
use crate::node::select::Objection;

/// What is known of a pod's way out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum State {
    /// Nothing was asked yet.
    Planned,
    /// A request is on its way; what held the pod before stays known.
    Asked {
        /// The obstacle of the last answer.
        before: Option<(Place, Obstacle)>,
    },
    /// Its deletion is accepted.
    Stopping {
        /// Since when we know.
        since: Duration,
    },
    /// The last answer was a no; asking again may help.
    Held {
        /// The obstacle's place.
        place: Place,
        /// The obstacle.
        obstacle: Obstacle,
    },
    /// The last answer was a no that stays one.
    Refused(Obstacle),
    /// It is not asked for: somebody's word is missing, or it makes no sense.
    Objected(String),
}

impl State {
    pub(super) fn objected(objections: &[Objection]) -> Self {
        Self::Objected(objections.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))
    }

    pub(super) fn comes_back(times: usize) -> Self {
        Self::Objected(format!(
            "it came back to this node after it was gone {times} times; something binds it here in spite of the cordon"
        ))
    }
}

/// A pod that is to go.
#[derive(Debug, Clone)]
pub(super) struct Tracked {
    pub(super) pod: NodePod,
    pub(super) state: State,
    /// Since when it is known here.
    pub(super) since: Duration,
}

impl Tracked {
    /// The API shows it anew.
    pub(super) fn changed(&mut self, pod: NodePod, elapsed: Duration) {
        self.pod = pod;
        if self.pod.deletion.is_some() {
            self.stops(elapsed);
        }
    }

    pub(super) fn stops(&mut self, elapsed: Duration) {
        if !matches!(self.state, State::Stopping { .. }) {
            self.state = State::Stopping { since: elapsed };
        }
    }

    pub(super) fn asks(&mut self) {
        let before = match &self.state {
            State::Held { place, obstacle } => Some((place.clone(), obstacle.clone())),
            State::Planned
            | State::Asked { .. }
            | State::Stopping { .. }
            | State::Refused(_)
            | State::Objected(_) => None,
        };
        self.state = State::Asked { before };
    }

    /// An answer that comes after the API has shown the deletion is an old one.
    pub(super) fn is_held(&mut self, place: Place, obstacle: Obstacle) {
        if self.is_asked() {
            self.state = State::Held { place, obstacle };
        }
    }

    pub(super) fn is_refused(&mut self, obstacle: Obstacle) {
        if self.is_asked() {
            self.state = State::Refused(obstacle);
        }
    }

    /// True if the answer for `other` is the answer for this one: budgets go by namespace and labels. They do not hold
    /// what never ran or has ended.
    pub(super) fn would_be_answered_like(&self, other: &NodePod) -> bool {
        let pod = &self.pod;
        let is_alike = pod.key.namespace == other.key.namespace && pod.labels == other.labels;
        is_alike && self.state == State::Planned && !pod.pending && !pod.finished
    }

    pub(super) fn is_asked(&self) -> bool {
        matches!(self.state, State::Asked { .. })
    }

    /// The obstacle that holds it, or held it when it was asked about last.
    pub(super) fn obstacle(&self) -> Option<&Obstacle> {
        match &self.state {
            State::Held { obstacle, .. }
            | State::Asked { before: Some((_, obstacle)) }
            | State::Refused(obstacle) => Some(obstacle),
            State::Asked { before: None } | State::Planned | State::Stopping { .. } | State::Objected(_) => {
                None
            }
        }
    }

    pub(super) fn place(&self) -> Option<Place> {
        match &self.state {
            State::Held { place, .. } | State::Asked { before: Some((place, _)) } => Some(place.clone()),
            State::Asked { before: None }
            | State::Planned
            | State::Stopping { .. }
            | State::Refused(_)
            | State::Objected(_) => None,
        }
    }

    /// When its grace period is over, on the drain's own clock.
    pub(super) fn stop_time(&self) -> Option<Duration> {
        let State::Stopping { since } = self.state else { return None };
        let grace = self.pod.deletion.as_ref().map_or(self.pod.grace, |deletion| deletion.grace);
        Some(since + grace)
    }

    /// Why it is still there, in words.
    pub(super) fn why(&self, is_overdue: bool) -> String {
        match &self.state {
            State::Planned => "it was not its turn yet".to_owned(),
            State::Objected(why) => why.clone(),
            State::Refused(obstacle)
            | State::Held { obstacle, .. }
            | State::Asked { before: Some((_, obstacle)) } => said(obstacle),
            State::Asked { before: None } => {
                "its eviction was asked for, and there was no answer yet".to_owned()
            }
            State::Stopping { .. } => self.stopping(is_overdue),
        }
    }

    fn stopping(&self, is_overdue: bool) -> String {
        let grace = self.pod.deletion.as_ref().map_or(self.pod.grace, |deletion| deletion.grace).as_secs();
        let held = match self.pod.finalizers.as_slice() {
            [] => String::new(),
            finalizers => format!("; finalizers: {}", finalizers.join(", ")),
        };
        let overdue = if is_overdue { "it was to stop and did not" } else { "it is stopping" };
        format!("{overdue} (grace period {grace} s{held})")
    }
}

fn said(obstacle: &Obstacle) -> String {
    match obstacle.kind {
        // The server's words alone would not say what to do.
        ObstacleKind::TwoBudgets => {
            format!(
                "more than one disruption budget selects it, and such a pod cannot be evicted: {}",
                obstacle.detail
            )
        }
        ObstacleKind::Budget(_)
        | ObstacleKind::NotFound
        | ObstacleKind::Namespace
        | ObstacleKind::Webhook(_)
        | ObstacleKind::Forbidden
        | ObstacleKind::Overloaded
        | ObstacleKind::Unreachable
        | ObstacleKind::Other => format!("held by {}: {}", obstacle.kind, obstacle.detail),
    }
}
