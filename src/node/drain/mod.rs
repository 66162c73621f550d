//! Drain: pods leave the node through evictions, each followed by its UID until it is gone.
//!
//! [`Drain`] is pure: it is told what happened and says what to do next. [`run()`] drives it over a [`Port`].

mod answer;
mod backoff;
mod port;
mod progress;
mod run;
#[cfg(test)]
mod tests;
mod tracked;
mod wave;

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use serde::{Deserialize, Serialize};

pub use answer::{Answer, Obstacle, ObstacleKind};
use backoff::{Backoff, Place, everywhere, place_of};
pub use port::{Happening, Port, Request};
pub use progress::{Blocked, Progress};
pub use run::{Listener, run};
use tracked::{State, Tracked};
pub use wave::{Selector, Waves};

use super::pod::{NodePod, PodKey};
use super::select::{Allowed, Choice, choose};

/// A pod that is made anew on this very node each time it is evicted would keep a drain busy for ever.
const COMES_BACK_AT_MOST: usize = 3;

/// When a drain that waits for ever asks again what the server will never grant as it is.
const NEVER_AGAIN_IN: Duration = Duration::from_secs(30);

/// What is done about pods that do not go in time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OnBlocked {
    /// The drain ends without success, and our own cordon is taken back.
    #[default]
    Abort,
    /// It goes on, without a limit.
    Wait,
    /// They are deleted past their budgets, with their own grace periods. Only where a person said so twice.
    Delete,
}

/// How a drain is to be done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policy {
    /// Name of the Node object.
    pub node: String,
    /// What may be lost.
    pub allowed: Allowed,
    /// The order.
    pub waves: Waves,
    /// Evictions without an answer yet, at most.
    pub in_flight: usize,
    /// For the whole drain.
    pub time_limit: Duration,
    /// For a pod to be gone, on top of its grace period.
    pub margin: Duration,
    /// What then.
    pub on_blocked: OnBlocked,
}

impl Policy {
    /// The policy for a node where nothing is set.
    #[must_use]
    pub fn new(node: &str) -> Self {
        Self {
            node: node.to_owned(),
            allowed: Allowed::default(),
            waves: Waves::default(),
            in_flight: 16,
            time_limit: Duration::from_secs(1800),
            margin: Duration::from_secs(60),
            on_blocked: OnBlocked::Abort,
        }
    }
}

/// A pod that did not go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Left {
    /// Which.
    pub pod: PodKey,
    /// What the server said stands in its way, if it said so.
    pub by: Option<ObstacleKind>,
    /// Why, with what stands in its way by name.
    pub why: String,
    /// Since when.
    pub waited: Duration,
}

/// How a drain ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// Nothing is left that had to go. Those of the list are still shown by the API: a finalizer holds the object,
    /// and the kubelet has said that all its containers ended.
    Drained(Vec<PodKey>),
    /// Some did not go.
    Blocked(Vec<Left>),
    /// The API server was away for too long.
    Lost(String),
    /// Somebody asked the program to stop.
    Interrupted,
}

impl Outcome {
    /// True if pods are left.
    #[must_use]
    pub fn is_failure(&self) -> bool {
        match self {
            Self::Drained(_) => false,
            Self::Blocked(_) | Self::Lost(_) | Self::Interrupted => true,
        }
    }
}

impl std::fmt::Display for Outcome {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Drained(held) if held.is_empty() => write!(formatter, "every pod that had to go is gone"),
            Self::Drained(held) => {
                let held: Vec<String> = held.iter().map(ToString::to_string).collect();
                write!(
                    formatter,
                    "no pod runs any more that had to go; finalizers still hold {}",
                    held.join(", ")
                )
            }
            Self::Blocked(left) => {
                let left: Vec<String> = left.iter().map(ToString::to_string).collect();
                write!(formatter, "the drain is blocked, pods are left: {}", left.join("; "))
            }
            Self::Lost(why) => write!(formatter, "the drain lost sight of the node's pods: {why}"),
            Self::Interrupted => write!(formatter, "the drain was interrupted"),
        }
    }
}

