//! One run at a time: an flock, taken before the journal is read.

use std::fs::File;
use std::io::{self, Write};

use super::state_path;
use crate::host::{Fs, FsError};

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
    #[error(transparent)]
    Fs(#[from] FsError),
    /// It could not be written who holds it.
    #[error("write into the lock file who holds it")]
    Note(#[source] io::Error),
}

/// Held until dropped, or until the process ends however it ends.
#[derive(Debug)]
pub struct Lock {
    _file: File,
}

impl Lock {
    /// Takes the lock of the host, or says who has it.
    ///
    /// # Errors
    /// [`LockError`].
    pub fn take(fs: &dyn Fs, verb: &str) -> Result<Self, LockError> {
        let path = state_path("lock");
        let Some(file) = fs.lock(&path)? else { return Err(LockError::Held { holder: holder(fs) }) };
        note_holder(&file, verb).map_err(LockError::Note)?;
        Ok(Self { _file: file })
    }
}

fn holder(fs: &dyn Fs) -> String {
    let text = fs.read(&state_path("lock")).unwrap_or_default();
    match String::from_utf8_lossy(&text).trim() {
        "" => "unknown process".to_owned(),
        known => known.to_owned(),
    }
}

/// For whoever comes second; a torn one does no harm.
fn note_holder(mut file: &File, verb: &str) -> io::Result<()> {
    file.set_len(0)?;
    writeln!(file, "process {}, {verb}", std::process::id())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::RootedFs;

    #[test]
    fn a_second_run_is_told_who_holds_the_lock() {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(root.path().join("var/lib/cgroup2-migrate")).unwrap();
        let fs = RootedFs::new(root.path());
        let first = Lock::take(&fs, "migrate").unwrap();
        let refused = Lock::take(&fs, "resume").unwrap_err().to_string();
        assert!(refused.contains(&format!("process {}, migrate", std::process::id())), "{refused}");
        drop(first);
        assert!(Lock::take(&fs, "resume").is_ok());
        drop(Lock::take(&fs, "up").unwrap());
        let text = std::fs::read_to_string(root.path().join("var/lib/cgroup2-migrate/lock")).unwrap();
        assert_eq!(text, format!("process {}, up\n", std::process::id()), "nothing is left of a longer one");
    }
}
