//! A node's turn in its fleet: gates and the lock, asked before the node leaves service and again before each reboot;
//! given back at the end.
//!
//! Nothing of the node is held up by the lock that would bring it back into service: a cordon of ours comes off first.

mod lock;
mod sight;
mod wait;

use std::time::Duration;

use anyhow::{Result, anyhow};

use self::lock::{Answer, Asking};
use self::wait::Reply;
pub(super) use self::wait::Waited;
use super::decide::Ending;
use super::failpoint::reach;
use super::journal::{FleetLock, FleetNode, FleetPart, Journal, Purpose, Turn};
use super::phase::{Phase, PhaseName};
use super::service::Kubernetes;
use super::store::Store;
use crate::config::fleet::{Fleet, Mode};
use crate::facts::Facts;
use crate::host::Host;
use crate::node::lock::gates::{Rules, judged, together};
use crate::node::lock::lease::Outcome;
use crate::node::lock::{self as locks};

/// How long one run waits for its turn, or for a lock that does not answer.
const PATIENCE: Duration = Duration::from_secs(1800);

/// How long it waits after the uncordon beyond what the settings want, and the longest altogether: the unit that
/// resumes has a time limit, and comes again.
const SETTLES_WITHIN: [Duration; 2] = [Duration::from_secs(900), Duration::from_secs(3600)];

/// How long reboot and proof may take together, for the window and for those who wonder where the node is.
const REBOOT_TAKES: Duration = Duration::from_secs(900);

/// The turn of a new run, if one is wanted.
#[must_use]
pub fn part(fleet: &Fleet, facts: &Facts) -> Option<FleetPart> {
    let seen = facts.fleet.as_ref().and_then(|seen| seen.as_ref().ok());
    let is_control_plane = seen.is_some_and(|seen| seen.own.control_plane);
    let lock = match fleet.mode {
        Mode::None => FleetLock::GatesAlone,
        Mode::Lease => FleetLock::Lease(fleet.lease.for_node(is_control_plane)),
        Mode::FleetLock => FleetLock::Fleetlock(fleet.fleetlock.clone()),
    };
    fleet.is_wanted().then(|| FleetPart {
        lock,
        kubeconfig: fleet.kubeconfig.clone(),
        node: seen.map(|seen| FleetNode { name: seen.node.clone(), uid: seen.uid.clone() }),
        turn: Turn::Waiting,
        back_in: None,
        counted: false,
    })
}

/// Everything that waiting for one's turn needs.
pub(super) struct Turns<'a> {
    pub(super) kubernetes: &'a dyn Kubernetes,
    pub(super) host: Host<'a>,
    pub(super) store: Store<'a>,
    pub(super) rules: &'a Rules,
    pub(super) stop_asked: &'a dyn Fn() -> bool,
}

