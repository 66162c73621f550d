//! The command `cgroup2-migrate`: parse, log, run, exit code.

use std::process::ExitCode;

use clap::Parser;

use cgroup2_migrate::cli::{Cli, Exit, log_to, print_error};

fn main() -> ExitCode {
    let cli = Cli::parse();
    log_to(cli.verbose);
    match cli.run() {
        Ok(exit) => exit.into(),
        Err(error) => {
            print_error(&error);
            Exit::of(&error).into()
        }
    }
}
