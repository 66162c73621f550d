//! Where words begin and end, for systemd and for the kernel.

use std::ops::Range;

/// systemd's `WHITESPACE`.
pub(super) const BLANKS: [char; 4] = [' ', '\t', '\n', '\r'];
/// The kernel's `isspace()`, but for the no-break space of Latin-1, which in UTF-8 is half of a letter.
const KERNEL_BLANKS: [char; 6] = [' ', '\t', '\n', '\r', '\u{b}', '\u{c}'];

/// A word as systemd hands it to its own code.
pub(super) struct Word {
    /// Where it stands, quotes included.
    pub(super) span: Range<usize>,
    /// Without quotes.
    pub(super) text: String,
    /// A quote in it never closes: whatever is put behind it becomes part of it.
    pub(super) is_open: bool,
}

/// systemd's reading: `extract_first_word()` with `UNQUOTE|RELAX|RETAIN_ESCAPE`, as `proc_cmdline` calls it
/// (v252 src/basic/extract-word.c, src/basic/proc-cmdline.c). `#`, `\` and `--` mean nothing to it.
pub(super) fn systemd(line: &str) -> Vec<Word> {
    let mut words: Vec<Word> = Vec::new();
    let mut current: Option<Word> = None;
    let mut quote = None;
    for (at, letter) in line.char_indices() {
        if quote.is_none() && BLANKS.contains(&letter) {
            words.extend(current.take());
            continue;
        }
        let word = current.get_or_insert(Word { span: at..at, text: String::new(), is_open: false });
        word.span.end = at + letter.len_utf8();
        match quote {
            Some(open) if open == letter => quote = None,
            None if letter == '"' || letter == '\'' => quote = Some(letter),
            Some(_) | None => word.text.push(letter),
        }
        word.is_open = quote.is_some();
    }
    words.extend(current);
    words
}

/// The kernel's words: `next_arg()` (linux lib/cmdline.c); each `"` opens or closes, wherever it stands.
/// The flag says that the last one never closes.
pub(super) fn kernel(line: &str) -> (Vec<Range<usize>>, bool) {
    let mut words: Vec<Range<usize>> = Vec::new();
    let mut start = None;
    let mut quoted = false;
    for (at, letter) in line.char_indices() {
        if !quoted && KERNEL_BLANKS.contains(&letter) {
            words.extend(start.take().map(|from| from..at));
            continue;
        }
        start.get_or_insert(at);
        quoted ^= letter == '"';
    }
    words.extend(start.map(|from| from..line.len()));
    (words, quoted)
}

/// Where the `--` stands at which the kernel stops reading for itself.
pub(super) fn double_dash(line: &str) -> Option<usize> {
    let is_double_dash = |span: &Range<usize>| matches!(line.get(span.clone()), Some("--" | "\"--\""));
    kernel(line).0.into_iter().find(is_double_dash).map(|span| span.start)
}
