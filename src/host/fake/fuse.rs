//! One counter of effects for all seams.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::io;
use std::rc::Rc;

use nix::errno::Errno;

/// What happens at the chosen effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// ENOSPC; the effect does not happen, the program goes on.
    DiskFull,
    /// EROFS; the same.
    ReadOnly,
    /// The program is dead before the effect happens.
    PowerLostBefore,
    /// The effect happens, and then the program is dead.
    PowerLostAfter,
}

/// Counts effects over everything that shares it, and can make one of them go wrong. Clones are the same fuse.
#[derive(Debug, Clone, Default)]
pub struct Fuse(Rc<FuseState>);

#[derive(Debug, Default)]
struct FuseState {
    fault: Option<(usize, Fault)>,
    power_lost: Cell<bool>,
    log: RefCell<Vec<String>>,
}

impl Fuse {
    /// Only counts.
    #[must_use]
    pub fn counting() -> Self {
        Self::default()
    }

    /// Lets the effect number `k` (from 1) go wrong.
    #[must_use]
    pub fn at(k: usize, fault: Fault) -> Self {
        Self(Rc::new(FuseState { fault: Some((k, fault)), ..FuseState::default() }))
    }

    /// How many effects were tried.
    #[must_use]
    pub fn effects(&self) -> usize {
        self.0.log.borrow().len()
    }

    /// The effects tried, in order, in words.
    #[must_use]
    pub fn log(&self) -> Vec<String> {
        self.0.log.borrow().clone()
    }

    /// True once the power is lost.
    #[must_use]
    pub fn power_is_lost(&self) -> bool {
        self.0.power_lost.get()
    }

    fn lost(&self) -> Option<io::Error> {
        self.power_is_lost().then(power_lost)
    }

    fn lose_power(&self) -> io::Error {
        self.0.power_lost.set(true);
        power_lost()
    }

    /// Something that changes nothing: it only needs power.
    ///
    /// # Errors
    /// If there is none.
    pub fn observe<T, E>(
        &self,
        act: impl FnOnce() -> Result<T, E>,
        wrap: impl FnOnce(io::Error) -> E,
    ) -> Result<T, E> {
        match self.lost() {
            None => act(),
            Some(error) => Err(wrap(error)),
        }
    }

    /// Something that changes the machine.
    ///
    /// # Errors
    /// What the fault is, or that of the act.
    pub fn effect<T, E>(
        &self,
        what: impl fmt::Display,
        act: impl FnOnce() -> Result<T, E>,
        wrap: impl FnOnce(io::Error) -> E,
    ) -> Result<T, E> {
        if let Some(error) = self.lost() {
            return Err(wrap(error));
        }
        self.0.log.borrow_mut().push(what.to_string());
        let fault = self.0.fault.filter(|(k, _)| *k == self.effects()).map(|(_, fault)| fault);
        Err(wrap(match fault {
            None => return act(),
            Some(Fault::DiskFull) => Errno::ENOSPC.into(),
            Some(Fault::ReadOnly) => Errno::EROFS.into(),
            Some(Fault::PowerLostBefore) => self.lose_power(),
            Some(Fault::PowerLostAfter) => {
                // Nobody is left to hear how it went.
                let _ = act();
                self.lose_power()
            }
        }))
    }
}

fn power_lost() -> io::Error {
    io::Error::other("power lost")
}
