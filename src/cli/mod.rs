//! The command line: one file a verb, no logic.

mod args;
mod check;
mod detect;
mod drain;
mod exit;
mod kubernetes;
mod lock;
mod logging;
mod migrate;
mod output;
mod plan;
mod resume;
mod rollback;
mod session;
mod status;
mod text;
mod verify;

use std::path::PathBuf;

use clap::{Parser, Subcommand};

pub use check::verdict;
pub use exit::Exit;
pub use logging::log_to;
pub use output::print_error;

/// Moves this node from cgroup v1 to cgroup v2, proves it, or leaves it as it was.
#[derive(Debug, Parser)]
#[command(version, about, propagate_version = true, after_help = exit::HELP)]
pub struct Cli {
    /// Say on standard error what was read and which programs are run (twice: every step)
    #[arg(short, long, action = clap::ArgAction::Count, global = true)]
    pub verbose: u8,
    /// Read this settings file after those in config.d
    #[arg(long, value_name = "FILE", global = true)]
    config: Option<PathBuf>,
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    Detect(detect::Detect),
    /// Find everything that stands in the way, at once
    Check(args::Look),
    /// Show every step and the diff of every file; change nothing
    Plan(args::Look),
    /// Carry the plan out: edit, reboot, prove
    #[command(after_help = exit::OF_MIGRATE)]
    Migrate(migrate::Arguments),
    /// Say where this host stands and what happens next
    Status(status::Arguments),
    /// Go on after a reboot or an interruption
    Resume(resume::Arguments),
    /// Prove cgroup v2 on the running host
    Verify(verify::Arguments),
    /// Cordon this node and let its pods go, and nothing else
    Drain(drain::Drain),
    /// Take our own cordon off; somebody else's stays
    Uncordon(drain::Uncordon),
    Lock(lock::Lock),
    /// Put everything back as it was before the migration
    Rollback(rollback::Arguments),
}

impl Cli {
    /// Runs the verb.
    ///
    /// # Errors
    /// What went wrong, as a chain; the exit code is 1 then.
    pub fn run(&self) -> anyhow::Result<Exit> {
        let config = self.config.as_deref();
        match &self.verb {
            Verb::Detect(detect) => detect.run(),
            Verb::Check(arguments) => check::run(arguments, config),
            Verb::Plan(arguments) => plan::run(arguments, config),
            Verb::Migrate(arguments) => migrate::run(arguments, config),
            Verb::Status(arguments) => status::run(arguments),
            Verb::Resume(arguments) => resume::run(arguments, config),
            Verb::Verify(arguments) => verify::run(arguments),
            Verb::Drain(arguments) => drain::run(arguments, config),
            Verb::Uncordon(arguments) => drain::uncordon(arguments, config),
            Verb::Lock(arguments) => lock::run(arguments, config),
            Verb::Rollback(arguments) => rollback::run(arguments, config),
        }
    }
}
