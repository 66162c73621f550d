//! What the lock answers, and how that is told.

use std::fmt::{Display, Formatter, Result};

use serde::Serialize;

use super::{Failure, Hold};

/// What became of the wish for a slot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Acquired {
    /// The slot is ours: now, or since before.
    Yes {
        /// Which, and its fencing number.
        hold: Hold,
        /// What was taken over, if it was somebody's; in the log already.
        stale: Option<String>,
    },
    /// Every slot has a holder.
    Busy(Vec<Held>),
    /// Others wrote to the slots each time this node did.
    Contended,
    /// Too many nodes failed: nobody starts until a person says so.
    Halted(String),
    /// The pool was set up in another way than this node's settings say, and how.
    Refused(String),
}

/// Somebody has a slot, and why that stays so.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Held {
    /// Which.
    pub slot: u32,
    /// Who, since when, and what would free it.
    pub why: String,
}

/// Whether a slot is still ours.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Mine {
    /// It is.
    Yes {
        /// Why nobody else may start meanwhile, if that is so: a run that has done nothing yet does well to end here.
        halted: Option<String>,
    },
    /// It is not (any more), and how that shows. Nothing may be done that the slot was needed for.
    Lost(String),
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// The node runs cgroup v2.
    Done,
    /// It gave up before it changed anything.
    NothingDone,
    /// Everything is as it was, for this reason: a failure.
    RolledBack(String),
    /// It stopped half way, for this reason: a failure, and the node may be down. The slot stays taken.
    NeedsPerson(String),
}

/// What became of a release.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Released {
    /// True if the slot is free now; false if it is kept, or was not ours any more.
    pub freed: bool,
    /// Why nobody may start, if that is so.
    pub halted: Option<String>,
}

/// What became of a release by a person.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Forced {
    /// It is free now. Who had it learns so before its next step.
    Freed,
    /// Nobody had it.
    WasFree,
    /// Somebody else has it now than the person saw: this one.
    Changed(String),
    /// There is no slot of this number.
    NoSuchSlot {
        /// How many there are; they count from 0.
        slots: u32,
    },
}

/// What became of the end of a halt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Resumed {
    /// Nodes may start again; these failures are forgotten.
    Done(Vec<Failure>),
    /// Nothing was halted, and no failure was counted.
    WasNotHalted,
}

/// The lock of a pool, as it stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PoolStatus {
    /// Name.
    pub pool: String,
    /// The number of slots as it was fixed; `None` if nobody took a slot yet.
    pub slots_fixed: Option<String>,
    /// Every slot that this node's settings know.
    pub slots: Vec<SlotStatus>,
    /// What failed since the last `lock resume`.
    pub failures: Vec<Failure>,
    /// Why nobody may start.
    pub halted: Option<String>,
    /// What cannot be read on slot 0: nobody may start before `lock resume`.
    pub trouble: Option<String>,
}

/// One slot, as it stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SlotStatus {
    /// Number.
    pub slot: u32,
    /// Name of its Lease object.
    pub lease: String,
    /// The holder's identity as it stands there; `None` if it is free. `lock release` wants to see the same again.
    pub holder: Option<String>,
    /// Fencing number.
    pub fencing: i32,
    /// Who has it and whether the next one that asks will get it.
    pub words: String,
}

impl Display for Acquired {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> Result {
        match self {
            Self::Yes { hold, stale: None } => write!(formatter, "slot {} is ours", hold.slot),
            Self::Yes { hold, stale: Some(stale) } => {
                write!(formatter, "slot {} is ours, taken over: {stale}", hold.slot)
            }
            Self::Busy(held) => {
                let all: Vec<String> = held.iter().map(ToString::to_string).collect();
                write!(formatter, "every slot has a holder: {}", all.join("; "))
            }
            Self::Contended => write!(formatter, "other nodes ask for a slot at the same time"),
            Self::Halted(why) => write!(
                formatter,
                "the fleet is halted: {why}; look into it, then `cgroup2-migrate lock resume`"
            ),
            Self::Refused(why) => formatter.write_str(why),
        }
    }
}

impl Display for Held {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> Result {
        write!(formatter, "slot {}: {}", self.slot, self.why)
    }
}

impl Display for Mine {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> Result {
        match self {
            Self::Yes { halted: None } => write!(formatter, "the slot is still ours"),
            Self::Yes { halted: Some(why) } => {
                write!(formatter, "the slot is still ours, but the fleet is halted: {why}")
            }
            Self::Lost(how) => write!(formatter, "the slot is not ours any more: {how}"),
        }
    }
}

impl Display for Forced {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> Result {
        match self {
            Self::Freed => write!(formatter, "the slot is free"),
            Self::WasFree => write!(formatter, "nobody has this slot"),
            Self::Changed(now) => {
                write!(formatter, "nothing was done: meanwhile the slot is held by {now}; look at it again")
            }
            Self::NoSuchSlot { slots } => {
                write!(formatter, "there is no such slot: there are {slots}, counted from 0")
            }
        }
    }
}

impl Display for PoolStatus {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> Result {
        match &self.slots_fixed {
            Some(slots) => writeln!(formatter, "pool {}: {slots} slots", self.pool)?,
            None => writeln!(formatter, "pool {}: no node has asked for a slot yet", self.pool)?,
        }
        self.slots.iter().try_for_each(|slot| writeln!(formatter, "  {}: {}", slot.slot, slot.words))?;
        self.failures.iter().try_for_each(|failure| writeln!(formatter, "  failed: {failure}"))?;
        self.trouble.iter().try_for_each(|why| writeln!(formatter, "  {why}"))?;
        self.halted.iter().try_for_each(|why| writeln!(formatter, "  halted: {why}"))
    }
}
