//! The seams: all that the program does to the machine, or learns from it, goes through one of these
//! traits. The real ones stand in this folder; the fakes of the tests are in [`fake`].
//!
//! Paths are always the host's own absolute paths (`/etc/default/grub`); a root other than `/` (a mounted
//! image, a test tree) is known to the implementation alone.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

pub mod clock;
mod error;
pub mod fake;
pub mod fake_mounts;
pub mod fs;
pub mod interrupt;
pub mod logind;
pub mod mounts;
pub mod notify;
pub mod runner;
mod units;

pub use clock::SystemClock;
pub use error::{FsError, InitError, RunError};
pub use fs::RootedFs;
pub use interrupt::Interrupt;
pub use logind::SystemBus;
pub use runner::SystemRunner;

/// Where our own journal, lock and saved originals live.
pub const STATE_DIRECTORY: &str = "/var/lib/cgroup2-migrate";

/// Directories of systemd's unit files; earlier ones win.
pub const UNIT_DIRECTORIES: [&str; 5] = [
    "/etc/systemd/system",
    "/run/systemd/system",
    "/usr/local/lib/systemd/system",
    "/usr/lib/systemd/system",
    "/lib/systemd/system",
];

/// The unit that every reboot goes through.
pub const REBOOT_TARGET: &str = "reboot.target";

/// The seams bundled, as the orchestrator and the scanners take them.
#[derive(Clone, Copy)]
pub struct Host<'a> {
    /// Files below the host's root.
    pub fs: &'a dyn Fs,
    /// Programs of the host.
    pub runner: &'a dyn Runner,
    /// Time.
    pub clock: &'a dyn Clock,
    /// Mounts and magic numbers of file systems.
    pub mounts: &'a dyn Mounts,
    /// logind and systemd.
    pub init: &'a dyn Init,
}

/// Mode, owner and extended attributes (SELinux label, ACLs) of a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Attributes {
    /// Permission bits, `0o644`.
    pub mode: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Extended attributes by name; values in base64.
    #[serde(default)]
    pub xattrs: BTreeMap<String, String>,
}

/// A file with all that is needed to bring it back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Snapshot {
    /// The content.
    pub bytes: Vec<u8>,
    /// Mode, owner, extended attributes of the file the content lives in.
    pub attributes: Attributes,
    /// The text of the symbolic link, if the path is one. The content is that of the file it leads to.
    pub link_target: Option<PathBuf>,
    /// Names the file has. With more than one it cannot be replaced: a rename would split them.
    pub hard_links: u64,
}

/// What must be true of a file at the moment it is replaced.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Expect {
    /// There is no file.
    Absent,
    /// The content has this SHA-256, in lower-case hex.
    Sha256(String),
    /// Nothing is demanded: for files of our own.
    Anything,
}

/// Room and state of the file system that holds a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Space {
    /// Mounted read-only.
    pub read_only: bool,
    /// Bytes that root may still write.
    pub available_bytes: u64,
    /// Files that may still be made; `None` where nothing but room limits them (btrfs, vfat).
    pub available_files: Option<u64>,
}

