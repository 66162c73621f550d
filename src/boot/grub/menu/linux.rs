//! The line of an entry that loads the kernel.

use serde::{Deserialize, Serialize};

use super::syntax::{Command, Word};
use super::value::Value;

/// A `linux` line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinuxLine {
    /// `linux`, `linux16` or `linuxefi`.
    pub command: String,
    /// Path of the kernel as GRUB sees it: on a separate `/boot` it has no `/boot` in front.
    pub kernel: String,
    /// The arguments as GRUB hands them to the kernel: single blanks, quotes as GRUB puts them. A variable
    /// whose value only shows on the machine stands in it as `$name`.
    pub arguments: String,
    /// The arguments byte for byte as they stand in the file.
    pub written: String,
    /// Names of the variables that stand in `arguments`.
    pub unknown_variables: Vec<String>,
}

impl LinuxLine {
    /// `None` if the line names no kernel.
    pub(super) fn of(command: &Command, expand: impl Fn(&Word) -> Vec<Value>) -> Option<Self> {
        let mut words = command.words.iter();
        let name = words.next()?.unexpanded();
        let mut values = words.flat_map(expand).peekable();
        let kernel = values.next()?;
        let values: Vec<_> = values.collect();
        let mut unknown_variables: Vec<_> = values.iter().flat_map(|value| value.unknown.clone()).collect();
        unknown_variables.sort();
        unknown_variables.dedup();
        let arguments = values.iter().map(|value| as_kernel_sees(&value.text)).collect::<Vec<_>>().join(" ");
        let written = command.tail.clone();
        Some(Self { command: name, kernel: kernel.text, arguments, written, unknown_variables })
    }
}

/// GRUB puts a word with a blank into double quotes and a backslash before each quote and backslash, except
/// where the backslash begins a `\x20`.
fn as_kernel_sees(word: &str) -> String {
    let mut seen = String::with_capacity(word.len());
    let mut rest = word;
    while let Some(character) = rest.chars().next() {
        if matches!(character, '\\' | '\'' | '"') && !begins_hexadecimal(rest) {
            seen.push('\\');
        }
        seen.push(character);
        rest = rest.get(character.len_utf8()..).unwrap_or_default();
    }
    if word.contains(' ') { format!("\"{seen}\"") } else { seen }
}

fn begins_hexadecimal(text: &str) -> bool {
    let mut characters = text.chars();
    (characters.next(), characters.next()) == (Some('\\'), Some('x'))
        && characters.by_ref().take(2).filter(char::is_ascii_hexdigit).count() == 2
}
