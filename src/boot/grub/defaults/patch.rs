//! Changes to files, byte by byte.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::path::PathBuf;

use super::evaluate::{LiveByte, Site, Text};
use super::{MAIN_FILE, SourceFile, dropin};
use crate::boot::FileEdit;
use crate::boot::grub::shell::Tail;
use crate::boot::grub::words::{self, ArgumentWord};

/// Changes that have not been made yet.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Patch {
    deleted: BTreeSet<(usize, usize)>,
    inserted: BTreeMap<(usize, usize), Vec<u8>>,
    /// A whole file of ours.
    pub(super) drop_in: Option<(PathBuf, Vec<u8>)>,
}

impl Patch {
    fn delete(&mut self, file: usize, span: Range<usize>) {
        self.deleted.extend(span.map(|at| (file, at)));
    }

    /// The byte is still there afterwards.
    fn keeps(&self, live: &LiveByte) -> bool {
        live.origin.as_ref().is_none_or(|origin| !self.deleted.contains(&(origin.file, origin.span.start)))
    }

    /// Takes a word out where it stands. `None` if it was put together from several places.
    pub(super) fn remove(&mut self, files: &[SourceFile], text: &Text, word: &ArgumentWord) -> Option<()> {
        let (file, span) = one_place(&text.live, &word.range)?;
        if self.deleted.contains(&(file, span.start)) {
            // Followed as another shell, or carried into another variable: it is gone, blank and all.
            return Some(());
        }
        let source = files.get(file)?.text.as_slice();
        if let Some(line) = line_of_its_own(source, &span, text, word) {
            self.delete(file, line);
            return Some(());
        }
        for live in text.live.get(word.range.clone())? {
            self.delete(file, live.origin.as_ref()?.span.clone());
        }
        self.remove_one_blank(text, word, &span);
        Some(())
    }

    /// The blank in front goes too, or the one behind if there is none: as if the word had never been added.
    fn remove_one_blank(&mut self, text: &Text, word: &ArgumentWord, span: &Range<usize>) {
        let assignment = text
            .live
            .get(word.range.start)
            .and_then(|live| live.origin.as_ref())
            .map(|origin| origin.assignment);
        let before = word.range.start.checked_sub(1).and_then(|at| text.live.get(at));
        let after = text.live.get(word.range.end);
        for live in [before, after].into_iter().flatten() {
            let Some(origin) = live.origin.as_ref() else { continue };
            let beside = origin.span.end == span.start || origin.span.start == span.end;
            // A line's end behind a backslash is no blank to GRUB: the backslash would escape what comes next instead.
            if matches!(live.byte, b' ' | b'\t')
                && beside
                && Some(origin.assignment) == assignment
                && self.keeps(live)
            {
                return self.delete(origin.file, origin.span.clone());
            }
        }
    }

    /// Makes `=1` of the value of a word, and the spelling everyone knows of its key. `None` if it was put together from several places.
    pub(super) fn make_true(&mut self, text: &Text, word: &ArgumentWord) -> Option<()> {
        let (file, _) = one_place(&text.live, &word.range)?;
        let first = text.live.get(*word.value.first()?)?.origin.as_ref()?.span.start;
        for at in &word.bare {
            let live = text.live.get(*at)?;
            let span = live.origin.as_ref()?.span.clone();
            let dash_in_key = live.byte == b'-' && !word.value.contains(at);
            if dash_in_key {
                self.inserted.insert((file, span.start), b"_".to_vec());
            }
            if dash_in_key || word.value.contains(at) {
                self.delete(file, span);
            }
        }
        self.inserted.insert((file, first), b"1".to_vec());
        Some(())
    }

    /// Adds a word at the end of the assignment that gave a value.
    pub(super) fn append(&mut self, text: &Text, addition: &str) {
        let Site { file, word, value_start, tail, plain } = &text.site;
        let last = text.live.iter().rev().find(|live| self.keeps(live));
        let blank = if last.is_none_or(|live| words::is_blank(live.byte)) { "" } else { " " };
        let (at, added) = match tail {
            Tail::Single(quote) | Tail::Double(quote) => (*quote, format!("{blank}{addition}")),
            Tail::Plain if *plain => {
                self.inserted.entry((*file, *value_start)).or_default().insert(0, b'"');
                (word.end, format!("{blank}{addition}\""))
            }
            Tail::Plain => (word.end, format!("\"{blank}{addition}\"")),
        };
        self.inserted.entry((*file, at)).or_default().extend(added.bytes());
    }

