//! Files below a root: [`RootedFs`].

use std::fs::{File, TryLockError};
use std::io::{self, Read as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use nix::fcntl::OFlag;
use nix::sys::statvfs::{FsFlags, statvfs};

use super::{Attributes, Expect, Fs, FsError, Snapshot, Space};
use replace::Target;

mod attributes;
mod replace;
mod resolve;
#[cfg(test)]
mod tests;

/// The files of a running host (root `/`), of a mounted image, or of a test tree.
///
/// All links are followed inside the root, as in a chroot. Changes are durable when a method returns.
#[derive(Debug)]
pub struct RootedFs {
    root: PathBuf,
    writes_refused: bool,
}

impl RootedFs {
    /// Files below `root`.
    #[must_use]
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self::guarded(root.into(), super::test_host())
    }

    fn guarded(root: PathBuf, test_host: bool) -> Self {
        // Whatever way it is written (`/.`, a link, `/proc/1/root`), the real root is the real root.
        let is_real_root = root.canonicalize().is_ok_and(|root| root == Path::new("/"));
        Self { root, writes_refused: test_host && is_real_root }
    }

    fn writable(&self, action: &'static str, path: &Path) -> Result<(), FsError> {
        if self.writes_refused {
            return Err(FsError::TestHost { action, path: path.to_owned() });
        }
        Ok(())
    }

    fn disk(&self, path: &Path) -> io::Result<PathBuf> {
        Ok(resolve::on_disk(&self.root, &resolve::resolve(&self.root, path)?))
    }

    /// The text of the link at the end of `path`, or `None` if there is none.
    fn link_target(&self, path: &Path) -> io::Result<Option<PathBuf>> {
        let place = resolve::resolve_parent(&self.root, path)?;
        Ok(std::fs::read_link(resolve::on_disk(&self.root, &place)).ok())
    }

    fn target<'a>(&self, action: &'static str, path: &'a Path) -> Result<Target<'a>, FsError> {
        let examine = || Target::examine(path, self.disk(path)?, self.link_target(path)?.is_some());
        examine().map_err(io_error(action, path))
    }

    fn take_snapshot(&self, path: &Path) -> io::Result<Snapshot> {
        let file = open_file(&self.disk(path)?)?;
        Ok(Snapshot {
            attributes: attributes::read(&file)?,
            hard_links: file.metadata()?.nlink(),
            bytes: read_whole(file)?,
            link_target: self.link_target(path)?,
        })
    }

    fn nearest_existing(&self, path: &Path) -> io::Result<PathBuf> {
        let disk = self.disk(path)?;
        let existing = disk.ancestors().find(|ancestor| ancestor.exists());
        Ok(existing.unwrap_or(&self.root).to_owned())
    }
}

impl Fs for RootedFs {
    fn root(&self) -> &Path {
        &self.root
    }

    fn read(&self, path: &Path) -> Result<Vec<u8>, FsError> {
        self.disk(path).and_then(|disk| open_file(&disk)).and_then(read_whole).map_err(io_error("read", path))
    }

    fn open(&self, path: &Path) -> Result<Box<dyn io::Read>, FsError> {
        let file = self.disk(path).and_then(|disk| open_file(&disk)).map_err(io_error("open", path))?;
        Ok(Box::new(file))
    }

