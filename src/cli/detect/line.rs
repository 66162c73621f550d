//! What systemd makes of a kernel command line that someone pasted.

use serde::Serialize;

use crate::boot::hierarchy::{Hierarchy, Outcome, decide, upstream_default};
use crate::facts::systemd::{self, ASSUMED_SYSTEMD};
use crate::host::Fs;
use crate::verify::detection::{DecidedBy, Decider};

/// The answer; its JSON form is a contract.
#[derive(Debug, Serialize)]
pub(super) struct Answer {
    schema: u32,
    pub(super) hierarchy: Hierarchy,
    why: Vec<String>,
    decided_by: DecidedBy,
    outcome: Outcome,
    systemd: Reader,
    notes: Vec<String>,
}

/// Whose reading it is.
#[derive(Debug, Serialize)]
struct Reader {
    version: u32,
    default_hierarchy: Hierarchy,
    /// Where version and default come from.
    origin: String,
}

/// Decides, for the systemd that was named or else for the one of this host.
pub(super) fn judge(words: &str, version: Option<u32>, default: Option<Hierarchy>, fs: &dyn Fs) -> Answer {
    let reader = reader(version, default, fs);
    let decision = decide(words, reader.version, reader.default_hierarchy);
    let kind = if decision.word.is_some() { Decider::Argument } else { Decider::Default };
    Answer {
        schema: 1,
        hierarchy: decision.hierarchy,
        why: vec![decision.reason, reader.origin.clone()],
        decided_by: DecidedBy { kind, word: decision.word, places: Vec::new() },
        outcome: decision.outcome,
        systemd: reader,
        notes: decision.notes,
    }
}

fn reader(version: Option<u32>, default: Option<Hierarchy>, fs: &dyn Fs) -> Reader {
    if let Some(version) = version {
        let default_hierarchy = default.unwrap_or_else(|| upstream_default(version));
        let whose = if default.is_some() { "default as given" } else { "with its authors' default" };
        return Reader { version, default_hierarchy, origin: format!("read as systemd {version}, {whose}") };
    }
    let host = systemd::scan(fs);
    let assumed = host.version.unwrap_or(ASSUMED_SYSTEMD);
    let built_in = Some(host.default_hierarchy).filter(|built_in| *built_in != Hierarchy::Unknown);
    let default_hierarchy = default.or(built_in).unwrap_or_else(|| upstream_default(assumed));
    let given = if default.is_some() { "; default as given" } else { "" };
    let origin = match host.version {
        Some(_) => format!("read as the one found here: {}{given}", host.origin),
        None => format!("read as systemd {assumed}, as an assumption: {}{given}", host.origin),
    };
    Reader { version: assumed, default_hierarchy, origin }
}

/// For people.
pub(super) fn text(answer: &Answer) -> String {
    let outcome = match answer.outcome {
        Outcome::Boots => "",
        Outcome::BootsAfterDelay => ", after a delay of 30 seconds",
        Outcome::RefusesToBoot => " was asked for, and systemd refuses to boot",
    };
    let why = answer.why.iter().map(|why| format!("  why: {why}"));
    let notes = answer.notes.iter().map(|note| format!("  note: {note}"));
    let headline = format!("{}{outcome}", answer.hierarchy.as_str());
    std::iter::once(headline).chain(why).chain(notes).collect::<Vec<_>>().join("\n")
}
