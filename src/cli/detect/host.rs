//! What a host runs, as text.

use crate::boot::hierarchy::Hierarchy;
use crate::facts::container::Surroundings;
use crate::facts::source::Place;
use crate::host::fs::RootedFs;
use crate::verify::detection::{self, Detection};

use super::LiveMounts;

/// Looks at the running host.
pub(super) fn live(fs: &RootedFs) -> Detection {
    let mounts = LiveMounts::new();
    let mut found = detection::detect(fs, &mounts);
    if !mounts.sees_pid1() {
        found.notes.push("PID 1's mounts are closed to this process: these are its own".to_owned());
    }
    found
}

/// For people.
pub(super) fn text(found: &Detection) -> String {
    let mut lines = vec![headline(found)];
    lines.extend(found.why.iter().map(|why| format!("  why: {why}")));
    lines.extend(found.decided_by.places.iter().map(place));
    lines.extend(controllers(found));
    for finding in &found.findings {
        lines.push(format!("  {}: {} ({})", finding.id, finding.title, finding.detail));
        lines.extend(finding.remedy.iter().map(|remedy| format!("  to do: {}", remedy.text)));
    }
    lines.extend(found.notes.iter().map(|note| format!("  note: {note}")));
    lines.join("\n")
}

fn headline(found: &Detection) -> String {
    let meaning = match found.hierarchy {
        Hierarchy::Unified => "cgroup v2",
        Hierarchy::Hybrid => "cgroup v1, with cgroup2 beside it for systemd alone",
        Hierarchy::Legacy => "cgroup v1",
        Hierarchy::Unknown => "could not be found out",
    };
    let place = match found.surroundings {
        Surroundings::Host => "",
        Surroundings::Container => " (not the host: a container)",
        Surroundings::Wsl => " (WSL)",
    };
    format!("{}: {meaning}{place}", found.hierarchy.as_str())
}

fn place(place: &Place) -> String {
    format!("  found in: {}:{}", place.path.display(), place.line)
}

fn controllers(found: &Detection) -> Option<String> {
    let parts: Vec<String> = [
        ("v1", found.controllers.v1.as_ref()),
        ("v2", found.controllers.v2.as_ref()),
        ("missing", found.controllers.missing.as_ref()),
    ]
    .into_iter()
    .filter_map(|(name, list)| Some((name, list?)))
    .filter(|(_, list)| !list.is_empty())
    .map(|(name, list)| format!("{name} {}", list.join(" ")))
    .collect();
    (!parts.is_empty()).then(|| format!("  controllers: {}", parts.join("; ")))
}
