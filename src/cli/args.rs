//! Arguments that several verbs share.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Result, ensure};
use clap::builder::PossibleValuesParser;
use clap::{Args, ValueEnum};

use super::session::Session;
use crate::boot::hierarchy::Hierarchy;
use crate::checks::KNOWN_LOADERS;
use crate::config::LONGEST_REBOOT_WAIT;
use crate::facts::Scan;
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