impl std::fmt::Display for Left {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{}, for {} s: {}", self.pod, self.waited.as_secs(), self.why)
    }
}

/// What to do next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Move {
    /// Send these, then ask again.
    Send(Vec<Request>),
    /// Wait for a happening, at most until then.
    Wait(Duration),
    /// The end.
    End(Outcome),
}

/// One drain.
#[derive(Debug)]
pub struct Drain {
    policy: Policy,
    pods: BTreeMap<PodKey, Tracked>,
    gone: usize,
    held_by_finalizer: Vec<PodKey>,
    /// How often a pod of this name went.
    returns: HashMap<(String, String), usize>,
    backoff: Backoff,
    /// `Some` while list and watch are broken, or before the first list.
    lost: Option<String>,
    limit: Duration,
    deletes: bool,
    interrupted: bool,
}

impl Drain {
    /// A drain that has not begun.
    #[must_use]
    pub fn new(policy: Policy) -> Self {
        Self {
            pods: BTreeMap::new(),
            gone: 0,
            held_by_finalizer: Vec::new(),
            returns: HashMap::new(),
            backoff: Backoff::new(&policy.node),
            lost: Some("no list of pods yet".to_owned()),
            limit: policy.time_limit,
            deletes: false,
            interrupted: false,
            policy,
        }
    }

    /// Takes in what happened.
    pub fn take(&mut self, happening: Happening, elapsed: Duration, now: jiff::Timestamp) {
        match happening {
            Happening::Listed(pods) => self.listed(&pods, elapsed, now),
            Happening::Seen(pod) => self.seen(pod, elapsed, now),
            Happening::Gone(key) => self.leaves(&key, elapsed),
            Happening::Answered(key, answer) => self.answered(&key, answer, elapsed),
            Happening::Lost(error) => self.lost = Some(error.to_string()),
            Happening::Interrupted => self.interrupted = true,
            Happening::Time => {}
        }
    }

    fn listed(&mut self, pods: &[NodePod], elapsed: Duration, now: jiff::Timestamp) {
        self.lost = None;
        self.backoff.wake(&everywhere(ObstacleKind::Unreachable));
        let missing: Vec<PodKey> =
            self.pods.keys().filter(|key| !pods.iter().any(|pod| pod.key == **key)).cloned().collect();
        missing.iter().for_each(|key| self.leaves(key, elapsed));
        pods.iter().for_each(|pod| self.seen(pod.clone(), elapsed, now));
    }

    fn seen(&mut self, pod: NodePod, elapsed: Duration, now: jiff::Timestamp) {
        if pod.node != self.policy.node {
            return self.leaves(&pod.key, elapsed);
        }
        if pod.deletion.is_some() && pod.containers_gone && !pod.finalizers.is_empty() {
            return self.is_held_by_finalizer(&pod.key, elapsed);
        }
        if let Some(tracked) = self.pods.get_mut(&pod.key) {
            return tracked.changed(pod, elapsed);
        }
        let state = match choose(&pod, &self.policy.node, self.policy.allowed, now) {
            Choice::Leave(_) => return,
            Choice::Evict => self.first_state(&pod, elapsed),
            Choice::Object(objections) => State::objected(&objections),
        };
        self.pods.insert(pod.key.clone(), Tracked { pod, state, since: elapsed });
    }

    fn first_state(&self, pod: &NodePod, elapsed: Duration) -> State {
        if pod.deletion.is_some() {
            return State::Stopping { since: elapsed };
        }
        let name = (pod.key.namespace.clone(), pod.key.name.clone());
        match self.returns.get(&name) {
            Some(times) if *times >= COMES_BACK_AT_MOST => State::comes_back(*times),
            Some(_) | None => State::Planned,
        }
    }

    fn leaves(&mut self, key: &PodKey, elapsed: Duration) {
        if self.pods.remove(key).is_none() {
            return;
        }
        self.gone += 1;
        *self.returns.entry((key.namespace.clone(), key.name.clone())).or_default() += 1;
        // Its budget may have room again, now or when a new one is ready elsewhere.
        self.backoff.wake_namespace(&key.namespace, elapsed);
    }

