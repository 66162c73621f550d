//! Taking a slot.

use super::judge::{Verdict, judge};
use super::pool::{Pool, SLOTS};
use super::slot::{Occupant, Slot};
use super::{ATTEMPTS, Acquired, Change, Failure, Held, Hold, LeaseLock, Outcome};
use crate::node::ApiError;

/// A slot to take, and what it was before if it was somebody's.
type Choice = (Slot, Option<String>);

impl LeaseLock<'_> {
    /// Takes a slot, or says why there is none now. A run that has one already gets the same.
    ///
    /// # Errors
    /// [`ApiError`]. The slot may have been taken all the same (an answer that was lost): the next try finds it.
    pub fn acquire(&self) -> Result<Acquired, ApiError> {
        for _ in 0..ATTEMPTS {
            match self.try_acquire() {
                Ok(Some(answer)) => return Ok(answer),
                Ok(None) => {}
                Err(error) if error.code() == Some(409) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(Acquired::Contended)
    }

    /// `None`: look again.
    fn try_acquire(&self) -> Result<Option<Acquired>, ApiError> {
        let pool = self.look()?;
        if let Some(slot) = pool.of_run(&self.me.holder).next() {
            return Ok(Some(Acquired::Yes { hold: hold_of(slot), stale: None }));
        }
        if let Some(refusal) = self.refusal(&pool) {
            return Ok(Some(refusal));
        }
        if pool.fixed().is_none() {
            return self.fix_number(&pool).map(|()| None);
        }
        match self.choose(&pool)? {
            Ok(choice) => self.take(choice),
            Err(None) => Ok(None),
            Err(Some(held)) => Ok(Some(Acquired::Busy(held))),
        }
    }

    /// Why this node may take no slot of the pool, whichever is free.
    fn refusal(&self, pool: &Pool) -> Option<Acquired> {
        let own = self.settings.slots;
        let first = self.settings.lease_name(0);
        let wrong = match pool.fixed().map(str::parse::<u32>) {
            Some(Ok(fixed)) if fixed == own => pool.failures().err(),
            None => without_number(pool).or_else(|| pool.failures().err()),
            Some(Ok(fixed)) => Some(format!(
                "this node's lock.slots is {own}, and pool {} has {fixed}: set the same on all nodes, or change the \
                 annotation {SLOTS} of Lease {first} while no slot is held",
                self.settings.pool
            )),
            Some(Err(_)) => Some(format!("the annotation {SLOTS} is no number")),
        };
        match wrong {
            Some(why) => Some(Acquired::Refused(format!("Lease {first}: {why}"))),
            None => pool.halted().map(|why| Acquired::Halted(why.to_owned())),
        }
    }

    /// The first node that asks fixes the number of slots.
    fn fix_number(&self, pool: &Pool) -> Result<(), ApiError> {
        let Some(mut slot) = pool.slot(0).cloned() else { return Ok(()) };
        slot.annotate(SLOTS, Some(self.settings.slots.to_string()));
        self.put(&slot).map(drop)
    }

    /// The slot to take. An error: who has them all, or `None` if that has to be looked at again.
    fn choose(&self, pool: &Pool) -> Result<Result<Choice, Option<Vec<Held>>>, ApiError> {
        if let Some(slot) = pool.of_node(self.me) {
            let words = format!("stale lock of {}: an earlier run of this node left it behind", self.me.node);
            return Ok(Ok((slot.clone(), Some(words))));
        }
        if let Some(slot) = pool.free(&self.me.holder.node_uid) {
            return Ok(Ok((slot.clone(), None)));
        }
        let mut held = Vec::new();
        for slot in &pool.slots {
            match judge(self.api, slot)? {
                Verdict::Stale(words) => return Ok(Ok((slot.clone(), Some(words)))),
                Verdict::Over { words, phase } => {
                    let counted = phase == "rolled-back" && self.count_for(slot, &phase)?;
                    return Ok(if counted { Err(None) } else { Ok((slot.clone(), Some(words))) });
                }
                Verdict::Stays(why) => held.push(Held { slot: slot.index, why }),
            }
        }
        Ok(Err(Some(held)))
    }

    /// A run that was rolled back and could not say so to the lock counts all the same. True if it had not yet.
    fn count_for(&self, slot: &Slot, phase: &str) -> Result<bool, ApiError> {
        let Some(holder) = slot.holder() else { return Ok(false) };
        let node = slot.annotation(super::NODE).unwrap_or_default().to_owned();
        self.count(&Failure { node, run: holder.run, why: phase.to_owned() })
    }

    fn take(&self, (mut slot, stale): Choice) -> Result<Option<Acquired>, ApiError> {
        slot.take(self.me, self.settings, self.clock.now());
        self.put(&slot)?;
        if let Some(words) = &stale {
            log::warn!("{words}; slot {} taken over, fencing number {}", slot.index, slot.fencing());
        }
        self.confirm(Acquired::Yes { hold: hold_of(&slot), stale })
    }

    /// A halt is on slot 0, and the slot that was taken may be another one: only a look after the taking rules out
    /// that both happened without seeing each other.
    fn confirm(&self, taken: Acquired) -> Result<Option<Acquired>, ApiError> {
        let pool = self.look()?;
        let Some(refusal) = self.refusal(&pool) else { return Ok(Some(taken)) };
        self.give_back()?;
        Ok(Some(refusal))
    }

    /// Adds a failure to those of the pool. True if it was not counted before.
    pub(super) fn count(&self, failure: &Failure) -> Result<bool, ApiError> {
        self.swap_or_fail(|pool| {
            let unusable = |why| {
                ApiError::Unusable(format!("count a failure on {}: {why}", self.settings.lease_name(0)))
            };
            Ok(match pool.count(failure, self.settings).map_err(unusable)? {
                None => Change::Nothing(false),
                Some(slot) => Change::Write(Box::new(slot), true),
            })
        })
    }
}

/// A slot 0 that somebody has and that says no number is not ours to write to.
fn without_number(pool: &Pool) -> Option<String> {
    let held = pool.slot(0).filter(|slot| slot.occupant() != Occupant::Nobody)?;
    Some(format!(
        "held by {:?} without the annotation {SLOTS}: whoever made it so has to look at it",
        held.identity()
    ))
}

pub(super) fn hold_of(slot: &Slot) -> Hold {
    Hold { slot: slot.index, fencing: slot.fencing() }
}

impl Outcome {
    /// What counts against the pool.
    pub(super) fn failure(&self) -> Option<String> {
        match self {
            Self::Done | Self::NothingDone => None,
            Self::RolledBack(why) => Some(format!("rolled back: {why}")),
            Self::NeedsPerson(why) => Some(format!("needs a person: {why}")),
        }
    }
}
