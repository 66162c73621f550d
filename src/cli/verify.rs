//! `verify`: proofs on the running host.

use anyhow::Result;
use clap::Args;
use serde_json::json;

use super::args::NoTree;
use super::output::{print, print_json};
use super::session::Session;
use super::{Exit, text};
use crate::facts::cgroup::REQUIRED_CONTROLLERS;
use crate::verify::{self, Verdict};

/// Arguments of `verify`.
#[derive(Debug, Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    _no_tree: NoTree,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Number of the shape of `verify --json`.
const SCHEMA: u32 = 1;

pub(super) fn run(arguments: &Arguments) -> Result<Exit> {
    let session = Session::new(None)?;
    let needed: Vec<String> = REQUIRED_CONTROLLERS.iter().map(|name| (*name).to_owned()).collect();
    let proofs = verify::prove(session.host(), &needed);
    let passed = verify::verdict(&proofs) == Verdict::Passed;
    if arguments.json {
        print_json(&json!({"schema": SCHEMA, "passed": passed, "proofs": proofs}))?;
    } else {
        print(&text::proofs(&proofs))?;
    }
    Ok(if passed { Exit::Done } else { Exit::Failed })
}
