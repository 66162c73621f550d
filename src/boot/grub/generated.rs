//! Is a freshly generated `grub.cfg` fit to take the place of the old one?
//!
//! `grub-mkconfig` ends with code 0 in cases where it wrote nothing, half a menu, or a menu without our
//! words (another file sets the default, the entry that boots is another kernel's). A node that reboots on
//! such a file ends at a GRUB prompt, so each is found here, before the file is put in place.

use super::env::GrubEnv;
use super::menu::{Build, Menu, MenuError, NextBoot, NextEntry, next_boot};

/// What is known of the place the file is for.
#[derive(Debug, Clone)]
pub struct Surroundings<'a> {
    /// The environment block.
    pub env: &'a GrubEnv,
    /// Files of GRUB's directory by name (`custom.cfg`), with their text, or `None` if absent.
    pub beside: &'a [(String, Option<String>)],
    /// Whose GRUB reads it.
    pub build: Build,
}

impl Surroundings<'_> {
    /// Parses a `grub.cfg` for this place.
    ///
    /// # Errors
    /// [`MenuError`].
    pub fn menu(&self, text: &str) -> Result<Menu, MenuError> {
        let menu = Menu::parse(text)?.built_by(self.build);
        let add = |menu: Menu, (name, text): &(String, Option<String>)| menu.beside(name, text.as_deref());
        Ok(self.beside.iter().fold(menu, add))
    }
}

/// Why a generated file must not be put in place.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GeneratedError {
    /// Cut off, or no GRUB script.
    #[error("check the generated grub.cfg: {0}")]
    NotWhole(#[from] MenuError),
    /// Nothing in it boots Linux.
    #[error(
        "check the generated grub.cfg: none of its {entries} entries loads a Linux kernel; see that /boot is mounted and holds kernels"
    )]
    NoLinux {
        /// Entries of any kind.
        entries: usize,
    },
    /// Suspiciously small.
    #[error(
        "check the generated grub.cfg: {new} bytes where the old one has {old}; see what the generator left out"
    )]
    TooSmall {
        /// Bytes before.
        old: usize,
        /// Bytes now.
        new: usize,
    },
    /// Entries are gone.
    #[error(
        "check the generated grub.cfg: {new} Linux entries where the old one has {old}; see which kernels the generator did not find"
    )]
    EntriesLost {
        /// Linux entries before.
        old: usize,
        /// Linux entries now.
        new: usize,
    },
    /// Nobody can say what would boot.
    #[error("check the generated grub.cfg: cannot tell which entry will boot: {why}")]
    Undetermined {
        /// The reason.
        why: String,
    },
    /// The default no longer names an entry.
    #[error(
        "check the generated grub.cfg: {chosen_by} names no entry any more, so `{entry}` would boot; generate it in the language the default was chosen in"
    )]
    DefaultLost {
        /// Path of the entry, joined by `>`.
        entry: String,
        /// What chose it.
        chosen_by: String,
    },
    /// Something else than Linux would boot.
    #[error("check the generated grub.cfg: `{entry}` will boot ({chosen_by}), and it loads no Linux kernel")]
    NotLinux {
        /// Path of the entry, joined by `>`.
        entry: String,
        /// What chose it.
        chosen_by: String,
    },
    /// A kernel whose package is not configured yet.
    #[error(
        "check the generated grub.cfg: `{entry}` will boot without an initial ramdisk, and before the entry that boots had one; see that its kernel's package is whole (dpkg --audit)"
    )]
    InitrdLost {
        /// Path of the entry, joined by `>`.
        entry: String,
    },
    /// Files of the entry are not on the disk.
    #[error(
        "check the generated grub.cfg: `{entry}` will boot, and {files} cannot be found; see that /boot is mounted and its kernel's package is whole"
    )]
    FilesMissing {
        /// Path of the entry, joined by `>`.
        entry: String,
        /// Their paths as GRUB sees them.
        files: String,
    },
    /// Nobody will press a key.
    #[error(
        "check the generated grub.cfg: it sets no timeout, so GRUB would wait for a key and boot nothing; set GRUB_TIMEOUT"
    )]
    WaitsForKey,
    /// Nobody will type a password.
    #[error(
        "check the generated grub.cfg: `{entry}` will boot, and GRUB would ask for a password first; make it --unrestricted"
    )]
    AsksPassword {
        /// Path of the entry, joined by `>`.
        entry: String,
    },
    /// The right entry with the wrong arguments, or the wrong entry.
    #[error("check the generated grub.cfg: `{entry}` will boot ({chosen_by}) with `{arguments}`: {reason}")]
    Unwanted {
        /// Path of the entry, joined by `>`.
        entry: String,
        /// What chose it.
        chosen_by: String,
        /// Its arguments.
        arguments: String,
        /// What the caller has against them.
        reason: String,
    },
}

