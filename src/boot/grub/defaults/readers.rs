//! Who reads a variable besides assignments that can be followed: a condition, a command, a computed value. What
//! they make of a changed value cannot be known, so a value that they see stays, and the drop-in filters it at the end.

use super::{SourceFile, dropin};
use crate::boot::grub::shell::{Command, Part, Simple, Word};

/// True if something that cannot be followed looks at the variable.
pub(super) fn are_there(files: &[SourceFile], name: &str) -> bool {
    let files = || files.iter().filter(|file| dropin::recognise(&file.text).is_none());
    let followed: usize = files().flat_map(|file| &file.script.commands).map(|one| followed(one, name)).sum();
    let written: usize = files().map(|file| references(&file.text, name)).sum();
    written > followed
}

fn followed(command: &Command, name: &str) -> usize {
    let Command::Simple(simple) = command else { return 0 };
    values(simple).flat_map(|word| &word.parts).filter(|part| is_reference(part, name)).count()
}

/// The words that are plain assignments.
fn values(simple: &Simple) -> impl Iterator<Item = &Word> {
    let command = simple.words.first().and_then(Word::literal);
    let declares = matches!(command.as_deref(), Some(b"export" | b"readonly"));
    let assigns = simple.words.is_empty();
    let own = simple.assignments.iter().filter(move |_| assigns);
    own.chain(simple.words.iter().filter(move |_| declares))
}

fn is_reference(part: &Part, wanted: &str) -> bool {
    matches!(part, Part::Variable { name, .. } if name == wanted)
}

/// `$NAME`, `${NAME…}` and `${#NAME}` in the text, comment lines left out.
fn references(text: &[u8], name: &str) -> usize {
    let lines = text.split(|byte| *byte == b'\n').filter(|line| !line.trim_ascii_start().starts_with(b"#"));
    lines
        .map(|line| (0..line.len()).filter(|at| refers(line.get(*at..).unwrap_or_default(), name)).count())
        .sum()
}

fn refers(text: &[u8], name: &str) -> bool {
    let Some(rest) = text.strip_prefix(b"$") else { return false };
    let rest = rest.strip_prefix(b"{").map_or(rest, |rest| rest.strip_prefix(b"#").unwrap_or(rest));
    let after = rest.strip_prefix(name.as_bytes()).map(|rest| rest.first().copied());
    after.is_some_and(|next| !next.is_some_and(|byte| byte.is_ascii_alphanumeric() || byte == b'_'))
}
