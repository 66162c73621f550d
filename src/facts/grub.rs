//! GRUB on this host: the files its configuration is made from, the generated menu, and what it boots next.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use super::bootloader::files::{self, EntryFiles};
use super::bootloader::others::{self, Sign};
use super::bootloader::{Beside, Located, locate, read_menu};
use super::systemd::SystemdFacts;
use crate::boot::NextBoot;
use crate::boot::grub::defaults::{Called, DROP_IN_DIRECTORY, Defaults, MAIN_FILE, is_read};
use crate::boot::grub::menu::{self, Menu, NextEntry};
use crate::boot::hierarchy::{Hierarchy, Outcome};
use crate::boot::kargs::Kargs;
use crate::host::{FULL_PATH, Fs, FsError};

const SCRIPT_DIRECTORY: &str = "/etc/grub.d";

/// What there is of GRUB.
#[derive(Debug, Clone)]
pub struct GrubFacts {
    /// Where the generated files are.
    pub located: Option<Located>,
    /// Settings files with their content, in the order in which they are read.
    pub settings: Vec<(PathBuf, Vec<u8>)>,
    /// Settings and menu that have more than one name (hard links): they cannot be replaced in one step.
    pub hard_linked: Vec<PathBuf>,
    /// Commands that the settings run and that are no program of this host: grub-mkconfig ends there.
    pub missing_commands: Vec<Called>,
    /// Why settings could not be read.
    pub unreadable: Option<String>,
    /// Why it could not be found out whether there is a menu, and where.
    pub menu_unreadable: Option<String>,
    /// The entry that will boot, or why it cannot be said.
    pub next: Result<NextEntry, String>,
    /// Where the files of that entry are.
    pub next_files: Option<EntryFiles>,
    /// What `root=` is in each entry that loads Linux; empty where it has none.
    pub roots: Vec<String>,
    /// Scripts that the menu is made from and files it reads in, with their text.
    pub scripts: Vec<(PathBuf, String)>,
    /// What the loader that ran told the firmware of itself.
    pub loader_info: Option<String>,
    /// Other loaders whose files are there.
    pub others: Vec<Sign>,
    /// Where the entry that will boot is copied from as it stands, if it is: settings do not reach it.
    pub copied_from: Option<PathBuf>,
    /// The menu takes its entries from Boot Loader Specification files.
    pub blscfg: bool,
}

impl GrubFacts {
    /// True if `/etc/default/grub` is there, and on a running host the generated menu with it.
    #[must_use]
    pub fn is_there(&self, running: bool) -> bool {
        !self.settings.is_empty() && (!running || self.located.is_some())
    }

    /// The generated menu, or where it should be.
    #[must_use]
    pub fn menu_path(&self) -> PathBuf {
        let found = self.located.as_ref().map(|located| located.grub_cfg.clone());
        found.unwrap_or_else(|| PathBuf::from("/boot/grub/grub.cfg"))
    }

    /// The directory of the generated menu.
    #[must_use]
    pub fn directory(&self) -> PathBuf {
        self.menu_path().parent().unwrap_or(Path::new("/boot/grub")).to_owned()
    }

    /// The kernel line of the entry that will boot, without the kernel.
    #[must_use]
    pub fn next_arguments(&self) -> Option<&str> {
        Some(self.next.as_ref().ok()?.linux.as_ref()?.arguments.as_str())
    }
}

/// Reads everything of GRUB; judges nothing.
#[must_use]
pub fn scan(fs: &dyn Fs) -> GrubFacts {
    let (settings, unreadable) = match settings(fs) {
        Ok(settings) => (settings, None),
        Err(error) => (Vec::new(), Some(chain(&error))),
    };
    let (located, menu_unreadable) = match locate(fs) {
        Ok(located) => (located, None),
        Err(error) => (None, Some(chain(&error))),
    };
    let menu = read(fs, located.as_ref(), menu_unreadable.as_ref());
    let next = menu.as_ref().map_err(Clone::clone).and_then(|(menu, beside)| next_entry(menu, beside));
    let loader_info = others::loader_info(fs);
    GrubFacts {
        next_files: next.as_ref().ok().map(|entry| files::of_entry(fs, entry)),
        roots: menu.as_ref().map(|(menu, _)| roots(menu)).unwrap_or_default(),
        scripts: scripts(fs, located.as_ref(), menu.as_ref().ok().map(|(_, beside)| beside)),
        others: others::signs(fs, loader_info.as_deref()),
        loader_info,
        copied_from: located.as_ref().and_then(|located| copied_from(fs, located, next.as_ref().ok()?)),
        missing_commands: missing_commands(fs, &settings).unwrap_or_default(),
        hard_linked: hard_linked(fs, &settings, located.as_ref()),
        settings,
        unreadable,
        menu_unreadable,
        blscfg: menu.as_ref().is_ok_and(|(menu, _)| menu.uses_blscfg()),
        next,
        located,
    }
}

/// Scripts of `/etc/grub.d` that hand on what others wrote: people, or the menus of other systems.
fn hands_on(script: &str) -> bool {
    script.ends_with("_custom") || script.contains("os-prober")
}

/// The script whose part of the menu has the kernel line of this entry, if it hands on what others wrote.
fn copied_from(fs: &dyn Fs, located: &Located, entry: &NextEntry) -> Option<PathBuf> {
    let written = entry.linux.as_ref()?.written.trim();
    let text = fs.read(&located.grub_cfg).ok()?;
    let text = String::from_utf8_lossy(&text);
    let (mut script, mut found) = (None, Vec::new());
    for line in text.lines() {
        match line.strip_prefix("### BEGIN ").and_then(|rest| rest.strip_suffix(" ###")) {
            Some(name) => script = Some(name),
            None if line.starts_with("### END ") => script = None,
            None if !written.is_empty() && line.contains(written) => found.push(script),
            None => {}
        }
    }
    match found.as_slice() {
        [Some(first), ..] if found.iter().all(|script| script.is_some_and(hands_on)) => {
            Some(PathBuf::from(*first))
        }
        _ => None,
    }
}

