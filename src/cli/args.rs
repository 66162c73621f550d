//! Arguments that several verbs share.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Result, ensure};
use clap::builder::PossibleValuesParser;
use clap::{Args, ValueEnum};

use super::session::Session;
use crate::boot::hierarchy::Hierarchy;
use crate::checks::KNOWN_LOADERS;
use crate::config::{LONGEST_REBOOT_WAIT, Settings};
use crate::facts::Scan;
use crate::node::drain::OnBlocked;
use crate::report::known_id;

/// A hierarchy, as said on the command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum HierarchyWord {
    /// Controllers on v1, no cgroup2 mount
    Legacy,
    /// Controllers on v1, cgroup2 beside them
    Hybrid,
    /// cgroup v2 alone
    Unified,
}

impl From<HierarchyWord> for Hierarchy {
    fn from(word: HierarchyWord) -> Self {
        match word {
            HierarchyWord::Legacy => Self::Legacy,
            HierarchyWord::Hybrid => Self::Hybrid,
            HierarchyWord::Unified => Self::Unified,
        }
    }
}

/// Which host to look at.
#[derive(Debug, Clone, Args)]
pub(super) struct Target {
    /// Look at the tree below DIR (a mounted image) instead of the running host
    #[arg(long, value_name = "DIR")]
    pub(super) root: Option<PathBuf>,
    /// With --root: what that host runs
    #[arg(long, value_name = "HIERARCHY", requires = "root")]
    assume_hierarchy: Option<HierarchyWord>,
    /// With --root: which boot loader that host has
    #[arg(long, value_name = "NAME", requires = "root", value_parser = PossibleValuesParser::new(KNOWN_LOADERS))]
    assume_loader: Option<String>,
}

impl Target {
    /// The host to look at, and what to read of it.
    ///
    /// # Errors
    /// If there is no such directory, and if something is assumed of this host itself.
    pub(super) fn open(&self) -> Result<(Session, Scan)> {
        let session = Session::new(self.root.as_deref())?;
        let assumes = self.assume_hierarchy.is_some() || self.assume_loader.is_some();
        ensure!(
            !(session.is_running() && assumes),
            "--assume-hierarchy and --assume-loader are for a tree; --root {} is this host itself, which is looked at",
            self.root.as_deref().unwrap_or(Path::new("/")).display()
        );
        let scan = Scan {
            running: session.is_running(),
            assumed_hierarchy: self.assume_hierarchy.map(Hierarchy::from),
            assumed_loader: self.assume_loader.clone(),
        };
        Ok((session, scan))
    }
}

/// What to accept and leave out.
#[derive(Debug, Clone, Default, Args)]
pub(super) struct Choices {
    /// Go on despite this blocker, if it is one that can be accepted (may be repeated); the journal keeps it
    #[arg(long = "accept", value_name = "ID", value_parser = id)]
    pub(super) accept: Vec<String>,
    /// The node needs no drain, or someone else drained it
    #[arg(long)]
    pub(super) no_drain: bool,
    #[command(flatten)]
    pub(super) draining: Draining,
}

fn id(word: &str) -> Result<String, String> {
    known_id(word).map(|()| word.to_owned())
}

/// How long to wait for a lock on shutdown to go away.
///
/// # Errors
/// What it should be.
pub(super) fn wait(word: &str) -> Result<Duration, String> {
    let seconds = word.parse().ok().map(Duration::from_secs);
    seconds.filter(|wait| *wait <= LONGEST_REBOOT_WAIT).ok_or_else(|| {
        format!("expected a whole number of seconds, {} at most", LONGEST_REBOOT_WAIT.as_secs())
    })
}

/// systemd's version, without what packages add to it.
///
/// # Errors
/// What it should be.
pub(super) fn version(word: &str) -> Result<u32, &'static str> {
    word.parse().map_err(|_| "expected a whole number, such as 252")
}

/// How to drain, in the words of `kubectl drain` where it has them.
#[derive(Debug, Clone, Default, Args)]
pub(super) struct Draining {
    /// Let data of emptyDir volumes go (as --accept pod-emptydir-data)
    #[arg(long)]
    delete_emptydir_data: bool,
    /// Let pods go that nobody makes anew (as --accept pod-unmanaged)
    #[arg(long)]
    force: bool,
    /// The longest the drain may take, in seconds
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..))]
    drain_timeout: Option<u64>,
    /// What to do about pods that do not go in that time
    #[arg(long, value_name = "WHAT")]
    on_blocked: Option<BlockedWord>,
    /// With --on-blocked delete: yes, past their disruption budgets
    #[arg(long, requires = "on_blocked")]
    delete_past_budgets: bool,
}

/// `--on-blocked`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum BlockedWord {
    /// End the drain; take our own cordon off again
    Abort,
    /// Go on for as long as it takes
    Wait,
    /// Delete them past their disruption budgets; takes --delete-past-budgets, too
    Delete,
}

impl Draining {
    /// Takes what was said into the settings.
    ///
    /// # Errors
    /// If pods would be deleted past their budgets and that was said only once.
    pub(super) fn apply(&self, settings: &mut Settings) -> Result<()> {
        let said = [(self.delete_emptydir_data, "pod-emptydir-data"), (self.force, "pod-unmanaged")];
        settings.accept.extend(said.into_iter().filter(|(said, _)| *said).map(|(_, id)| id.to_owned()));
        if let Some(seconds) = self.drain_timeout {
            settings.drain.time_limit = Duration::from_secs(seconds);
        }
        ensure!(
            self.on_blocked != Some(BlockedWord::Delete) || self.delete_past_budgets,
            "--on-blocked delete deletes pods past their disruption budgets; say --delete-past-budgets, too"
        );
        if let Some(word) = self.on_blocked {
            settings.drain.on_blocked = word.into();
        }
        Ok(())
    }
}

impl From<BlockedWord> for OnBlocked {
    fn from(word: BlockedWord) -> Self {
        match word {
            BlockedWord::Abort => Self::Abort,
            BlockedWord::Wait => Self::Wait,
            BlockedWord::Delete => Self::Delete,
        }
    }
}

/// Of verbs that cannot look at a tree: `--root` is answered with the reason, rather than called unknown.
#[derive(Debug, Args)]
pub(super) struct NoTree {
    #[arg(long = "root", value_name = "DIR", hide = true, value_parser = no_tree)]
    _root: Option<String>,
}

fn no_tree(_: &str) -> Result<String, &'static str> {
    Err(
        "this verb is for the running host alone: it is about its reboot and what runs after it, and a tree runs \
         nothing; `cgroup2-migrate plan --root DIR --assume-hierarchy hybrid` shows what would be changed in a tree",
    )
}

/// Arguments of the verbs that look and change nothing.
#[derive(Debug, Args)]
pub(super) struct Look {
    #[command(flatten)]
    pub(super) target: Target,
    #[command(flatten)]
    pub(super) choices: Choices,
    /// Print JSON
    #[arg(long)]
    pub(super) json: bool,
}