/// All checks: [`check_whole`], then [`check_next_boot`].
///
/// # Errors
/// [`GeneratedError`]: the file must not be put in place.
pub fn check_generated(
    old: Option<&str>,
    new: &str,
    surroundings: &Surroundings<'_>,
    wanted: impl Fn(&str) -> Result<(), String>,
) -> Result<NextEntry, GeneratedError> {
    check_whole(old, new)?;
    check_next_boot(old, new, surroundings, wanted)
}

/// Is the file complete, does it boot Linux, and is it not much less than the old one?
///
/// # Errors
/// [`GeneratedError`]: the file must not be put in place.
pub fn check_whole(old: Option<&str>, new: &str) -> Result<Menu, GeneratedError> {
    let menu = Menu::parse(new)?;
    let linux_entries = menu.all_linux_entries().len();
    if linux_entries == 0 && !menu.uses_blscfg() {
        return Err(GeneratedError::NoLinux { entries: menu.entry_count() });
    }
    // Where a host moved to BLS, the entries left the file for good.
    if let Some(old) = old.filter(|_| !menu.uses_blscfg()) {
        compare(old, new, linux_entries)?;
    }
    Ok(menu)
}

/// Does the entry that will boot have the arguments the caller wants (`Err` with the reason if not)? Where the
/// old default named an entry, the new one must do so too: titles change with the language of whoever
/// generates them.
///
/// # Errors
/// [`GeneratedError`], also where the entries are not in the file (`blscfg`).
pub fn check_next_boot(
    old: Option<&str>,
    new: &str,
    surroundings: &Surroundings<'_>,
    wanted: impl Fn(&str) -> Result<(), String>,
) -> Result<NextEntry, GeneratedError> {
    let next = match next_boot(&surroundings.menu(new)?, surroundings.env) {
        NextBoot::Undetermined { why } => return Err(GeneratedError::Undetermined { why }),
        NextBoot::Entry(next) => *next,
    };
    let entry = next.path.join(">");
    let before = old.and_then(|old| next_entry(old, surroundings));
    if next.fell_back && before.as_ref().is_some_and(|before| !before.fell_back) {
        return Err(GeneratedError::DefaultLost { entry, chosen_by: next.chosen_by.to_string() });
    }
    if before.is_some_and(|before| has_initrd(&before)) && lacks_initrd(&next) {
        return Err(GeneratedError::InitrdLost { entry });
    }
    check_entry(next, entry, wanted)
}

/// The entry that a menu boots, where that can be said.
#[must_use]
pub fn next_entry(text: &str, surroundings: &Surroundings<'_>) -> Option<NextEntry> {
    match next_boot(&surroundings.menu(text).ok()?, surroundings.env) {
        NextBoot::Entry(entry) => Some(*entry),
        NextBoot::Undetermined { .. } => None,
    }
}

fn has_initrd(entry: &NextEntry) -> bool {
    entry.initrd.as_ref().is_some_and(|files| !files.is_empty())
}

fn lacks_initrd(entry: &NextEntry) -> bool {
    entry.initrd.as_ref().is_some_and(Vec::is_empty)
}

/// An old file that is no menu itself sets no measure for the number of entries.
fn compare(old: &str, new: &str, linux_entries: usize) -> Result<(), GeneratedError> {
    if new.len() < old.len() / 2 {
        return Err(GeneratedError::TooSmall { old: old.len(), new: new.len() });
    }
    let before = Menu::parse(old).map_or(0, |menu| menu.all_linux_entries().len());
    if linux_entries < before.div_ceil(2) {
        return Err(GeneratedError::EntriesLost { old: before, new: linux_entries });
    }
    Ok(())
}

