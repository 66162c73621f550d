//! The loop: look, decide, write the intent down, act, look again.

use std::cell::Cell;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};

use super::decide::{Ending, Step, decide};
use super::effects::Effects;
use super::failpoint::reach;
use super::fleet::{Turns, Waited};
use super::journal::{Journal, KubeletPart, Purpose};
use super::kubelet::Kubelet;
use super::leftovers;
use super::observe::observe;
use super::phase::{Phase, PhaseName};
use super::reboot::{self, Requested};
use super::service::{Kubernetes, Service, Went};
use crate::node::lock::gates::Rules;
use crate::verify::{self, Verdict};

/// More steps than any migration has. A loop that gets here is a fault, and stops before it does harm.
const STEPS_AT_MOST: usize = 500;

/// How often, and with which pause, a proof that could not be had is asked for again.
const VERIFY_AGAIN: usize = 5;
const VERIFY_PAUSE: Duration = Duration::from_secs(2);

/// One run of the program over one journal.
pub struct Drive<'a> {
    /// Host, journal's place, systemd.
    pub effects: Effects<'a>,
    /// The way to the API server, for a host that is a node.
    pub kubernetes: &'a dyn Kubernetes,
    /// The gates of the fleet, as they are set now.
    pub rules: &'a Rules,
    /// How long this run may still wait for a lock on shutdown to go away.
    pub patience: Cell<Duration>,
    /// Started by the unit: it concludes and goes back, but never begins the reboot into v2.
    pub at_boot: bool,
    /// True once a signal asked this run to end: it does so between two steps, or with a tool that was killed.
    pub stop_asked: &'a dyn Fn() -> bool,
    /// Told each phase as it begins, for people and for systemd.
    pub tell: &'a dyn Fn(&Journal),
}

