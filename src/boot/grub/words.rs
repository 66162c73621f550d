//! Kernel arguments inside a shell variable: words as GRUB's own script reader cuts them.
//!
//! What a word means is the same as on a kernel line and comes from [`crate::boot::kargs`]. How words are cut is
//! not. `grub-mkconfig` copies the value into a script, and GRUB reads that before the kernel and systemd see
//! anything: a backslash escapes the next byte and is gone (systemd keeps backslashes), single quotes count (the
//! kernel knows none). And a shell value need not be UTF-8, and each byte must be found again in its file: so
//! words are made of places here, not of text.

use std::ops::Range;

use crate::boot::kargs::Meaning;

/// One word of a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ArgumentWord {
    /// Where it stands in the value, quotes included.
    pub(super) range: Range<usize>,
    /// Places of the bytes that are left when quotes and backslashes are gone.
    pub(super) bare: Vec<usize>,
    /// Its meaning.
    pub(super) meaning: Meaning,
    /// Places of the bytes after the `=`, quotes left out.
    pub(super) value: Vec<usize>,
}

pub(super) fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r')
}

/// A backslash at the end of a line, which in single quotes of the shell stays in the value: GRUB takes both away.
fn joins_lines(value: &[u8], at: usize) -> bool {
    value.get(at..).is_some_and(|rest| rest.starts_with(b"\\\n"))
}

/// Cuts a value into words. A quote that is never closed reaches to the end.
pub(super) fn words(value: &[u8]) -> Vec<ArgumentWord> {
    let mut found = Vec::new();
    let mut at = 0;
    while at < value.len() {
        match value.get(at) {
            Some(byte) if is_blank(*byte) => at += 1,
            Some(_) if joins_lines(value, at) => at += 2,
            Some(_) | None => {
                let word = one_word(value, at);
                at = word.range.end;
                found.push(word);
            }
        }
    }
    found
}

fn one_word(value: &[u8], start: usize) -> ArgumentWord {
    let mut bare = Vec::new();
    let mut quote = None;
    let mut at = start;
    while let Some(byte) = value.get(at).copied() {
        match (quote, byte) {
            (None, byte) if is_blank(byte) => break,
            (None, b'"' | b'\'') => quote = Some(byte),
            (Some(open), byte) if open == byte => quote = None,
            (None | Some(b'"'), b'\\') if joins_lines(value, at) => at += 1,
            (None | Some(b'"'), b'\\') if at + 1 < value.len() => {
                at += 1;
                bare.push(at);
            }
            (_, _) => bare.push(at),
        }
        at += 1;
    }
    judged(value, start..at, bare)
}

fn judged(value: &[u8], range: Range<usize>, bare: Vec<usize>) -> ArgumentWord {
    let text: Vec<u8> = bare.iter().filter_map(|at| value.get(*at).copied()).collect();
    let (key, argument) = match text.iter().position(|byte| *byte == b'=') {
        Some(equals) => (text.get(..equals), text.get(equals + 1..)),
        None => (Some(text.as_slice()), None),
    };
    // Every name and value that means something is ASCII, so what is lost of other bytes does not count.
    let key = String::from_utf8_lossy(key.unwrap_or_default());
    let meaning = Meaning::of(&key, argument.map(String::from_utf8_lossy).as_deref());
    let first_of_value = bare.len() - argument.map_or(0, <[u8]>::len);
    let value = bare.get(first_of_value..).unwrap_or_default().to_vec();
    ArgumentWord { range, bare, meaning, value }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn meanings(value: &str) -> Vec<Meaning> {
        words(value.as_bytes()).iter().map(|word| word.meaning).collect()
    }

    #[test]
    fn pins_are_recognised_in_every_spelling() {
        for word in [
            "systemd.unified_cgroup_hierarchy=0",
            "systemd.unified-cgroup-hierarchy=OFF",
            "\"systemd.unified_cgroup_hierarchy=0\"",
            "systemd.unified_cgroup_hierarchy='no'",
            "systemd.legacy_systemd_cgroup_controller",
            "systemd.legacy_systemd_cgroup_controller=0",
            "SYSTEMD_CGROUP_ENABLE_LEGACY_FORCE=1",
        ] {
            assert!(meanings(word).iter().all(|meaning| meaning.is_pin()), "{word}");
        }
    }

    #[test]
    fn what_only_looks_like_a_pin_is_none() {
        for word in [
            "xsystemd.unified_cgroup_hierarchy=0",
            "rd.systemd.unified_cgroup_hierarchy=0",
            "dyndbg=\"a systemd.unified_cgroup_hierarchy=0 b\"",
            "systemd.unified_cgroup_hierarchy=2",
            "systemd.unified_cgroup_hierarchy=",
            "Systemd.unified_cgroup_hierarchy=0",
        ] {
            assert!(!meanings(word).iter().any(|meaning| meaning.is_pin()), "{word}");
        }
    }

    #[test]
    fn words_are_cut_as_grub_cuts_them() {
        let pin = "systemd.unified_cgroup_hierarchy=0";
        for one_word in [format!("a\\ {pin}"), format!("'a {pin}'"), format!("a\"\\\" {pin}")] {
            assert_eq!(meanings(&one_word), [Meaning::Foreign], "{one_word}");
        }
        assert_eq!(meanings("systemd.unified_cgroup\\_hierarchy=0"), [Meaning::UnifiedFalse]);
        for lines in
            [format!("a \\\n{pin}"), format!("a\n\\\n{pin} \\\n"), format!("a {}", pin.replace(".", ".\\\n"))]
        {
            assert_eq!(meanings(&lines), [Meaning::Foreign, Meaning::UnifiedFalse], "{lines}");
        }
        assert_eq!(words(b"\xff systemd.unified_cgroup_hierarchy=0").len(), 2);
    }
}
