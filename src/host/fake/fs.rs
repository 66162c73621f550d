//! Files that can fail.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use super::Fuse;
use crate::host::{Attributes, Expect, Fs, FsError, Snapshot, Space};

/// Files behind a [`Fuse`]. Effects are `replace`, `remove`, `create_directory`,
/// `remove_directory`, `lock` and `sync_file_system`.
pub struct FaultyFs<'a> {
    inner: &'a dyn Fs,
    fuse: Fuse,
    space: Option<Space>,
}

impl<'a> FaultyFs<'a> {
    /// Puts `fuse` before `inner`.
    #[must_use]
    pub fn new(inner: &'a dyn Fs, fuse: Fuse) -> Self {
        Self { inner, fuse, space: None }
    }

    /// With this much room everywhere, whatever is so.
    #[must_use]
    pub fn with_space(mut self, space: Option<Space>) -> Self {
        self.space = space;
        self
    }
}

fn fs_error(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> FsError {
    move |source| FsError::Io { action, path: path.to_owned(), source }
}

impl Fs for FaultyFs<'_> {
    fn root(&self) -> &Path {
        self.inner.root()
    }

    fn read(&self, path: &Path) -> Result<Vec<u8>, FsError> {
        self.fuse.observe(|| self.inner.read(path), fs_error("read", path))
    }

    fn open(&self, path: &Path) -> Result<Box<dyn io::Read>, FsError> {
        self.fuse.observe(|| self.inner.open(path), fs_error("open", path))
    }

    fn snapshot(&self, path: &Path) -> Result<Option<Snapshot>, FsError> {
        self.fuse.observe(|| self.inner.snapshot(path), fs_error("read", path))
    }

    fn list(&self, directory: &Path) -> Result<Vec<String>, FsError> {
        self.fuse.observe(|| self.inner.list(directory), fs_error("list", directory))
    }

    fn exists(&self, path: &Path) -> bool {
        !self.fuse.power_is_lost() && self.inner.exists(path)
    }

    fn resolve(&self, path: &Path) -> Result<PathBuf, FsError> {
        self.fuse.observe(|| self.inner.resolve(path), fs_error("resolve", path))
    }

    fn replace(
        &self,
        path: &Path,
        bytes: &[u8],
        expect: &Expect,
        attributes: Option<&Attributes>,
    ) -> Result<(), FsError> {
        let act = || self.inner.replace(path, bytes, expect, attributes);
        self.fuse.effect(format!("replace {}", path.display()), act, fs_error("replace", path))
    }

    fn remove(&self, path: &Path, expect: &Expect) -> Result<(), FsError> {
        let act = || self.inner.remove(path, expect);
        self.fuse.effect(format!("remove {}", path.display()), act, fs_error("remove", path))
    }

    fn create_directory(&self, path: &Path, mode: u32) -> Result<(), FsError> {
        let act = || self.inner.create_directory(path, mode);
        let what = format!("create directory {}", path.display());
        self.fuse.effect(what, act, fs_error("create directory", path))
    }

    fn remove_directory(&self, path: &Path) -> Result<(), FsError> {
        let act = || self.inner.remove_directory(path);
        let what = format!("remove directory {}", path.display());
        self.fuse.effect(what, act, fs_error("remove directory", path))
    }

    fn lock(&self, path: &Path) -> Result<Option<File>, FsError> {
        let act = || self.inner.lock(path);
        self.fuse.effect(format!("lock {}", path.display()), act, fs_error("lock", path))
    }

    fn sync_file_system(&self, path: &Path) -> Result<(), FsError> {
        let act = || self.inner.sync_file_system(path);
        let what = format!("sync the file system of {}", path.display());
        self.fuse.effect(what, act, fs_error("sync the file system of", path))
    }

    fn space(&self, path: &Path) -> Result<Space, FsError> {
        let space = || self.space.map_or_else(|| self.inner.space(path), Ok);
        self.fuse.observe(space, fs_error("find the free space of", path))
    }
}
