//! The machines the tests begin with.

/// A machine before it is migrated: a Debian suite, and the files that put it where it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    /// bookworm on the hybrid hierarchy.
    Hybrid,
    /// bookworm on pure cgroup v1.
    Legacy,
    /// bookworm as installed, on cgroup v2.
    Unpinned,
    /// bookworm on v1 whatever its kernel command line says: the initrd mounts v1 before systemd starts.
    Stuck,
    /// trixie forced to v1, whose kernel has no v1 memory and cpuset controllers.
    Crippled,
}

/// A Debian release.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Suite {
    /// Debian 12.
    Bookworm,
    /// Debian 13.
    Trixie,
}

impl State {
    /// All of them, in the order they are built.
    pub(crate) const ALL: [Self; 5] =
        [Self::Hybrid, Self::Legacy, Self::Unpinned, Self::Stuck, Self::Crippled];

    /// Its name, which is also its directory below `image/states`.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Hybrid => "hybrid",
            Self::Legacy => "legacy",
            Self::Unpinned => "unpinned",
            Self::Stuck => "stuck",
            Self::Crippled => "crippled",
        }
    }

    /// The state of this name.
    pub(crate) fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.name() == name)
    }

    /// The release it is made from.
    pub(crate) fn suite(self) -> Suite {
        match self {
            Self::Hybrid | Self::Legacy | Self::Unpinned | Self::Stuck => Suite::Bookworm,
            Self::Crippled => Suite::Trixie,
        }
    }
}

impl Suite {
    /// The name mmdebstrap knows it by.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Bookworm => "bookworm",
            Self::Trixie => "trixie",
        }
    }
}