    fn snapshot(&self, path: &Path) -> Result<Option<Snapshot>, FsError> {
        match self.take_snapshot(path) {
            Ok(snapshot) => Ok(Some(snapshot)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(io_error("read", path)(error)),
        }
    }

    fn list(&self, directory: &Path) -> Result<Vec<String>, FsError> {
        match self.disk(directory).and_then(|disk| names_in(&disk)) {
            Ok(names) => Ok(names),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            Err(error) => Err(io_error("list", directory)(error)),
        }
    }

    fn exists(&self, path: &Path) -> bool {
        self.disk(path).is_ok_and(|disk| disk.exists())
    }

    fn resolve(&self, path: &Path) -> Result<PathBuf, FsError> {
        resolve::resolve(&self.root, path).map_err(io_error("resolve", path))
    }

    fn replace(
        &self,
        path: &Path,
        bytes: &[u8],
        expect: &Expect,
        attributes: Option<&Attributes>,
    ) -> Result<(), FsError> {
        self.writable("replace", path)?;
        let target = self.target("replace", path)?;
        target.check(expect)?;
        target.remove_leftovers();
        let temporary = target.prepare(bytes, attributes)?;
        // Once more: writing and syncing may have taken long.
        target.check(expect)?;
        target.rename(temporary, expect)?;
        target.sync_directory()
    }

    fn remove(&self, path: &Path, expect: &Expect) -> Result<(), FsError> {
        self.writable("remove", path)?;
        // Removing a link would leave its file, and removing the file would leave the link: neither is the
        // state of before, and we never make links.
        if self.link_target(path).map_err(io_error("remove", path))?.is_some() {
            return Err(io_error("remove", path)(io::Error::new(
                io::ErrorKind::InvalidInput,
                "a symbolic link",
            )));
        }
        let target = self.target("remove", path)?;
        target.check(expect)?;
        if !target.exists {
            return Ok(());
        }
        target.unlink()?;
        target.sync_directory()
    }

    fn create_directory(&self, path: &Path, mode: u32) -> Result<(), FsError> {
        self.writable("create directory", path)?;
        self.disk(path).and_then(|disk| create_all(&disk, mode)).map_err(io_error("create directory", path))
    }

    fn remove_directory(&self, path: &Path) -> Result<(), FsError> {
        self.writable("remove directory", path)?;
        self.disk(path).and_then(|disk| remove_empty(&disk)).map_err(io_error("remove directory", path))
    }

    fn lock(&self, path: &Path) -> Result<Option<File>, FsError> {
        self.writable("lock", path)?;
        self.disk(path).and_then(|disk| lock_file(&disk)).map_err(io_error("lock", path))
    }

    fn sync_file_system(&self, path: &Path) -> Result<(), FsError> {
        self.writable("sync the file system of", path)?;
        let sync = || Ok(nix::unistd::syncfs(File::open(self.nearest_existing(path)?)?)?);
        sync().map_err(io_error("sync the file system of", path))
    }

    fn space(&self, path: &Path) -> Result<Space, FsError> {
        let space = || {
            let found = statvfs(&self.nearest_existing(path)?)?;
            Ok(Space {
                read_only: found.flags().contains(FsFlags::ST_RDONLY),
                // Free rather than available: what is reserved is reserved for root.
                available_bytes: found.blocks_free().saturating_mul(found.fragment_size()),
                available_files: (found.files() > 0).then(|| found.files_available()),
            })
        };
        space().map_err(io_error("find the free space of", path))
    }
}

fn io_error(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> FsError {
    move |source| FsError::Io { action, path: path.to_owned(), source }
}

/// Opens a regular file. Anything else is refused: a FIFO would block us, a device could do anything.
fn open_file(disk: &Path) -> io::Result<File> {
    let file = File::options().read(true).custom_flags(OFlag::O_NONBLOCK.bits()).open(disk)?;
    if file.metadata()?.is_file() {
        return Ok(file);
    }
    Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"))
}

fn lock_file(disk: &Path) -> io::Result<Option<File>> {
    let file = File::options().read(true).write(true).create(true).truncate(false).mode(0o600).open(disk)?;
    match file.try_lock() {
        Ok(()) => Ok(Some(file)),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

fn read_whole(mut file: File) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn names_in(disk: &Path) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in std::fs::read_dir(disk)? {
        let name = entry?.file_name().into_string().map_err(|name| {
            // Left out it might be the one file that matters; changed it could not be opened.
            let text = format!("{} is not a name in UTF-8", name.display());
            io::Error::new(io::ErrorKind::InvalidData, text)
        })?;
        names.push(name);
    }
    names.sort_unstable();
    Ok(names)
}

fn create_all(disk: &Path, mode: u32) -> io::Result<()> {
    if disk.is_dir() {
        return Ok(());
    }
    let parent = disk.parent().unwrap_or(Path::new("/"));
    create_all(parent, mode)?;
    std::fs::DirBuilder::new().mode(mode).create(disk)?;
    // The umask may have taken bits away.
    std::fs::set_permissions(disk, std::fs::Permissions::from_mode(mode))?;
    replace::sync_directory(disk)?;
    replace::sync_directory(parent)
}

fn remove_empty(disk: &Path) -> io::Result<()> {
    match std::fs::remove_dir(disk) {
        Ok(()) => replace::sync_directory(disk.parent().unwrap_or(Path::new("/"))),
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::DirectoryNotEmpty) => {
            Ok(())
        }
        Err(error) => Err(error),
    }
}
