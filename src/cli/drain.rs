//! `drain` and `uncordon`: the node part alone.

use std::cell::RefCell;
use std::path::Path;

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
use crate::migration::service::Kubernetes;
use crate::node::NodeApi;
use crate::node::budgets::with_budgets;
use crate::node::cordon::{self, Before, CordonError, Uncordoned};
use crate::node::drain::{self, Listener, Outcome, Policy, Progress};
use crate::node::preflight::Preflight;
use crate::node::select::Allowed;

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
    session.interrupt().listen().context("listen for signals")?;
    let run = format!("drain-{}", session.host().clock.now().strftime("%Y%m%dT%H%M%SZ"));
    let outcome = out_of_service(&cluster, &preflight.before, &run, &settings, arguments.json)?;
    tell(&outcome.to_string());
    Ok(match outcome {
        Outcome::Drained(_) => Exit::Done,
        Outcome::Blocked(_) => Exit::RolledBack,
        Outcome::Lost(_) | Outcome::Interrupted => Exit::TryLater,
    })
}

fn would_go(preflight: &Preflight) -> String {
    let pods: Vec<String> = preflight.to_evict.iter().map(|pod| format!("  {pod}\n")).collect();
    format!("{} pods would be evicted from {}\n{}", pods.len(), preflight.before.node, pods.concat())
}

/// Cordon and drain with one client; on failure our own cordon comes off at once.
fn out_of_service(
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
    let outcome = with_budgets(api, &before.node, outcome);
    if outcome.is_failure() {
        match cordon::uncordon(api, before, run) {
            Ok(uncordoned) => tell(&format!("uncordon: {uncordoned}")),
            Err(error) => tell(&format!("{error}; the node is still cordoned: cgroup2-migrate uncordon")),
        }
    }
    Ok(outcome)
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
