//! logind and systemd as a test wants them.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::io;

use super::Fuse;
use crate::host::{Inhibitor, Init, InitError};

/// A logind and systemd whose answers a test sets. Effects are [`Init::reboot`],
/// [`Init::reload_units`] and [`Init::restart_unit`].
#[derive(Debug)]
pub struct FakeInit {
    /// Answer to [`Init::inhibitors`]; a test that wants them to go after a while takes from here.
    pub inhibitors: RefCell<Vec<Inhibitor>>,
    /// Answer to [`Init::can_reboot`].
    pub can_reboot: RefCell<String>,
    /// Answers to [`Init::unit_file_state`]; other units are unknown (empty).
    pub unit_states: RefCell<BTreeMap<String, String>>,
    /// Answer to [`Init::is_going_down`]; true after a reboot was accepted.
    pub going_down: Cell<bool>,
    /// Answer to [`Init::scheduled_shutdown`].
    pub scheduled: RefCell<Option<String>>,
    /// If set, [`Init::reboot`] is refused with these words.
    pub refusal: RefCell<Option<String>>,
    /// Answers to [`Init::active_state`]; other units are `inactive`.
    pub active_states: RefCell<BTreeMap<String, String>>,
    /// If set, nobody is there: every call is [`InitError::Unreachable`].
    pub absent: Cell<bool>,
    reboots: Cell<usize>,
    restarts: RefCell<Vec<String>>,
    fuse: Fuse,
}

impl Default for FakeInit {
    fn default() -> Self {
        Self {
            inhibitors: RefCell::default(),
            can_reboot: RefCell::new("yes".to_owned()),
            unit_states: RefCell::default(),
            going_down: Cell::new(false),
            scheduled: RefCell::default(),
            refusal: RefCell::default(),
            active_states: RefCell::default(),
            absent: Cell::new(false),
            reboots: Cell::new(0),
            restarts: RefCell::default(),
            fuse: Fuse::default(),
        }
    }
}

impl FakeInit {
    /// A healthy machine that may reboot.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Shares a fuse.
    #[must_use]
    pub fn with_fuse(mut self, fuse: Fuse) -> Self {
        self.fuse = fuse;
        self
    }

    /// How many reboots were accepted.
    #[must_use]
    pub fn reboots(&self) -> usize {
        self.reboots.get()
    }

    /// The units that were restarted, in order.
    #[must_use]
    pub fn restarts(&self) -> Vec<String> {
        self.restarts.borrow().clone()
    }

    fn answer<T>(&self, action: &'static str, answer: impl FnOnce() -> T) -> Result<T, InitError> {
        let act = || if self.absent.get() { Err(unreachable(action, "nobody there")) } else { Ok(answer()) };
        self.fuse.observe(act, |error| unreachable(action, &error.to_string()))
    }

    fn change<T>(&self, what: &str, change: impl FnOnce() -> T) -> Result<T, InitError> {
        let absent = || unreachable("change units", "nobody there");
        let act = || if self.absent.get() { Err(absent()) } else { Ok(change()) };
        self.fuse.effect(what, act, |error| unreachable("change units", &error.to_string()))
    }

    fn accept_reboot(&self) -> Result<(), InitError> {
        if self.absent.get() {
            return Err(unreachable("reboot", "nobody there"));
        }
        if let Some(reason) = self.refusal.borrow().clone() {
            return Err(InitError::Refused { action: "reboot", service: "org.freedesktop.login1", reason });
        }
        self.reboots.set(self.reboots.get() + 1);
        self.going_down.set(true);
        Ok(())
    }
}

fn unreachable(action: &'static str, reason: &str) -> InitError {
    InitError::Unreachable { action, service: "org.freedesktop.login1", reason: reason.to_owned() }
}

impl Init for FakeInit {
    fn inhibitors(&self) -> Result<Vec<Inhibitor>, InitError> {
        self.answer("list inhibitors", || self.inhibitors.borrow().clone())
    }

    fn can_reboot(&self) -> Result<String, InitError> {
        self.answer("ask whether a reboot is possible", || self.can_reboot.borrow().clone())
    }

    fn unit_file_state(&self, unit: &str) -> Result<String, InitError> {
        let state = || self.unit_states.borrow().get(unit).cloned().unwrap_or_default();
        self.answer("ask for the state of a unit file", state)
    }

    fn is_going_down(&self) -> Result<bool, InitError> {
        self.answer("ask whether a shutdown is under way", || self.going_down.get())
    }

    fn scheduled_shutdown(&self) -> Result<Option<String>, InitError> {
        self.answer("ask for a scheduled shutdown", || self.scheduled.borrow().clone())
    }

    fn reboot(&self) -> Result<(), InitError> {
        let wrap = |error: io::Error| unreachable("reboot", &error.to_string());
        self.fuse.effect("reboot", || self.accept_reboot(), wrap)
    }

    fn reload_units(&self) -> Result<(), InitError> {
        self.change("reload units", || ())
    }

    fn restart_unit(&self, unit: &str) -> Result<String, InitError> {
        self.change(&format!("restart {unit}"), || {
            self.restarts.borrow_mut().push(unit.to_owned());
            "done".to_owned()
        })
    }

    fn active_state(&self, unit: &str) -> Result<String, InitError> {
        let state = || self.active_states.borrow().get(unit).cloned();
        self.answer("ask for the state of a unit", || state().unwrap_or_else(|| "inactive".to_owned()))
    }
}
