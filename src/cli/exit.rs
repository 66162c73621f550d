//! Exit codes: a contract, documented in `--help` and the README.

use std::process::ExitCode;

use crate::migration::decide::Ending;
use crate::migration::lock::LockError;

/// Shown below `--help`.
pub(super) const HELP: &str = "\
Exit codes: 0 done, under way or nothing to do · 1 failed · 2 wrong usage · 3 blocked by a finding · 4 needs a person (state kept) · \
5 rolled back · 6 unsupported host · 75 try again later. \
detect --exit-code: 0 unified, 10 hybrid, 11 legacy, 12 unknown.";

/// Shown below `migrate --help`: success of this verb is not yet that of the migration.
pub(super) const OF_MIGRATE: &str = "\
Exit code: 0 as soon as the host is going down (also if it stops at --until or before a reboot left to you, and if there \
is nothing to do): whether it arrived is said by `cgroup2-migrate status` after it is back, in \
`journalctl -u cgroup2-migrate-resume`, and by `cgroup2-migrate verify`. Others: see `cgroup2-migrate --help`.";

/// Why the program ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// 0: done, or nothing to do.
    Done,
    /// 1.
    Failed,
    /// 2: wrong usage.
    Usage,
    /// 3: a finding blocks.
    Blocked,
    /// 4: a person has to look; the state is kept.
    NeedsPerson,
    /// 5: the host is as it was.
    RolledBack,
    /// 6: this kind of host is not supported.
    Unsupported,
    /// 75: something outside stands in the way for now.
    TryLater,
    /// Any other, for `detect --exit-code`.
    Other(u8),
}

impl Exit {
    /// The exit code of an error: a lock that another run holds is no failure, but a matter of time.
    #[must_use]
    pub fn of(error: &anyhow::Error) -> Self {
        match error.downcast_ref::<LockError>() {
            Some(LockError::Held { .. }) => Self::TryLater,
            Some(LockError::Fs(_) | LockError::Note(_)) | None => Self::Failed,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(match exit {
            Exit::Done => 0,
            Exit::Failed => 1,
            Exit::Usage => 2,
            Exit::Blocked => 3,
            Exit::NeedsPerson => 4,
            Exit::RolledBack => 5,
            Exit::Unsupported => 6,
            Exit::TryLater => 75,
            Exit::Other(code) => code,
        })
    }
}

impl From<&Ending> for Exit {
    fn from(ending: &Ending) -> Self {
        match ending {
            Ending::Done | Ending::Paused(_) | Ending::GoingDown => Self::Done,
            Ending::RolledBack(_) => Self::RolledBack,
            Ending::NeedsPerson(_) => Self::NeedsPerson,
            Ending::TryLater(_) => Self::TryLater,
            Ending::Blocked(_) => Self::Blocked,
        }
    }
}
