//! `drain` and `uncordon`: the node part alone.

use std::cell::RefCell;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow};
use clap::Args;

use super::args::Choices;
use super::check::verdict;
use super::kubernetes::Cluster;
use super::output::{print, print_json, tell};
use super::session::Session;
use super::{Exit, text};
use crate::checks;
use crate::config::Settings;
use crate::host::STATE_DIRECTORY;
use crate::migration::lock::Lock;
use crate::migration::service::Kubernetes;
use crate::migration::store::Store;
use crate::node::NodeApi;
use crate::node::budgets::with_budgets;
use crate::node::cordon::{self, Before, CordonError, Uncordoned};
use crate::node::drain::{self, Listener, Outcome, Policy, Progress};
use crate::node::preflight::Preflight;
use crate::node::select::Allowed;

/// How often, and with which pause, our cordon is taken back where nobody answers.
const BACK_TRIES: u32 = 30;
const BACK_TRIES_AFTER_SIGNAL: u32 = 3;
const BACK_PAUSE: Duration = Duration::from_secs(10);

/// Arguments of `drain`.
#[derive(Debug, Args)]
pub(super) struct Drain {
    #[command(flatten)]
    choices: Choices,
    /// Say what speaks against it and which pods would go; change nothing
    #[arg(long)]
    dry_run: bool,
    /// Print progress as JSON, one object a line
    #[arg(long)]
    json: bool,
}

/// Arguments of `uncordon`.
#[derive(Debug, Args)]
pub(super) struct Uncordon {}

/// Drains this node, and leaves it cordoned with our mark; taken back if the drain does not succeed.
pub(super) fn run(arguments: &Drain, config: Option<&Path>) -> Result<Exit> {
    let session = Session::new(None)?;
    let settings = session.settings(config, &arguments.choices)?;
    let cluster = Cluster::new(&session, &settings);
    let preflight = cluster.look(&settings).context("look at this node")?;
    let findings = checks::of_node(&preflight);
    let blockers = checks::blockers(&findings, &settings.accept);
    print(&text::listed(&findings, &settings.accept))?;
    if !blockers.is_empty() || arguments.dry_run {
        print(&would_go(&preflight))?;
        return Ok(verdict(&blockers));
    }
    let host = session.host();
    host.fs.create_directory(STATE_DIRECTORY.as_ref(), 0o700)?;
    let _lock = Lock::take(host.fs, "drain")?;
    if let Some(phase) = under_way(&session)? {
        tell(&format!(
            "a migration of this host is under way (phase {phase}) and has its own cordon: nothing was changed; `resume` \
             goes on, `rollback` puts everything back"
        ));
        return Ok(Exit::Blocked);
    }
    session.interrupt().listen().context("listen for signals")?;
    let run = format!("drain-{}", session.host().clock.now().strftime("%Y%m%dT%H%M%SZ"));
    let outcome = out_of_service(&session, &cluster, &preflight.before, &run, &settings, arguments.json)?;
    tell(&outcome.to_string());
    Ok(match outcome {
        Outcome::Drained(_) => Exit::Done,
        Outcome::Blocked(_) => Exit::RolledBack,
        Outcome::Lost(_) | Outcome::Interrupted => Exit::TryLater,
    })
}

/// The phase of a migration that has not ended.
fn under_way(session: &Session) -> Result<Option<&'static str>> {
    let journal = Store::new(session.host().fs).load()?.filter(|journal| !journal.state.is_final());
    Ok(journal.map(|journal| journal.state.name().as_str()))
}

fn would_go(preflight: &Preflight) -> String {
    let pods: Vec<String> = preflight.to_evict.iter().map(|pod| format!("  {pod}\n")).collect();
    format!("{} pods would be evicted from {}\n{}", pods.len(), preflight.before.node, pods.concat())
}

