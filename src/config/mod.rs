//! Settings in three layers: fragments as written, merged by file name, validated.
//!
//! Fragments are `NN-name.toml` in `config.d/` below `/usr/lib`, `/run` and `/etc` (`cgroup2-migrate/`); a name in
//! a later directory hides the same name in an earlier one, and a later name wins over an earlier one. Unknown
//! keys are refused, and every error names the file.

mod drain;
pub mod fleet;
mod parse;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

pub use drain::DrainSettings;
use serde::Deserialize;

use crate::host::{Fs, FsError};
use crate::node::client::Credentials;
use crate::report::known_id;

/// Directories of fragments; later ones win.
pub const DIRECTORIES: [&str; 3] =
    ["/usr/lib/cgroup2-migrate/config.d", "/run/cgroup2-migrate/config.d", "/etc/cgroup2-migrate/config.d"];

/// How long to wait for a lock on shutdown, if nothing is set.
const DEFAULT_REBOOT_WAIT: Duration = Duration::from_secs(300);

/// The longest that may be waited for: the unit that resumes after a reboot has a time limit, and this is in it.
pub const LONGEST_REBOOT_WAIT: Duration = Duration::from_secs(3600);

/// What one fragment may say.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Fragment {
    #[serde(default)]
    reboot: RebootFragment,
    #[serde(default)]
    lock: fleet::LockFragment,
    window: Option<fleet::WindowFragment>,
    #[serde(default)]
    gates: fleet::GatesFragment,
    accept: Option<Vec<String>>,
    #[serde(default)]
    node: drain::NodeFragment,
    #[serde(default)]
    drain: drain::DrainFragment,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct RebootFragment {
    wait_seconds: Option<u64>,
}

/// Validated settings, as the rest of the program takes them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// How long to wait for a lock on shutdown to go away.
    pub reboot_wait: Duration,
    /// Blockers that are accepted, by id.
    pub accept: Vec<String>,
    /// The node needs no drain, or someone else drained it.
    pub no_drain: bool,
    /// Who asks the API server.
    pub credentials: Credentials,
    /// How a node is drained.
    pub drain: DrainSettings,
    /// How a fleet takes turns.
    pub fleet: fleet::Fleet,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            reboot_wait: DEFAULT_REBOOT_WAIT,
            accept: Vec::new(),
            no_drain: false,
            credentials: Credentials::default(),
            drain: DrainSettings::default(),
            fleet: fleet::Fleet::default(),
        }
    }
}

/// Settings that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// A fragment cannot be read.
    #[error("read the configuration")]
    Fs(#[from] FsError),
    /// A fragment is not what it should be.
    #[error("read {}: {reason}", place(path, *line))]
    Fragment {
        /// From 1, if it is about one.
        line: Option<usize>,
        /// The fragment.
        path: PathBuf,
        /// What and where.
        reason: String,
    },
}

/// Reads all fragments.
///
/// # Errors
/// [`ConfigError`], naming the file and the key.
pub fn load(fs: &dyn Fs) -> Result<Settings, ConfigError> {
    let mut settings = Settings::default();
    for path in fragment_paths(fs)? {
        settings.take(fs, &path)?;
    }
    Ok(settings)
}

impl Settings {
    /// Reads one more file; what it says wins.
    ///
    /// # Errors
    /// As [`load`].
    pub fn take(&mut self, fs: &dyn Fs, path: &Path) -> Result<(), ConfigError> {
        let fail = |reason| ConfigError::Fragment { line: None, path: path.to_owned(), reason };
        apply(self, read(fs, path)?).map_err(fail)
    }
}

fn fragment_paths(fs: &dyn Fs) -> Result<Vec<PathBuf>, FsError> {
    let mut by_name = BTreeMap::new();
    for directory in DIRECTORIES {
        for name in fs.list(Path::new(directory))?.into_iter().filter(|name| name.ends_with(".toml")) {
            let path = Path::new(directory).join(&name);
            by_name.insert(name, path);
        }
    }
    Ok(by_name.into_values().collect())
}

fn read(fs: &dyn Fs, path: &Path) -> Result<Fragment, ConfigError> {
    let fail = |line, reason| ConfigError::Fragment { line, path: path.to_owned(), reason };
    let text = String::from_utf8(fs.read(path)?).map_err(|error| fail(None, error.to_string()))?;
    let fragment = parse::fragment(&text).map_err(|(line, reason)| fail(line, reason))?;
    validated(&fragment).map_err(|reason| fail(None, reason))?;
    Ok(fragment)
}

/// `FILE:LINE`, as editors and compilers have it.
fn place(path: &Path, line: Option<usize>) -> String {
    let line = line.map(|line| format!(":{line}")).unwrap_or_default();
    format!("{}{line}", path.display())
}

fn validated(fragment: &Fragment) -> Result<(), String> {
    let longest = LONGEST_REBOOT_WAIT.as_secs();
    if let Some(seconds) = fragment.reboot.wait_seconds.filter(|seconds| *seconds > longest) {
        return Err(format!("reboot.wait_seconds is {seconds}; it can be {longest} at most"));
    }
    fragment.node.credentials()?;
    fragment.drain.validated()?;
    let mut accepted = fragment.accept.iter().flatten();
    accepted.try_for_each(|id| known_id(id)).map_err(|why| format!("accept: {why}"))
}

fn apply(settings: &mut Settings, fragment: Fragment) -> Result<(), String> {
    if let Some(seconds) = fragment.reboot.wait_seconds {
        settings.reboot_wait = Duration::from_secs(seconds);
    }
    if let Some(accept) = fragment.accept {
        settings.accept = accept;
    }
    if let Ok(Some(credentials)) = fragment.node.credentials() {
        settings.credentials = credentials;
    }
    fragment.drain.apply(&mut settings.drain);
    settings.fleet.take(fragment.lock, fragment.window, fragment.gates)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::RootedFs;

    fn written(text: &str) -> tempfile::TempDir {
        let tree = tempfile::tempdir().unwrap();
        let path = tree.path().join("etc/cgroup2-migrate/config.d");
        std::fs::create_dir_all(&path).unwrap();
        std::io::Write::write_all(
            &mut std::fs::File::create(path.join("10-x.toml")).unwrap(),
            text.as_bytes(),
        )
        .unwrap();
        tree
    }

    pub(super) fn loaded(text: &str) -> Result<Settings, String> {
        let tree = written(text);
        load(&RootedFs::new(tree.path())).map_err(|error| format!("{:#}", anyhow::Error::from(error)))
    }

    #[test]
    fn a_fragment_counts() {
        let settings = loaded("accept = [\"no-space\"]\n[reboot]\nwait_seconds = 3600\n").unwrap();
        assert_eq!(
            (settings.reboot_wait, settings.accept),
            (LONGEST_REBOOT_WAIT, vec!["no-space".to_owned()])
        );
    }

    #[test]
    fn what_cannot_be_is_told_with_its_file() {
        for (text, words) in [
            ("[reboot]\nwait_secnds = 3\n", "wait_secnds"),
            ("[reboot]\nwait_seconds = 3601\n", "3600 at most"),
        ] {
            let error = loaded(text).unwrap_err();
            assert!(
                error.contains("/etc/cgroup2-migrate/config.d/10-x.toml") && error.contains(words),
                "{error}"
            );
        }
    }
}