impl Turns<'_> {
    /// Waits until every gate is open and the lock is ours.
    pub(super) fn take(&self, journal: &mut Journal, boot_id: &str) -> Result<Option<Ending>> {
        let mut refusals = 0;
        self.wait_and_go_on(journal, PATIENCE, |journal| {
            let drain = Duration::from_secs(journal.options.drain.time_limit_seconds);
            let drain =
                if journal.node.as_ref().is_some_and(|node| !node.drained) { drain } else { Duration::ZERO };
            match self.gates(journal, drain + REBOOT_TAKES)? {
                Reply::Yes => {}
                closed @ (Reply::Wait(..) | Reply::No(_)) => return Ok(closed),
            }
            refusals += 1;
            self.acquire(journal, boot_id, refusals - 1)
        })
    }

    /// That we may ask is written down first: an answer that is lost may have been a yes.
    fn acquire(&self, journal: &mut Journal, boot_id: &str, refusals: u32) -> Result<Reply> {
        let had = part_of(journal)?.turn.clone();
        if !matches!(had, Turn::Ours(_)) {
            self.turn_is(journal, Turn::Asked)?;
        }
        reach("before-lock");
        let answer = self.asking(journal, boot_id)?.acquire();
        reach("after-lock");
        let reply = match answer {
            Answer::Ours(hold) => {
                self.turn_is(journal, Turn::Ours(hold))?;
                let phase = journal.state.name();
                let phase = if phase == PhaseName::Planned { PhaseName::Locked } else { phase };
                self.asking(journal, boot_id)?.announce(phase.as_str());
                return Ok(Reply::Yes);
            }
            Answer::NotNow(why) => Reply::Wait(why, locks::pause(refusals, &journal.txn)),
            Answer::Halted(why) => Reply::No(Ending::NeedsPerson(why)),
            Answer::Refused(why) => Reply::No(Ending::Blocked(why)),
            Answer::Away(why) => return Ok(Reply::Wait(why, locks::pause(0, &journal.txn))),
            Answer::Useless(why) => return Ok(Reply::No(Ending::Blocked(why))),
        };
        self.turn_is(journal, Turn::Waiting)?;
        Ok(reply)
    }

    /// Whether the slot is still ours, before something is done that it is needed for.
    pub(super) fn check(&self, journal: &mut Journal, boot_id: &str) -> Result<Option<Ending>> {
        let Some(Turn::Ours(_)) = journal.fleet.as_ref().map(|fleet| &fleet.turn) else { return Ok(None) };
        self.wait_and_go_on(journal, PATIENCE, |journal| self.still_ours(journal, boot_id))
    }

    fn still_ours(&self, journal: &mut Journal, boot_id: &str) -> Result<Reply> {
        let answer = self.asking(journal, boot_id)?.still_ours();
        self.kept(journal, answer)
    }

    fn kept(&self, journal: &mut Journal, answer: Answer) -> Result<Reply> {
        Ok(match answer {
            Answer::Ours(_) => Reply::Yes,
            Answer::NotNow(how) => {
                self.turn_is(journal, Turn::Waiting)?;
                Reply::No(Ending::NeedsPerson(format!(
                    "{how}; nothing more was done; `resume` asks for a turn anew, `rollback` puts everything back"
                )))
            }
            Answer::Halted(why) => Reply::No(Ending::NeedsPerson(format!(
                "{why}; this node goes no further; after that `resume`, or `rollback`"
            ))),
            Answer::Refused(why) | Answer::Useless(why) => Reply::No(Ending::Blocked(why)),
            Answer::Away(why) => Reply::Wait(why, locks::pause(0, &journal.txn)),
        })
    }

    /// Right before a reboot. On the way back no gate is asked: the node is not well, and its fleet knows of it.
    pub(super) fn before_reboot(
        &self,
        journal: &mut Journal,
        purpose: Purpose,
        boot_id: &str,
    ) -> Result<Waited> {
        if journal.fleet.is_none() {
            return Ok(Waited::Not);
        }
        let back_by = self.host.clock.now().checked_add(REBOOT_TAKES).ok();
        self.wait(journal, PATIENCE, |journal| {
            let reply = match purpose {
                Purpose::Migrate => self.ready_for_v2(journal, boot_id)?,
                Purpose::Rollback => self.ready_for_way_back(journal, boot_id)?,
            };
            let Reply::Yes = reply else { return Ok(reply) };
            let answer = self.asking(journal, boot_id)?.renew("rebooting", back_by);
            let reply = self.kept(journal, answer)?;
            let reply = if purpose == Purpose::Rollback { or_silent(journal, reply) } else { reply };
            if let Reply::Yes = reply {
                self.asking(journal, boot_id)?.announce(PhaseName::Rebooting.as_str());
            }
            Ok(reply)
        })
    }

    fn ready_for_v2(&self, journal: &mut Journal, boot_id: &str) -> Result<Reply> {
        match self.gates(journal, REBOOT_TAKES)? {
            Reply::Yes => self.still_ours(journal, boot_id),
            closed @ (Reply::Wait(..) | Reply::No(_)) => Ok(closed),
        }
    }

    /// A slot that was ours when the lock last answered is ours: only a person, or the end of the Node object, takes
    /// it away. The way back may be what brings the network back, so it does not wait for an answer.
    fn ready_for_way_back(&self, journal: &mut Journal, boot_id: &str) -> Result<Reply> {
        let reply = self.acquire(journal, boot_id, 0)?;
        Ok(or_silent(journal, reply))
    }

    /// A sign of life after the reboot. That nobody hears it holds nothing up: the slot is ours until it is given back.
    pub(super) fn back_from_reboot(&self, journal: &mut Journal, boot_id: &str) -> Result<()> {
        match self.asking(journal, boot_id)?.renew("held", None) {
            Answer::NotNow(how) => {
                log::warn!("{how}; this node has been rebooted under it");
                part_of(journal)?.turn = Turn::Waiting;
            }
            Answer::Away(why) | Answer::Useless(why) => log::warn!("{why}"),
            Answer::Ours(_) | Answer::Halted(_) | Answer::Refused(_) => {}
        }
        part_of(journal)?.back_in = Some(boot_id.to_owned());
        Ok(self.store.save(journal)?)
    }

    /// Gives the turn back, as soon as the node has settled where it was migrated; or tells that it needs a person,
    /// and keeps it.
    pub(super) fn end(&self, journal: &mut Journal, boot_id: &str) -> Result<Option<Ending>> {
        let outcome = outcome(journal);
        let [grace, longest] = SETTLES_WITHIN;
        let settles =
            outcome == Outcome::Done && journal.fleet.as_ref().is_some_and(|fleet| fleet.node.is_some());
        let patience = if settles { (self.rules.settle + grace).min(longest) } else { PATIENCE };
        self.wait_and_go_on(journal, patience, |journal| {
            if settles && let Reply::Wait(why, pause) = self.settled(journal)? {
                return Ok(Reply::Wait(
                    format!("this node keeps its turn until it has settled: {why}"),
                    pause,
                ));
            }
            self.give_back(journal, &outcome, boot_id)
        })
    }

    fn give_back(&self, journal: &mut Journal, outcome: &Outcome, boot_id: &str) -> Result<Reply> {
        reach("before-unlock");
        let answer = self.asking(journal, boot_id)?.release(outcome);
        reach("after-unlock");
        match answer {
            Answer::Away(why) | Answer::NotNow(why) => {
                return Ok(Reply::Wait(still_held(&why), locks::pause(0, &journal.txn)));
            }
            Answer::Useless(why) => return Ok(Reply::No(Ending::TryLater(still_held(&why)))),
            Answer::Halted(why) => log::warn!("{why}"),
            Answer::Ours(_) | Answer::Refused(_) => {}
        }
        let phase = match outcome {
            Outcome::Done => PhaseName::Done,
            Outcome::NothingDone | Outcome::RolledBack(_) => PhaseName::RolledBack,
            Outcome::NeedsPerson(_) => PhaseName::NeedsPerson,
        };
        self.asking(journal, boot_id)?.announce(phase.as_str());
        match outcome {
            Outcome::NeedsPerson(_) => part_of(journal)?.counted = true,
            Outcome::Done | Outcome::NothingDone | Outcome::RolledBack(_) => {
                part_of(journal)?.turn = Turn::Over;
            }
        }
        self.store.save(journal)?;
        Ok(Reply::Yes)
    }

    fn gates(&self, journal: &Journal, expected: Duration) -> Result<Reply> {
        let seen = self.seen(journal, expected)?;
        Ok(Reply::of(together(&judged(self.rules, &seen, &journal.options.accepted))))
    }

    fn asking<'j>(&'j self, journal: &'j Journal, boot_id: &'j str) -> Result<Asking<'j>> {
        let fleet = journal.fleet.as_ref().ok_or_else(no_part)?;
        Ok(Asking { kubernetes: self.kubernetes, host: self.host, fleet, run: &journal.txn, boot_id })
    }

    fn turn_is(&self, journal: &mut Journal, turn: Turn) -> Result<()> {
        part_of(journal)?.turn = turn;
        Ok(self.store.save(journal)?)
    }
}