/// Files of the host.
pub trait Fs {
    /// The root that host paths are looked up in; `/` on a running host.
    fn root(&self) -> &Path;
    /// The whole content; symbolic links are followed inside the root.
    ///
    /// # Errors
    /// [`FsError::Io`].
    fn read(&self, path: &Path) -> Result<Vec<u8>, FsError>;
    /// The content piece by piece, for a file that is too large to be held.
    ///
    /// # Errors
    /// [`FsError::Io`].
    fn open(&self, path: &Path) -> Result<Box<dyn io::Read>, FsError>;
    /// Content and attributes, or `None` if there is no such file.
    ///
    /// # Errors
    /// [`FsError::Io`] for anything but absence.
    fn snapshot(&self, path: &Path) -> Result<Option<Snapshot>, FsError>;
    /// Names in a directory, sorted by bytes; empty if there is no such directory.
    ///
    /// # Errors
    /// [`FsError::Io`].
    fn list(&self, directory: &Path) -> Result<Vec<String>, FsError>;
    /// True if something (file, directory, device) is there, after following links.
    fn exists(&self, path: &Path) -> bool;
    /// The host path that `path` leads to when all symbolic links are followed. There need be nothing there:
    /// for a dangling link it is the place it points to.
    ///
    /// # Errors
    /// [`FsError::Io`].
    fn resolve(&self, path: &Path) -> Result<PathBuf, FsError>;
    /// Replaces the content durably and in one step: a temporary file in the same directory, fsync, rename,
    /// fsync of the directory. A symbolic link stays one; mode, owner and extended attributes stay those of
    /// the old file unless `attributes` are given. A new file is root's, 0644, unless they are given.
    ///
    /// # Errors
    /// [`FsError::Changed`] if `expect` does not hold. On every error the old file is whole; if only the last
    /// fsync of the directory failed, the new one is whole. Refused: what is no regular file, a link to nothing,
    /// a file with further hard links.
    fn replace(
        &self,
        path: &Path,
        bytes: &[u8],
        expect: &Expect,
        attributes: Option<&Attributes>,
    ) -> Result<(), FsError>;
    /// Removes a file durably. That it is absent already is no error if `expect` allows it. A symbolic link is
    /// refused.
    ///
    /// # Errors
    /// As [`Fs::replace`].
    fn remove(&self, path: &Path, expect: &Expect) -> Result<(), FsError>;
    /// Makes a directory (and those above it) with this mode; an existing one is left as it is.
    ///
    /// # Errors
    /// [`FsError::Io`].
    fn create_directory(&self, path: &Path, mode: u32) -> Result<(), FsError>;
    /// Removes an empty directory durably; one that holds something is left as it is. That it is absent already is
    /// no error.
    ///
    /// # Errors
    /// [`FsError::Io`].
    fn remove_directory(&self, path: &Path) -> Result<(), FsError>;
    /// Locks a file (`flock`) until it is dropped; `None` if another process holds the lock. The file is made if it
    /// is not there, for root alone, and is never replaced: a lock is on the file and not on its name.
    ///
    /// # Errors
    /// [`FsError::Io`].
    fn lock(&self, path: &Path) -> Result<Option<File>, FsError>;
    /// Writes back everything of the file system that holds `path` (`syncfs`).
    ///
    /// # Errors
    /// [`FsError::Io`].
    fn sync_file_system(&self, path: &Path) -> Result<(), FsError>;
    /// Room of the file system that holds `path`, or its nearest existing parent.
    ///
    /// # Errors
    /// [`FsError::Io`].
    fn space(&self, path: &Path) -> Result<Space, FsError>;
}

/// A program to run: never through a shell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Invocation {
    /// Program and arguments. A program without a slash is looked up in [`FULL_PATH`].
    pub argv: Vec<String>,
    /// The longest it may take; then it and its children are killed.
    pub time_limit: Duration,
    /// True if it changes the host: refused on a test host.
    pub changes_host: bool,
}

/// The PATH that programs are looked up in and started with, whatever our own was.
pub const FULL_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// What a program left behind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finished {
    /// Exit code; `None` if a signal ended it.
    pub code: Option<i32>,
    /// Standard output, at most a few MiB.
    pub stdout: Vec<u8>,
    /// Standard error, the same.
    pub stderr: Vec<u8>,
}

/// Programs of the host.
pub trait Runner {
    /// Where the program would be found, or `None`.
    fn find(&self, program: &str) -> Option<PathBuf>;
    /// Runs a program to its end with argv only, [`FULL_PATH`], no standard input, and a time limit.
    ///
    /// # Errors
    /// [`RunError`]; a non-zero exit code is no error here.
    fn run(&self, invocation: &Invocation) -> Result<Finished, RunError> {
        self.run_with(invocation, &[])
    }
    /// The same with further variables in its environment, for a program that hands out secrets: its arguments are not
    /// logged.
    ///
    /// # Errors
    /// As [`Runner::run`].
    fn run_with(
        &self,
        invocation: &Invocation,
        environment: &[(String, String)],
    ) -> Result<Finished, RunError>;
}

/// Time.
pub trait Clock {
    /// Wall clock.
    fn now(&self) -> jiff::Timestamp;
    /// Waits.
    fn sleep(&self, duration: Duration);
}

/// One mounted file system, from `/proc/PID/mountinfo`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mount {
    /// Directory inside the file system that is mounted, `/` for all of it.
    pub root: String,
    /// Where.
    pub mount_point: PathBuf,
    /// `cgroup2`, `tmpfs`, …
    pub fs_type: String,
    /// Options of the mount and of the file system.
    pub options: Vec<String>,
}

