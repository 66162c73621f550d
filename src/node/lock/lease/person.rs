//! What people do with the lock: look, free a slot, end a halt.

use super::judge::{Verdict, judge};
use super::pool::{FAILURES, HALTED, Pool, RESUMED};
use super::slot::{Occupant, RELEASED, Slot};
use super::{Change, Forced, LeaseLock, PoolStatus, Resumed, SlotStatus};
use crate::node::ApiError;

impl LeaseLock<'_> {
    /// Who has which slot, what failed, and whether the fleet is halted.
    ///
    /// # Errors
    /// [`ApiError`].
    pub fn status(&self) -> Result<PoolStatus, ApiError> {
        let pool = self.look()?;
        let slots: Result<Vec<SlotStatus>, ApiError> =
            pool.slots.iter().map(|slot| self.slot_status(slot)).collect();
        Ok(PoolStatus {
            pool: self.settings.pool.clone(),
            slots_fixed: pool.fixed().map(str::to_owned),
            slots: slots?,
            trouble: pool.failures().err(),
            failures: pool.failures().unwrap_or_default(),
            halted: pool.halted().map(str::to_owned),
        })
    }

    fn slot_status(&self, slot: &Slot) -> Result<SlotStatus, ApiError> {
        let (holder, words) = match slot.occupant() {
            Occupant::Nobody => (None, free_words(slot)),
            Occupant::Run(_) | Occupant::Foreign(_) => {
                (Some(slot.identity().to_owned()), told(&judge(self.api, slot)?))
            }
        };
        let lease = slot.name().to_owned();
        Ok(SlotStatus { slot: slot.index, lease, holder, fencing: slot.fencing(), words })
    }

    /// Frees a slot because a person (`by`) says so, if it is still held by whom that person saw.
    ///
    /// # Errors
    /// [`ApiError`].
    pub fn force(&self, slot: u32, seen: &str, by: &str, reason: &str) -> Result<Forced, ApiError> {
        let note = format!("by {by} at {:.0}: {reason} (held by {seen})", self.clock.now());
        let forced = self.swap_or_fail(|pool| Ok(forced(pool, slot, seen, &note)))?;
        if forced == Forced::Freed {
            log::warn!("slot {slot} of pool {} was freed {note}", self.settings.pool);
        }
        Ok(forced)
    }

    /// Ends a halt and forgets the failures, even those that cannot be read.
    ///
    /// # Errors
    /// [`ApiError`].
    pub fn resume(&self, by: &str) -> Result<Resumed, ApiError> {
        let note = format!("by {by} at {:.0}", self.clock.now());
        self.swap_or_fail(|pool| {
            let is_marked =
                |slot: &&Slot| [HALTED, FAILURES].iter().any(|key| slot.annotation(key).is_some());
            let Some(mut slot) = pool.slot(0).filter(is_marked).cloned() else {
                return Ok(Change::Nothing(Resumed::WasNotHalted));
            };
            let failures = pool.failures().unwrap_or_default();
            slot.annotate(HALTED, None);
            slot.annotate(FAILURES, None);
            slot.annotate(RESUMED, Some(note.clone()));
            Ok(Change::Write(Box::new(slot), Resumed::Done(failures)))
        })
    }
}

fn forced(pool: &Pool, index: u32, seen: &str, note: &str) -> Change<Forced> {
    let Some(slot) = pool.slot(index) else {
        let slots = u32::try_from(pool.slots.len()).unwrap_or(u32::MAX);
        return Change::Nothing(Forced::NoSuchSlot { slots });
    };
    match slot.identity() {
        "" => Change::Nothing(Forced::WasFree),
        holder if holder != seen => Change::Nothing(Forced::Changed(holder.to_owned())),
        _ => {
            let mut slot = slot.clone();
            slot.free();
            slot.annotate(RELEASED, Some(note.to_owned()));
            Change::Write(Box::new(slot), Forced::Freed)
        }
    }
}

fn free_words(slot: &Slot) -> String {
    slot.annotation(RELEASED).map_or_else(|| "free".to_owned(), |note| format!("free, released {note}"))
}

fn told(verdict: &Verdict) -> String {
    match verdict {
        Verdict::Stays(words) => words.clone(),
        Verdict::Stale(words) | Verdict::Over { words, .. } => {
            format!("{words}; the next node that asks takes it over")
        }
    }
}
