//! Judgements of what runs: proofs about the running node, each with its own answer (yes, no, or could not find out),
//! and in [`detection`] which hierarchy a host has and why.

pub mod detection;

use serde::{Deserialize, Serialize};

use crate::boot::hierarchy::Hierarchy;
use crate::facts::cgroup::{self, CgroupFacts, REQUIRED_CONTROLLERS};
use crate::host::Host;

/// The answer to one question.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Answer {
    /// Proven.
    Yes,
    /// Proven not to be so.
    No,
    /// Could not be found out.
    Unknown,
}

/// One question and its answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Proof {
    /// Stable word.
    pub id: String,
    /// The answer.
    pub answer: Answer,
    /// What was seen.
    pub detail: String,
}

/// All proofs of the running node. `needed` are the controllers that were usable before the migration: losing
/// one of them fails, a node that never had it is only told.
#[must_use]
pub fn prove(host: Host<'_>, needed: &[String]) -> Vec<Proof> {
    let cgroup = cgroup::scan(host.fs, host.mounts, &host.mounts.table());
    vec![hierarchy(&cgroup), no_v1_mounts(&cgroup), controllers(&cgroup, needed)]
}

/// All proofs together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// Every proof is a yes.
    Passed,
    /// One is a no: which, and what was seen.
    Failed(String),
    /// None is a no, but one could not be had.
    Unknown(String),
}

/// A no weighs more than what could not be found out.
#[must_use]
pub fn verdict(proofs: &[Proof]) -> Verdict {
    let first = |answer| proofs.iter().find(|proof| proof.answer == answer);
    if let Some(failed) = first(Answer::No) {
        return Verdict::Failed(format!("verification failed at {}: {}", failed.id, failed.detail));
    }
    match first(Answer::Unknown) {
        Some(open) => Verdict::Unknown(format!("verification is open at {}: {}", open.id, open.detail)),
        None => Verdict::Passed,
    }
}

fn hierarchy(cgroup: &CgroupFacts) -> Proof {
    let answer = match cgroup.hierarchy {
        Hierarchy::Unified => Answer::Yes,
        Hierarchy::Legacy | Hierarchy::Hybrid => Answer::No,
        Hierarchy::Unknown => Answer::Unknown,
    };
    proof("hierarchy", answer, format!("{}: {}", cgroup.hierarchy, cgroup.why))
}

fn proof(id: &str, answer: Answer, detail: String) -> Proof {
    Proof { id: id.to_owned(), answer, detail }
}

/// A controller that is mounted as v1 is missing in v2. One that no pod needs (net_cls of a VPN, freezer) does no
/// harm and is only told.
fn no_v1_mounts(cgroup: &CgroupFacts) -> Proof {
    let id = "no-v1-controllers";
    let Some(mounted) = &cgroup.v1_controllers else {
        return proof(id, Answer::Unknown, "the mount table could not be read".to_owned());
    };
    let (needed, other): (Vec<&str>, Vec<&str>) =
        mounted.iter().map(String::as_str).partition(|name| REQUIRED_CONTROLLERS.contains(name));
    if !needed.is_empty() {
        return proof(id, Answer::No, format!("still mounted as cgroup v1: {}", needed.join(", ")));
    }
    let rest =
        if other.is_empty() { String::new() } else { format!("; beside it, as v1: {}", other.join(", ")) };
    proof(id, Answer::Yes, format!("no controller that pods need is mounted as cgroup v1{rest}"))
}

fn controllers(cgroup: &CgroupFacts, needed: &[String]) -> Proof {
    let id = "controllers";
    let Some(available) = &cgroup.v2_controllers else {
        return proof(id, Answer::Unknown, "/sys/fs/cgroup/cgroup.controllers could not be read".to_owned());
    };
    let missing: Vec<&str> = REQUIRED_CONTROLLERS
        .into_iter()
        .filter(|name| needed.iter().any(|needed| needed == name))
        .filter(|name| !available.iter().any(|found| found == name))
        .collect();
    if missing.is_empty() {
        return proof(id, Answer::Yes, format!("available: {}", available.join(" ")));
    }
    proof(id, Answer::No, format!("not in cgroup.controllers, though needed: {}", missing.join(", ")))
}
