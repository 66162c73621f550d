//! One run at a time: an flock, taken before the journal is read.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use super::state_path;

/// Why the lock was not had.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// Another run holds it.
    #[error("another cgroup2-migrate is at work ({holder}); try again when it has ended")]
    Held {
        /// Its process and verb.
        holder: String,
    },
    /// The lock file cannot be used.
    #[error("lock {}", path.display())]
    Io {
        /// The lock file, as opened.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
}

/// Held until dropped, or until the process ends however it ends.
#[derive(Debug)]
pub struct Lock {
    _file: File,
}

impl Lock {
    /// Takes the lock of the host below `root`, or says who has it.
    ///
    /// # Errors
    /// [`LockError`].
    pub fn take(root: &Path, verb: &str) -> Result<Self, LockError> {
        let place = state_path("lock");
        let path = root.join(place.strip_prefix("/").unwrap_or(&place));
        let fail = |source| LockError::Io { path: path.clone(), source };
        let mut file = open(&path).map_err(fail)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(LockError::Held { holder: read_holder(&mut file) }),
            Err(TryLockError::Error(source)) => return Err(fail(source)),
        }
        write_holder(&mut file, verb).map_err(fail)?;
        Ok(Self { _file: file })
    }
}

fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(path)
}

fn read_holder(file: &mut File) -> String {
    let mut text = String::new();
    match file.read_to_string(&mut text) {
        Ok(_) if !text.trim().is_empty() => text.trim().to_owned(),
        Ok(_) | Err(_) => "unknown process".to_owned(),
    }
}

fn write_holder(file: &mut File, verb: &str) -> io::Result<()> {
    file.set_len(0)?;
    file.rewind()?;
    writeln!(file, "process {}, {verb}", std::process::id())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_run_is_told_who_holds_the_lock() {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(root.path().join("var/lib/cgroup2-migrate")).unwrap();
        let first = Lock::take(root.path(), "migrate").unwrap();
        let refused = Lock::take(root.path(), "resume").unwrap_err().to_string();
        assert!(refused.contains(&format!("process {}, migrate", std::process::id())), "{refused}");
        drop(first);
        assert!(Lock::take(root.path(), "resume").is_ok());
    }
}
