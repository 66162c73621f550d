//! For tests: stand-ins for the machine, and a [`Fuse`] that makes any one effect fail or be the last.
//!
//! A test that wants every crash point runs once with [`Fuse::counting`], and then for each `k` up to
//! [`Fuse::effects`] with [`Fuse::at`], each time starting the program anew on what the first half left.

mod clock;
mod fs;
mod fuse;
mod init;
mod runner;
#[cfg(test)]
mod tests;

pub use clock::FakeClock;
pub use fs::FaultyFs;
pub use fuse::{Fault, Fuse};
pub use init::FakeInit;
pub use runner::FakeRunner;
