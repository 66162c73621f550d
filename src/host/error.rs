//! What can go wrong at the seams.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use super::FULL_PATH;

/// A failed file operation: which one, on what, and why.
#[derive(Debug, thiserror::Error)]
pub enum FsError {
    /// The operating system refused.
    #[error("{action} {}", path.display())]
    Io {
        /// What was being done, as a verb: `read`, `replace`, `create directory`.
        action: &'static str,
        /// The host path.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// The file is not what it was when the plan was made. Nothing was written.
    #[error("replace {}: {}", path.display(), since_the_plan(expected, found))]
    Changed {
        /// The host path.
        path: PathBuf,
        /// `absent` or `sha256:…`.
        expected: String,
        /// `absent` or `sha256:…`.
        found: String,
    },
    /// Writing is not allowed here, see [`super::test_host`].
    #[error("{action} {}: refused, this machine is marked as a test host (CGROUP2_MIGRATE_TEST_HOST=1)", path.display())]
    TestHost {
        /// What was asked for.
        action: &'static str,
        /// The host path.
        path: PathBuf,
    },
}

fn since_the_plan(expected: &str, found: &str) -> String {
    match (expected, found) {
        (_, "absent") => "it was deleted since the plan was made".to_owned(),
        ("absent", _) => format!("someone else made it since the plan was made (found {found})"),
        _ => format!("it changed since the plan was made (expected {expected}, found {found})"),
    }
}

impl FsError {
    /// True if the reason is that the file (or a directory above it) does not exist.
    #[must_use]
    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::Io { source, .. } if source.kind() == io::ErrorKind::NotFound)
    }
}

/// A program that could not be run to its end.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// Not on [`FULL_PATH`].
    #[error("run {program}: not found in {FULL_PATH}")]
    Missing {
        /// The program's name.
        program: String,
    },
    /// It took longer than allowed and was killed.
    #[error("run {argv}: no end after {limit:?}, killed")]
    TimedOut {
        /// The command line.
        argv: String,
        /// The limit.
        limit: Duration,
    },
    /// A signal asked us to end, so it was killed.
    #[error("run {argv}: killed before its end, because a signal asked this program to end")]
    Interrupted {
        /// The command line.
        argv: String,
    },
    /// It could not be started or waited for.
    #[error("run {argv}")]
    Io {
        /// The command line.
        argv: String,
        /// The reason.
        source: io::Error,
    },
    /// Not on this machine, see [`super::test_host`].
    #[error("run {argv}: refused, this machine is marked as a test host (CGROUP2_MIGRATE_TEST_HOST=1)")]
    TestHost {
        /// The command line.
        argv: String,
    },
}

/// A failed call to logind or systemd.
#[derive(Debug, thiserror::Error)]
pub enum InitError {
    /// No bus, or nobody there: not a systemd host, or a container.
    #[error("{action}: cannot reach {service} on the system bus: {reason}")]
    Unreachable {
        /// What was being done.
        action: &'static str,
        /// Well-known name.
        service: &'static str,
        /// The library's words.
        reason: String,
    },
    /// The service said no.
    #[error("{action}: {service} refused: {reason}")]
    Refused {
        /// What was being done.
        action: &'static str,
        /// Well-known name.
        service: &'static str,
        /// Error name and message.
        reason: String,
    },
    /// No answer in time. For a reboot: it may be under way.
    #[error("{action}: no answer from {service} within {limit:?}")]
    TimedOut {
        /// What was being done.
        action: &'static str,
        /// Well-known name.
        service: &'static str,
        /// The limit.
        limit: Duration,
    },
    /// The service took the call and went away. For a reboot: it may be under way.
    #[error("{action}: {service} went away before it answered: {reason}")]
    Lost {
        /// What was being done.
        action: &'static str,
        /// Well-known name.
        service: &'static str,
        /// The library's words.
        reason: String,
    },
    /// Not on this machine, see [`super::test_host`].
    #[error("{action}: refused, this machine is marked as a test host (CGROUP2_MIGRATE_TEST_HOST=1)")]
    TestHost {
        /// What was asked for.
        action: &'static str,
    },
}