fn check_entry(
    next: NextEntry,
    entry: String,
    wanted: impl Fn(&str) -> Result<(), String>,
) -> Result<NextEntry, GeneratedError> {
    let chosen_by = next.chosen_by.to_string();
    let Some(linux) = &next.linux else { return Err(GeneratedError::NotLinux { entry, chosen_by }) };
    let arguments = linux.arguments.clone();
    match wanted(&arguments) {
        Ok(()) => Ok(next),
        Err(reason) => Err(GeneratedError::Unwanted { entry, chosen_by, arguments, reason }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GENERATED: &str = include_str!("../../../tests/fixtures/grub-menu/bookworm-number-path/grub.cfg");

    fn check(old: Option<&str>, new: &str, word: &str) -> Result<NextEntry, GeneratedError> {
        let beside = [("custom.cfg".to_owned(), None)];
        let surroundings = Surroundings { env: &GrubEnv::Missing, beside: &beside, build: Build::Upstream };
        check_generated(old, new, &surroundings, |arguments| {
            arguments.contains(word).then_some(()).ok_or_else(|| format!("{word} is missing"))
        })
    }

    #[test]
    fn a_whole_file_with_the_wanted_words_passes() {
        let entry = check(Some(GENERATED), GENERATED, "quiet").unwrap();
        assert!(entry.path[1].contains("6.1.0-35"));
        assert!(check(None, GENERATED, "quiet").is_ok());
        assert!(check_whole(Some(GENERATED), "blscfg\n").is_ok());
        assert!(matches!(check(None, "blscfg\n", "quiet"), Err(GeneratedError::Undetermined { .. })));
    }

    #[test]
    fn case_041_an_empty_or_torn_file_is_refused() {
        assert_eq!(check(Some(GENERATED), "", "quiet"), Err(GeneratedError::NoLinux { entries: 0 }));
        let memtest = "menuentry M { linux_xen /m }\n";
        assert_eq!(check(None, memtest, "quiet"), Err(GeneratedError::NoLinux { entries: 1 }));
        let torn = check(Some(GENERATED), &GENERATED[..GENERATED.len() * 2 / 3], "quiet");
        assert!(matches!(torn, Err(GeneratedError::NotWhole(_))));
        let small = check(Some(GENERATED), "menuentry 'Linux' { linux /k quiet }", "quiet");
        assert!(matches!(small, Err(GeneratedError::TooSmall { .. })));
    }

    #[test]
    fn lost_entries_are_noticed_even_in_a_large_file() {
        let padded = format!("menuentry 'Linux' {{ linux /k quiet }}\n#{}\n", "x".repeat(GENERATED.len()));
        assert_eq!(
            check(Some(GENERATED), &padded, "quiet"),
            Err(GeneratedError::EntriesLost { old: 5, new: 1 })
        );
    }

    #[test]
    fn a_default_in_another_language_is_refused() {
        let german = include_str!("../../../tests/fixtures/grub-menu/bookworm-german/grub.cfg");
        let english = german
            .replace("submenu 'Erweiterte Optionen für", "submenu 'Advanced options for")
            .replace("GNU/Linux, mit Linux", "GNU/Linux, with Linux");
        assert!(matches!(check(Some(german), &english, "quiet"), Err(GeneratedError::DefaultLost { .. })));
        // Lost before: nothing got worse.
        assert!(check(Some(&english), &english, "quiet").unwrap().fell_back);
    }

    #[test]
    fn an_entry_that_lost_its_initrd_is_refused() {
        let without = |text: &str| -> String {
            let lines = text.lines().filter(|line| !line.trim_start().starts_with("initrd"));
            lines.map(|line| format!("{line}\n")).collect()
        };
        let bare = without(GENERATED);
        assert!(matches!(check(Some(GENERATED), &bare, "quiet"), Err(GeneratedError::InitrdLost { .. })));
        // A host whose kernels never had one.
        assert!(check(Some(&bare), &bare, "quiet").is_ok());
    }

    #[test]
    fn what_boots_without_the_wanted_words_is_refused() {
        let error = check(Some(GENERATED), GENERATED, "nothing=1").unwrap_err();
        assert!(error.to_string().contains("nothing=1 is missing"), "{error}");
        let recovery = GENERATED.replace("set default=\"1>2\"", "set default=\"1>3\"");
        assert!(matches!(check(None, &recovery, "quiet"), Err(GeneratedError::Unwanted { .. })));
        let firmware = format!("menuentry F {{ fwsetup }}\n{}", GENERATED.replace("1>2", "0"));
        assert!(matches!(check(None, &firmware, "quiet"), Err(GeneratedError::NotLinux { .. })));
    }
}