/// Mounts, as PID 1 sees them.
pub trait Mounts {
    /// Magic number of the file system at a path (`statfs`), in PID 1's mount namespace; `None` if there is
    /// nothing at that path.
    ///
    /// # Errors
    /// An [`io::Error`] for everything else, so that "could not find out" stays one.
    fn magic(&self, path: &Path) -> io::Result<Option<u32>>;
    /// The mount table, in order: later ones cover earlier ones.
    ///
    /// # Errors
    /// An [`io::Error`] if it cannot be read or understood.
    fn table(&self) -> io::Result<Vec<Mount>>;
    /// True if what this process finds at a path is what PID 1 finds there: the same file, the same directory, or
    /// neither of them anything. [`Fs`] knows only our own view, and in another mount namespace that can be another
    /// `/boot`.
    ///
    /// # Errors
    /// An [`io::Error`] if PID 1's view is closed to us.
    fn same_for_pid1(&self, path: &Path) -> io::Result<bool>;
}

/// A lock that someone holds on shutdown, from logind.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Inhibitor {
    /// Colon-separated: `shutdown`, `sleep`, …
    pub what: String,
    /// Who holds it.
    pub who: String,
    /// Why.
    pub why: String,
    /// `block`, `delay`, or `block-weak` (systemd 257 and later).
    pub mode: String,
    /// User.
    pub uid: u32,
    /// Process.
    pub pid: u32,
}

impl Inhibitor {
    /// True if it forbids a shutdown, and does not merely delay it.
    #[must_use]
    pub fn forbids_reboot(&self) -> bool {
        self.mode.starts_with("block") && self.what.split(':').any(|what| what == "shutdown")
    }
}

impl std::fmt::Display for Inhibitor {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "the reboot is blocked by {} (process {}): {}", self.who, self.pid, self.why)
    }
}

/// logind and systemd.
pub trait Init {
    /// Locks on shutdown.
    ///
    /// # Errors
    /// [`InitError`].
    fn inhibitors(&self) -> Result<Vec<Inhibitor>, InitError>;
    /// logind's own answer to `CanReboot`: `yes`, `no`, `challenge`, `na`.
    ///
    /// # Errors
    /// [`InitError`].
    fn can_reboot(&self) -> Result<String, InitError>;
    /// `UnitFileState` of a unit: `masked`, `masked-runtime`, `static`, `enabled`, …; empty if unknown to systemd.
    ///
    /// # Errors
    /// [`InitError`].
    fn unit_file_state(&self, unit: &str) -> Result<String, InitError>;
    /// True once logind has begun to go down (`PreparingForShutdown`).
    ///
    /// # Errors
    /// [`InitError`].
    fn is_going_down(&self) -> Result<bool, InitError>;
    /// Type of a shutdown someone scheduled (`reboot`, `poweroff`, …), or `None`.
    ///
    /// # Errors
    /// [`InitError`].
    fn scheduled_shutdown(&self) -> Result<Option<String>, InitError>;
    /// Asks logind for a plain reboot: never kexec, never soft-reboot, never past a lock. Returns when logind
    /// has accepted it, not when the host is down.
    ///
    /// # Errors
    /// [`InitError`].
    fn reboot(&self) -> Result<(), InitError>;
    /// Lets systemd read its unit files again (`daemon-reload`).
    ///
    /// # Errors
    /// [`InitError`].
    fn reload_units(&self) -> Result<(), InitError>;
    /// Restarts a unit and waits for the end of that job: its result, `done`, `failed`, `timeout`, …
    ///
    /// # Errors
    /// [`InitError`]; after [`InitError::TimedOut`] and [`InitError::Lost`] the restart may be under way.
    fn restart_unit(&self, unit: &str) -> Result<String, InitError>;
    /// `ActiveState` of a unit: `active`, `activating`, `failed`, …; `inactive` too if systemd does not know it.
    ///
    /// # Errors
    /// [`InitError`].
    fn active_state(&self, unit: &str) -> Result<String, InitError>;
}

/// True if `CGROUP2_MIGRATE_TEST_HOST=1` is set: then nothing outside a test tree may be written, no program
/// that changes the host may run, and no real logind or systemd may be asked to reboot or to restart anything.
#[must_use]
pub fn test_host() -> bool {
    std::env::var_os("CGROUP2_MIGRATE_TEST_HOST").is_some_and(|value| value == "1")
}

/// SHA-256 in lower-case hex.
#[must_use]
pub fn sha256(bytes: &[u8]) -> String {
    use sha2::{Digest, Sha256};
    use std::fmt::Write as _;
    Sha256::digest(bytes).iter().fold(String::with_capacity(64), |mut hex, byte| {
        let _ = write!(hex, "{byte:02x}");
        hex
    })
}
