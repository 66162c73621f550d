//! What each step does to the host. Every one can be repeated: what is done already is seen and left.

use std::path::Path;

use anyhow::{Context, Result, anyhow};

use super::failpoint::reach;
use super::journal::{Journal, Kind, TouchedFile};
use super::regenerate::{Wanted, regenerate};
use super::store::Store;
use super::{originals, state_path};
use crate::boot::hierarchy::Hierarchy;
use crate::facts::systemd::SystemdFacts;
use crate::host::{Expect, FsError, Host, sha256};

/// How often a file is generated where somebody else writes it in the meantime.
const ATTEMPTS: usize = 3;

/// The host and the journal, for the length of one run.
pub struct Effects<'a> {
    /// The seams.
    pub host: Host<'a>,
    /// Where the journal is kept.
    pub store: Store<'a>,
    /// This host's systemd, by which kernel lines are judged.
    pub systemd: &'a SystemdFacts,
}

impl Effects<'_> {
    /// Saves every original beside the journal.
    ///
    /// # Errors
    /// If a file is not what the plan was made from, or cannot be read or saved.
    pub fn save_originals(&self, journal: &mut Journal) -> Result<()> {
        reach("before-save-originals");
        for index in 0..journal.files.len() {
            originals::save(self.host.fs, journal, index).context("save the originals")?;
        }
        self.host.fs.sync_file_system(&state_path(&journal.txn))?;
        reach("after-save-originals");
        journal.originals_saved = true;
        Ok(())
    }

    /// Writes the new content of an edited file.
    ///
    /// # Errors
    /// If it changed since the plan was made, or cannot be written.
    pub fn write_file(&self, journal: &mut Journal, index: usize) -> Result<()> {
        let file = file_at(journal, index)?;
        let makes_directory = file.before.is_none() && !self.host.fs.exists(directory(file));
        if let Some(file) = journal.files.get_mut(index) {
            // Never back to false: a run that was cut off may have made it.
            file.made_directory |= makes_directory;
        }
        let file = self.touch(journal, index)?;
        let after = file
            .after
            .clone()
            .ok_or_else(|| anyhow!("the journal has no new content for {}", file.path.display()))?;
        let bytes = originals::load(self.host.fs, journal, index, "new", &after)?;
        reach("before-write-file");
        if file.made_directory {
            self.host.fs.create_directory(directory(&file), 0o755)?;
        }
        self.host.fs.replace(&file.path, &bytes, &expect(file.before.as_ref()), None)?;
        reach("after-write-file");
        Ok(())
    }

    /// Lets the boot loader's tool generate its file, checks it, and puts it in place.
    ///
    /// # Errors
    /// If the tool fails, if what it made is not fit to boot, or if it cannot be put in place.
    pub fn generate(&self, journal: &mut Journal, index: usize) -> Result<()> {
        let unified = |line: &str| self.systemd.decide(line).hierarchy == Hierarchy::Unified;
        let accepted = journal.options.accepted.clone();
        let wanted = Wanted::new("leads to cgroup v2", &unified).accepting(&accepted);
        self.put_generated(journal, index, &wanted, |file, made| file.after = Some(made))?;
        reach("after-regenerate");
        Ok(())
    }

    /// Generates and puts in place. The file is looked at before the tool reads anything: what somebody else writes
    /// from then on (the script of a kernel package) is not replaced, but generated again with what they added.
    fn put_generated(
        &self,
        journal: &mut Journal,
        index: usize,
        wanted: &Wanted<'_>,
        note: impl Fn(&mut TouchedFile, String),
    ) -> Result<()> {
        let path = file_at(journal, index)?.path.clone();
        for _ in 0..ATTEMPTS {
            let found = super::observe::content_hash(self.host, &path)?;
            self.note_foreign(journal, index, found.as_ref())?;
            let made = regenerate(self.host, &path, wanted)?;
            if let Some(file) = journal.files.get_mut(index) {
                note(file, sha256(&made));
            }
            self.touch(journal, index)?;
            reach("before-regenerate");
            match self.host.fs.replace(&path, &made, &expect(found.as_ref()), None) {
                Err(FsError::Changed { .. }) => {
                    log::warn!("{} was written by someone else while it was generated", path.display());
                }
                done => {
                    done?;
                    return Ok(self.host.fs.sync_file_system(&path)?);
                }
            }
        }
        let path = path.display();
        Err(anyhow!(
            "generate {path}: someone else wrote it each of {ATTEMPTS} times while it was generated; let updates of \
             packages end, then try again"
        ))
    }

    /// Writes down, before anything else is done about it, that the saved original is out of date.
    fn note_foreign(&self, journal: &mut Journal, index: usize, found: Option<&String>) -> Result<()> {
        let file = journal.files.get_mut(index).ok_or_else(|| no_such_file(index))?;
        let known = [&file.before, &file.after, &file.regenerated];
        if file.original_outdated || known.iter().any(|hash| hash.as_ref() == found) {
            return Ok(());
        }
        log::warn!("{} was generated by someone else since its original was saved", file.path.display());
        file.original_outdated = true;
        self.touch(journal, index).map(drop)
    }

    /// Puts an original back, with its mode, owner and extended attributes; removes a file that was not there. The
    /// directory that was made for it is swept away later, with all else that is left. An original that is out of
    /// date is not put back; the file is generated anew.
    ///
    /// # Errors
    /// If the saved original is damaged, or if someone else wrote the file in between.
    pub fn restore(&self, journal: &mut Journal, index: usize) -> Result<()> {
        if file_at(journal, index)?.original_outdated {
            return self.generate_anew(journal, index);
        }
        let file = file_at(journal, index)?;
        let ours = expect(file.after.as_ref());
        match &file.before {
            None => self.host.fs.remove(&file.path, &ours)?,
            Some(before) => {
                let bytes = originals::load(self.host.fs, journal, index, "original", before)?;
                self.host.fs.replace(&file.path, &bytes, &ours, file.attributes.as_ref())?;
            }
        }
        Ok(self.host.fs.sync_file_system(&file.path)?)
    }

    /// Generates a file from restored ones, where its original is out of date because someone else (a kernel
    /// update) generated it in between.
    ///
    /// # Errors
    /// As [`Effects::generate`].
    pub fn generate_anew(&self, journal: &mut Journal, index: usize) -> Result<()> {
        let file = file_at(journal, index)?;
        if file.kind != Kind::Generated {
            return Err(anyhow!("{} is not generated by a tool", file.path.display()));
        }
        let accepted = journal.options.accepted.clone();
        let wanted = Wanted::anything().accepting(&accepted);
        self.put_generated(journal, index, &wanted, |file, made| file.regenerated = Some(made))
    }

    /// Writes the intent down before the first write to a file: from here on a crash may have left our content.
    fn touch(&self, journal: &mut Journal, index: usize) -> Result<TouchedFile> {
        let file = journal.files.get_mut(index).ok_or_else(|| no_such_file(index))?;
        file.touched = true;
        let file = file.clone();
        self.store.save(journal)?;
        Ok(file)
    }
}

fn file_at(journal: &Journal, index: usize) -> Result<&TouchedFile> {
    journal.files.get(index).ok_or_else(|| no_such_file(index))
}

fn directory(file: &TouchedFile) -> &Path {
    file.path.parent().unwrap_or(Path::new("/"))
}

fn no_such_file(index: usize) -> anyhow::Error {
    anyhow!("the journal has no file number {index}")
}

fn expect(hash: Option<&String>) -> Expect {
    hash.map_or(Expect::Absent, |hash| Expect::Sha256(hash.clone()))
}
