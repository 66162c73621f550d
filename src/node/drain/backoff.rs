//! When to ask again. One clock for each obstacle and not for each pod: thirty pods behind one budget are one
//! question.

use std::collections::HashMap;
use std::time::Duration;

use super::answer::{Obstacle, ObstacleKind};
use crate::host::sha256;
use crate::node::pod::PodKey;

/// The pauses after the first, second, … no in a row.
const PAUSES: [Duration; 4] =
    [Duration::from_secs(1), Duration::from_secs(2), Duration::from_secs(5), Duration::from_secs(10)];

/// How long the server's controller may take to count a budget anew once a pod is gone.
const RECOUNT: Duration = Duration::from_millis(500);

/// An obstacle where it stands: a budget is one of its namespace.
pub(super) type Place = (String, ObstacleKind);

/// The clock of one obstacle.
#[derive(Debug, Clone, Default)]
struct Pause {
    refusals: usize,
    until: Duration,
}

/// The clocks of all obstacles.
#[derive(Debug, Clone)]
pub(super) struct Backoff {
    /// What sets this node apart from others: its name.
    seed: String,
    pauses: HashMap<Place, Pause>,
}

impl Backoff {
    pub(super) fn new(seed: &str) -> Self {
        Self { seed: seed.to_owned(), pauses: HashMap::new() }
    }

    /// A no: the next question about this obstacle waits.
    pub(super) fn refused(&mut self, place: &Place, obstacle: &Obstacle, now: Duration) {
        let seed = self.seed.clone();
        let pause = self.pauses.entry(place.clone()).or_default();
        let longest = PAUSES.len() - 1;
        let own = PAUSES.get(pause.refusals.min(longest)).copied().unwrap_or_default();
        pause.refusals += 1;
        pause.until = now + obstacle.retry_after.unwrap_or(own) + jitter(&seed, place, pause.refusals);
    }

    /// A yes, or a pod of it came or went: asked at once.
    pub(super) fn wake(&mut self, place: &Place) {
        self.pauses.remove(place);
    }

    /// A pod of a namespace is gone: its budgets may have room soon, so the pauses begin anew.
    pub(super) fn wake_namespace(&mut self, namespace: &str, now: Duration) {
        let of_it = |place: &Place| place.0 == namespace && matches!(place.1, ObstacleKind::Budget(_));
        for (_, pause) in self.pauses.iter_mut().filter(|(place, _)| of_it(place)) {
            pause.refusals = 0;
            pause.until = pause.until.min(now + RECOUNT);
        }
    }

    /// When it may be asked about; zero if at once.
    pub(super) fn until(&self, place: &Place) -> Duration {
        self.pauses.get(place).map(|pause| pause.until).unwrap_or_default()
    }
}

/// Where an obstacle stands: a budget in its namespace, an overloaded server everywhere.
pub(super) fn place_of(key: &PodKey, kind: &ObstacleKind) -> Place {
    match kind {
        ObstacleKind::Unreachable | ObstacleKind::Overloaded | ObstacleKind::Webhook(_) => {
            everywhere(kind.clone())
        }
        ObstacleKind::NotFound => (key.to_string(), kind.clone()),
        ObstacleKind::Budget(_)
        | ObstacleKind::TwoBudgets
        | ObstacleKind::Namespace
        | ObstacleKind::Forbidden
        | ObstacleKind::Other => (key.namespace.clone(), kind.clone()),
    }
}

/// Of what concerns all pods.
pub(super) fn everywhere(kind: ObstacleKind) -> Place {
    (String::new(), kind)
}

/// Up to a quarter of a second, the same for the same question: many nodes behind one budget do not ask in step, and
/// a test sees what a run does.
fn jitter(seed: &str, place: &Place, refusals: usize) -> Duration {
    let digest = sha256(format!("{seed}{place:?}{refusals}").as_bytes());
    let byte = digest.get(..2).and_then(|hex| u64::from_str_radix(hex, 16).ok()).unwrap_or_default();
    Duration::from_millis(byte)
}