/// An answer that is none takes nothing from us.
fn or_silent(journal: &Journal, reply: Reply) -> Reply {
    match reply {
        Reply::Wait(why, _) | Reply::No(Ending::Blocked(why)) if !journal.waits_for_turn() => {
            log::warn!("{why}; the turn is ours by the last answer, and the way back goes on");
            Reply::Yes
        }
        reply @ (Reply::Yes | Reply::Wait(..) | Reply::No(_)) => reply,
    }
}

fn still_held(why: &str) -> String {
    format!("this node still holds its turn: {why}")
}

/// How the run ended, by the phase it is in.
fn outcome(journal: &Journal) -> Outcome {
    match &journal.state {
        Phase::RollingBack { .. } if !journal.has_touched() => Outcome::NothingDone,
        Phase::RollingBack { why } | Phase::RolledBack { why } => Outcome::RolledBack(why.clone()),
        Phase::NeedsPerson { why } => Outcome::NeedsPerson(why.clone()),
        Phase::Planned
        | Phase::Locked
        | Phase::Cordoned
        | Phase::Drained
        | Phase::Staged
        | Phase::Rebooting
        | Phase::Booted
        | Phase::Verified
        | Phase::KubeletFinal
        | Phase::Uncordoned
        | Phase::Done => Outcome::Done,
    }
}

fn part_of(journal: &mut Journal) -> Result<&mut FleetPart> {
    journal.fleet.as_mut().ok_or_else(no_part)
}

fn no_part() -> anyhow::Error {
    anyhow!("the journal has no turn: a fault in the program")
}
