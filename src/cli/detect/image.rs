//! A tree that nothing runs from: it has no hierarchy, but it has a boot configuration, and that leads to one.

use std::path::Path;

use crate::boot::hierarchy::{Decision, Hierarchy, Outcome};
use crate::facts::container::Surroundings;
use crate::facts::grub;
use crate::facts::systemd::{ASSUMED_SYSTEMD, SystemdFacts};
use crate::host::Fs;
use crate::verify::detection::Detection;

/// Adds what its boot entry would do, and gives what else can be asked; nothing where the hierarchy was found.
pub(super) fn tell(found: &mut Detection, fs: &dyn Fs, root: &Path) -> Vec<String> {
    if found.hierarchy != Hierarchy::Unknown || found.surroundings != Surroundings::Host {
        return Vec::new();
    }
    found.notes.push(next_boot(fs, &found.systemd));
    let root = root.display();
    vec![
        format!(
            "  to do: cgroup2-migrate detect --root {root} --line \"WORDS\" says what a kernel line does there"
        ),
        format!(
            "  to do: cgroup2-migrate plan --root {root} --assume-hierarchy legacy|hybrid|unified shows what would be \
             changed"
        ),
    ]
}

fn next_boot(fs: &dyn Fs, systemd: &SystemdFacts) -> String {
    let grub = grub::scan(fs);
    let entry = match &grub.next {
        Ok(entry) => entry,
        Err(why) => return format!("what its boot entry would do is not known: {why}"),
    };
    let what = format!("its boot entry `{}` ({})", entry.path.join(" > "), entry.chosen_by);
    let Some(line) = grub.next_arguments() else { return format!("{what} loads no Linux kernel") };
    let decision = systemd.decide(line);
    format!("{what} {}; {}", outcome(&decision), reader(systemd))
}

/// Where the built-in default is not known, what a word asks for is known all the same.
fn outcome(decision: &Decision) -> String {
    match (decision.outcome, decision.hierarchy, &decision.word) {
        (Outcome::RefusesToBoot, ..) => format!("would not boot: {}", decision.reason),
        (_, Hierarchy::Unknown, Some(word)) => {
            format!(
                "would lead to cgroup v1 by `{word}`; legacy or hybrid is a built-in default that is not known"
            )
        }
        (_, Hierarchy::Unknown, None) => {
            "has no word that decides, and the built-in default of its systemd is not known".to_owned()
        }
        (_, hierarchy, _) => format!("would lead to {hierarchy}: {}", decision.reason),
    }
}

fn reader(systemd: &SystemdFacts) -> String {
    match systemd.version {
        Some(_) if systemd.version_read => format!("read as the one in the tree: {}", systemd.origin),
        Some(_) => format!("assumed, not read: {}", systemd.origin),
        None => format!("read as systemd {ASSUMED_SYSTEMD}, as an assumption: {}", systemd.origin),
    }
}
