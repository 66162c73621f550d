//! Keeping a slot and giving it back.

use super::pool::Pool;
use super::slot::Slot;
use super::{Change, Failure, Hold, LeaseLock, Mine, Outcome, Released};
use crate::node::ApiError;

impl LeaseLock<'_> {
    /// Whether the slot is still ours: to be asked before every step that it is needed for.
    ///
    /// # Errors
    /// [`ApiError`]: not known, so the step waits.
    pub fn still_mine(&self, hold: &Hold) -> Result<Mine, ApiError> {
        let pool = self.look()?;
        Ok(self.own(&pool, hold).map_or_else(Mine::Lost, |_| mine(&pool)))
    }

    /// A sign of life: phase `held`, or `rebooting` with the time at which the node means to be back.
    ///
    /// # Errors
    /// [`ApiError`].
    pub fn renew(
        &self,
        hold: &Hold,
        phase: &str,
        back_by: Option<jiff::Timestamp>,
    ) -> Result<Mine, ApiError> {
        self.swap_or_fail(|pool| {
            let mut slot = match self.own(pool, hold) {
                Ok(slot) => slot.clone(),
                Err(how) => return Ok(Change::Nothing(Mine::Lost(how))),
            };
            slot.renew(self.me, phase, back_by, self.clock.now());
            Ok(Change::Write(Box::new(slot), mine(pool)))
        })
    }

    /// The end of a run: failures are counted first, so that a crash in between forgets none; then the slot is free.
    ///
    /// # Errors
    /// [`ApiError`]. It can be repeated.
    pub fn release(&self, outcome: &Outcome) -> Result<Released, ApiError> {
        if let Some(why) = outcome.failure() {
            let (node, run) = (self.me.node.clone(), self.me.holder.run.clone());
            self.count(&Failure { node, run, why })?;
        }
        let freed = match outcome {
            Outcome::Done | Outcome::NothingDone | Outcome::RolledBack(_) => self.give_back()?,
            Outcome::NeedsPerson(_) => false,
        };
        let halted = self.look()?.halted().map(str::to_owned);
        Ok(Released { freed, halted })
    }

    /// Frees every slot of this run: a request whose answer was lost may have left a second one. True if there was one.
    pub(super) fn give_back(&self) -> Result<bool, ApiError> {
        let mut freed = false;
        while self.give_one_back()? {
            freed = true;
        }
        Ok(freed)
    }

    fn give_one_back(&self) -> Result<bool, ApiError> {
        self.swap_or_fail(|pool| {
            let Some(mut slot) = pool.of_run(&self.me.holder).next().cloned() else {
                return Ok(Change::Nothing(false));
            };
            slot.free();
            Ok(Change::Write(Box::new(slot), true))
        })
    }

    /// The slot, if it is ours with this fencing number; else how it shows that it is not.
    fn own<'p>(&self, pool: &'p Pool, hold: &Hold) -> Result<&'p Slot, String> {
        let Some(slot) = pool.slot(hold.slot) else {
            return Err(format!(
                "the pool has {} slots now, and this was slot {}",
                pool.slots.len(),
                hold.slot
            ));
        };
        let name = slot.name();
        match slot.holder() {
            Some(holder) if holder.is_same_run(&self.me.holder) && slot.fencing() == hold.fencing => Ok(slot),
            Some(holder) if holder.is_same_run(&self.me.holder) => Err(format!(
                "{name} was taken anew: fencing number {} and not {}",
                slot.fencing(),
                hold.fencing
            )),
            Some(_) | None => Err(lost(slot)),
        }
    }
}

fn mine(pool: &Pool) -> Mine {
    Mine::Yes { halted: pool.halted().map(str::to_owned) }
}

fn lost(slot: &Slot) -> String {
    let name = slot.name();
    if let Some(released) = slot.annotation(super::RELEASED) {
        return format!("{name} was freed by a person: {released}");
    }
    match slot.identity() {
        "" => format!("{name} is free"),
        other => {
            format!("{name} is held by {} ({other})", slot.annotation(super::NODE).unwrap_or("somebody"))
        }
    }
}
