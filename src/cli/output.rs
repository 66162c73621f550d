//! Writing to standard output and standard error.

use std::io::{self, Write};

use anyhow::Context as _;
use serde::Serialize;

/// Writes text to standard output. That nobody reads on (`| head`) is no error.
///
/// # Errors
/// If it cannot be written for another reason (a full disk).
pub(super) fn print(text: &str) -> anyhow::Result<()> {
    let text = visible(text);
    let mut stdout = io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(error).context("write to standard output")
        }
        Ok(()) | Err(_) => Ok(()),
    }
}

/// Control characters of a file or of a pasted line are shown, not sent to the terminal.
pub(super) fn visible(text: &str) -> String {
    let is_shown = |character: char| character.is_control() && !matches!(character, '\n' | '\t');
    text.chars().fold(String::with_capacity(text.len()), |mut shown, character| {
        if is_shown(character) {
            shown.extend(character.escape_default())
        } else {
            shown.push(character)
        }
        shown
    })
}

/// Writes a value as JSON to standard output.
///
/// # Errors
/// As [`print`].
pub(super) fn print_json(value: &impl Serialize) -> anyhow::Result<()> {
    let mut text = serde_json::to_string_pretty(value)?;
    text.push('\n');
    print(&text)
}

/// Writes a line to standard error: progress, questions.
pub(super) fn tell(text: &str) {
    let _ = writeln!(io::stderr().lock(), "{}", visible(text));
}

/// Writes an error as one chain, once.
pub fn print_error(error: &anyhow::Error) {
    tell(&format!("error: {error:#}"));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_do_not_reach_the_terminal() {
        assert_eq!(visible("a\u{1b}[31m\r\n\tü"), "a\\u{1b}[31m\\r\n\tü");
    }
}
