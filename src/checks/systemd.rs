//! systemd makes the hierarchy: it must be there, and new enough.

use crate::boot::hierarchy::Hierarchy;
use crate::config::Settings;
use crate::facts::Facts;
use crate::report::{Finding, Severity};

/// The first version with real cgroup2 support. Before it the argument is unknown or asks for an interface that
/// current kernels no longer have.
const FIRST_WITH_CGROUP2: u32 = 230;

/// The first version that delegates cpuset on v2, which kubelets need.
const FIRST_WITH_CPUSET: u32 = 244;

pub(super) fn check(facts: &Facts, _: &Settings) -> Vec<Finding> {
    if facts.scan.running && facts.systemd.is_another_init() {
        return vec![not_systemd(facts)];
    }
    match facts.systemd.version {
        None => vec![version_unknown(facts)],
        Some(version) if version < FIRST_WITH_CGROUP2 => vec![too_old(version)],
        Some(version) if version < FIRST_WITH_CPUSET => vec![no_cpuset(version)],
        Some(_) => Vec::new(),
    }
}

fn not_systemd(facts: &Facts) -> Finding {
    let name = facts.systemd.pid1.as_deref().unwrap_or("unknown");
    Finding::new(
        Severity::Blocker,
        "unsupported-init",
        "this host is not run by systemd",
        format!("process 1 is {name}; what mounts /sys/fs/cgroup there is not known to this program"),
    )
    .remedy("mount cgroup2 the way of that init system (OpenRC: rc_cgroup_mode=\"unified\" in /etc/rc.conf)")
}

fn version_unknown(facts: &Facts) -> Finding {
    let severity = if facts.scan.running { Severity::Warning } else { Severity::Note };
    let default = facts.systemd.default_hierarchy;
    let then = match default {
        Hierarchy::Unknown => {
            "the argument for cgroup v2 is written out rather than left to a built-in default".to_owned()
        }
        Hierarchy::Legacy | Hierarchy::Hybrid | Hierarchy::Unified => {
            format!("its built-in default is taken to be {default}, as the distribution ships it")
        }
    };
    let detail = format!("no libsystemd-shared library was found; {then}");
    Finding::new(severity, "systemd-version-unknown", "the version of systemd could not be found out", detail)
}

fn too_old(version: u32) -> Finding {
    Finding::new(
        Severity::Blocker,
        "unsupported-systemd",
        format!("systemd {version} cannot run cgroup v2"),
        format!("cgroup v2 needs systemd {FIRST_WITH_CGROUP2} or later"),
    )
    .remedy("move this node to a newer release of its distribution")
}

fn no_cpuset(version: u32) -> Finding {
    Finding::new(
        Severity::Warning,
        "systemd-no-cpuset",
        format!("systemd {version} does not delegate cpuset on cgroup v2"),
        format!("static CPU managers need it; systemd {FIRST_WITH_CPUSET} is the first that does"),
    )
}
