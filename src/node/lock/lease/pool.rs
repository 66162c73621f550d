//! All slots of a pool, as they were read at once, and what slot 0 says about the pool.

use k8s_openapi::api::coordination::v1::Lease;
use serde::{Deserialize, Serialize};

use super::holder::Holder;
use super::slot::{Occupant, Slot};
use super::{MOST_SLOTS, Me, Settings};

/// On slot 0: how many slots there are. It is written once, so that nodes cannot disagree.
pub const SLOTS: &str = "cgroup2-migrate.io/slots";
/// On slot 0: the runs that failed since the last `lock resume`, as JSON.
pub const FAILURES: &str = "cgroup2-migrate.io/failures";
/// On slot 0: why nobody may take a slot.
pub const HALTED: &str = "cgroup2-migrate.io/halted";
/// On slot 0: who ended the last halt, and when.
pub const RESUMED: &str = "cgroup2-migrate.io/resumed";

/// A run that did not take its node to cgroup v2.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// Name of the node.
    pub node: String,
    /// The run: it counts once, however often it says so.
    pub run: String,
    /// What happened.
    pub why: String,
}

impl std::fmt::Display for Failure {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{}: {}", self.node, self.why)
    }
}

/// All slots, as they were read at once.
#[derive(Debug, Clone)]
pub(super) struct Pool {
    pub(super) slots: Vec<Slot>,
}

impl Pool {
    /// As many as were fixed, or as our settings say before that.
    pub(super) fn read(settings: &Settings, leases: &[Lease]) -> Self {
        let first = Slot::find(settings, 0, leases);
        let fixed = first.annotation(SLOTS).and_then(|text| text.parse().ok());
        let count: u32 = fixed.filter(|count| *count <= MOST_SLOTS).unwrap_or(settings.slots);
        let others = (1..count).map(|index| Slot::find(settings, index, leases));
        Self { slots: std::iter::once(first).chain(others).collect() }
    }

    fn first(&self, key: &str) -> Option<&str> {
        self.slots.first()?.annotation(key)
    }

    pub(super) fn slot(&self, index: u32) -> Option<&Slot> {
        self.slots.iter().find(|slot| slot.index == index)
    }

    /// The number of slots as it was fixed.
    pub(super) fn fixed(&self) -> Option<&str> {
        self.first(SLOTS)
    }

    pub(super) fn halted(&self) -> Option<&str> {
        self.first(HALTED)
    }

    /// What failed; an error if that text is not ours.
    pub(super) fn failures(&self) -> Result<Vec<Failure>, String> {
        let text = self.first(FAILURES).unwrap_or("[]");
        serde_json::from_str(text)
            .map_err(|error| format!("the annotation {FAILURES} cannot be read: {error}"))
    }

    /// Slots of this very run.
    pub(super) fn of_run<'a>(&'a self, holder: &'a Holder) -> impl Iterator<Item = &'a Slot> {
        self.slots.iter().filter(|slot| slot.holder().is_some_and(|other| other.is_same_run(holder)))
    }

    /// A slot that an earlier run of this node has: one node needs no second one.
    pub(super) fn of_node(&self, me: &Me) -> Option<&Slot> {
        let uid = &me.holder.node_uid;
        self.slots.iter().find(|slot| slot.holder().is_some_and(|other| other.node_uid == *uid))
    }

    /// Slots that nobody has, beginning at a place that differs between nodes.
    pub(super) fn free(&self, seed: &str) -> Option<&Slot> {
        let free: Vec<&Slot> = self.slots.iter().filter(|slot| slot.occupant() == Occupant::Nobody).collect();
        let place = seed.bytes().fold(7_usize, |sum, byte| sum.wrapping_mul(31).wrapping_add(byte.into()));
        free.get(place.checked_rem(free.len())?).copied()
    }

    /// Adds a failure to slot 0, and the halt if that makes too many. `None` if it counts already.
    pub(super) fn count(&self, failure: &Failure, settings: &Settings) -> Result<Option<Slot>, String> {
        let mut failures = self.failures()?;
        if failures.iter().any(|known| known.run == failure.run && known.node == failure.node) {
            return Ok(None);
        }
        failures.push(failure.clone());
        let Some(mut slot) = self.slots.first().cloned() else { return Ok(None) };
        if failures.len() >= settings.halt_after && slot.annotation(HALTED).is_none() {
            let all: Vec<String> = failures.iter().map(ToString::to_string).collect();
            slot.annotate(HALTED, Some(format!("{} failed ({})", nodes(all.len()), all.join("; "))));
        }
        let text = serde_json::to_string(&failures).map_err(|error| error.to_string())?;
        slot.annotate(FAILURES, Some(text));
        Ok(Some(slot))
    }
}

fn nodes(count: usize) -> String {
    if count == 1 { "1 node".to_owned() } else { format!("{count} nodes") }
}
