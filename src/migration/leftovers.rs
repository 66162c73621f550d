//! What is left beside the files of a migration: temporary files after a crash, and on the way back directories that
//! were made for files of ours. Harmless, but the host was promised back as it was.

use std::collections::BTreeSet;
use std::path::PathBuf;

use super::journal::Journal;
use crate::host::{Expect, FsError, Host};

/// What stands behind the name of a file in the names of everything temporary we make beside it.
const MARK: &str = ".cgroup2-migrate";

/// Removes files, then the directories that are empty without them. What cannot be removed is in nobody's way: it is
/// named in the log, and no reason to call a proven host unproven.
pub fn sweep(host: Host<'_>, journal: &Journal) {
    let swept = files(host, journal)
        .and_then(|files| files.iter().try_for_each(|path| host.fs.remove(path, &Expect::Anything)))
        .and_then(|()| directories(host, journal))
        .and_then(|found| found.iter().try_for_each(|path| host.fs.remove_directory(path)));
    if let Err(error) = swept {
        log::warn!("a temporary file is left: {:#}", anyhow::Error::from(error));
    }
}

/// Directories that we made and that hold nothing.
fn directories(host: Host<'_>, journal: &Journal) -> Result<BTreeSet<PathBuf>, FsError> {
    let mut found = BTreeSet::new();
    let made = journal.files.iter().filter(|file| file.made_directory);
    for directory in made.filter_map(|file| file.path.parent()) {
        if host.fs.exists(directory) && host.fs.list(directory)?.is_empty() {
            found.insert(directory.to_owned());
        }
    }
    Ok(found)
}

fn files(host: Host<'_>, journal: &Journal) -> Result<Vec<PathBuf>, FsError> {
    let mut found = Vec::new();
    for file in &journal.files {
        let path = host.fs.resolve(&file.path)?;
        let (Some(directory), Some(name)) = (path.parent(), path.file_name()) else { continue };
        let name = name.to_string_lossy();
        let names = host.fs.list(directory)?.into_iter().filter(|found| is_leftover(found, &name));
        found.extend(names.map(|name| directory.join(name)));
    }
    Ok(found)
}

/// `.grub.cgroup2-migrate-a1b2c3` of a durable write, `grub.cfg.cgroup2-migrate-41-18c` and `….new` of the generator.
fn is_leftover(found: &str, name: &str) -> bool {
    let rest = found.strip_prefix('.').unwrap_or(found).strip_prefix(name);
    rest.and_then(|rest| rest.strip_prefix(MARK)).is_some_and(|rest| rest.starts_with('-'))
}

#[cfg(test)]
mod tests {
    use super::super::regenerate::scratch_names;
    use super::*;

    #[test]
    fn only_our_own_temporary_files_are_leftovers() {
        let generator = scratch_names("grub", "41-18c");
        for ours in generator.iter().map(String::as_str).chain([".grub.cgroup2-migrate-a1b2c3"]) {
            assert!(is_leftover(ours, "grub"), "{ours}");
        }
        for other in
            ["grub", "grub.d", "grub.bak", ".grub.swp", "grub.cgroup2-migrate.old", "xgrub.cgroup2-migrate"]
        {
            assert!(!is_leftover(other, "grub"), "{other}");
        }
    }
}