impl Drive<'_> {
    /// Takes one step after another until there is nothing to do now.
    ///
    /// # Errors
    /// Only if the host cannot be looked at or the journal not be written: whatever was written last stands, and
    /// the next run goes on from there. A step that fails is no error but a way back.
    pub fn run(&self, journal: &mut Journal) -> Result<Ending> {
        for _ in 0..STEPS_AT_MOST {
            if (self.stop_asked)() && !has_ended(&journal.state) {
                return self.stop(journal, Ending::by_signal());
            }
            let seen =
                observe(self.effects.host, self.effects.systemd, journal).context("look at the host")?;
            log::debug!("{}: {seen:?}", journal.state.name());
            let step = decide(journal, &seen);
            log::debug!("step {step:?}");
            if let Some(ending) = self.take(journal, step, &seen.boot_id)? {
                return self.stop(journal, ending);
            }
        }
        Err(anyhow!(
            "no end after {STEPS_AT_MOST} steps in phase {}: a fault in the program",
            journal.state.name()
        ))
    }

    /// Takes one step; an ending if it was the last one for now.
    fn take(&self, journal: &mut Journal, step: Step, boot_id: &str) -> Result<Option<Ending>> {
        let outcome = match step {
            Step::Stop(ending) => return Ok(Some(ending)),
            Step::RequestReboot(purpose) => return self.request_reboot(journal, purpose, boot_id),
            Step::Advance(phase) => return self.advance(journal, phase, boot_id),
            Step::Verify => return self.verify(journal, boot_id),
            Step::TakeTurn => return self.turns().take(journal, boot_id),
            Step::RenewTurn => return self.turns().back_from_reboot(journal, boot_id).map(|()| None),
            Step::EndTurn => return self.turns().end(journal, boot_id),
            Step::Cordon => {
                if let Some(ending) = self.turns().check(journal, boot_id)? {
                    return Ok(Some(ending));
                }
                let went = self.service().cordon(journal)?;
                return self.served(journal, went, boot_id);
            }
            Step::Drain => {
                if let Some(ending) = self.turns().check(journal, boot_id)? {
                    return Ok(Some(ending));
                }
                let went = self.service().drain(journal)?;
                return self.served(journal, went, boot_id);
            }
            Step::Uncordon => {
                let proven_boot = must_be_ready(journal).then_some(boot_id);
                let went = self.service().uncordon(journal, proven_boot)?;
                return self.served(journal, went, boot_id);
            }
            Step::RestartKubelet => {
                let went = self.kubelet().restart(journal, boot_id)?;
                return self.served(journal, went, boot_id);
            }
            Step::ProveKubelet => {
                let went = self.kubelet().prove(journal)?;
                return self.served(journal, went, boot_id);
            }
            Step::LookAtKubelet => {
                self.kubelet().look(journal);
                Ok(())
            }
            Step::GiveUpKubelet(why) => Err(anyhow!(why)),
            Step::SaveOriginals => self.effects.save_originals(journal),
            Step::WriteFile(index) => self.effects.write_file(journal, index),
            Step::Generate(index) => self.effects.generate(journal, index),
            Step::Restore(index) => self.effects.restore(journal, index),
            Step::GenerateAnew(index) => self.effects.generate_anew(journal, index),
        };
        if outcome.is_err() && (self.stop_asked)() {
            // Cut short, which says nothing about the host: the next run does it again.
            return Ok(Some(Ending::by_signal()));
        }
        if let Err(problem) = outcome {
            return self.failed(journal, &problem, boot_id);
        }
        self.effects.store.save(journal)?;
        Ok(None)
    }

    fn turns(&self) -> Turns<'_> {
        let Effects { host, store, .. } = self.effects;
        let Self { kubernetes, rules, stop_asked, .. } = *self;
        Turns { kubernetes, host, store, rules, stop_asked }
    }

    fn service(&self) -> Service<'_> {
        let Effects { host, store, .. } = self.effects;
        Service { kubernetes: self.kubernetes, clock: host.clock, store, stop_asked: self.stop_asked }
    }

    fn kubelet(&self) -> Kubelet<'_> {
        Kubelet { effects: &self.effects, service: self.service() }
    }

    /// What cannot be done to the kubelet is first undone there.
    fn failed(
        &self,
        journal: &mut Journal,
        problem: &anyhow::Error,
        boot_id: &str,
    ) -> Result<Option<Ending>> {
        let Some(kubelet) = unproven_kubelet(journal) else {
            return self.advance(journal, after_failure(journal, problem), boot_id);
        };
        kubelet.given_up = Some(format!("{problem:#}"));
        self.effects.store.save(journal)?;
        Ok(None)
    }

    /// What follows from a step at the API server. That nobody answers there is neither a success nor a failure.
    fn served(&self, journal: &mut Journal, went: Went, boot_id: &str) -> Result<Option<Ending>> {
        match went {
            Went::Later(why) => Ok(Some(Ending::TryLater(why))),
            Went::Interrupted => Ok(Some(Ending::by_signal())),
            Went::Back(problem) => self.failed(journal, &problem, boot_id),
            Went::On => {
                journal.waiting = None;
                self.effects.store.save(journal)?;
                Ok(None)
            }
        }
    }

    fn advance(&self, journal: &mut Journal, phase: Phase, boot_id: &str) -> Result<Option<Ending>> {
        if phase.is_final() {
            leftovers::sweep(self.effects.host, journal);
        }
        journal.advance(phase, self.effects.host.clock.now(), boot_id)?;
        self.effects.store.save(journal)?;
        (self.tell)(journal);
        Ok(None)
    }

    fn verify(&self, journal: &mut Journal, boot_id: &str) -> Result<Option<Ending>> {
        reach("before-verify");
        let next = match self.verdict(&journal.before.controllers) {
            Verdict::Passed => Phase::Verified,
            Verdict::Failed(why) => Phase::RollingBack { why },
            Verdict::Unknown(why) => {
                Phase::NeedsPerson { why: format!("{why}; look at it, then `resume` or `rollback`") }
            }
        };
        reach("after-verify");
        self.advance(journal, next, boot_id)
    }

    /// Early in a boot a file may not be readable yet: what could not be found out is asked again for a while.
    fn verdict(&self, needed: &[String]) -> Verdict {
        let host = self.effects.host;
        let look = || verify::verdict(&verify::prove(host, needed));
        (0..VERIFY_AGAIN).fold(look(), |verdict, _| match verdict {
            Verdict::Unknown(_) => {
                host.clock.sleep(VERIFY_PAUSE);
                look()
            }
            known @ (Verdict::Passed | Verdict::Failed(_)) => known,
        })
    }

    fn request_reboot(
        &self,
        journal: &mut Journal,
        purpose: Purpose,
        boot_id: &str,
    ) -> Result<Option<Ending>> {
        let host = self.effects.host;
        if purpose == Purpose::Migrate && self.at_boot {
            return Ok(Some(Ending::Paused("everything is in place; `resume` reboots".to_owned())));
        }
        match reboot::wait_until_free(host, self.patience.get(), self.stop_asked) {
            Err(refusal) => return Ok(Some(refusal)),
            Ok(Duration::ZERO) => {}
            // Whoever held the lock, a package manager for instance, may have changed what will boot: look again.
            Ok(waited) => {
                self.patience.set(self.patience.get().saturating_sub(waited));
                return Ok(None);
            }
        }
        if purpose == Purpose::Migrate
            && let Some(refusal) = reboot::blocked(host, journal)
        {
            return Ok(Some(refusal));
        }
        if purpose == Purpose::Migrate {
            let (went, back_in_service) = self.service().is_out(journal)?;
            let has_waited = journal.waiting.is_some();
            if let Some(ending) = self.served(journal, went, boot_id)? {
                return Ok(Some(ending));
            }
            if let Some(what) = back_in_service {
                return Ok(Some(Ending::Blocked(format!(
                    "found right before the reboot: {what}; cordon and drain it by hand (kubectl drain), then `resume`, or \
                     `rollback`"
                ))));
            }
            // The host may have changed meanwhile: look again.
            if has_waited {
                return Ok(None);
            }
        }
        match self.turns().before_reboot(journal, purpose, boot_id)? {
            Waited::Not => {}
            Waited::Long => return Ok(None),
            Waited::InVain(ending) => return Ok(Some(ending)),
        }
        if (self.stop_asked)() {
            return Ok(Some(Ending::by_signal()));
        }
        self.ask_for_reboot(journal, purpose, boot_id).map(Some)
    }

    fn ask_for_reboot(&self, journal: &mut Journal, purpose: Purpose, boot_id: &str) -> Result<Ending> {
        let host = self.effects.host;
        journal.note_reboot(purpose, boot_id, host.clock.now());
        match purpose {
            Purpose::Migrate => self.advance(journal, Phase::Rebooting, boot_id).map(drop)?,
            Purpose::Rollback => self.effects.store.save(journal)?,
        }
        reach("before-request-reboot");
        match reboot::request(host) {
            Requested::Accepted => {
                reach("after-request-reboot");
                Ok(Ending::GoingDown)
            }
            // The request stands in the journal: no second one follows while this one may be under way.
            Requested::Unknown(why) => Ok(Ending::TryLater(why)),
            Requested::Refused(refusal) => {
                journal.forget_reboot(purpose);
                self.effects.store.save(journal)?;
                if journal.state.name() == PhaseName::Rebooting {
                    self.advance(journal, Phase::Staged, boot_id)?;
                }
                Ok(refusal)
            }
        }
    }

    fn stop(&self, journal: &mut Journal, ending: Ending) -> Result<Ending> {
        let waiting = match &ending {
            Ending::Paused(why) | Ending::TryLater(why) | Ending::Blocked(why) => Some(why.clone()),
            Ending::NeedsPerson(why) if !has_ended(&journal.state) => Some(why.clone()),
            Ending::Done | Ending::RolledBack(_) | Ending::NeedsPerson(_) | Ending::GoingDown => None,
        };
        if journal.waiting != waiting {
            journal.waiting = waiting;
            self.effects.store.save(journal)?;
        }
        Ok(ending)
    }
}

