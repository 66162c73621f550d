//! Out of service and back: what the steps for a node do at the API server. Every one can be repeated.

use std::path::Path;
use std::time::Duration;

use anyhow::{Result, anyhow};
use k8s_openapi::api::core::v1::Node;

use super::failpoint::reach;
use super::journal::{Journal, NodePart, Options};
use super::phase::PhaseName;
use super::store::Store;
use crate::host::Clock;
use crate::node::budgets::with_budgets;
use crate::node::cordon::{self, Before, CordonError, Uncordoned};
use crate::node::drain::{self, Listener, Outcome, Policy, Progress};
use crate::node::select::{Allowed, Choice, choose};
use crate::node::story::{self, Chapter};
use crate::node::{ApiError, NodeApi};

/// How often the API server is asked again while it does not answer, or the node is not ready yet.
const PAUSE: Duration = Duration::from_secs(10);

/// How long one run waits for an API server that does not answer. The unit that resumes comes again after it.
const API_PATIENCE: Duration = Duration::from_secs(1800);

/// The same for the cordon: nothing is changed yet that would have to be held up.
const CORDON_PATIENCE: Duration = Duration::from_secs(300);

/// How long the kubelet may take to report a proven boot as ready. It restarts every pod of the node in that time.
const READY_WITHIN: Duration = Duration::from_secs(900);

/// The way to the API server. Made anew for each step: certificates are renewed, and a run outlives a reboot.
pub trait Kubernetes {
    /// Makes a client with the credential of the settings, and lets it be used.
    ///
    /// # Errors
    /// [`ApiError`] if there is none that can be used.
    fn connect(&self, with: &mut dyn FnMut(&dyn NodeApi)) -> Result<(), ApiError>;
    /// As [`Self::connect`], with the credential of the lock if that is another one.
    ///
    /// # Errors
    /// [`ApiError`] if there is none that can be used.
    fn connect_lock(
        &self,
        kubeconfig: Option<&Path>,
        with: &mut dyn FnMut(&dyn NodeApi),
    ) -> Result<(), ApiError>;
    /// Is told how the drain goes.
    fn tell(&self, progress: &Progress);
}

/// How a step went.
#[derive(Debug)]
pub enum Went {
    /// It is done.
    On,
    /// It is not done, and nothing speaks against trying again later.
    Later(String),
    /// It cannot be done: the way back.
    Back(anyhow::Error),
    /// A signal came.
    Interrupted,
}

/// Everything a step needs.
pub(super) struct Service<'a> {
    pub(super) kubernetes: &'a dyn Kubernetes,
    pub(super) clock: &'a dyn Clock,
    pub(super) store: Store<'a>,
    pub(super) stop_asked: &'a dyn Fn() -> bool,
}

