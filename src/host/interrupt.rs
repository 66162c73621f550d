//! SIGINT, SIGTERM and SIGHUP: noted, and looked at where the work can be left.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

/// Whether this run was asked to end. Clones share the answer.
#[derive(Debug, Clone, Default)]
pub struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// From here on the signals end nothing by themselves: a write is never cut off. SIGHUP comes when the connection
    /// is lost from which we were started. What was ignored from the start (`nohup`) stays so.
    ///
    /// # Errors
    /// If the system refuses the handlers, or does not say what is ignored.
    pub fn listen(&self) -> io::Result<()> {
        let ignored = ignored()?;
        for signal in [SIGINT, SIGTERM, SIGHUP].into_iter().filter(|signal| ignored & bit(*signal) == 0) {
            signal_hook::flag::register(signal, Arc::clone(&self.0))?;
        }
        Ok(())
    }

    /// True once a signal came.
    #[must_use]
    pub fn came(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// The signals that this process ignores, a bit each. `sigaction` would say it too, but is `unsafe`.
fn ignored() -> io::Result<u64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "no SigIgn in /proc/self/status"))
}

/// The first signal is the lowest bit.
fn bit(signal: i32) -> u64 {
    1 << (signal - 1)
}
