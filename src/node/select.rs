//! What a drain does with each pod: pure, from the pod alone.
//!
//! Nothing is asked about owners: a kubelet's credential may not read DaemonSets, and the owner reference says all
//! that counts.

use std::time::Duration;

use super::pod::NodePod;

/// How long after its grace period a pod that is still there counts as stuck. Volumes are unmounted and the last
/// status is sent in that time; a node that is well needs seconds for it.
const STUCK_AFTER: Duration = Duration::from_secs(300);

/// What a person allowed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Allowed {
    /// Data of `emptyDir` volumes may be lost.
    pub empty_dir_data: bool,
    /// Pods that nobody makes anew may go for good.
    pub unmanaged: bool,
}

/// What is done with a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Choice {
    /// It is evicted, or is on its way out already.
    Evict,
    /// It stays, and that is right.
    Leave(Reason),
    /// It cannot be evicted without somebody's word.
    Object(Vec<Objection>),
}

/// Why a pod stays.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// A static pod: the kubelet runs it from a file, the API only shows it.
    Mirror,
    /// Its DaemonSet would put it back at once.
    DaemonSet,
    /// It is bound to another node (any more).
    OtherNode,
}

/// Why a pod is not evicted without somebody's word.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Objection {
    /// `emptyDir` volumes, whose data goes with it.
    EmptyDir(Vec<String>),
    /// Nobody makes it anew.
    Unmanaged,
    /// It should have ended this long ago.
    StuckTerminating(Duration),
}

/// What is done with a pod of `node`. All objections at once.
#[must_use]
pub fn choose(pod: &NodePod, node: &str, allowed: Allowed, now: jiff::Timestamp) -> Choice {
    if let Some(reason) = reason_to_stay(pod, node) {
        return Choice::Leave(reason);
    }
    match objections(pod, allowed, now) {
        none if none.is_empty() => Choice::Evict,
        some => Choice::Object(some),
    }
}

fn reason_to_stay(pod: &NodePod, node: &str) -> Option<Reason> {
    if pod.node != node {
        return Some(Reason::OtherNode);
    }
    if pod.mirror {
        return Some(Reason::Mirror);
    }
    // Of whatever group: one of OpenKruise puts its pods back as well. kubectl 1.37 knows those of apps/v1 only, and
    // asks whether they are still there (kube-tests/tests/differential.rs has every difference).
    let is_of_daemon_set = pod.owner.as_ref().is_some_and(|owner| owner.kind == "DaemonSet");
    (is_of_daemon_set && !pod.finished).then_some(Reason::DaemonSet)
}

fn objections(pod: &NodePod, allowed: Allowed, now: jiff::Timestamp) -> Vec<Objection> {
    // On its way out already: whatever it loses, it loses without us.
    if pod.deletion.is_some() {
        return stuck_since(pod, now).map(Objection::StuckTerminating).into_iter().collect();
    }
    // What has finished has no data anybody waits for, and nobody makes it anew in any case.
    if pod.finished {
        return Vec::new();
    }
    let mut objections = Vec::new();
    if !pod.empty_dirs.is_empty() && !allowed.empty_dir_data {
        objections.push(Objection::EmptyDir(pod.empty_dirs.clone()));
    }
    if pod.owner.is_none() && !allowed.unmanaged {
        objections.push(Objection::Unmanaged);
    }
    objections
}

/// How long ago it should have ended, if that is too long ago to go on by itself. The deadline of the API holds the
/// grace period already. One whose containers have all ended is held by a finalizer only: nothing of it runs.
fn stuck_since(pod: &NodePod, now: jiff::Timestamp) -> Option<Duration> {
    let late = Duration::try_from(now.duration_since(pod.deletion.as_ref()?.deadline)).ok()?;
    (late > STUCK_AFTER && !pod.containers_gone).then_some(late)
}

impl std::fmt::Display for Objection {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::EmptyDir(volumes) => {
                write!(formatter, "data in emptyDir volumes would be lost: {}", volumes.join(", "))
            }
            Self::Unmanaged => write!(formatter, "no controller would make it anew"),
            Self::StuckTerminating(late) => {
                write!(formatter, "it should have ended {} s ago and is still there", late.as_secs())
            }
        }
    }
}