    fn is_held_by_finalizer(&mut self, key: &PodKey, elapsed: Duration) {
        if !self.held_by_finalizer.contains(key) {
            self.held_by_finalizer.push(key.clone());
        }
        self.leaves(key, elapsed);
    }

    fn answered(&mut self, key: &PodKey, answer: Answer, elapsed: Duration) {
        let Some(tracked) = self.pods.get_mut(key) else { return };
        let before = tracked.place();
        match answer {
            Answer::Accepted => {
                tracked.stops(elapsed);
                before.iter().for_each(|place| self.backoff.wake(place));
            }
            Answer::Again(obstacle) => {
                let place = place_of(key, &obstacle.kind);
                self.backoff.refused(&place, &obstacle, elapsed);
                let pod = tracked.pod.clone();
                tracked.is_held(place.clone(), obstacle.clone());
                self.holds_alike(&pod, &place, &obstacle);
            }
            // Somebody may set it right while we wait.
            Answer::Never(obstacle) if self.policy.on_blocked == OnBlocked::Wait => {
                let obstacle = Obstacle { retry_after: Some(NEVER_AGAIN_IN), ..obstacle };
                self.answered(key, Answer::Again(obstacle), elapsed);
            }
            Answer::Never(obstacle) => tracked.is_refused(obstacle),
        }
    }

    /// A budget's no is not asked for again by each pod that it holds.
    fn holds_alike(&mut self, pod: &NodePod, place: &Place, obstacle: &Obstacle) {
        if !matches!(obstacle.kind, ObstacleKind::Budget(_)) {
            return;
        }
        for tracked in self.pods.values_mut().filter(|tracked| tracked.would_be_answered_like(pod)) {
            tracked.state = State::Held { place: place.clone(), obstacle: obstacle.clone() };
        }
    }

    /// What to do next.
    pub fn next(&mut self, elapsed: Duration) -> Move {
        if let Some(outcome) = self.outcome(elapsed) {
            return Move::End(outcome);
        }
        let requests = self.requests(elapsed);
        if requests.is_empty() { Move::Wait(self.wait_until(elapsed)) } else { Move::Send(requests) }
    }

    fn outcome(&mut self, elapsed: Duration) -> Option<Outcome> {
        if self.interrupted {
            return Some(Outcome::Interrupted);
        }
        let is_over = elapsed >= self.limit;
        if let Some(why) = self.lost.as_ref() {
            // What is not seen is not judged; but not for ever.
            return (is_over && !self.waits_for_ever()).then(|| Outcome::Lost(why.clone()));
        }
        if self.pods.is_empty() {
            return Some(Outcome::Drained(self.held_by_finalizer.clone()));
        }
        let is_stuck = self.pods.values().any(|tracked| self.is_stuck(tracked, elapsed));
        match self.policy.on_blocked {
            OnBlocked::Wait => None,
            OnBlocked::Abort => (is_over || is_stuck).then(|| Outcome::Blocked(self.left(elapsed))),
            OnBlocked::Delete => self.outcome_of_deletes(is_over, is_stuck, elapsed),
        }
    }

    /// At the end of its time the drain begins to delete, once, and gets the time that takes.
    fn outcome_of_deletes(&mut self, is_over: bool, is_stuck: bool, elapsed: Duration) -> Option<Outcome> {
        if self.deletes {
            return is_over.then(|| Outcome::Blocked(self.left(elapsed)));
        }
        if is_over || is_stuck {
            self.deletes = true;
            let grace = self.pods.values().map(|tracked| tracked.pod.grace).max().unwrap_or_default();
            self.limit = elapsed + grace + self.policy.margin;
        }
        None
    }

    fn waits_for_ever(&self) -> bool {
        self.policy.on_blocked == OnBlocked::Wait
    }

    /// True if nothing that happens by itself lets this pod go.
    fn is_stuck(&self, tracked: &Tracked, elapsed: Duration) -> bool {
        match &tracked.state {
            State::Refused(_) | State::Objected(_) => true,
            State::Stopping { .. } => elapsed >= self.overdue_at(tracked),
            State::Planned | State::Asked { .. } | State::Held { .. } => false,
        }
    }

