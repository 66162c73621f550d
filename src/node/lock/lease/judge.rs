//! Whether a slot that has a holder may go to somebody else.

use k8s_openapi::api::core::v1::Node;

use super::holder::Holder;
use super::slot::{EXPECTED_BACK_BY, NODE, Occupant, SLOT_PHASE, Slot};
use crate::node::lock::{FINAL, PHASE, RUN};
use crate::node::{ApiError, NodeApi};

/// Whether a slot that has a holder may go to somebody else.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It may not, and why.
    Stays(String),
    /// Its holder is no more.
    Stale(String),
    /// Its holder's run is over, and left it behind; with this final phase.
    Over { words: String, phase: String },
}

/// Looks at the holder's node. An answer that leaves it open ("forbidden") keeps the slot; none at all is an error.
pub(super) fn judge(api: &dyn NodeApi, slot: &Slot) -> Result<Verdict, ApiError> {
    let holder = match slot.occupant() {
        Occupant::Run(holder) => holder,
        Occupant::Nobody => return Ok(Verdict::Stale("nobody has it".to_owned())),
        Occupant::Foreign(text) => return Ok(Verdict::Stays(foreign(slot, &text))),
    };
    let Some(name) = slot.annotation(NODE) else {
        let words =
            format!("held by {holder}, but {} has no annotation {NODE}: {}", slot.name(), person(slot));
        return Ok(Verdict::Stays(words));
    };
    match api.node(name) {
        Ok(node) => Ok(with_node(slot, &holder, name, &node)),
        Err(error) if error.code() == Some(404) => {
            Ok(Verdict::Stale(format!("stale lock of {name}: there is no such node any more")))
        }
        Err(ApiError::Refused(status)) => Ok(Verdict::Stays(format!(
            "held by {name}, and what became of that node cannot be found out: {status}; {}",
            person(slot)
        ))),
        Err(error @ (ApiError::Unreachable(_) | ApiError::Unusable(_))) => Err(error),
    }
}

fn with_node(slot: &Slot, holder: &Holder, name: &str, node: &Node) -> Verdict {
    let uid = node.metadata.uid.as_deref().unwrap_or_default();
    if uid != holder.node_uid {
        let words = format!("stale lock of {name}: another node has that name now (UID {uid})");
        return Verdict::Stale(words);
    }
    let ready = is_ready(node);
    match final_phase(node, holder).filter(|_| ready) {
        Some(phase) => Verdict::Over {
            words: format!("stale lock of {name}: its run is over ({phase}) and left it behind"),
            phase: phase.to_owned(),
        },
        None => Verdict::Stays(held(slot, name, ready)),
    }
}

/// The phase in which this very run ended.
fn final_phase<'a>(node: &'a Node, holder: &Holder) -> Option<&'a str> {
    let annotations = node.metadata.annotations.as_ref()?;
    let phase = annotations.get(PHASE)?.as_str();
    let is_of_this_run = annotations.get(RUN) == Some(&holder.run);
    (is_of_this_run && FINAL.contains(&phase)).then_some(phase)
}

/// True if the kubelet says so, and the control plane still hears from it.
pub(in crate::node::lock) fn is_ready(node: &Node) -> bool {
    let conditions = node.status.as_ref().and_then(|status| status.conditions.as_ref());
    conditions.into_iter().flatten().any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

fn held(slot: &Slot, name: &str, ready: bool) -> String {
    let since = slot.since().map(|time| format!(" since {time:.0}")).unwrap_or_default();
    let phase = slot.annotation(SLOT_PHASE).map(|phase| format!(", {phase}")).unwrap_or_default();
    let back = slot
        .annotation(EXPECTED_BACK_BY)
        .map(|time| format!(", expected back by {time}"))
        .unwrap_or_default();
    let words = format!("held by {name}{since}{phase}{back}");
    if ready { words } else { format!("{words}; that node is not Ready: {}", person(slot)) }
}

fn foreign(slot: &Slot, text: &str) -> String {
    format!(
        "the holder of {} is not one of ours ({text:?}), so it is left alone: {}",
        slot.name(),
        person(slot)
    )
}

fn person(slot: &Slot) -> String {
    format!("if it will not come back, `cgroup2-migrate lock release --slot {} --reason WHY`", slot.index)
}
