//! A text file of the host, and places in it.

use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::host::{Fs, FsError};

/// A line of a file.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Place {
    /// Host path.
    pub path: PathBuf,
    /// From 1.
    pub line: usize,
}

impl std::fmt::Display for Place {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{}:{}", self.path.display(), self.line)
    }
}

/// An error with its reasons.
pub(super) fn told(error: FsError) -> String {
    format!("{:#}", anyhow::Error::from(error))
}

/// A text file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    /// Host path.
    pub path: PathBuf,
    /// All of it.
    pub text: String,
}

impl Source {
    /// A text that was read somewhere.
    #[must_use]
    pub fn new(path: impl Into<PathBuf>, text: impl Into<String>) -> Self {
        Self { path: path.into(), text: text.into() }
    }

    /// Reads a file; `None` if there is none.
    ///
    /// # Errors
    /// Where it is there and cannot be read, or is no UTF-8.
    pub fn read(fs: &dyn Fs, path: &Path) -> Result<Option<Self>, String> {
        let bytes = match fs.read(path) {
            Ok(bytes) => bytes,
            Err(error) if error.is_not_found() => return Ok(None),
            Err(error) => return Err(told(error)),
        };
        let text = String::from_utf8(bytes)
            .map_err(|error| format!("read {}: it is no text: {error}", path.display()))?;
        Ok(Some(Self::new(path, text)))
    }

    /// The line that a byte stands in.
    #[must_use]
    pub fn place(&self, offset: usize) -> Place {
        let before = self.text.as_bytes().get(..offset).unwrap_or(self.text.as_bytes());
        Place { path: self.path.clone(), line: 1 + before.iter().filter(|byte| **byte == b'\n').count() }
    }
}
