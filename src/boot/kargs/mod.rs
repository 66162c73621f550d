//! Kernel arguments: a line taken apart and edited without losing a byte.
//!
//! Two readers look at the same line and do not agree on its words:
//! - **systemd** takes away single and double quotes wherever they stand, keeps backslashes, lets a quote
//!   that never closes run to the end, and does not know `--`. All its switches are read that way, so this is
//!   the reading that [`Kargs`] gives and that words are found and removed by.
//! - **the kernel** knows double quotes only, and hands everything after `--` to init. It matters for where
//!   a new word may be put: see [`append`].
//!
//! A third reader, GRUB's own, cuts values of shell variables: `boot::grub::words`. What a word *means* is the same
//! for all of them: [`Meaning`].

mod edit;
mod meaning;
mod words;

use std::ops::Range;

pub use edit::{UNIFIED_ON, append, is_v1_pin, set_unified_in_place, strip_v1_pins, unify};
pub use meaning::{Meaning, ask_for_unified};

/// systemd's switch between unified and v1, up to and including version 257.
pub const UNIFIED: &str = "systemd.unified_cgroup_hierarchy";
/// systemd's switch between hybrid and legacy, where it is not unified.
pub const LEGACY_CONTROLLER: &str = "systemd.legacy_systemd_cgroup_controller";
/// Without it systemd 256 refuses to run on v1 and 257 goes to v2. It looks like an environment variable, but
/// systemd reads it with the same reader as the others (`proc_cmdline_get_bool`, v257 src/shared/cgroup-setup.c).
pub const LEGACY_FORCE: &str = "SYSTEMD_CGROUP_ENABLE_LEGACY_FORCE";

/// One word of the line, as systemd reads it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Arg<'a> {
    /// Where it stands, in bytes, quotes included.
    pub span: Range<usize>,
    /// As written.
    pub raw: &'a str,
    /// What stands before the first `=`, without quotes; the whole word if there is none.
    pub key: String,
    /// What stands after the first `=`, without quotes.
    pub value: Option<String>,
    /// It stands after the `--` that ends the kernel's own arguments: the kernel hands it to init, systemd
    /// still reads it.
    pub after_double_dash: bool,
}

impl Arg<'_> {
    /// True if this word sets `name`; `-` and `_` are the same in names, upper and lower case are not.
    #[must_use]
    pub fn is(&self, name: &str) -> bool {
        same_name(&self.key, name)
    }

    /// What this word means for the cgroup hierarchy.
    #[must_use]
    pub fn meaning(&self) -> Meaning {
        Meaning::of(&self.key, self.value.as_deref())
    }
}

fn same_name(left: &str, right: &str) -> bool {
    left.len() == right.len()
        && left.bytes().zip(right.bytes()).all(|(left, right)| dashed(left) == dashed(right))
}

fn dashed(byte: u8) -> u8 {
    if byte == b'_' { b'-' } else { byte }
}

/// What all words of one name amount to for systemd.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Switch<'a> {
    /// Not on the line.
    Absent,
    /// On or off, and the word that decided.
    Is(bool, &'a Arg<'a>),
    /// The word that decided has a value that is no boolean: systemd goes on as if there were none.
    Unreadable(&'a Arg<'a>),
}

/// A line and its words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kargs<'a> {
    line: &'a str,
    args: Vec<Arg<'a>>,
}

impl<'a> Kargs<'a> {
    /// Takes a line apart. Every text is a line: there is nothing that cannot be read.
    #[must_use]
    pub fn parse(line: &'a str) -> Self {
        let kernel_ends = words::double_dash(line);
        let args = words::systemd(line)
            .into_iter()
            .map(|word| {
                let (key, value) = match word.text.split_once('=') {
                    Some((key, value)) => (key.to_owned(), Some(value.to_owned())),
                    None => (word.text, None),
                };
                let after_double_dash = kernel_ends.is_some_and(|end| word.span.start > end);
                let raw = line.get(word.span.clone()).unwrap_or_default();
                Arg { span: word.span, raw, key, value, after_double_dash }
            })
            .collect();
        Self { line, args }
    }

    /// The words in order.
    pub fn iter(&self) -> std::slice::Iter<'_, Arg<'a>> {
        self.args.iter()
    }

    /// All words that set `name`, in order.
    pub fn named<'k>(&'k self, name: &'k str) -> impl DoubleEndedIterator<Item = &'k Arg<'a>> {
        self.args.iter().filter(move |arg| arg.is(name))
    }

    /// The value of `name`: the last `name=value` wins. A word without `=` gives none.
    #[must_use]
    pub fn value(&self, name: &str) -> Option<&str> {
        self.args.iter().rev().filter(|arg| arg.is(name)).find_map(|arg| arg.value.as_deref())
    }

    /// What `name` amounts to as a boolean (systemd 233 and later): the last `name=value` wins; a bare `name`
    /// means yes, but only where no `name=value` stands anywhere.
    #[must_use]
    pub fn switch<'k>(&'k self, name: &'k str) -> Switch<'k> {
        let named = self.args.iter().filter(|arg| arg.is(name));
        let Some(arg) = meaning::deciding(named, |arg| arg.value.is_some()) else { return Switch::Absent };
        match arg.value.as_deref().map(boolean) {
            None => Switch::Is(true, arg),
            Some(Some(on)) => Switch::Is(on, arg),
            Some(None) => Switch::Unreadable(arg),
        }
    }

    /// The line without the words that `unwanted` picks. Each goes with one run of blanks, the one before it
    /// (after it for the first word), so that nothing is glued together and [`append`] is undone exactly.
    #[must_use]
    pub fn remove(&self, unwanted: impl Fn(&Arg<'_>) -> bool) -> String {
        let mut text = self.line.to_owned();
        for arg in self.args.iter().rev().filter(|arg| unwanted(arg)) {
            text.replace_range(edit::with_one_gap(&text, &arg.span), "");
        }
        text
    }

    /// The line with another word in place of the one at `span`.
    #[must_use]
    pub fn replace(&self, span: &Range<usize>, word: &str) -> String {
        let before = self.line.get(..span.start).unwrap_or_default();
        let after = self.line.get(span.end..).unwrap_or_default();
        format!("{before}{word}{after}")
    }
}

impl<'k, 'a> IntoIterator for &'k Kargs<'a> {
    type Item = &'k Arg<'a>;
    type IntoIter = std::slice::Iter<'k, Arg<'a>>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

/// systemd's booleans (`parse_boolean`, v252 src/basic/parse-util.c), any case; blanks do not belong.
#[must_use]
pub fn boolean(text: &str) -> Option<bool> {
    match text.to_ascii_lowercase().as_str() {
        "1" | "yes" | "y" | "true" | "t" | "on" => Some(true),
        "0" | "no" | "n" | "false" | "f" | "off" => Some(false),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
