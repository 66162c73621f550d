//! The kernel's part in cgroup v2. What is judged is the kernel that runs now: which one boots next is for the boot
//! loader, and of a tree nothing is known to run.

use crate::boot::hierarchy::Hierarchy;
use crate::config::Settings;
use crate::facts::{Facts, kernel};
use crate::report::{Finding, Severity};

/// The first kernel with the `cpu` controller on v2; runc refuses older ones.
const FIRST_WITH_CPU: (u32, u32) = (4, 15);

/// The minimum that the Kubernetes documentation names.
const DOCUMENTED_MINIMUM: (u32, u32) = (5, 8);

pub(super) fn check(facts: &Facts, _: &Settings) -> Vec<Finding> {
    let Some(release) = &facts.kernel.release else { return Vec::new() };
    let Some(version) = kernel::version(release) else { return Vec::new() };
    // What runs v2 has booted with it, and has its controllers.
    if facts.hierarchy() == Hierarchy::Unified {
        return below_documented(release, version).into_iter().collect();
    }
    if known_bad(release) {
        return vec![panics(release)];
    }
    if is_el8(release) || version >= DOCUMENTED_MINIMUM {
        return below_documented(release, version).into_iter().collect();
    }
    if version < FIRST_WITH_CPU {
        return vec![too_old(release)];
    }
    below_documented(release, version).into_iter().collect()
}

fn too_old(release: &str) -> Finding {
    Finding::new(
        Severity::Blocker,
        "kernel-too-old",
        format!("the running kernel {release} has no cpu controller on cgroup v2"),
        "the cpu controller came with 4.15; container runtimes refuse older kernels",
    )
    .acceptable()
    .remedy("boot a newer kernel first")
}

fn below_documented(release: &str, version: (u32, u32)) -> Option<Finding> {
    (version < DOCUMENTED_MINIMUM).then(|| {
        Finding::new(
            Severity::Warning,
            "kernel-below-documented-minimum",
            format!(
                "the running kernel {release} is older than the 5.8 that Kubernetes documents for cgroup v2"
            ),
            "cgroup v2 itself works; single features (memory QoS, hugetlb, cgroup.kill) may not",
        )
    })
}

/// Kernels after 4.18.0-521.el8 panicked on a unified boot (RHEL-17504); where that ended is not known.
fn known_bad(release: &str) -> bool {
    let Some(rest) = release.strip_prefix("4.18.0-") else { return false };
    let build: String = rest.chars().take_while(char::is_ascii_digit).collect();
    release.contains(".el8") && build.parse::<u32>().is_ok_and(|build| (522..553).contains(&build))
}

fn panics(release: &str) -> Finding {
    Finding::new(
        Severity::Blocker,
        "kernel-panics-on-v2",
        format!("the running kernel {release} is in a range that panicked when booted with cgroup v2"),
        "RHEL-17504: EL8 kernels after 4.18.0-521",
    )
    .acceptable()
    .remedy("update the kernel, or accept this finding after a trial on a spare node")
}

fn is_el8(release: &str) -> bool {
    release.starts_with("4.18.0-") && release.contains(".el8")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_bad_range_of_el8_is_bad() {
        assert!(known_bad("4.18.0-535.el8.x86_64"));
        assert!(!known_bad("4.18.0-513.el8.x86_64"));
        assert!(!known_bad("5.14.0-535.el9.x86_64"));
    }
}
