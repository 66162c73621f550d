//! The folders of cases: found, read, judged, counted. Their form is described in `tests/fixtures/README.md`.
#![allow(dead_code, reason = "each test uses its part")]
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a case that cannot be read has failed, and what was judged is told"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use cgroup2_migrate::boot::hierarchy::Hierarchy;
use cgroup2_migrate::migration::phase::PhaseName;
use serde::Deserialize;

/// Names the directory with more cases.
pub(crate) const ELSEWHERE: &str = "C2M_EXTRA_CASES";

/// A folder that holds one of these is a case; any other is a folder of cases.
const MARKS: [&str; 15] = [
    "expect.json",
    "statfs.txt",
    "boot",
    "dev",
    "etc",
    "event",
    "host",
    "lib",
    "proc",
    "root",
    "run",
    "state",
    "sys",
    "usr",
    "var",
];

/// `expect.json`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Expect {
    pub(crate) plan: Option<Plan>,
    pub(crate) detect: Option<Detect>,
    pub(crate) reboot: Option<Reboot>,
    pub(crate) kubelet: Option<Kubelet>,
}

/// What a plan for the tree has to say.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Plan {
    pub(crate) assume: Assumed,
    #[serde(default)]
    pub(crate) files: BTreeMap<PathBuf, String>,
    #[serde(default)]
    pub(crate) effective_after: Option<String>,
    #[serde(default)]
    pub(crate) opaque: bool,
    #[serde(default)]
    pub(crate) error: Option<String>,
    #[serde(default)]
    pub(crate) findings: BTreeSet<String>,
}

/// What the host runs and does without any argument.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Assumed {
    pub(crate) hierarchy: Hierarchy,
    pub(crate) default: Hierarchy,
}

/// What `detect` has to say of the recorded host.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Detect {
    pub(crate) hierarchy: Hierarchy,
    pub(crate) exit_code: i32,
    pub(crate) says: Vec<String>,
}

/// What is right for the kubelet of the tree.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Kubelet {
    #[serde(default)]
    pub(crate) version: Option<String>,
    #[serde(default)]
    pub(crate) effective: BTreeMap<String, Option<(serde_json::Value, String)>>,
    #[serde(default)]
    pub(crate) goal: Option<Goal>,
    #[serde(default)]
    pub(crate) changes: BTreeMap<PathBuf, String>,
    #[serde(default)]
    pub(crate) refused: Vec<String>,
    pub(crate) findings: BTreeSet<String>,
    #[serde(default)]
    pub(crate) says: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Goal {
    RefuseV1,
    AllowV1,
}

/// A machine and what happens to it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Reboot {
    #[serde(default)]
    pub(crate) machine: Machine,
    #[serde(default)]
    pub(crate) menu: Option<PathBuf>,
    #[serde(default)]
    pub(crate) script: Vec<Step>,
    #[serde(default)]
    pub(crate) reboots: usize,
    #[serde(default)]
    pub(crate) unchanged: Vec<PathBuf>,
}

/// How the machine differs from a plain one.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Machine {
    #[serde(default)]
    pub(crate) default: Option<Hierarchy>,
    #[serde(default)]
    pub(crate) next_boots: Option<Hierarchy>,
    #[serde(default)]
    pub(crate) mkconfig_writes: Option<String>,
}