    /// Adds an assignment at the end of the main file. `None` if there is no such file.
    pub(super) fn add_line(&mut self, files: &[SourceFile], line: &str) -> Option<()> {
        let (index, file) = files.iter().enumerate().find(|(_, file)| file.path.as_os_str() == MAIN_FILE)?;
        let newline = if file.text.is_empty() || file.text.ends_with(b"\n") { "" } else { "\n" };
        self.inserted.insert((index, file.text.len()), format!("{newline}{line}\n").into_bytes());
        Some(())
    }

    /// Adds our drop-in. `None` if no name for it would be read last.
    pub(super) fn add_drop_in(&mut self, files: &[SourceFile], ours: dropin::Ours) -> Option<()> {
        self.drop_in = Some((dropin::free_path(files)?, dropin::content(ours)));
        Some(())
    }

    /// The files that change.
    pub(super) fn edits(&self, files: &[SourceFile]) -> Vec<FileEdit> {
        let mut edits = Vec::new();
        for (index, file) in files.iter().enumerate() {
            let after = self.changed(index, &file.text);
            let is_drop_in = self.drop_in.as_ref().is_some_and(|(path, _)| *path == file.path);
            if after != file.text && !is_drop_in {
                edits.push(FileEdit { path: file.path.clone(), before: Some(file.text.clone()), after });
            }
        }
        edits.extend(self.drop_in_edit(files));
        edits
    }

    fn drop_in_edit(&self, files: &[SourceFile]) -> Option<FileEdit> {
        let (path, after) = self.drop_in.clone()?;
        let before = files.iter().find(|file| file.path == path).map(|file| file.text.clone());
        (before.as_ref() != Some(&after)).then_some(FileEdit { path, before, after })
    }

    fn changed(&self, index: usize, text: &[u8]) -> Vec<u8> {
        let mut after = Vec::with_capacity(text.len() + 64);
        for (at, byte) in text.iter().enumerate() {
            after.extend(self.inserted.get(&(index, at)).into_iter().flatten());
            if !self.deleted.contains(&(index, at)) {
                after.push(*byte);
            }
        }
        after.extend(self.inserted.get(&(index, text.len())).into_iter().flatten());
        after
    }
}

/// The bytes of the file from the first to the last byte of a word, if all come from one assignment.
fn one_place(live: &[LiveByte], range: &Range<usize>) -> Option<(usize, Range<usize>)> {
    let origins: Option<Vec<_>> = live.get(range.clone())?.iter().map(|live| live.origin.as_ref()).collect();
    let origins = origins?;
    let (first, last) = (*origins.first()?, *origins.last()?);
    let together =
        origins.iter().all(|origin| (origin.file, origin.assignment) == (first.file, first.assignment));
    let in_order =
        origins.iter().zip(origins.iter().skip(1)).all(|(one, next)| one.span.end <= next.span.start);
    (together && in_order).then_some((first.file, first.span.start..last.span.end))
}

/// The whole line, if the word stands alone on a line that a backslash continues: no empty line is left.
fn line_of_its_own(
    source: &[u8],
    span: &Range<usize>,
    text: &Text,
    word: &ArgumentWord,
) -> Option<Range<usize>> {
    let blank = |byte: &&u8| matches!(**byte, b' ' | b'\t');
    let indent = source.get(..span.start)?.iter().rev().take_while(blank).count();
    let behind = source.get(span.end..)?.iter().take_while(blank).count();
    let start = span.start - indent;
    let end = span.end + behind;
    let continued = source.get(..start)?.ends_with(b"\n") && source.get(end..)?.starts_with(b"\\\n");
    let before = word.range.start.checked_sub(1).and_then(|at| text.live.get(at));
    let parted = before.is_none_or(|live| words::is_blank(live.byte));
    (continued && parted).then_some(start..end + 2)
}
