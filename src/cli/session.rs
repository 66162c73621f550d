//! The real seams, made once for a run, and settings with what the command line adds.

use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use anyhow::{Context as _, Result, bail, ensure};

use super::args::Choices;
use crate::config::{self, Settings};
use crate::host::mounts::{LiveMounts, TreeMounts};
use crate::host::{Host, Interrupt, Mounts, RootedFs, SystemBus, SystemClock, SystemRunner};

/// Owner of the real seams.
pub(super) struct Session {
    fs: RootedFs,
    runner: SystemRunner,
    clock: SystemClock,
    mounts: Box<dyn Mounts>,
    bus: SystemBus,
    interrupt: Interrupt,
    is_running: bool,
}

impl Session {
    /// The running host, or the tree below a root that is not this host's own.
    ///
    /// # Errors
    /// If there is no such directory: its emptiness would be taken for that of a host.
    pub(super) fn new(root: Option<&Path>) -> Result<Self> {
        let root = root.map(tree).transpose()?.flatten();
        let mounts: Box<dyn Mounts> = match root {
            None => Box::new(LiveMounts::new()),
            Some(root) => Box::new(TreeMounts::new(root)),
        };
        let interrupt = Interrupt::default();
        Ok(Self {
            fs: RootedFs::new(root.unwrap_or(Path::new("/"))),
            mounts,
            runner: SystemRunner::default().with_interrupt(interrupt.clone()),
            interrupt,
            clock: SystemClock,
            bus: SystemBus::default(),
            is_running: root.is_none(),
        })
    }

    /// The seams.
    pub(super) fn host(&self) -> Host<'_> {
        Host {
            fs: &self.fs,
            runner: &self.runner,
            clock: &self.clock,
            mounts: self.mounts.as_ref(),
            init: &self.bus,
        }
    }

    /// What tells the runner and the loop of steps to end.
    pub(super) fn interrupt(&self) -> &Interrupt {
        &self.interrupt
    }

    /// False for a tree.
    pub(super) fn is_running(&self) -> bool {
        self.is_running
    }

    /// Settings from the fragments (of this host; not of a tree), from `--config`, and from the command line. The
    /// file of `--config` is one of this machine and of this directory, whatever host is looked at.
    pub(super) fn settings(&self, config: Option<&Path>, choices: &Choices) -> Result<Settings> {
        let mut settings = if self.is_running { config::load(&self.fs)? } else { Settings::default() };
        if let Some(path) = config {
            let path = std::path::absolute(path).context("read the file of --config")?;
            settings.take(&RootedFs::new("/"), &path)?;
        }
        settings.accept.extend(choices.accept.iter().cloned());
        settings.no_drain |= choices.no_drain;
        choices.draining.apply(&mut settings)?;
        Ok(settings)
    }
}

/// What `--root` names, or `None` if that is the root of this host.
///
/// # Errors
/// If there is no such directory.
pub(super) fn tree(root: &Path) -> Result<Option<&Path>> {
    let looking = || format!("look at --root {}", root.display());
    let given = root.metadata().with_context(looking)?;
    ensure!(
        given.is_dir(),
        "{}: not a directory; give the place where the host's root is mounted",
        looking()
    );
    // By what it is and not by its name: `/proc/1/root` is called `/` too, and in a container it is another one.
    let own = Path::new("/").metadata().with_context(looking)?;
    Ok(((given.dev(), given.ino()) != (own.dev(), own.ino())).then_some(root))
}

/// Refuses to go on without root: half a migration is none.
pub(super) fn require_root(verb: &str) -> Result<()> {
    if nix::unistd::geteuid().is_root() {
        return Ok(());
    }
    bail!("{verb} changes the boot configuration and must be run as root (try: sudo cgroup2-migrate {verb})")
}