/// One thing that happens, and what is right after it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Step {
    pub(crate) run: Run,
    #[serde(default)]
    pub(crate) logind: Logind,
    #[serde(default)]
    pub(crate) until: Option<PhaseName>,
    #[serde(default)]
    pub(crate) no_reboot: bool,
    #[serde(default)]
    pub(crate) exit: Option<u8>,
    #[serde(default)]
    pub(crate) says: Vec<String>,
    #[serde(default)]
    pub(crate) phase: Option<PhaseName>,
    #[serde(default)]
    pub(crate) hierarchy: Option<Hierarchy>,
    #[serde(default)]
    pub(crate) boot_files: Option<BootFiles>,
    #[serde(default)]
    pub(crate) writes: Option<usize>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Run {
    Migrate,
    Resume,
    ResumeAtBoot,
    Rollback,
    Boot,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Logind {
    #[default]
    Free,
    Locked,
    Refuses,
    GoingDown,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum BootFiles {
    AsBefore,
    Changed,
}

/// One folder.
#[derive(Debug)]
pub(crate) struct Case {
    pub(crate) path: PathBuf,
    /// `None` if there is no `expect.json`.
    pub(crate) expect: Option<Expect>,
}

impl Case {
    pub(crate) fn read(path: PathBuf) -> Self {
        let file = path.join("expect.json");
        let expect = file.symlink_metadata().is_ok().then(|| parse(&file));
        Self { path, expect }
    }

    pub(crate) fn plan(&self) -> Option<&Plan> {
        self.expect.as_ref()?.plan.as_ref()
    }

    pub(crate) fn detect(&self) -> Option<&Detect> {
        self.expect.as_ref()?.detect.as_ref()
    }

    pub(crate) fn reboot(&self) -> Option<&Reboot> {
        self.expect.as_ref()?.reboot.as_ref()
    }

    pub(crate) fn kubelet(&self) -> Option<&Kubelet> {
        self.expect.as_ref()?.kubelet.as_ref()
    }

    /// Why a case without this section is left out.
    pub(crate) fn lacks(&self, section: &str) -> String {
        match self.expect {
            None => "no expect.json".to_owned(),
            Some(_) => format!("its expect.json has no section `{section}`"),
        }
    }
}

fn parse(file: &Path) -> Expect {
    let text = std::fs::read_to_string(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
}

/// The cases of one area of ours.
pub(crate) fn own(area: &str) -> Vec<Case> {
    below(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(area))
}

/// The cases of the directory in [`ELSEWHERE`].
pub(crate) fn elsewhere() -> Vec<Case> {
    match std::env::var_os(ELSEWHERE) {
        None => {
            println!("SKIP: {ELSEWHERE} names no directory with more cases");
            Vec::new()
        }
        Some(directory) => below(Path::new(&directory)),
    }
}

/// The cases in a directory and in the folders of cases in it.
pub(crate) fn below(directory: &Path) -> Vec<Case> {
    let is_case = |folder: &PathBuf| MARKS.iter().any(|mark| folder.join(mark).symlink_metadata().is_ok());
    let (cases, areas): (Vec<_>, Vec<_>) = folders(directory).into_iter().partition(is_case);
    let nested = areas.into_iter().flat_map(|area| {
        let inner = folders(&area);
        if inner.is_empty() { vec![area] } else { inner }
    });
    let mut all: Vec<PathBuf> = cases.into_iter().chain(nested).collect();
    all.sort();
    all.into_iter().map(Case::read).collect()
}

fn folders(directory: &Path) -> Vec<PathBuf> {
    let entries =
        std::fs::read_dir(directory).unwrap_or_else(|error| panic!("{}: {error}", directory.display()));
    entries.map(|entry| entry.unwrap().path()).filter(|path| path.is_dir()).collect()
}

/// Judges each case and tells how many there were; `judge` says why it leaves one out. All that fail are named.
pub(crate) fn judge_all(cases: &[Case], judge: impl Fn(&Case) -> Result<(), String>) -> usize {
    let (mut judged, mut failed, mut skipped) = (0, Vec::new(), BTreeMap::<String, Vec<String>>::new());
    for case in cases {
        match catch_unwind(AssertUnwindSafe(|| judge(case))) {
            Ok(Ok(())) => judged += 1,
            Ok(Err(why)) => skipped.entry(why).or_default().push(name(case)),
            Err(_) => failed.push(case.path.display().to_string()),
        }
    }
    for (why, names) in &skipped {
        println!("SKIP: {} ({}): {why}", names.len(), names.join(" "));
    }
    let left_out: usize = skipped.values().map(Vec::len).sum();
    println!("{judged} cases judged, {left_out} skipped, {} failed", failed.len());
    assert!(failed.is_empty(), "{failed:#?}");
    judged
}

fn name(case: &Case) -> String {
    case.path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}
