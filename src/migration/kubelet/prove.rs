//! Whether it is up with its new files: its unit, what it tells of the node, what it says itself, and that what ran
//! before its restart runs on.

use std::time::Duration;

use anyhow::{Result, anyhow};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;

use super::{Kubelet, part, running};
use crate::facts::kubelet;
use crate::kubelet::{Goal, configz, flip};
use crate::migration::journal::{Journal, KubeletRestart, RunningContainer};
use crate::migration::service::{Service, Tried, Went, not_ready};
use crate::node::cordon::CordonError;
use crate::node::{ApiError, NodeApi};

/// Pause between two looks at the unit.
const PAUSE: Duration = Duration::from_secs(1);

/// How many looks in a row must show it running: one that is in a loop of crashes runs now and then.
const STEADY_LOOKS: u32 = 10;

/// How long it may take to get there.
const UP_WITHIN: Duration = Duration::from_secs(300);

impl Kubelet<'_> {
    /// Waits until it is up.
    pub(in crate::migration) fn prove(&self, journal: &mut Journal) -> Result<Went> {
        let restart = part(journal)?.restart.clone();
        let restart =
            restart.ok_or_else(|| anyhow!("the kubelet was not restarted: a fault in the program"))?;
        let unit = part(journal)?.unit.clone().unwrap_or_default();
        if let Some(left) = self.steady(&unit) {
            return Ok(left);
        }
        let mut said = None;
        let went = self
            .service
            .wait_for(journal, |service, journal| Ok(asked(service, journal, &restart, &mut said)))?;
        if matches!(went, Went::On) {
            self.agrees(journal, said)?;
        }
        Ok(went)
    }

    /// `None` once the unit runs, and has for a while.
    fn steady(&self, unit: &str) -> Option<Went> {
        let host = self.effects.host;
        let (mut waited, mut looks) = (Duration::ZERO, 0);
        loop {
            let state = host.init.active_state(unit).unwrap_or_else(|error| format!("not known ({error})"));
            looks = if state == "active" { looks + 1 } else { 0 };
            if looks >= STEADY_LOOKS {
                return None;
            }
            if (self.service.stop_asked)() {
                return Some(Went::Interrupted);
            }
            if waited >= UP_WITHIN {
                return Some(Went::Back(anyhow!(
                    "with failCgroupV1: true the kubelet ({unit}) did not come up and stay up within {UP_WITHIN:?}: it is \
                     {state}; see journalctl -u {unit}"
                )));
            }
            host.clock.sleep(PAUSE);
            waited += PAUSE;
        }
    }

    /// It is up. That something else decides its value is told and does no harm: this boot is proven.
    fn agrees(&self, journal: &mut Journal, said: Option<bool>) -> Result<()> {
        let by_files = || flip(&kubelet::setup(self.effects.host, true), Goal::RefuseV1);
        let agrees = said.unwrap_or_else(|| by_files().is_ok_and(|changes| changes.is_empty()));
        let part = part(journal)?;
        part.proven = true;
        if !agrees {
            part.notes.push(
                "the kubelet is up, but failCgroupV1 is still false: something that is not known here decides it (ask it: \
                 kubectl get --raw /api/v1/nodes/NODE/proxy/configz)"
                    .to_owned(),
            );
        }
        Ok(())
    }
}

/// What the API server knows of it; done where none is asked.
fn asked(
    service: &Service<'_>,
    journal: &Journal,
    restart: &KubeletRestart,
    said: &mut Option<bool>,
) -> Tried {
    let Some(node) = &journal.node else { return Tried::Done };
    let name = &node.before.node;
    let told = service.connected(|api| {
        let tried = tell(api, name, restart).map_err(CordonError::looking(name))?;
        // With a kubelet's credential that is forbidden: then its files say it.
        let config = api.configz(name).ok().filter(|_| matches!(tried, Tried::Done));
        Ok((tried, config.as_ref().and_then(configz::fail_cgroup_v1)))
    });
    match told {
        Ok((tried, value)) => {
            *said = value;
            tried
        }
        // Then there is no cordon of ours any more that the kubelet's word would take off.
        Err(error) if error.is_of_another_node() => Tried::Done,
        Err(error) => Tried::Unanswered(format!("whether the kubelet is up is not known: {error}")),
    }
}

fn tell(api: &dyn NodeApi, name: &str, restart: &KubeletRestart) -> Result<Tried, ApiError> {
    let node = api.node(name)?;
    if let Some(why) = not_ready(&node, &restart.boot_id).or_else(|| silent_since(&node, restart.at)) {
        return Ok(Tried::NotReady(format!("after the restart of the kubelet: {why}")));
    }
    // Whatever runs now: what it is compared with ran in this boot.
    let replaced = replaced(&restart.containers, &running(api, name, Some(Timestamp::MIN))?);
    Ok(if replaced.is_empty() {
        Tried::Done
    } else {
        Tried::Never(format!("the restart of the kubelet restarted containers: {}", replaced.join(", ")))
    })
}

/// What the node tells may be the last word of the kubelet before its restart. Heartbeats have whole seconds.
fn silent_since(node: &Node, restart: Timestamp) -> Option<String> {
    let conditions = node.status.as_ref()?.conditions.iter().flatten();
    let ready = conditions.into_iter().find(|condition| condition.type_ == "Ready")?;
    let heartbeat = ready.last_heartbeat_time.as_ref().map(|time| time.0.as_second());
    let is_new = heartbeat.is_some_and(|heartbeat| heartbeat >= restart.as_second());
    (!is_new).then(|| "it has not reported the node yet".to_owned())
}

/// Containers of pods that are still there, and are others now. One that is not ready right now says nothing.
fn replaced(before: &[RunningContainer], now: &[RunningContainer]) -> Vec<String> {
    let is_same =
        |one: &RunningContainer, other: &RunningContainer| one.uid == other.uid && one.name == other.name;
    let others = before.iter().filter(|old| now.iter().any(|new| is_same(old, new) && old.id != new.id));
    others.map(|old| format!("{} of {}", old.name, old.pod)).collect()
}
