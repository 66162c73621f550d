//! What keeps a fleet from going down at once: a lock that nodes share, and gates that must be open before one starts.
//!
//! Two locks: slots that are Lease objects of the cluster ([`lease`]), or a FleetLock server ([`fleetlock`]). A lock
//! says whose turn it is; the [`gates`] say whether anybody's turn is now.

mod announce;
pub mod fleetlock;
pub mod gates;
pub mod lease;
pub mod preflight;

use std::time::Duration;

pub use announce::announce;

use crate::host::sha256;

/// On a Node object: the phase its run is in. With one of [`FINAL`] the run's slot may be freed by anybody.
pub const PHASE: &str = "cgroup2-migrate.io/phase";

/// On a Node object: the run that [`PHASE`] is of. A final phase of an earlier run says nothing about this one.
pub const RUN: &str = "cgroup2-migrate.io/run";

/// On a Node object: slot and fencing number its run works under.
pub const FENCING: &str = "cgroup2-migrate.io/fencing";

/// Phases after which a run does nothing more to its node.
pub const FINAL: [&str; 2] = ["done", "rolled-back"];

/// The first and the longest pause of a node that waits for its turn.
const PAUSES: [Duration; 2] = [Duration::from_secs(15), Duration::from_secs(120)];

/// How long to wait before the lock is asked for again, after so many times in vain. Up to a quarter is taken off, so
/// that the nodes of a fleet do not ask in step; `seed` sets a node apart from the others.
#[must_use]
pub fn pause(refusals: u32, seed: &str) -> Duration {
    let [first, longest] = PAUSES;
    let whole = first.saturating_mul(2_u32.saturating_pow(refusals)).min(longest);
    let digest = sha256(format!("{seed} {refusals}").as_bytes());
    let byte = digest.get(..2).and_then(|hex| u32::from_str_radix(hex, 16).ok()).unwrap_or_default();
    whole - whole * byte / (4 * 256)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_two_minutes_and_differ_between_nodes() {
        let seconds = |refusals| pause(refusals, "n-1").as_secs();
        assert!((11..=15).contains(&seconds(0)) && (22..=30).contains(&seconds(1)), "{}", seconds(1));
        assert!((90..=120).contains(&seconds(3)) && (90..=120).contains(&seconds(4_000_000)));
        assert!((0..20).map(|node| pause(5, &node.to_string())).any(|other| other != pause(5, "n-1")));
    }
}