impl Service<'_> {
    /// Cordons the node. That we are about to is written down first. A server that does not answer for a moment, or
    /// whose answer was lost, is asked again: a run that ended here could leave its cordon on.
    pub(super) fn cordon(&self, journal: &mut Journal) -> Result<Went> {
        part(journal)?.cordon_begun = true;
        self.store.save(journal)?;
        reach("before-cordon");
        let mut waited = Duration::ZERO;
        loop {
            let error = match self.try_cordon(journal) {
                Ok(()) => break,
                Err(error) => error,
            };
            if !error.may_pass() || waited >= CORDON_PATIENCE {
                return Ok(later_or_back(error));
            }
            if (self.stop_asked)() {
                return Ok(Went::Interrupted);
            }
            self.waits(journal, &error.to_string())?;
            waited += PAUSE;
        }
        reach("after-cordon");
        part(journal)?.cordoned = true;
        Ok(Went::On)
    }

    fn try_cordon(&self, journal: &Journal) -> Result<(), CordonError> {
        let Some(node) = &journal.node else { return Ok(()) };
        self.connected(|api| {
            cordon::cordon(api, &node.before, &journal.txn)?;
            self.told(
                api,
                journal,
                "CgroupMigrationCordoned",
                "cordoned for the migration to cgroup v2",
                false,
            );
            Ok(())
        })
    }

    /// Lets every pod go that has to.
    pub(super) fn drain(&self, journal: &mut Journal) -> Result<Went> {
        let policy = || policy(journal);
        let outcome = self.connected(|api| {
            let mut listener = Telling(self.kubernetes);
            let node = node_name(journal);
            let outcome = drain::run(policy(), api.drain_port(&node).as_mut(), &mut listener);
            let outcome = with_budgets(api, &node, outcome);
            self.told(api, journal, reason(&outcome), &outcome.to_string(), outcome.is_failure());
            Ok(outcome)
        });
        reach("after-drain");
        match outcome {
            Ok(Outcome::Drained(_)) => part(journal)?.drained = true,
            Ok(Outcome::Interrupted) => return Ok(Went::Interrupted),
            Ok(failed @ (Outcome::Blocked(_) | Outcome::Lost(_))) => {
                return Ok(Went::Back(anyhow!("{failed}")));
            }
            Err(error) => return Ok(later_or_back(error)),
        }
        Ok(Went::On)
    }

    /// Right before the reboot: what speaks against it at a node that was drained, maybe days ago.
    pub(super) fn is_out(&self, journal: &mut Journal) -> Result<(Went, Option<String>)> {
        let mut found = None;
        let went = self.wait_for(journal, |service, journal| {
            let Some(node) = journal.node.as_ref().filter(|node| node.drained) else {
                return Ok(Tried::Done);
            };
            let allowed = policy(journal).allowed;
            let looked = service.connected(|api| {
                back_in_service(api, &node.before, allowed, service.clock.now())
                    .map_err(CordonError::looking(&node.before.node))
            });
            Ok(match looked {
                Ok(what) => {
                    found = what;
                    Tried::Done
                }
                Err(error) if error.is_of_another_node() => Tried::Done,
                Err(error) => Tried::Unanswered(format!(
                    "whether the node is still out of service is not known: {error}"
                )),
            })
        })?;
        Ok((went, found))
    }

    /// Takes our own cordon off, if it is one. Of a boot that was proven the kubelet must have said that it is ready.
    pub(super) fn uncordon(&self, journal: &mut Journal, proven_boot: Option<&str>) -> Result<Went> {
        self.wait_for(journal, |service, journal| service.try_uncordon(journal, proven_boot))
    }

    /// Tries again and again. In a migration that waits for a person a node that is not ready is no reason for
    /// anything else than to come again later.
    pub(super) fn wait_for(
        &self,
        journal: &mut Journal,
        mut attempt: impl FnMut(&Self, &mut Journal) -> Result<Tried>,
    ) -> Result<Went> {
        // Each has its own time: while the API is away the kubelet cannot say that it is up.
        let (mut unready, mut unanswered) = (Duration::ZERO, Duration::ZERO);
        loop {
            let (why, waited, patience) = match attempt(self, journal)? {
                Tried::Done => return Ok(Went::On),
                Tried::Never(why) => return Ok(Went::Back(anyhow!(why))),
                Tried::NotReady(why)
                    if unready >= READY_WITHIN && journal.state.name() != PhaseName::NeedsPerson =>
                {
                    return Ok(Went::Back(anyhow!(why)));
                }
                Tried::NotReady(why) => (why, &mut unready, READY_WITHIN),
                Tried::Unanswered(why) => (why, &mut unanswered, API_PATIENCE),
            };
            if (self.stop_asked)() {
                return Ok(Went::Interrupted);
            }
            if *waited >= patience {
                return Ok(Went::Later(why));
            }
            *waited += PAUSE;
            self.waits(journal, &why)?;
        }
    }

    fn waits(&self, journal: &mut Journal, why: &str) -> Result<()> {
        if journal.waiting.as_deref() != Some(why) {
            journal.waiting = Some(why.to_owned());
            self.store.save(journal)?;
        }
        self.clock.sleep(PAUSE);
        Ok(())
    }

    fn try_uncordon(&self, journal: &mut Journal, proven_boot: Option<&str>) -> Result<Tried> {
        let (run, before) = (journal.txn.clone(), part(journal)?.before.clone());
        let outcome = self.connected(|api| {
            let node = api.node(&before.node).map_err(CordonError::looking(&before.node))?;
            if let Some(why) = proven_boot.and_then(|boot_id| not_ready(&node, boot_id)) {
                return Ok(Err(why));
            }
            let uncordoned = cordon::uncordon(api, &before, &run)?;
            self.told(api, journal, "CgroupMigrationUncordoned", &uncordoned.to_string(), false);
            Ok(Ok(uncordoned))
        });
        reach("after-uncordon");
        let left = match outcome {
            Ok(Err(why)) => return Ok(Tried::NotReady(why)),
            Ok(Ok(Uncordoned::Done)) => None,
            Ok(Ok(Uncordoned::NotOurs(why))) => Some(why),
            // Then there is no cordon of ours any more.
            Err(error) if error.is_of_another_node() => Some(error.to_string()),
            Err(error) => return Ok(Tried::Unanswered(format!("the node is still cordoned: {error}"))),
        };
        let node = part(journal)?;
        node.released = true;
        node.left_cordoned = left;
        Ok(Tried::Done)
    }

    pub(super) fn connected<T>(
        &self,
        with: impl Fn(&dyn NodeApi) -> Result<T, CordonError>,
    ) -> Result<T, CordonError> {
        let mut outcome = None;
        let connected = self.kubernetes.connect(&mut |api| outcome = Some(with(api)));
        connected.map_err(CordonError::looking("of this host"))?;
        let nobody = || ApiError::Unusable("no client was made".to_owned());
        outcome.unwrap_or_else(|| Err(CordonError::looking("of this host")(nobody())))
    }

    fn told(&self, api: &dyn NodeApi, journal: &Journal, reason: &str, message: &str, is_warning: bool) {
        if let Some(node) = &journal.node {
            story::phase(api, &node.before, journal.state.name().as_str());
            story::event(api, &node.before, Chapter { reason, message, is_warning }, self.clock.now());
        }
    }
}