/// A kubelet that has new files, and was not seen to be up with them.
fn unproven_kubelet(journal: &mut Journal) -> Option<&mut KubeletPart> {
    let is_under_way = journal.state == Phase::KubeletFinal;
    let kubelet = journal.kubelet.as_mut().filter(|_| is_under_way)?;
    (!kubelet.proven && kubelet.given_up.is_none()).then_some(kubelet)
}

/// The kubelet must have said of this boot that the node is ready before it goes back into service: after a proof, and
/// where the kubelet itself was what went wrong.
fn must_be_ready(journal: &Journal) -> bool {
    let kubelet_failed = journal.kubelet.as_ref().is_some_and(|kubelet| kubelet.given_up.is_some());
    match journal.state.name() {
        PhaseName::Verified | PhaseName::KubeletFinal => true,
        PhaseName::NeedsPerson => kubelet_failed,
        PhaseName::Planned
        | PhaseName::Locked
        | PhaseName::Cordoned
        | PhaseName::Drained
        | PhaseName::Staged
        | PhaseName::Rebooting
        | PhaseName::Booted
        | PhaseName::Uncordoned
        | PhaseName::Done
        | PhaseName::RollingBack
        | PhaseName::RolledBack => false,
    }
}

/// Then it waits for nothing, whatever else is to be said of the host.
fn has_ended(state: &Phase) -> bool {
    state.is_final() || state.name() == PhaseName::NeedsPerson
}

/// A failed way there is a way back; a failed way back needs a person.
fn after_failure(journal: &Journal, problem: &anyhow::Error) -> Phase {
    match journal.state.why() {
        None => Phase::RollingBack { why: format!("{problem:#}") },
        Some(why) => Phase::NeedsPerson {
            why: format!(
                "the way back failed: {problem:#}; set that right (by hand or from a backup), then `rollback` again (it \
                 was begun because: {why})"
            ),
        },
    }
}
