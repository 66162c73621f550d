//! A clock that waits for nobody.

use std::cell::{Cell, RefCell};
use std::time::Duration;

use crate::host::Clock;

/// A clock that moves only when someone sleeps, or a test moves it.
#[derive(Debug)]
pub struct FakeClock {
    now: Cell<jiff::Timestamp>,
    sleeps: RefCell<Vec<Duration>>,
}

impl FakeClock {
    /// A clock that shows this many seconds since 1970.
    #[must_use]
    pub fn at(seconds: i64) -> Self {
        let now = jiff::Timestamp::from_second(seconds).unwrap_or(jiff::Timestamp::UNIX_EPOCH);
        Self { now: Cell::new(now), sleeps: RefCell::default() }
    }

    /// Moves the time on, without a sleep.
    pub fn advance(&self, duration: Duration) {
        let later = self.now.get().checked_add(duration).unwrap_or(jiff::Timestamp::MAX);
        self.now.set(later);
    }

    /// All sleeps, in order.
    #[must_use]
    pub fn sleeps(&self) -> Vec<Duration> {
        self.sleeps.borrow().clone()
    }
}

impl Default for FakeClock {
    fn default() -> Self {
        Self::at(1_796_083_200)
    }
}

impl Clock for FakeClock {
    fn now(&self) -> jiff::Timestamp {
        self.now.get()
    }

    fn sleep(&self, duration: Duration) {
        self.sleeps.borrow_mut().push(duration);
        self.advance(duration);
    }
}
