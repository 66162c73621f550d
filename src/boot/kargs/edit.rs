//! Edits: every byte that is not meant stays as it is.

use std::ops::Range;

use super::words::{self, BLANKS};
use super::{Arg, Kargs, Meaning, Switch, UNIFIED};

/// The word that asks for v2.
pub const UNIFIED_ON: &str = "systemd.unified_cgroup_hierarchy=1";

/// As [`Meaning::is_pin`].
#[must_use]
pub fn is_v1_pin(arg: &Arg<'_>) -> bool {
    arg.meaning().is_pin()
}

/// The line without its pins.
#[must_use]
pub fn strip_v1_pins(line: &str) -> String {
    Kargs::parse(line).remove(is_v1_pin)
}

/// The line with the first `systemd.unified_cgroup_hierarchy=0` turned into `=1` where it stands, and without
/// the other pins; `None` if there is no such word.
#[must_use]
pub fn set_unified_in_place(line: &str) -> Option<String> {
    let kargs = Kargs::parse(line);
    let pin = kargs.iter().find(|arg| arg.meaning() == Meaning::UnifiedFalse)?;
    Some(strip_v1_pins(&kargs.replace(&pin.span, UNIFIED_ON)))
}

/// The smallest edit of one line after which systemd decides for v2: pins go; where systemd's built-in default
/// is not v2, `=1` takes the place of the first pin, or is added if there was none to replace.
///
/// One kind of line cannot be brought there without touching a word that is no pin: one that ends in a value
/// that systemd cannot read *and* in a quote that never closes. It comes back without its pins only.
#[must_use]
pub fn unify(line: &str, default_is_unified: bool) -> String {
    let stripped = strip_v1_pins(line);
    if default_is_unified || asks_for_unified(&stripped) {
        return stripped;
    }
    // A value that systemd cannot read wins over ours if it stands further back: then ours must come last, even
    // behind a `--`, where systemd still looks and where init ignores it.
    let in_place = set_unified_in_place(line);
    let added = [append(&stripped, UNIFIED_ON), append_last(&stripped, UNIFIED_ON)];
    in_place.into_iter().chain(added).find(|edited| asks_for_unified(edited)).unwrap_or(stripped)
}

fn asks_for_unified(line: &str) -> bool {
    matches!(Kargs::parse(line).switch(UNIFIED), Switch::Is(true, _))
}

/// The line with one more word, as far back as it counts for the kernel: before a `--` (init would get it as an
/// argument of its own otherwise) and before a word whose quote never closes (which would swallow it).
#[must_use]
pub fn append(line: &str, word: &str) -> String {
    insert(line, word, words::double_dash(line))
}

fn append_last(line: &str, word: &str) -> String {
    insert(line, word, None)
}

fn insert(line: &str, word: &str, limit: Option<usize>) -> String {
    let next_word = match limit {
        None if ends_between_words(line) => line.len(),
        limit => last_common_start(line, limit.unwrap_or(line.len())),
    };
    let (before, rest) = line.split_at_checked(next_word).unwrap_or((line, ""));
    let kept = before.trim_end_matches(BLANKS);
    let gap = before.get(kept.len()..).unwrap_or_default();
    // The new word goes in front of the blanks that are there, with a blank of its own: taking both away again
    // leaves the old bytes.
    match (kept.is_empty() && gap.is_empty(), rest.is_empty()) {
        (true, true) => word.to_owned(),
        (true, false) if rest.starts_with(BLANKS) => format!(" {word}{rest}"),
        (true, false) => format!("{word} {rest}"),
        (false, _) => format!("{kept} {word}{gap}{rest}"),
    }
}

fn ends_between_words(line: &str) -> bool {
    let (_, kernel_is_open) = words::kernel(line);
    !kernel_is_open && !words::systemd(line).last().is_some_and(|word| word.is_open)
}

/// The last place up to `limit` where a word begins for systemd and for the kernel alike.
fn last_common_start(line: &str, limit: usize) -> usize {
    let (kernel, _) = words::kernel(line);
    let is_common = |start: &usize| kernel.iter().any(|span| span.start == *start);
    let starts = words::systemd(line).into_iter().map(|word| word.span.start);
    starts.filter(|start| *start <= limit).rfind(is_common).unwrap_or(0)
}

/// The bytes to take away with a word: the blanks before it, or those after it where it stands first.
pub(super) fn with_one_gap(text: &str, span: &Range<usize>) -> Range<usize> {
    let before = text.get(..span.start).unwrap_or_default();
    let after = text.get(span.end..).unwrap_or_default();
    if span.start > 0 {
        return before.trim_end_matches(BLANKS).len()..span.end;
    }
    0..text.len() - after.trim_start_matches(BLANKS).len()
}