/// `None` where it cannot be said: settings that no shell can read, or no programs to look at, as in a tree that is
/// not whole.
fn missing_commands(fs: &dyn Fs, settings: &[(PathBuf, Vec<u8>)]) -> Option<Vec<Called>> {
    let called = Defaults::parse(settings.to_vec()).ok()?.called();
    if called.is_empty() {
        return Some(called);
    }
    let directories = FULL_PATH.split(':').map(|directory| fs.list(Path::new(directory)));
    let programs: HashSet<String> =
        directories.collect::<Result<Vec<_>, _>>().ok()?.concat().into_iter().collect();
    let missing = called.into_iter().filter(|called| !programs.contains(&called.name));
    (!programs.is_empty()).then(|| missing.collect())
}

fn hard_linked(fs: &dyn Fs, settings: &[(PathBuf, Vec<u8>)], located: Option<&Located>) -> Vec<PathBuf> {
    let menu = located.map(|located| &located.grub_cfg);
    let has_more_names =
        |path: &&PathBuf| fs.snapshot(path).is_ok_and(|found| found.is_some_and(|file| file.hard_links > 1));
    settings.iter().map(|(path, _)| path).chain(menu).filter(has_more_names).cloned().collect()
}

fn read(
    fs: &dyn Fs,
    located: Option<&Located>,
    unreadable: Option<&String>,
) -> Result<(Menu, Beside), String> {
    match (located, unreadable) {
        (_, Some(why)) => Err(why.clone()),
        (None, None) => Err("no generated grub.cfg was found".to_owned()),
        (Some(located), None) => read_menu(fs, located).map_err(|error| chain(&error)),
    }
}

fn settings(fs: &dyn Fs) -> Result<Vec<(PathBuf, Vec<u8>)>, FsError> {
    let drop_ins = fs.list(Path::new(DROP_IN_DIRECTORY))?;
    let drop_ins = drop_ins.into_iter().map(|name| Path::new(DROP_IN_DIRECTORY).join(name));
    let paths = std::iter::once(PathBuf::from(MAIN_FILE)).chain(drop_ins);
    let existing = paths.filter(|path| is_read(path) && fs.exists(path));
    existing.map(|path| Ok((path.clone(), fs.read(&path)?))).collect()
}

fn next_entry(menu: &Menu, beside: &Beside) -> Result<NextEntry, String> {
    match menu::next_boot(menu, &beside.env) {
        menu::NextBoot::Entry(entry) => Ok(*entry),
        menu::NextBoot::Undetermined { why } => Err(why),
    }
}

/// `root=` of every `linux` line.
fn roots(menu: &Menu) -> Vec<String> {
    let lines = menu.all_linux_entries().into_iter().flat_map(|entry| entry.lines);
    lines.map(|line| Kargs::parse(&line.arguments).value("root").unwrap_or_default().to_owned()).collect()
}

/// What grub-mkconfig runs: executable files. And `custom.cfg` and its like, which the menu reads in as they are.
fn scripts(fs: &dyn Fs, located: Option<&Located>, beside: Option<&Beside>) -> Vec<(PathBuf, String)> {
    let names = fs.list(Path::new(SCRIPT_DIRECTORY)).unwrap_or_default().into_iter();
    let run = names.filter_map(|name| {
        let path = Path::new(SCRIPT_DIRECTORY).join(name);
        let file = fs.snapshot(&path).ok()??;
        let is_run = file.attributes.mode & 0o111 != 0;
        is_run.then(|| (path, String::from_utf8_lossy(&file.bytes).into_owned()))
    });
    let menu = located.map(|located| located.grub_cfg.clone());
    let read_in = beside.into_iter().flat_map(|beside| beside.files.clone());
    let read_in = read_in.filter_map(|(name, text)| Some((menu.as_ref()?.with_file_name(name), text?)));
    run.chain(read_in).collect()
}

/// An error and its causes.
fn chain(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(error.source(), |error| error.source());
    causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}

/// What GRUB would boot now, judged by the kernel line it would hand over.
#[must_use]
pub fn next_boot(fs: &dyn Fs, systemd: &SystemdFacts) -> NextBoot {
    judge(&scan(fs).next, systemd)
}

/// Judges the entry that will boot.
#[must_use]
pub fn judge(next: &Result<NextEntry, String>, systemd: &SystemdFacts) -> NextBoot {
    let entry = match next {
        Ok(entry) => entry,
        Err(why) => return NextBoot::Unknown(format!("what GRUB will boot could not be found out: {why}")),
    };
    let title = entry.path.join(" > ");
    let Some(linux) = &entry.linux else {
        return NextBoot::WontBoot(format!("the entry that will boot ({title}) loads no Linux kernel"));
    };
    let decision = systemd.decide(&linux.arguments);
    let what = format!("the entry that will boot ({title}, {})", entry.chosen_by);
    match (decision.outcome, decision.hierarchy) {
        (Outcome::RefusesToBoot, _) => NextBoot::WontBoot(format!(
            "{what} has a line that systemd refuses to boot with: {}",
            decision.reason
        )),
        (Outcome::Boots | Outcome::BootsAfterDelay, Hierarchy::Unified) => NextBoot::Unified,
        (Outcome::Boots | Outcome::BootsAfterDelay, hierarchy) => {
            NextBoot::NotUnified(format!("{what} leads to {hierarchy}: {}", decision.reason))
        }
    }
}
