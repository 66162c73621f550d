//! Waiting for a fleet: a bounded while in one run, told in the journal, and left at once when a signal comes.

use std::time::Duration;

use anyhow::Result;

use super::Turns;
use crate::migration::decide::Ending;
use crate::migration::journal::Journal;
use crate::node::lock::gates::Gate;

/// The longest sleep without a look at whether a signal came.
const NAP: Duration = Duration::from_secs(5);

/// How soon a gate is asked again that did not know.
const UNKNOWN_AGAIN: Duration = Duration::from_secs(60);

/// How a wait ended.
pub(in crate::migration) enum Waited {
    /// There was nothing to wait for.
    Not,
    /// It was worth it; the host may have changed meanwhile.
    Long,
    /// It was not.
    InVain(Ending),
}

/// One answer on the way to a turn.
pub(super) enum Reply {
    Yes,
    /// Not now. Ask again after this time.
    Wait(String, Duration),
    /// Waiting changes nothing.
    No(Ending),
}

impl Reply {
    pub(super) fn of(gate: Gate) -> Self {
        match gate {
            Gate::Open => Self::Yes,
            Gate::Closed { why, try_again_in: Some(pause) } => Self::Wait(why, pause),
            Gate::Closed { why, try_again_in: None } => Self::No(Ending::Blocked(why)),
            Gate::Unknown { why } => Self::Wait(why, UNKNOWN_AGAIN),
        }
    }
}

impl Turns<'_> {
    /// As [`Self::wait`]; then it waits for nothing, unless that was in vain.
    pub(super) fn wait_and_go_on(
        &self,
        journal: &mut Journal,
        patience: Duration,
        ask: impl FnMut(&mut Journal) -> Result<Reply>,
    ) -> Result<Option<Ending>> {
        if let Waited::InVain(ending) = self.wait(journal, patience, ask)? {
            return Ok(Some(ending));
        }
        journal.waiting = None;
        self.store.save(journal)?;
        Ok(None)
    }

    /// Asks until there is an answer that stands, the patience is at its end, or a signal comes. A pause that would
    /// outlast the patience is not begun.
    pub(super) fn wait(
        &self,
        journal: &mut Journal,
        patience: Duration,
        mut ask: impl FnMut(&mut Journal) -> Result<Reply>,
    ) -> Result<Waited> {
        let mut waited = Duration::ZERO;
        loop {
            let (why, pause) = match ask(journal)? {
                Reply::Yes if waited.is_zero() => return Ok(Waited::Not),
                Reply::Yes => return Ok(Waited::Long),
                Reply::No(ending) => return Ok(Waited::InVain(ending)),
                Reply::Wait(why, pause) => (why, pause.max(NAP)),
            };
            if waited.saturating_add(pause) > patience {
                return Ok(Waited::InVain(Ending::TryLater(why)));
            }
            if journal.waiting.as_ref() != Some(&why) {
                log::warn!("waits: {why}");
                journal.waiting = Some(why);
                self.store.save(journal)?;
            }
            if !self.sleep(pause) {
                return Ok(Waited::InVain(Ending::by_signal()));
            }
            waited += pause;
        }
    }

    /// False if a signal came.
    fn sleep(&self, pause: Duration) -> bool {
        let mut left = pause;
        while !left.is_zero() {
            if (self.stop_asked)() {
                return false;
            }
            self.host.clock.sleep(left.min(NAP));
            left = left.saturating_sub(NAP);
        }
        !(self.stop_asked)()
    }
}
