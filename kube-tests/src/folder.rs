//! The folder of one cluster, below `target/kube-tests`.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::{Context as _, Result};

const ALL: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../target/kube-tests");

/// Ours as long as the lock in it is held. The kernel lets go of the lock of a process that is gone, so what killed
/// tests have left behind is known, and swept away by the next.
#[derive(Debug)]
pub(crate) struct Folder {
    path: PathBuf,
    _lock: File,
}

impl Folder {
    pub(crate) fn create() -> Result<Self> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        sweep();
        let name = format!("{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let path = Path::new(ALL).join(name);
        std::fs::create_dir_all(&path).with_context(|| format!("cannot create {}", path.display()))?;
        let path = path.canonicalize()?;
        let lock = File::create(path.join("lock"))?;
        lock.lock()?;
        Ok(Self { path, _lock: lock })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Writes a file for this user's eyes only, and gives its path.
    pub(crate) fn write(&self, name: &str, content: &str) -> Result<PathBuf> {
        use std::io::Write as _;
        use std::os::unix::fs::OpenOptionsExt as _;
        let path = self.path.join(name);
        let file = File::options().write(true).create(true).truncate(true).mode(0o600).open(&path);
        file.and_then(|mut file| file.write_all(content.as_bytes()))
            .with_context(|| format!("cannot write {}", path.display()))?;
        Ok(path)
    }
}

impl Drop for Folder {
    /// The logs of a test that failed stay until the next run.
    fn drop(&mut self) {
        if !std::thread::panicking() {
            let _ = std::fs::remove_dir_all(&self.path);
        }
    }
}

fn sweep() {
    let Ok(entries) = std::fs::read_dir(ALL) else { return };
    for folder in entries.flatten().map(|entry| entry.path()) {
        let lock = File::open(folder.join("lock"));
        if lock.is_ok_and(|lock| lock.try_lock().is_ok()) {
            let _ = std::fs::remove_dir_all(folder);
        }
    }
}
