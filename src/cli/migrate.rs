//! `migrate`: the plan, after a question; then the work.

use std::io::{self, IsTerminal};
use std::path::Path;
use std::time::Duration;

use anyhow::Result;
use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};

use super::args::{Choices, NoTree, wait};
use super::check::verdict;
use super::kubernetes::add_node;
use super::output::{print, tell};
use super::resume::Going;
use super::session::{Session, require_root};
use super::{Exit, text};
use crate::config::Settings;
use crate::facts::{self, Facts, Scan};
use crate::migration::begin::{begin, take_up};
use crate::migration::journal::{DrainOptions, Journal, Options};
use crate::migration::phase::PhaseName;
use crate::migration::store::Store;
use crate::plan::{self, Plan};

/// Arguments of `migrate`.
#[derive(Debug, Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    _no_tree: NoTree,
    #[command(flatten)]
    choices: Choices,
    /// Do not ask
    #[arg(short, long)]
    yes: bool,
    /// Leave the reboot to me; the proof follows after it by itself
    #[arg(long)]
    no_reboot: bool,
    /// Stop when this phase is reached; `resume` goes on
    #[arg(long, value_name = "PHASE", value_parser = stops())]
    until: Option<PhaseName>,
    /// Wait this long for a lock on shutdown to go away (at most an hour)
    #[arg(long, value_name = "SECONDS", value_parser = wait)]
    reboot_wait: Option<Duration>,
}

pub(super) fn run(arguments: &Arguments, config: Option<&Path>) -> Result<Exit> {
    require_root("migrate")?;
    let session = Session::new(None)?;
    let settings = session.settings(config, &arguments.choices)?;
    let wait = arguments.reboot_wait.unwrap_or(settings.reboot_wait);
    // Looked at without the lock: a host that cannot be migrated is not touched, not even by a lock file.
    if let Some(journal) = unfinished(&session)? {
        tell(&format!("A migration is under way (phase {}); it will be continued.", journal.state.name()));
        return agreed(arguments.yes).map_or_else(Ok, |()| go_on(arguments, &session, &settings, wait));
    }
    let (_, shown) = plan(&session, &settings);
    print(&text::plan(&shown, &settings.accept))?;
    let blockers = shown.blockers(&settings.accept);
    if !blockers.is_empty() || shown.nothing_to_do {
        return Ok(verdict(&blockers));
    }
    agreed(arguments.yes).map_or_else(Ok, |()| begin_as_shown(arguments, &session, &settings, &shown, wait))
}

fn plan(session: &Session, settings: &Settings) -> (Facts, Plan) {
    let mut facts = facts::scan(session.host(), &Scan::running());
    add_node(&mut facts, session, settings);
    let plan = plan::make(&facts, settings);
    (facts, plan)
}

/// With the lock everything is looked at again: the question may have stood there for hours.
fn begin_as_shown(
    arguments: &Arguments,
    session: &Session,
    settings: &Settings,
    shown: &Plan,
    wait: Duration,
) -> Result<Exit> {
    let going = Going::prepare(session, settings, "migrate", wait)?;
    if unfinished(session)?.is_some() {
        tell("another run has begun a migration meanwhile; see `status`");
        return Ok(Exit::TryLater);
    }
    let (facts, plan) = plan(session, settings);
    let blockers = plan.blockers(&settings.accept);
    if !blockers.is_empty() || plan.files != shown.files || plan.generated != shown.generated {
        tell(
            "the host is no longer as it was when the plan was shown; nothing was changed; look at the plan again",
        );
        return Ok(if blockers.is_empty() { Exit::Failed } else { verdict(&blockers) });
    }
    going.run(begin(session.host(), &facts, &plan, arguments.options(settings), &settings.fleet)?)
}

impl Arguments {
    fn options(&self, settings: &Settings) -> Options {
        Options {
            no_reboot: self.no_reboot,
            until: self.until,
            accepted: settings.accept.clone(),
            no_drain: settings.no_drain,
            drain: DrainOptions {
                time_limit_seconds: settings.drain.time_limit.as_secs(),
                on_blocked: settings.drain.on_blocked,
            },
        }
    }
}

/// With the lock: goes on with the migration that is under way, as it is asked for now.
fn go_on(arguments: &Arguments, session: &Session, settings: &Settings, wait: Duration) -> Result<Exit> {
    let going = Going::prepare(session, settings, "migrate", wait)?;
    let Some(mut journal) = unfinished(session)? else {
        tell("another run has just ended the migration; see `status`");
        return Ok(Exit::TryLater);
    };
    take_up(session.host(), &mut journal, arguments.options(settings))?;
    going.run(journal)
}

fn unfinished(session: &Session) -> Result<Option<Journal>> {
    Ok(Store::new(session.host().fs).load()?.filter(|journal| !journal.state.is_final()))
}

/// Asks on a terminal. Without one and without `--yes` nothing is done: that is wrong usage. A no is no success.
pub(super) fn agreed(yes: bool) -> Result<(), Exit> {
    if yes {
        return Ok(());
    }
    if !io::stdin().is_terminal() {
        tell("nothing was changed: there is no terminal to ask on; say --yes to go on");
        return Err(Exit::Usage);
    }
    tell("Go on? [y/N] ");
    let mut answer = String::new();
    let read = io::stdin().read_line(&mut answer);
    if read.is_ok() && matches!(answer.trim(), "y" | "Y" | "yes") {
        return Ok(());
    }
    tell("nothing was changed");
    Err(Exit::Failed)
}

/// The phases that `--until` can stop at.
fn stops() -> impl TypedValueParser<Value = PhaseName> {
    let phases = [PhaseName::Planned, PhaseName::Staged, PhaseName::Booted, PhaseName::Verified];
    PossibleValuesParser::new(phases.map(PhaseName::as_str))
        .map(move |word| phases.into_iter().find(|phase| phase.as_str() == word).unwrap_or(PhaseName::Staged))
}