/// Cordon and drain with one client; on failure our own cordon comes off at once.
fn out_of_service(
    session: &Session,
    cluster: &Cluster<'_>,
    before: &Before,
    run: &str,
    settings: &Settings,
    json: bool,
) -> Result<Outcome> {
    let outcome = RefCell::new(None);
    let mut listener = Telling { cluster, json };
    cluster.connect(&mut |api| {
        let drained = cordoned_and_drained(api, before, run, settings, &mut listener);
        if drained.as_ref().map_or(true, Outcome::is_failure) {
            taken_back(session, api, before, run);
        }
        outcome.replace(Some(drained));
    })?;
    outcome.take().ok_or_else(|| anyhow!("no client was made"))?.map_err(anyhow::Error::from)
}

fn cordoned_and_drained(
    api: &dyn NodeApi,
    before: &Before,
    run: &str,
    settings: &Settings,
    listener: &mut dyn Listener,
) -> Result<Outcome, CordonError> {
    cordon::cordon(api, before, run)?;
    let outcome = drain::run(policy(before, settings), api.drain_port(&before.node).as_mut(), listener);
    Ok(with_budgets(api, &before.node, outcome))
}

/// A server that does not answer is asked again for a while; not for long where somebody asked the program to end.
fn taken_back(session: &Session, api: &dyn NodeApi, before: &Before, run: &str) {
    let mut tries = 0;
    let taken = cordon::take_back(api, before, run, |error| {
        tries += 1;
        let at_most = if session.interrupt().came() { BACK_TRIES_AFTER_SIGNAL } else { BACK_TRIES };
        if tries >= at_most {
            return false;
        }
        if tries == 1 {
            tell(&format!("{error}; tried again each {} s", BACK_PAUSE.as_secs()));
        }
        session.host().clock.sleep(BACK_PAUSE);
        true
    });
    match taken {
        Ok(uncordoned) => tell(&format!("uncordon: {uncordoned}")),
        Err(error) => {
            tell(&format!("{error}; the node may still be cordoned by us: cgroup2-migrate uncordon"));
        }
    }
}

fn policy(before: &Before, settings: &Settings) -> Policy {
    let is_accepted = |id: &str| settings.accept.iter().any(|accepted| accepted == id);
    Policy {
        allowed: Allowed {
            empty_dir_data: is_accepted("pod-emptydir-data"),
            unmanaged: is_accepted("pod-unmanaged"),
        },
        time_limit: settings.drain.time_limit,
        on_blocked: settings.drain.on_blocked,
        ..Policy::new(&before.node)
    }
}

struct Telling<'a> {
    cluster: &'a Cluster<'a>,
    json: bool,
}

impl Listener for Telling<'_> {
    fn progress(&mut self, progress: &Progress) {
        if !self.json {
            return self.cluster.tell(progress);
        }
        if let Err(error) = print_json(progress) {
            log::warn!("{error:#}");
        }
    }
}

/// Takes a cordon of ours off, of whichever run; somebody else's stays.
pub(super) fn uncordon(_arguments: &Uncordon, config: Option<&Path>) -> Result<Exit> {
    let session = Session::new(None)?;
    let settings = session.settings(config, &Choices::default())?;
    let cluster = Cluster::new(&session, &settings);
    let before = cluster.node()?;
    let outcome = RefCell::new(None);
    cluster.connect(&mut |api| {
        outcome.replace(Some(off(api, &before)));
    })?;
    let uncordoned = outcome.take().ok_or_else(|| anyhow!("no client was made"))??;
    print(&format!("{uncordoned}\n"))?;
    Ok(match uncordoned {
        Uncordoned::Done => Exit::Done,
        Uncordoned::NotOurs(_) => Exit::Blocked,
    })
}

fn off(api: &dyn NodeApi, before: &Before) -> Result<Uncordoned, CordonError> {
    let node = api.node(&before.node).map_err(CordonError::looking(&before.node))?;
    let run = cordon::mark(&node).unwrap_or_default().to_owned();
    cordon::uncordon(api, before, &run)
}