/// What came of one try.
pub(super) enum Tried {
    /// It is done.
    Done,
    /// Not yet.
    NotReady(String),
    /// Nobody answers.
    Unanswered(String),
    /// It never will be.
    Never(String),
}

/// Passes progress on.
struct Telling<'a>(&'a dyn Kubernetes);

impl Listener for Telling<'_> {
    fn progress(&mut self, progress: &Progress) {
        self.0.tell(progress);
    }
}

/// What shows that somebody put the node back into service. What is on its way out, or has ended, does not.
fn back_in_service(
    api: &dyn NodeApi,
    before: &Before,
    allowed: Allowed,
    now: jiff::Timestamp,
) -> Result<Option<String>, ApiError> {
    let name = &before.node;
    let node = api.node(name)?;
    if node.metadata.uid.as_ref().is_some_and(|uid| *uid != before.uid) {
        return Ok(None);
    }
    if !cordon::is_cordoned(&node) {
        return Ok(Some(format!("node {name} is not cordoned any more")));
    }
    let pods = api.pods(name)?;
    let run = pods.iter().filter(|pod| pod.deletion.is_none() && !pod.finished);
    let has_to_go = run.filter(|pod| !matches!(choose(pod, name, allowed, now), Choice::Leave(_)));
    let names: Vec<String> = has_to_go.map(|pod| pod.key.to_string()).collect();
    Ok((!names.is_empty()).then(|| format!("pods run on node {name} again: {}", names.join(", "))))
}

fn later_or_back(error: CordonError) -> Went {
    if error.may_pass() { Went::Later(error.to_string()) } else { Went::Back(error.into()) }
}

fn part(journal: &mut Journal) -> Result<&mut NodePart> {
    journal.node.as_mut().ok_or_else(|| anyhow!("the journal has no node: a fault in the program"))
}

fn node_name(journal: &Journal) -> String {
    journal.node.as_ref().map(|node| node.before.node.clone()).unwrap_or_default()
}

fn policy(journal: &Journal) -> Policy {
    let Options { accepted, drain, .. } = &journal.options;
    let is_accepted = |id: &str| accepted.iter().any(|accepted| accepted == id);
    Policy {
        allowed: Allowed {
            empty_dir_data: is_accepted("pod-emptydir-data"),
            unmanaged: is_accepted("pod-unmanaged"),
        },
        time_limit: Duration::from_secs(drain.time_limit_seconds),
        on_blocked: drain.on_blocked,
        ..Policy::new(&node_name(journal))
    }
}

fn reason(outcome: &Outcome) -> &'static str {
    if outcome.is_failure() { "CgroupMigrationDrainFailed" } else { "CgroupMigrationDrained" }
}

/// Why the node is not in service in this boot yet. The kubelet's last word of an earlier boot does not count.
pub(super) fn not_ready(node: &Node, boot_id: &str) -> Option<String> {
    let status = node.status.as_ref();
    let reported = status.and_then(|status| status.node_info.as_ref()).map(|info| info.boot_id.as_str());
    if reported != Some(boot_id) {
        return Some("the kubelet has not reported this boot yet".to_owned());
    }
    let conditions = status.and_then(|status| status.conditions.as_ref());
    let ready = conditions.into_iter().flatten().find(|condition| condition.type_ == "Ready");
    match ready {
        Some(ready) if ready.status == "True" => None,
        Some(ready) => {
            Some(format!("the node is not ready: {}", ready.message.as_deref().unwrap_or("no reason given")))
        }
        None => Some("the node has no condition Ready yet".to_owned()),
    }
}
