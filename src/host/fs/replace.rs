//! One file changed in one step: temporary file, fsync, rename, fsync of the directory.

use std::ffi::{OsStr, OsString};
use std::fs::{File, Metadata};
use std::io::{self, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

use super::{attributes, io_error, open_file, read_whole};
use crate::host::{Attributes, Expect, FsError, sha256};

/// Random characters at the end of a temporary file's name.
const RANDOM_LENGTH: usize = 6;

/// A file about to be changed: a regular one with one name, or none yet.
pub(super) struct Target<'a> {
    /// As the caller named it, for messages.
    pub(super) path: &'a Path,
    /// On disk, with no link left in it.
    pub(super) disk: PathBuf,
    /// Whether there is one at the beginning.
    pub(super) exists: bool,
}

impl<'a> Target<'a> {
    /// Looks at what is there, and refuses what cannot be replaced and brought back.
    pub(super) fn examine(path: &'a Path, disk: PathBuf, is_link: bool) -> io::Result<Self> {
        let found = match std::fs::symlink_metadata(&disk) {
            Ok(metadata) => Some(metadata),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(error),
        };
        if let Some(metadata) = &found {
            refuse_special(metadata)?;
        } else if is_link {
            // It leads to a place that is not there, an ESP that is not mounted for instance: a file made
            // there would be hidden by the mount, and never be read.
            return Err(unfit("a symbolic link to nothing"));
        }
        Ok(Self { path, disk, exists: found.is_some() })
    }

    fn directory(&self) -> &Path {
        self.disk.parent().unwrap_or(Path::new("/"))
    }

    fn temporary_prefix(&self) -> OsString {
        let mut prefix = OsString::from(".");
        prefix.push(self.disk.file_name().unwrap_or_default());
        prefix.push(".cgroup2-migrate-");
        prefix
    }

    /// Fails if the file is not what is expected.
    pub(super) fn check(&self, expect: &Expect) -> Result<(), FsError> {
        let expected = match expect {
            Expect::Anything => return Ok(()),
            Expect::Absent => "absent".to_owned(),
            Expect::Sha256(hash) => format!("sha256:{hash}"),
        };
        let found = self.fingerprint()?;
        if found == expected {
            return Ok(());
        }
        Err(FsError::Changed { path: self.path.to_owned(), expected, found })
    }

    fn fingerprint(&self) -> Result<String, FsError> {
        match open_file(&self.disk).and_then(read_whole) {
            Ok(bytes) => Ok(format!("sha256:{}", sha256(&bytes))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok("absent".to_owned()),
            Err(error) => Err(io_error("read", self.path)(error)),
        }
    }

    /// Removes temporary files that an earlier run left when it was killed. That one cannot be removed is no
    /// failure: it is in nobody's way.
    pub(super) fn remove_leftovers(&self) {
        let prefix = self.temporary_prefix();
        let entries = std::fs::read_dir(self.directory()).into_iter().flatten().flatten();
        for entry in entries.filter(|entry| is_leftover(&entry.file_name(), &prefix)) {
            if entry.file_type().is_ok_and(|kind| kind.is_file()) {
                let _ = std::fs::remove_file(entry.path());
            }
        }
    }

    /// The new file, complete and on disk, under its temporary name. It removes itself when dropped.
    pub(super) fn prepare(
        &self,
        bytes: &[u8],
        wanted: Option<&Attributes>,
    ) -> Result<NamedTempFile, FsError> {
        let wanted = self.attributes(wanted)?;
        let mut temporary = tempfile::Builder::new()
            .prefix(&self.temporary_prefix())
            .rand_bytes(RANDOM_LENGTH)
            .make_in(self.directory(), create_private)
            .map_err(|error| self.explained("create a temporary file beside", error))?;
        let written = temporary.as_file_mut().write_all(bytes);
        written.map_err(io_error("write the temporary file beside", self.path))?;
        attributes::apply(temporary.as_file(), &wanted).map_err(io_error(
            "set mode, owner and extended attributes of the temporary file beside",
            self.path,
        ))?;
        let synced = temporary.as_file().sync_all();
        synced.map_err(io_error("sync the temporary file beside", self.path))?;
        Ok(temporary)
    }

    fn attributes(&self, wanted: Option<&Attributes>) -> Result<Attributes, FsError> {
        match wanted {
            Some(attributes) => Ok(attributes.clone()),
            None if self.exists => open_file(&self.disk)
                .and_then(|file| attributes::read(&file))
                .map_err(io_error("read the attributes of", self.path)),
            None => Ok(attributes::of_a_new_file()),
        }
    }

    /// Puts the new file in place.
    pub(super) fn rename(&self, temporary: NamedTempFile, expect: &Expect) -> Result<(), FsError> {
        let renamed = match expect {
            Expect::Absent => temporary.persist_noclobber(&self.disk),
            Expect::Sha256(_) | Expect::Anything => temporary.persist(&self.disk),
        };
        match renamed {
            Ok(_) => Ok(()),
            Err(error) if error.error.kind() == io::ErrorKind::AlreadyExists => self.check(expect),
            Err(error) => Err(self.explained("rename the temporary file over", error.error)),
        }
    }

    /// Takes the file away; that it went by itself is no failure.
    pub(super) fn unlink(&self) -> Result<(), FsError> {
        match std::fs::remove_file(&self.disk) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(self.explained("remove", error)),
            Err(_) | Ok(()) => Ok(()),
        }
    }

    /// Makes the new name, or its absence, survive a power cut.
    pub(super) fn sync_directory(&self) -> Result<(), FsError> {
        sync_directory(self.directory()).map_err(io_error("sync the directory of", self.path))
    }

    /// Root is told EPERM mostly for one reason, which "operation not permitted" does not say.
    fn explained(&self, action: &'static str, error: io::Error) -> FsError {
        let error = if attributes::is_eperm(&error) {
            let text = format!("{error}; lsattr shows if it or its directory is immutable (chattr +i)");
            io::Error::new(io::ErrorKind::PermissionDenied, text)
        } else {
            error
        };
        io_error(action, self.path)(error)
    }
}

/// As tempfile would by itself, but it would wrap an error and hide the number that callers look for.
fn create_private(path: &Path) -> io::Result<File> {
    File::options().read(true).write(true).create_new(true).mode(0o600).open(path)
}

/// Fsync of a directory.
pub(super) fn sync_directory(directory: &Path) -> io::Result<()> {
    File::open(directory)?.sync_all()
}

fn refuse_special(metadata: &Metadata) -> io::Result<()> {
    if !metadata.is_file() {
        return Err(unfit("not a regular file"));
    }
    // A rename would leave the other names with the old content, and writing in place is not crash-safe.
    if metadata.nlink() > 1 {
        let others = metadata.nlink() - 1;
        return Err(unfit(&format!(
            "the file has {others} more name(s) (hard links), which a replacement would split off"
        )));
    }
    Ok(())
}

fn unfit(reason: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, reason)
}

fn is_leftover(name: &OsStr, prefix: &OsStr) -> bool {
    name.as_encoded_bytes()
        .strip_prefix(prefix.as_encoded_bytes())
        .is_some_and(|random| random.len() == RANDOM_LENGTH && random.iter().all(u8::is_ascii_alphanumeric))
}
