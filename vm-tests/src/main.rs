//! Boots virtual machines and migrates them with the real binary.
//!
//! ```text
//! image      disk images from Debian packages, cached
//! qemu       one emulator process; vm: a guest with a disk of its own, reached by ssh
//! product    the program under test, built for any guest and installed as its package would
//! node       a guest with the program: what can be done to it and asked of it; expect: what must be true of it
//! scenarios  one file a story: a machine, what is done to it, what must be true after
//! runner     a few scenarios at a time, a verdict line for each
//! commands   the demo and tools for developers
//! ```
// A test driver: it prints for people, and starts the host's own programs.
#![allow(clippy::print_stdout, clippy::print_stderr, clippy::disallowed_methods)]

mod accelerator;
mod command;
mod commands;
mod console_tail;
mod context;
mod emulator;
mod expect;
mod image;
mod limits;
mod node;
mod product;
mod progress;
mod qemu;
mod runner;
mod scenarios;
mod ssh;
mod vm;

use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};

/// Boots virtual machines and migrates them with the real binary.
#[derive(Debug, Parser)]
struct Arguments {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Name the scenarios.
    List,
    /// Run scenarios: all, or those named.
    Run {
        /// Scenarios, or the common beginning of several (`killed`).
        names: Vec<String>,
        /// How many machines at once.
        #[arg(long, default_value_t = 2)]
        jobs: usize,
    },
    /// Build all images that are not cached yet.
    Images,
    /// Watch a machine being migrated.
    Demo,
    /// Boot a machine and open a shell in it.
    Shell {
        /// The machine's state: hybrid, legacy, unpinned, stuck, crippled.
        state: String,
    },
    /// Boot bookworm with words added to its kernel command line and print the hierarchy it comes up with.
    Measure {
        /// The words, as one argument.
        words: String,
    },
}

fn main() -> Result<ExitCode> {
    let verb = Arguments::parse().verb;
    if !matches!(verb, Verb::List) {
        command::require_tools()?;
    }
    let passed = obey(verb)?;
    Ok(if passed { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Whether all that was tested passed.
fn obey(verb: Verb) -> Result<bool> {
    match verb {
        Verb::List => list(),
        Verb::Run { names, jobs } => return runner::run(scenarios::select(&names)?, jobs),
        Verb::Images => {
            image::State::ALL.into_iter().try_for_each(|state| image::image(state).map(|_| ()))?
        }
        Verb::Demo => commands::demo::demo()?,
        Verb::Shell { state } => commands::shell::shell(&state)?,
        Verb::Measure { words } => commands::measure::measure(&words)?,
    }
    Ok(true)
}

fn list() {
    for scenario in scenarios::all() {
        println!("{:30} {}", scenario.name, scenario.about);
    }
}
