//! The cache of images: each entry is named by the hash of its recipe, built beside its place and renamed into it.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result, anyhow};
use sha2::{Digest, Sha256};

use crate::command::{command, run};

/// A directory of finished images.
pub(crate) struct Cache {
    root: PathBuf,
}

impl Cache {
    /// Opens the cache of this user.
    pub(crate) fn open() -> Result<Self> {
        let root = user_cache()?.join("cgroup2-migrate/images");
        fs::create_dir_all(&root).with_context(|| format!("cannot create {}", root.display()))?;
        Ok(Self { root })
    }

    /// The file `name` made from the recipe `key`; `build` writes it when it is not there yet.
    pub(crate) fn file(
        &self,
        name: &str,
        key: &str,
        build: impl FnOnce(&Path) -> Result<()>,
    ) -> Result<PathBuf> {
        self.entry(name, key, build)
    }

    /// The directory `name` made from the recipe `key`; `build` fills it when it is not there yet.
    pub(crate) fn directory(
        &self,
        name: &str,
        key: &str,
        build: impl FnOnce(&Path) -> Result<()>,
    ) -> Result<PathBuf> {
        self.entry(name, key, |directory| {
            fs::create_dir(directory)?;
            build(directory)
        })
    }

    /// The private half of the key pair that opens every guest of this cache, made once.
    pub(crate) fn ssh_key(&self) -> Result<PathBuf> {
        let key = self.directory("ssh", "ed25519", |directory| {
            run(command("ssh-keygen")
                .args(["-q", "-t", "ed25519", "-N", "", "-C", "vm-tests", "-f"])
                .arg(directory.join("key")))?;
            Ok(())
        })?;
        Ok(key.join("key"))
    }

    fn entry(&self, name: &str, key: &str, build: impl FnOnce(&Path) -> Result<()>) -> Result<PathBuf> {
        let path = self.root.join(format!("{name}-{key}"));
        let _one_builder = self.lock(name)?;
        if path.exists() {
            note_use(&path)?;
            return Ok(path);
        }
        let unfinished = self.root.join(format!("{name}.unfinished"));
        remove(&unfinished)?;
        build(&unfinished).with_context(|| format!("cannot build {name}"))?;
        self.forget_unused(name)?;
        fs::rename(&unfinished, &path)?;
        Ok(path)
    }

    /// Held until dropped; a second process waits for the first to finish the entry.
    fn lock(&self, name: &str) -> Result<File> {
        let path = self.root.join(format!("{name}.lock"));
        let file = File::create(&path).with_context(|| format!("cannot create {}", path.display()))?;
        file.lock().with_context(|| format!("cannot lock {}", path.display()))?;
        Ok(file)
    }

    /// Recipes change, and what they made would fill the disk in time. What another checkout still uses stays.
    fn forget_unused(&self, name: &str) -> Result<()> {
        for entry in fs::read_dir(&self.root)? {
            let entry = entry?;
            let is_of_this_name =
                entry.file_name().to_string_lossy().rsplit_once('-').is_some_and(|(entry, _)| entry == name);
            if is_of_this_name && entry.metadata()?.modified()?.elapsed().unwrap_or_default() > KEPT_UNUSED {
                remove(&entry.path())?;
            }
        }
        Ok(())
    }
}

/// How long an entry nobody uses is kept.
const KEPT_UNUSED: Duration = Duration::from_secs(3 * 24 * 60 * 60);

/// The time of the last use is the time of the entry itself.
fn note_use(path: &Path) -> Result<()> {
    File::open(path)?
        .set_modified(SystemTime::now())
        .with_context(|| format!("cannot touch {}", path.display()))
}

/// A short name for a recipe: the hash of all its parts.
pub(crate) fn hash(parts: &[&[u8]]) -> String {
    let mut hasher = Sha256::new();
    for part in parts {
        hasher.update(part.len().to_le_bytes());
        hasher.update(part);
    }
    hasher.finalize().iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}

fn remove(path: &Path) -> Result<()> {
    let removed = if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
    match removed {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("cannot remove {}", path.display()))
        }
        _ => Ok(()),
    }
}

fn user_cache() -> Result<PathBuf> {
    let configured = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
    configured
        .or_else(|| std::env::home_dir().map(|home| home.join(".cache")))
        .ok_or_else(|| anyhow!("neither XDG_CACHE_HOME nor HOME is set: no place for the images"))
}
