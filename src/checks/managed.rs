//! Hosts whose kernel command line belongs to someone else.

use crate::config::Settings;
use crate::facts::Facts;
use crate::facts::os::Manager;
use crate::report::{Finding, Severity};

pub(super) fn check(facts: &Facts, _: &Settings) -> Vec<Finding> {
    match &facts.os {
        Ok(os) => os.managed_by.map(managed).into_iter().collect(),
        Err(why) => vec![unknown(why)],
    }
}

fn managed(manager: Manager) -> Finding {
    let detail = format!(
        "{manager} owns the kernel command line; what is written here would be lost or have no effect"
    );
    Finding::new(
        Severity::Blocker,
        "unsupported-os",
        format!("the kernel command line belongs to {manager}"),
        detail,
    )
    .remedy(manager.own_way())
}

fn unknown(why: &str) -> Finding {
    Finding::new(
        Severity::Blocker,
        "os-unknown",
        "it could not be found out which distribution this is",
        format!("{why}; some own the kernel command line themselves"),
    )
    .about("/etc/os-release")
    .acceptable()
    .remedy("see why it cannot be read (a damaged file system, a directory in its place), then try again")
}
