//! The program must run on the host itself.

use crate::config::Settings;
use crate::facts::Facts;
use crate::facts::container::{ContainerFacts, Surroundings};
use crate::report::{Finding, Severity};

pub(super) fn check(facts: &Facts, _: &Settings) -> Vec<Finding> {
    refusal(&facts.container).into_iter().collect()
}

/// Why nothing can be judged or migrated from here. `detect` says it in the same words.
#[must_use]
pub fn refusal(place: &ContainerFacts) -> Option<Finding> {
    let refused = |id, title: &str, remedy: &str| {
        Some(Finding::new(Severity::Blocker, id, title, place.evidence.join("; ")).remedy(remedy))
    };
    match place.surroundings {
        Surroundings::Host => None,
        // WSL's own init mounts, and not by the rules of systemd: `=1` on the line has given v1 and v2 at once.
        Surroundings::Wsl => refused(
            "unsupported-wsl",
            "this is WSL: Windows starts the kernel, and there is no boot loader in here to edit",
            "set kernelCommandLine = cgroup_no_v1=all systemd.unified_cgroup_hierarchy=1 in the file .wslconfig of \
             the Windows user, then run `wsl --shutdown` in Windows",
        ),
        Surroundings::Container => refused(
            "unsupported-container",
            "this is a container, and its cgroup mounts say nothing about the host",
            "run on the host or pass host root: mount the host's / into the container and give it with --root",
        ),
    }
}
