//! May a node start now? One rule a file, each from plain facts; asked before the cordon and again right before the
//! reboot, because a fleet does not stand still.
//!
//! "Could not find out" is an answer of its own: a kubelet's credential may not read other nodes, and a gate that
//! needs them says so.

mod blockers;
mod control_plane;
mod etcd;
mod facts;
mod members;
mod pool;
mod settle;
mod window;
mod zones;

use std::time::Duration;

pub use blockers::{Command, run_command};
pub use etcd::{CONTROL_PLANE_OUTAGE, EtcdMember, etcd};
pub use facts::{Known, PoolNode, Seen, nodes, own};
pub use members::members;
pub use settle::{DaemonPod, Settled, settle};
pub use window::Window;
pub use zones::Zones;

use super::super::drain::Selector;

/// On a Node object: nobody takes this node down. The value says why.
pub const HOLD: &str = "cgroup2-migrate.io/hold";

/// How soon something may have changed that other nodes or people do.
const SOON: Duration = Duration::from_secs(60);

/// What a gate says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Gate {
    /// Go on.
    Open,
    /// Not now.
    Closed {
        /// What stands in the way.
        why: String,
        /// When to ask again; `None` if nothing changes by waiting.
        try_again_in: Option<Duration>,
    },
    /// It cannot be found out; never a yes.
    Unknown {
        /// What could not be found out.
        why: String,
    },
}

impl Gate {
    fn closed(why: impl Into<String>) -> Self {
        Self::Closed { why: why.into(), try_again_in: Some(SOON) }
    }

    fn unknown(why: impl Into<String>) -> Self {
        Self::Unknown { why: why.into() }
    }

    fn of<T>(known: &Known<T>, rule: impl FnOnce(&T) -> Self) -> Self {
        known.as_ref().map_or_else(|why| Self::unknown(why.clone()), rule)
    }
}

/// The rules of a fleet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rules {
    /// Nodes of the pool that may be unavailable at once, ours among them. `None`: not asked.
    pub max_unavailable: Option<usize>,
    /// Labels of the nodes that are in the pool with ours; control-plane nodes are a pool of their own in any case.
    pub pool: Vec<(String, String)>,
    /// How zones follow each other.
    pub zones: Zones,
    /// When.
    pub window: Option<Window>,
    /// Pods that must not be on the node.
    pub pods: Vec<Selector>,
    /// A program that says yes with exit code 0.
    pub command: Option<Command>,
    /// How long a node must have been well before the next one's turn.
    pub settle: Duration,
}

impl Default for Rules {
    fn default() -> Self {
        Self {
            max_unavailable: None,
            pool: Vec::new(),
            zones: Zones::Any,
            window: None,
            pods: Vec::new(),
            command: None,
            settle: Duration::ZERO,
        }
    }
}

impl Rules {
    /// True if other nodes have a say, whatever kind ours is.
    #[must_use]
    pub fn look_at_others(&self) -> bool {
        self.max_unavailable.is_some() || self.zones != Zones::Any
    }
}

/// Every gate by name, all at once. `accepted` are the ids that a person accepted.
#[must_use]
pub fn judged(rules: &Rules, seen: &Seen, accepted: &[String]) -> Vec<(&'static str, Gate)> {
    vec![
        ("hold", Gate::of(&seen.own, blockers::hold)),
        ("pods", blockers::pods(&rules.pods, &seen.pods)),
        ("command", seen.command.as_ref().map_or(Gate::Open, |ended| Gate::of(ended, blockers::command))),
        (
            "window",
            rules
                .window
                .as_ref()
                .map_or(Gate::Open, |window| window::window(window, seen.now, seen.expected)),
        ),
        ("pool", pool::pool(rules, &seen.own, &seen.nodes)),
        ("control-plane", control_plane::control_plane(&seen.own, &seen.nodes)),
        ("etcd", etcd(&seen.own, &seen.etcd, accepted)),
        ("zones", zones::zones(rules, &seen.own, &seen.nodes)),
    ]
}

/// All answers as one, with every reason: closed if one is, else unknown if one is.
#[must_use]
pub fn together(gates: &[(&'static str, Gate)]) -> Gate {
    let closed = gates.iter().filter_map(|(name, gate)| match gate {
        Gate::Closed { why, try_again_in } => Some((format!("{name}: {why}"), *try_again_in)),
        Gate::Open | Gate::Unknown { .. } => None,
    });
    let (closed, pauses): (Vec<String>, Vec<Option<Duration>>) = closed.unzip();
    let unknown = gates.iter().filter_map(|(name, gate)| match gate {
        Gate::Unknown { why } => Some(format!("{name}: {why}")),
        Gate::Open | Gate::Closed { .. } => None,
    });
    let unknown: Vec<String> = unknown.collect();
    let why = closed.iter().chain(&unknown).cloned().collect::<Vec<_>>().join("; ");
    match (closed.is_empty(), unknown.is_empty()) {
        (true, true) => Gate::Open,
        (true, false) => Gate::Unknown { why },
        // Before the last of them opens there is nothing to ask for.
        (false, _) => Gate::Closed {
            why,
            try_again_in: pauses.into_iter().try_fold(Duration::ZERO, |most, pause| Some(most.max(pause?))),
        },
    }
}
