//! What would be done, as data that can be printed: steps, diffs, the kernel line before and after, the way back.
//! Making a plan changes nothing.

mod diff;
mod grub;
mod way_back;

use std::path::PathBuf;

use base64::Engine as _;
use serde::Serialize;

use crate::boot::hierarchy::Hierarchy;
use crate::checks;
use crate::config::Settings;
use crate::facts::Facts;
use crate::host::sha256;
use crate::kubelet::{Goal, flip};
use crate::report::Finding;

pub use way_back::{Possible, WayBack, way_back};

/// Number of the shape of `plan --json`.
pub const SCHEMA: u32 = 1;

/// Everything that `migrate` would do.
#[derive(Debug, Clone, Serialize)]
pub struct Plan {
    /// [`SCHEMA`].
    pub schema: u32,
    /// What runs now.
    pub hierarchy: Hierarchy,
    /// True if there is nothing to do.
    pub nothing_to_do: bool,
    /// The steps in order; empty with a blocker, or with nothing to do.
    pub steps: Vec<PlannedStep>,
    /// Everything that was found, blockers first.
    pub findings: Vec<Finding>,
    /// Whether the host could go back to v1 afterwards.
    pub way_back: WayBack,
    /// The kernel line of the entry that will boot.
    pub effective: Effective,
    /// Every file that changes, whole; empty with a blocker.
    pub files: Vec<PlannedFile>,
    /// The file that the boot loader's own tool writes anew from them.
    pub generated: Option<PathBuf>,
    /// Files of the kubelet that change once v2 is proven, as they are now: found out anew then. Empty with a blocker.
    pub later_files: Vec<PlannedFile>,
    /// What the host's users will notice.
    pub down_time: String,
}

/// One step, in words.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PlannedStep {
    /// Stable word.
    pub id: &'static str,
    /// One line.
    pub title: String,
}

/// A kernel line before and after.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Effective {
    /// Now; `None` if it could not be found out.
    pub before: Option<String>,
    /// After the change; `None` if it cannot be said beforehand.
    pub after: Option<String>,
}

/// One file that changes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PlannedFile {
    /// Host path.
    pub path: PathBuf,
    /// SHA-256 of what is there now; `null` if the file is created.
    pub before_sha256: Option<String>,
    /// The whole new text, if it is UTF-8.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
    /// The whole new content in base64, if it is not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after_base64: Option<String>,
    /// Unified diff.
    pub diff: String,
    /// The new content as bytes.
    #[serde(skip)]
    pub content: Vec<u8>,
}

impl Plan {
    /// Blockers that nobody accepted.
    #[must_use]
    pub fn blockers(&self, accepted: &[String]) -> Vec<&Finding> {
        checks::blockers(&self.findings, accepted)
    }
}

/// Makes the plan from what is known.
#[must_use]
pub fn make(facts: &Facts, settings: &Settings) -> Plan {
    let mut findings = checks::run(facts, settings);
    let hierarchy = facts.hierarchy();
    let nothing_to_do = hierarchy == Hierarchy::Unified;
    let change = if nothing_to_do || !checks::blockers(&findings, &settings.accept).is_empty() {
        grub::Change::none(facts)
    } else {
        grub::change(facts).unwrap_or_else(|blocker| grub::Change::blocked(facts, *blocker))
    };
    findings.extend(change.findings.iter().cloned());
    let way_back = way_back(facts);
    findings.extend(way_back.finding(nothing_to_do));
    findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
    let later_files = if nothing_to_do { Vec::new() } else { later_files(facts) };
    assemble(settings, hierarchy, change, findings, way_back, later_files)
}

/// What stands in the way there is among the findings.
fn later_files(facts: &Facts) -> Vec<PlannedFile> {
    let changes = flip(&facts.kubelet_setup, Goal::RefuseV1).unwrap_or_default();
    changes.iter().map(|change| planned_file(&change.edit)).collect()
}

fn assemble(
    settings: &Settings,
    hierarchy: Hierarchy,
    change: grub::Change,
    findings: Vec<Finding>,
    way_back: WayBack,
    later_files: Vec<PlannedFile>,
) -> Plan {
    let blocked = !checks::blockers(&findings, &settings.accept).is_empty();
    let nothing_to_do = hierarchy == Hierarchy::Unified;
    let files = if blocked { Vec::new() } else { change.edits.iter().map(planned_file).collect() };
    let later_files = if blocked { Vec::new() } else { later_files };
    let mut steps =
        if blocked || nothing_to_do { Vec::new() } else { steps(&files, change.generated.as_ref()) };
    steps.extend(kubelet_step(&later_files));
    Plan {
        schema: SCHEMA,
        hierarchy,
        nothing_to_do,
        steps,
        findings,
        way_back,
        effective: change.effective,
        files,
        generated: change.generated.filter(|_| !blocked),
        later_files,
        down_time: down_time(nothing_to_do),
    }
}

fn down_time(nothing_to_do: bool) -> String {
    if nothing_to_do {
        "none"
    } else {
        "one reboot (shutdown, firmware, boot); a second one only for the way back. The change is permanent before \
         the reboot, with no trial boot: a boot that hangs before systemd starts its units needs a person at the console"
    }
    .to_owned()
}

fn planned_file(edit: &crate::boot::FileEdit) -> PlannedFile {
    let text = String::from_utf8(edit.after.clone()).ok();
    let after_base64 = text.is_none().then(|| base64::engine::general_purpose::STANDARD.encode(&edit.after));
    PlannedFile {
        path: edit.path.clone(),
        before_sha256: edit.before.as_ref().map(|bytes| sha256(bytes)),
        after: text,
        after_base64,
        diff: diff::unified(edit),
        content: edit.after.clone(),
    }
}

fn steps(files: &[PlannedFile], generated: Option<&PathBuf>) -> Vec<PlannedStep> {
    let step = |id, title: String| PlannedStep { id, title };
    let mut steps =
        vec![step("save-originals", "save every file that is touched, with its hash and attributes".into())];
    steps.extend(files.iter().map(|file| step("write-file", format!("edit {}", file.path.display()))));
    if let Some(path) = generated {
        let title =
            format!("generate {} anew with the tool of GRUB, check it, put it in place", path.display());
        steps.push(step("generate", title));
    }
    steps.push(step("read-back", "read back which entry will boot and with which kernel line".into()));
    steps.push(step("reboot", "reboot through logind".into()));
    steps
        .push(step("verify", "after the boot: prove cgroup2fs on /sys/fs/cgroup and its controllers".into()));
    steps
}

fn kubelet_step(later_files: &[PlannedFile]) -> Option<PlannedStep> {
    let paths: Vec<String> = later_files.iter().map(|file| file.path.display().to_string()).collect();
    (!paths.is_empty()).then(|| PlannedStep {
        id: "kubelet-final",
        title: format!(
            "then let the kubelet refuse cgroup v1: edit {}, restart it, see that it is up; if it is not, put all back",
            paths.join(" and ")
        ),
    })
}
