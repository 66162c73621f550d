//! Where a host stands, as data: what `status` prints.

use serde::Serialize;

use super::decide::gone_back;
use super::journal::{Entry, Journal, RebootRequest};
use super::phase::{Phase, PhaseName};
use crate::boot::hierarchy::Hierarchy;

/// Number of the shape of `status --json`.
pub const SCHEMA: u32 = 1;

/// Where a host stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Status {
    /// [`SCHEMA`].
    pub schema: u32,
    /// The phase, or `none` if there never was a migration.
    pub phase: &'static str,
    /// The reason of the phase, where it has one.
    pub why: Option<String>,
    /// What it waits for.
    pub waiting: Option<String>,
    /// What happens next.
    pub next: &'static str,
    /// The hierarchy that runs now.
    pub hierarchy: Hierarchy,
    /// The hierarchy before the migration.
    pub hierarchy_before: Option<Hierarchy>,
    /// The migration.
    pub txn: Option<String>,
    /// When the phase began.
    pub since: Option<jiff::Timestamp>,
    /// Reboots asked for.
    pub reboots: Vec<RebootRequest>,
    /// Blockers that were accepted.
    pub accepted: Vec<String>,
    /// Every phase so far.
    pub history: Vec<Entry>,
    /// What was left as it is, and which way is left to a person.
    pub notes: Vec<String>,
    /// True if nothing more will happen by itself.
    pub ended: bool,
}

/// Makes the status from the journal and the hierarchy seen now. What is seen beats what is remembered: a finished
/// migration on a host that runs v1 again needs a person.
#[must_use]
pub fn status(journal: Option<&Journal>, hierarchy: Hierarchy) -> Status {
    let Some(journal) = journal else { return none(hierarchy) };
    let gone_back = gone_back(hierarchy).filter(|_| journal.state == Phase::Done);
    let next =
        if gone_back.is_some() { "nothing by itself; `migrate` begins anew" } else { next(&journal.state) };
    let state = gone_back.map_or_else(|| journal.state.clone(), |why| Phase::NeedsPerson { why });
    Status {
        schema: SCHEMA,
        phase: state.name().as_str(),
        why: state.why().map(str::to_owned),
        waiting: journal.waiting.clone(),
        next,
        hierarchy,
        hierarchy_before: Some(journal.before.hierarchy),
        txn: Some(journal.txn.clone()),
        since: journal.history.last().map(|entry| entry.at),
        reboots: journal.reboots.clone(),
        accepted: journal.options.accepted.clone(),
        history: journal.history.clone(),
        notes: notes(journal),
        ended: state.is_final() || state.name() == PhaseName::NeedsPerson,
    }
}

fn none(hierarchy: Hierarchy) -> Status {
    Status {
        schema: SCHEMA,
        phase: "none",
        why: None,
        waiting: None,
        next: "nothing; `migrate` begins a migration",
        hierarchy,
        hierarchy_before: None,
        txn: None,
        since: None,
        reboots: Vec::new(),
        accepted: Vec::new(),
        history: Vec::new(),
        notes: Vec::new(),
        ended: true,
    }
}

fn notes(journal: &Journal) -> Vec<String> {
    let kubelet = journal.kubelet.iter();
    let of_kubelet = kubelet.flat_map(|kubelet| kubelet.notes.iter().chain(&kubelet.given_up)).cloned();
    let node = journal.node.iter();
    let cordoned = node.filter_map(|node| {
        let why = node.left_cordoned.as_ref()?;
        Some(format!("node {} stays cordoned: {why}", node.before.node))
    });
    of_kubelet.chain(cordoned).collect()
}

fn next(state: &Phase) -> &'static str {
    match state {
        Phase::Planned => "the files are written; after an interruption `resume` goes on",
        Phase::Locked => "the node leaves service; after an interruption `resume` goes on",
        Phase::Cordoned => "pods leave the node; after an interruption `resume` goes on",
        Phase::Drained => "the files are written; after an interruption `resume` goes on",
        Phase::Staged => "the reboot into cgroup v2",
        Phase::Rebooting => "the host comes up again and proves its hierarchy by itself",
        Phase::Booted => "the proofs of this boot",
        Phase::Verified => "the kubelet is told to refuse cgroup v1; then a node goes back into service",
        Phase::KubeletFinal => {
            "the kubelet is restarted with failCgroupV1: true and proven to be up; then a node goes back into service"
        }
        Phase::Uncordoned => "the last notes are written",
        Phase::Done => "nothing; `rollback` would put everything back",
        Phase::RollingBack { .. } => "every file is put back, then a reboot if the hierarchy is another one",
        Phase::RolledBack { .. } => "nothing; `migrate` begins anew",
        Phase::NeedsPerson { .. } => "nothing by itself; a person looks, then `resume` or `rollback`",
    }
}