    fn overdue_at(&self, tracked: &Tracked) -> Duration {
        tracked.stop_time().map_or(Duration::MAX, |stop| stop + self.policy.margin)
    }

    fn left(&self, elapsed: Duration) -> Vec<Left> {
        let why = |tracked: &Tracked| tracked.why(self.is_stuck(tracked, elapsed));
        self.pods
            .values()
            .map(|tracked| Left {
                pod: tracked.pod.key.clone(),
                by: tracked.obstacle().map(|obstacle| obstacle.kind.clone()),
                why: why(tracked),
                waited: elapsed.saturating_sub(tracked.since),
            })
            .collect()
    }

    fn requests(&mut self, elapsed: Duration) -> Vec<Request> {
        if self.lost.is_some() || !self.server_may_be_asked(elapsed) {
            return Vec::new();
        }
        let asked = self.pods.values().filter(|tracked| tracked.is_asked()).count();
        let room = self.policy.in_flight.saturating_sub(asked);
        let chosen = self.eligible(elapsed, room);
        chosen.into_iter().map(|key| self.request(key)).collect()
    }

    fn server_may_be_asked(&self, elapsed: Duration) -> bool {
        let kinds = [ObstacleKind::Unreachable, ObstacleKind::Overloaded];
        kinds.into_iter().all(|kind| self.backoff.until(&everywhere(kind)) <= elapsed)
    }

    /// Pods of the first wave that is not gone, and of each obstacle one at a time.
    fn eligible(&self, elapsed: Duration, room: usize) -> Vec<PodKey> {
        let wave = self.pods.values().map(|tracked| self.policy.waves.of(&tracked.pod)).min();
        let mut places: Vec<Place> =
            self.pods.values().filter(|tracked| tracked.is_asked()).filter_map(Tracked::place).collect();
        let mut chosen = Vec::new();
        for tracked in self.pods.values().filter(|tracked| Some(self.policy.waves.of(&tracked.pod)) == wave) {
            if chosen.len() == room || !self.may_be_asked(tracked, elapsed) {
                continue;
            }
            if let Some(place) = tracked.place() {
                if places.contains(&place) {
                    continue;
                }
                places.push(place);
            }
            chosen.push(tracked.pod.key.clone());
        }
        chosen
    }

    fn may_be_asked(&self, tracked: &Tracked, elapsed: Duration) -> bool {
        match &tracked.state {
            State::Planned => true,
            State::Held { place, .. } => self.deletes || self.backoff.until(place) <= elapsed,
            State::Refused(_) => self.deletes,
            State::Asked { .. } | State::Stopping { .. } | State::Objected(_) => false,
        }
    }

    fn request(&mut self, key: PodKey) -> Request {
        if let Some(tracked) = self.pods.get_mut(&key) {
            tracked.asks();
        }
        if self.deletes { Request::Delete(key) } else { Request::Evict(key) }
    }

    fn wait_until(&self, elapsed: Duration) -> Duration {
        let of_pod = |tracked: &Tracked| match &tracked.state {
            State::Held { place, .. } => Some(self.backoff.until(place)),
            State::Stopping { .. } => Some(self.overdue_at(tracked)),
            State::Planned | State::Asked { .. } | State::Refused(_) | State::Objected(_) => None,
        };
        let of_server = [ObstacleKind::Unreachable, ObstacleKind::Overloaded]
            .map(|kind| self.backoff.until(&everywhere(kind)));
        let limit = (!self.waits_for_ever()).then_some(self.limit);
        let times = self.pods.values().filter_map(of_pod).chain(of_server).chain(limit);
        times.filter(|time| *time > elapsed).min().unwrap_or(Duration::MAX)
    }

    /// Where the drain stands.
    #[must_use]
    pub fn progress(&self, elapsed: Duration) -> Progress {
        Progress::of(self.pods.values(), self.gone, self.lost.as_deref(), elapsed)
    }
}
