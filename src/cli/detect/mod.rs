//! `detect`: which hierarchy, and why.

mod host;
mod image;
mod line;

use std::path::{Path, PathBuf};

use clap::Args;

use super::Exit;
use super::args::{HierarchyWord, version};
use super::output::{print, print_json};
use super::session::tree;
use crate::boot::hierarchy::Hierarchy;
use crate::host::fs::RootedFs;
use crate::host::mounts::{LiveMounts, TreeMounts};
use crate::verify::detection;

/// Say whether this host runs legacy, hybrid or unified cgroups, and why
#[derive(Debug, Args)]
pub(super) struct Detect {
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Exit with 0 for unified, 10 for hybrid, 11 for legacy, 12 for unknown
    #[arg(long)]
    exit_code: bool,
    /// Look at the host whose root is mounted at this directory
    #[arg(long, value_name = "DIR", default_value = "/")]
    root: PathBuf,
    /// Say instead what systemd makes of this kernel command line
    #[arg(long, value_name = "WORDS", allow_hyphen_values = true)]
    line: Option<String>,
    /// systemd's version, for --line [default: that of this host, else 252]
    #[arg(long, value_name = "N", requires = "line", value_parser = version)]
    systemd: Option<u32>,
    /// systemd's built-in default, for --line [default: that of this host, or of the version given]
    #[arg(long, requires = "line")]
    default: Option<HierarchyWord>,
}

impl Detect {
    pub(super) fn run(&self) -> anyhow::Result<Exit> {
        let tree = tree(&self.root)?;
        let fs = RootedFs::new(tree.unwrap_or(Path::new("/")));
        match &self.line {
            Some(words) => self.judge_line(words, &fs),
            None => self.look_at(&fs, tree.is_none()),
        }
    }

    fn look_at(&self, fs: &RootedFs, is_live: bool) -> anyhow::Result<Exit> {
        let mut found =
            if is_live { host::live(fs) } else { detection::detect(fs, &TreeMounts::new(&self.root)) };
        let hints = if is_live { Vec::new() } else { image::tell(&mut found, fs, &self.root) };
        self.show(&found, || [vec![host::text(&found)], hints].concat().join("\n"))?;
        Ok(if found.is_refused() { Exit::Unsupported } else { self.code(found.hierarchy) })
    }

    fn judge_line(&self, words: &str, fs: &RootedFs) -> anyhow::Result<Exit> {
        let answer = line::judge(words, self.systemd, self.default.map(Into::into), fs);
        self.show(&answer, || line::text(&answer))?;
        Ok(self.code(answer.hierarchy))
    }

    fn show(&self, answer: &impl serde::Serialize, text: impl FnOnce() -> String) -> anyhow::Result<()> {
        if self.json { print_json(answer) } else { print(&format!("{}\n", text())) }
    }

    fn code(&self, hierarchy: Hierarchy) -> Exit {
        if !self.exit_code {
            return Exit::Done;
        }
        match hierarchy {
            Hierarchy::Unified => Exit::Done,
            Hierarchy::Hybrid => Exit::Other(10),
            Hierarchy::Legacy => Exit::Other(11),
            Hierarchy::Unknown => Exit::Other(12),
        }
    }
}
