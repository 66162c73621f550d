//! A counting lock of Lease objects: N slots, `cgroup2-migrate-<pool>-<slot>`, one holder each.
//!
//! A slot is taken and given back by replacing its object as it was read (compare-and-swap). Whoever takes it raises
//! `leaseTransitions`: the fencing number that a run writes down and looks at again before each step.
//!
//! No slot is ever freed because time went by. A node that does not come back from its reboot is the very moment at
//! which the next one must not start, and a clock cannot tell it from a slow one. A slot goes to somebody else if
//! 1. its holder's Node object is gone, or is another one (other UID);
//! 2. its holder's node is Ready and says that this run is over ([`super::PHASE`], [`super::RUN`]);
//! 3. a person frees it, with a reason.
//!
//! Slot 0 speaks for the pool: how many slots there are, what failed, and whether the fleet is halted.

mod acquire;
mod hold;
mod holder;
mod judge;
mod person;
mod pool;
mod slot;
mod words;

use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use serde::{Deserialize, Serialize};

pub use holder::Holder;
pub(super) use judge::is_ready;
pub use pool::{FAILURES, Failure, HALTED, RESUMED, SLOTS};
pub use slot::{EXPECTED_BACK_BY, NODE, RELEASED, SLOT_PHASE};
pub use words::{Acquired, Forced, Held, Mine, Outcome, PoolStatus, Released, Resumed, SlotStatus};

use super::super::{ApiError, NodeApi};
use crate::host::Clock;
use pool::Pool;
use slot::Slot;

/// The most slots a pool can have: each is an object that every node reads.
pub const MOST_SLOTS: u32 = 1000;

/// How often something is tried against others who write at the same time.
const ATTEMPTS: usize = 10;

/// How the slots of a pool are shared: the same on all its nodes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// Namespace of the Lease objects.
    pub namespace: String,
    /// Part of their names; nodes of different pools do not wait for each other.
    pub pool: String,
    /// How many nodes may be away at once.
    pub slots: u32,
    /// After so many failures nobody starts until a person says so.
    pub halt_after: usize,
    /// `leaseDurationSeconds`: for people and dashboards; nothing is freed by it.
    pub duration: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            namespace: "cgroup2-migrate".to_owned(),
            pool: "nodes".to_owned(),
            slots: 1,
            halt_after: 1,
            duration: Duration::from_secs(3600),
        }
    }
}

impl Settings {
    /// The settings for a node of this kind: control-plane nodes go one at a time, in a pool of their own.
    #[must_use]
    pub fn for_node(&self, control_plane: bool) -> Self {
        if !control_plane {
            return self.clone();
        }
        Self { pool: format!("{}-control-plane", self.pool), slots: 1, ..self.clone() }
    }

    /// Name of a slot's Lease object.
    #[must_use]
    pub fn lease_name(&self, slot: u32) -> String {
        format!("cgroup2-migrate-{}-{slot}", self.pool)
    }
}

/// Who asks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Me {
    /// Name of the Node object.
    pub node: String,
    /// Node, run and boot.
    pub holder: Holder,
}

/// A slot that was taken: for the journal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Hold {
    /// Which.
    pub slot: u32,
    /// `leaseTransitions` when it was taken.
    pub fencing: i32,
}

/// The lock of one pool, as one node sees it.
pub struct LeaseLock<'a> {
    /// The cluster.
    pub api: &'a dyn NodeApi,
    /// For the times that are written into the slots; nothing is decided by it.
    pub clock: &'a dyn Clock,
    /// The pool.
    pub settings: &'a Settings,
    /// This node.
    pub me: &'a Me,
}

impl LeaseLock<'_> {
    fn look(&self) -> Result<Pool, ApiError> {
        Ok(Pool::read(self.settings, &self.api.leases(&self.settings.namespace)?))
    }

    fn put(&self, slot: &Slot) -> Result<Lease, ApiError> {
        self.api.put_lease(&self.settings.namespace, &slot.lease)
    }

    /// Reads, changes what was read, and begins again if somebody wrote in between. What `change` returns with no slot
    /// to write is the end of it. `None` if others were first each time.
    fn swap<T>(
        &self,
        mut change: impl FnMut(&Pool) -> Result<Change<T>, ApiError>,
    ) -> Result<Option<T>, ApiError> {
        for _ in 0..ATTEMPTS {
            let (slot, outcome) = match change(&self.look()?)? {
                Change::Nothing(outcome) => return Ok(Some(outcome)),
                Change::Write(slot, outcome) => (slot, outcome),
            };
            match self.put(&slot) {
                Ok(_) => return Ok(Some(outcome)),
                Err(error) if error.code() == Some(409) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(None)
    }

    /// As [`Self::swap`], where giving up is an error.
    fn swap_or_fail<T>(
        &self,
        change: impl FnMut(&Pool) -> Result<Change<T>, ApiError>,
    ) -> Result<T, ApiError> {
        self.swap(change)?.ok_or_else(|| {
            let pool = &self.settings.pool;
            ApiError::Unreachable(format!(
                "the slots of pool {pool} were changed by others {ATTEMPTS} times in a row; try again"
            ))
        })
    }
}

/// What becomes of a slot, and what is said if that succeeds.
enum Change<T> {
    Nothing(T),
    Write(Box<Slot>, T),
}
