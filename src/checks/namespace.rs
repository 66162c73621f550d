//! The files that are seen here must be those of the host: in another mount namespace they need not be.

use std::path::PathBuf;

use crate::boot::hierarchy::Hierarchy;
use crate::config::Settings;
use crate::facts::Facts;
use crate::report::{Finding, Severity};

/// A namespace of our own alone does no harm: what counts is whether the places are the same.
pub(super) fn check(facts: &Facts, _: &Settings) -> Vec<Finding> {
    let Some(storage) = &facts.storage else { return Vec::new() };
    // On v2 already nothing is written.
    let is_unified = facts.hierarchy() == Hierarchy::Unified;
    match &storage.elsewhere {
        Ok(places) if places.is_empty() || is_unified => Vec::new(),
        Ok(places) => vec![other_files(places)],
        Err(why) => vec![unknown(why, if is_unified { Severity::Note } else { Severity::Blocker })],
    }
}

fn other_files(places: &[PathBuf]) -> Finding {
    let names: Vec<String> = places.iter().map(|place| place.display().to_string()).collect();
    let finding = Finding::new(
        Severity::Blocker,
        "other-mount-namespace",
        "the files that would be changed here are not those of the host",
        format!(
            "this process is in another mount namespace than process 1, which has something else at {}",
            names.join(", ")
        ),
    )
    .remedy_command(
        "run it where the host's own mounts are",
        &["nsenter", "--target", "1", "--mount", "cgroup2-migrate", "check"],
    );
    places.iter().fold(finding, Finding::about)
}

fn unknown(why: &str, severity: Severity) -> Finding {
    Finding::new(
        severity,
        "mount-namespace-unknown",
        "it could not be found out whether the files seen here are those of the host",
        why,
    )
    .acceptable()
    .remedy(
        "run as root on the host itself, with all capabilities (to look at process 1 needs CAP_SYS_PTRACE)",
    )
}
