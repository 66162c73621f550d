//! `status`: where this host stands, since when, what it waits for, what happens next.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Result;
use clap::Args;

use super::output::{print, print_json};
use super::session::Session;
use super::{Exit, text};
use crate::facts::cgroup;
use crate::host::Clock as _;
use crate::migration::status::{Status, status};
use crate::migration::store::Store;

/// Arguments of `status`.
#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Print again whenever it changes, until the migration has come to its end
    #[arg(long)]
    watch: bool,
    /// Look at the tree below DIR instead of the running host
    #[arg(long, value_name = "DIR")]
    root: Option<PathBuf>,
}

/// Pause between two looks of `--watch`.
const PAUSE: Duration = Duration::from_secs(1);

pub(super) fn run(arguments: &Arguments) -> Result<Exit> {
    let session = Session::new(arguments.root.as_deref())?;
    let mut shown = None;
    loop {
        let now = look(&session)?;
        let ended = now.ended;
        if shown.as_ref() != Some(&now) {
            show(&now, arguments.json)?;
            shown = Some(now);
        }
        if ended || !arguments.watch {
            return Ok(Exit::Done);
        }
        crate::host::SystemClock.sleep(PAUSE);
    }
}

fn look(session: &Session) -> Result<Status> {
    let host = session.host();
    Ok(status(
        Store::new(host.fs).load()?.as_ref(),
        cgroup::scan(host.fs, host.mounts, &host.mounts.table()).hierarchy,
    ))
}

fn show(status: &Status, json: bool) -> Result<()> {
    if json { print_json(status) } else { print(&text::status(status)) }
}
