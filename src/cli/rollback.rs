//! `rollback`: every file as it was, and the hierarchy with it.

use std::path::Path;
use std::time::Duration;

use anyhow::Result;
use clap::Args;

use super::args::{Choices, NoTree, wait};
use super::migrate::agreed;
use super::output::{print, tell};
use super::resume::Going;
use super::session::{Session, require_root};
use super::{Exit, text};
use crate::migration::begin::{turn_back, warning};
use crate::migration::phase::{Phase, PhaseName};
use crate::migration::store::Store;

/// Arguments of `rollback`.
#[derive(Debug, Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    _no_tree: NoTree,
    /// Do not ask
    #[arg(short, long)]
    yes: bool,
    /// Put the files back, leave the reboot to me
    #[arg(long)]
    no_reboot: bool,
    /// The node needs no drain, or is drained already
    #[arg(long)]
    no_drain: bool,
    /// Wait this long for a lock on shutdown to go away (at most an hour)
    #[arg(long, value_name = "SECONDS", value_parser = wait)]
    reboot_wait: Option<Duration>,
}

pub(super) fn run(arguments: &Arguments, config: Option<&Path>) -> Result<Exit> {
    require_root("rollback")?;
    let session = Session::new(None)?;
    let settings = session.settings(config, &Choices::default())?;
    if Store::new(session.host().fs).load()?.is_none() {
        print("nothing to roll back: there is no migration on this host\n")?;
        return Ok(Exit::Done);
    }
    let wait = arguments.reboot_wait.unwrap_or(settings.reboot_wait);
    let going = Going::prepare(&session, &settings, "rollback", wait)?;
    let mut journal = going.journal()?;
    if let Phase::RolledBack { why } = &journal.state {
        print(&format!("this host is as it was already ({why})\n"))?;
        return Ok(Exit::RolledBack);
    }
    journal.options.no_reboot = arguments.no_reboot;
    journal.options.no_drain |= arguments.no_drain;
    if let Some(found) = going.hindrance(&journal)? {
        tell(&text::ending(&found));
        return Ok(Exit::from(&found));
    }
    if let Some(warning) = warning(session.host(), &journal) {
        tell(&format!("Warning: {warning}"));
    }
    tell(
        "Every file of the migration is put back as it was; if the hierarchy is another one, the host reboots once.",
    );
    if let Err(exit) = agreed(arguments.yes) {
        return Ok(exit);
    }
    if journal.state.name() != PhaseName::RollingBack {
        turn_back(session.host(), &mut journal, "asked for by a person")?;
    }
    going.run(journal)
}
