//! Being asked to stop while nothing but the network is waited for.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::host::Interrupt;

/// What the whole program listens to, and what wakes this thread up.
pub(super) struct Wakeful {
    interrupt: Interrupt,
    terminal: Signal,
    system: Signal,
}

impl Wakeful {
    /// Within a runtime.
    pub(super) fn new(interrupt: Interrupt) -> io::Result<Self> {
        Ok(Self {
            interrupt,
            terminal: signal(SignalKind::interrupt())?,
            system: signal(SignalKind::terminate())?,
        })
    }

    /// Comes back when somebody asks, or has asked before.
    pub(super) async fn asked(&mut self) {
        if self.interrupt.came() {
            return;
        }
        tokio::select! {
            _ = self.terminal.recv() => {}
            _ = self.system.recv() => {}
        }
    }
}
