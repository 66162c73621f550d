//! The journal on disk: read strictly, replaced as a whole.

use std::path::PathBuf;

use super::journal::{Journal, SCHEMA};
use crate::host::{Expect, Fs, FsError};

/// File name of the journal.
pub const FILE_NAME: &str = "journal.json";

/// A journal that cannot be used. It is never overwritten.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Reading or writing failed.
    #[error("the journal cannot be used")]
    Fs(#[from] FsError),
    /// It ends in the middle, or is no JSON at all.
    #[error(
        "read {}: not a whole journal: {what}; nothing was changed; what was touched has its original beside it \
         (*/NN.original): put back what should be, move the journal away, then begin anew", path.display()
    )]
    Torn {
        /// The journal.
        path: PathBuf,
        /// In which way.
        what: &'static str,
        /// The parser's words.
        source: serde_json::Error,
    },
    /// Whole, and not what this program writes.
    #[error(
        "read {}: whole, but not as this version writes it; nothing was changed; use the version of cgroup2-migrate \
         that wrote it", path.display()
    )]
    Unfit {
        /// The journal.
        path: PathBuf,
        /// Which key or value.
        source: serde_json::Error,
    },
    /// Another shape than this program knows.
    #[error(
        "read {}: schema {found}, but this program knows schema {SCHEMA}; nothing was changed; use the version of \
         cgroup2-migrate that wrote it", path.display()
    )]
    UnknownSchema {
        /// The journal.
        path: PathBuf,
        /// What its `schema` says.
        found: String,
    },
    /// The journal could not be written as text.
    #[error("write the journal")]
    Serialize(#[source] serde_json::Error),
}

/// Reads and writes the journal of one host.
#[derive(Clone, Copy)]
pub struct Store<'a> {
    fs: &'a dyn Fs,
}

impl<'a> Store<'a> {
    /// The journal below [`crate::host::STATE_DIRECTORY`].
    #[must_use]
    pub fn new(fs: &'a dyn Fs) -> Self {
        Self { fs }
    }

    /// The journal, or `None` if there never was a migration.
    ///
    /// # Errors
    /// [`StoreError`]: a torn journal, an unknown schema and unknown keys are refused.
    pub fn load(&self) -> Result<Option<Journal>, StoreError> {
        let path = super::state_path(FILE_NAME);
        match self.fs.snapshot(&path)? {
            None => Ok(None),
            Some(found) => parse(path, &found.bytes).map(Some),
        }
    }

    /// Replaces the journal durably.
    ///
    /// # Errors
    /// [`StoreError::Fs`]; the old journal is whole then.
    pub fn save(&self, journal: &Journal) -> Result<(), StoreError> {
        let mut text = serde_json::to_vec_pretty(journal).map_err(StoreError::Serialize)?;
        text.push(b'\n');
        Ok(self.fs.replace(
            &super::state_path(FILE_NAME),
            &text,
            &Expect::Anything,
            Some(&super::private()),
        )?)
    }
}

fn parse(path: PathBuf, bytes: &[u8]) -> Result<Journal, StoreError> {
    let value: serde_json::Value = match serde_json::from_slice(bytes) {
        Ok(value) => value,
        Err(source) => return Err(StoreError::Torn { path, what: what_is_torn(bytes, &source), source }),
    };
    match value.get("schema") {
        Some(schema) if schema.as_u64() == Some(u64::from(SCHEMA)) => {
            serde_json::from_value(value).map_err(|source| StoreError::Unfit { path, source })
        }
        found => {
            let found = found.map_or_else(|| "none".to_owned(), ToString::to_string);
            Err(StoreError::UnknownSchema { path, found })
        }
    }
}

fn what_is_torn(bytes: &[u8], error: &serde_json::Error) -> &'static str {
    match bytes {
        [] => "the file is empty",
        _ if error.is_eof() => "it is cut off",
        _ => "it is damaged, or something else than a journal",
    }
}
