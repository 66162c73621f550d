//! Originals of touched files, beside the journal, and the new contents that wait to be written.

use super::journal::{Journal, TouchedFile};
use super::{private, state_path};
use crate::host::{Expect, Fs, FsError, STATE_DIRECTORY, sha256};

/// A saved content that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum OriginalsError {
    /// Reading or writing failed.
    #[error(transparent)]
    Fs(#[from] FsError),
    /// The saved content is not what was saved.
    #[error(
        "read {path}: its content is damaged (expected sha256:{expected}, found sha256:{found}); it is not used"
    )]
    Damaged {
        /// The saved copy.
        path: String,
        /// From the journal.
        expected: String,
        /// Of the file.
        found: String,
    },
}

/// Makes the folder of this migration.
///
/// # Errors
/// [`FsError`].
pub fn prepare(fs: &dyn Fs, txn: &str) -> Result<(), FsError> {
    fs.create_directory(STATE_DIRECTORY.as_ref(), 0o700)?;
    fs.create_directory(&state_path(txn), 0o700)
}

/// Folders of earlier migrations that stay: for a person who wants to see what was there before.
const KEPT_EARLIER: usize = 5;

/// Removes the oldest folders of earlier migrations. `current` stays, whatever its name. Called once the journal is of
/// `current`: from then on no way back needs another one. What cannot be removed is in nobody's way.
pub fn forget_earlier(fs: &dyn Fs, current: &str) {
    if let Err(error) = remove_earlier(fs, current) {
        log::warn!("saved files of an earlier migration are left: {:#}", anyhow::Error::from(error));
    }
}

fn remove_earlier(fs: &dyn Fs, current: &str) -> Result<(), FsError> {
    // Their names begin with the time: sorted, the oldest come first.
    let mut earlier = fs.list(STATE_DIRECTORY.as_ref())?;
    earlier.retain(|name| is_folder_name(name) && name != current);
    earlier.truncate(earlier.len().saturating_sub(KEPT_EARLIER));
    for folder in earlier.iter().map(|name| state_path(name)) {
        for name in fs.list(&folder)?.into_iter().filter(|name| is_saved_name(name)) {
            fs.remove(&folder.join(name), &Expect::Anything)?;
        }
        fs.remove_directory(&folder)?;
    }
    Ok(())
}

/// `20261201T000000Z-1b4e28ba`, as [`super::begin::begin`] makes them.
fn is_folder_name(name: &str) -> bool {
    let time = name.split_once("Z-").map(|(time, _)| time).unwrap_or_default();
    time.len() == 15
        && time.bytes().enumerate().all(|(at, c)| if at == 8 { c == b'T' } else { c.is_ascii_digit() })
}

/// `00.original`, `01.new`, and what a cut-off write left of them.
fn is_saved_name(name: &str) -> bool {
    let name = name.strip_prefix('.').unwrap_or(name);
    let rest = name.trim_start_matches(|c: char| c.is_ascii_digit());
    rest.len() < name.len() && (rest.starts_with(".original") || rest.starts_with(".new"))
}

/// Keeps the new content of the file with this index until it is its turn.
///
/// # Errors
/// [`FsError`].
pub fn keep_new(fs: &dyn Fs, journal: &Journal, index: usize, bytes: &[u8]) -> Result<(), FsError> {
    fs.replace(&journal.saved_path(index, "new"), bytes, &Expect::Anything, Some(&private()))
}

/// Saves the original of the file with this index; nothing if there is none. Its attributes go into the journal.
///
/// # Errors
/// [`FsError::Changed`] if it is not what the plan was made from.
pub fn save(fs: &dyn Fs, journal: &mut Journal, index: usize) -> Result<(), FsError> {
    let place = journal.saved_path(index, "original");
    let Some(file) = journal.files.get_mut(index) else { return Ok(()) };
    let Some(found) = fs.snapshot(&file.path)? else { return unchanged(file, None) };
    unchanged(file, Some(sha256(&found.bytes)))?;
    file.attributes = Some(found.attributes);
    file.link_target = found.link_target;
    fs.replace(&place, &found.bytes, &Expect::Anything, Some(&private()))
}

fn unchanged(file: &TouchedFile, found: Option<String>) -> Result<(), FsError> {
    if file.before == found {
        return Ok(());
    }
    let text =
        |hash: Option<&String>| hash.map_or_else(|| "absent".to_owned(), |hash| format!("sha256:{hash}"));
    let (expected, found) = (text(file.before.as_ref()), text(found.as_ref()));
    Err(FsError::Changed { path: file.path.clone(), expected, found })
}

/// A saved content, checked against the journal's hash of it.
///
/// # Errors
/// [`OriginalsError::Damaged`] rather than a wrong content.
pub fn load(
    fs: &dyn Fs,
    journal: &Journal,
    index: usize,
    what: &str,
    expected: &str,
) -> Result<Vec<u8>, OriginalsError> {
    let path = journal.saved_path(index, what);
    let bytes = fs.read(&path)?;
    let found = sha256(&bytes);
    if found == expected {
        return Ok(bytes);
    }
    Err(OriginalsError::Damaged { path: path.display().to_string(), expected: expected.to_owned(), found })
}
