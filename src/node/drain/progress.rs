//! Where a drain stands: the same numbers for a line, a bar, JSON and the node's annotation.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;

use super::tracked::{State, Tracked};

/// Where a drain stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Progress {
    /// Pods that were to go, so far.
    pub total: usize,
    /// Gone.
    pub gone: usize,
    /// On their way out.
    pub stopping: usize,
    /// Nothing was asked for them yet.
    pub waiting: usize,
    /// What stands in the way, and of how many pods.
    pub blocked: Vec<Blocked>,
    /// The pod that is there for the longest time since it was to go: `namespace/name`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub oldest: Option<String>,
    /// Seconds until the last pod that is stopping has used up its grace period.
    pub seconds_left: u64,
    /// Why the API server is not seen at the moment.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lost: Option<String>,
    /// Seconds since the drain began.
    pub seconds: u64,
}

/// One obstacle and its pods.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Blocked {
    /// `disruption budget api-pdb`.
    pub by: String,
    /// The server's own words, with the budget's numbers.
    pub detail: String,
    /// `namespace/name`.
    pub pods: Vec<String>,
}

impl Progress {
    pub(super) fn of<'a>(
        pods: impl Iterator<Item = &'a Tracked> + Clone,
        gone: usize,
        lost: Option<&str>,
        elapsed: Duration,
    ) -> Self {
        let left = pods.clone().count();
        let stop_times = pods.clone().filter_map(Tracked::stop_time);
        Self {
            total: gone + left,
            gone,
            stopping: stop_times.clone().count(),
            waiting: pods.clone().filter(|tracked| matches!(tracked.state, State::Planned)).count(),
            blocked: blocked(pods.clone()),
            oldest: pods.min_by_key(|tracked| tracked.since).map(|tracked| tracked.pod.key.to_string()),
            seconds_left: stop_times.max().map_or(0, |stop| stop.saturating_sub(elapsed).as_secs()),
            lost: lost.map(str::to_owned),
            seconds: elapsed.as_secs(),
        }
    }
}

fn blocked<'a>(pods: impl Iterator<Item = &'a Tracked>) -> Vec<Blocked> {
    let mut by: BTreeMap<String, Blocked> = BTreeMap::new();
    for tracked in pods {
        let (name, detail) = match (&tracked.state, tracked.obstacle()) {
            (_, Some(obstacle)) => (obstacle.kind.to_string(), obstacle.detail.clone()),
            (State::Objected(why), None) => ("nothing can be done".to_owned(), why.clone()),
            (
                State::Planned
                | State::Asked { .. }
                | State::Stopping { .. }
                | State::Held { .. }
                | State::Refused(_),
                None,
            ) => continue,
        };
        let entry = by.entry(name.clone()).or_insert(Blocked { by: name, detail, pods: Vec::new() });
        entry.pods.push(tracked.pod.key.to_string());
    }
    by.into_values().collect()
}

impl std::fmt::Display for Progress {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if let Some(lost) = &self.lost {
            return write!(formatter, "the pods of this node are not seen at the moment: {lost}");
        }
        write!(formatter, "{} of {} pods gone", self.gone, self.total)?;
        if self.stopping > 0 {
            write!(formatter, ", {} stopping (at most {} s more)", self.stopping, self.seconds_left)?;
        }
        if self.waiting > 0 {
            write!(formatter, ", {} waiting", self.waiting)?;
        }
        for blocked in &self.blocked {
            let pods = blocked.pods.join(", ");
            write!(formatter, "; {} holds {pods} ({})", blocked.by, blocked.detail)?;
        }
        Ok(())
    }
}
