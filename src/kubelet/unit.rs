//! systemd's unit files: sections and assignments, with the bytes they stand in.

use super::traced::Traced;

/// One assignment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Directive {
    /// `Service`.
    pub section: String,
    /// `ExecStart`.
    pub key: String,
    /// All that stands behind the `=`, continued lines joined by a blank.
    pub value: Traced,
}

/// Every assignment of a unit file, in order.
#[must_use]
pub fn directives(text: &str) -> Vec<Directive> {
    let mut reader = Reader::default();
    let mut start = 0;
    for line in text.split_inclusive('\n') {
        reader.take(line.trim_end_matches(['\n', '\r']), start);
        start += line.len();
    }
    reader.finish()
}

#[derive(Default)]
struct Reader {
    section: String,
    found: Vec<Directive>,
    /// The line before this one went on here.
    open: Option<Directive>,
}

impl Reader {
    fn take(&mut self, line: &str, start: usize) {
        let trimmed = line.trim_start();
        // A comment within continued lines is left out, and they go on.
        if trimmed.starts_with(['#', ';']) {
            return;
        }
        if let Some(mut directive) = self.open.take() {
            self.extend(&mut directive.value, line, start);
            return self.put(directive, line);
        }
        if let Some(section) = trimmed.trim_end().strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            section.clone_into(&mut self.section);
        } else if let Some((key, value)) = line.split_once('=') {
            self.begin(key, value, start + line.len() - value.len(), line);
        }
    }

    fn begin(&mut self, key: &str, value: &str, start: usize, line: &str) {
        let blanks = value.len() - value.trim_start().len();
        let mut traced = Traced::at(start + blanks);
        self.extend(&mut traced, value.trim_start(), start + blanks);
        let directive =
            Directive { section: self.section.clone(), key: key.trim().to_owned(), value: traced };
        self.put(directive, line);
    }

    fn extend(&self, value: &mut Traced, piece: &str, start: usize) {
        let goes_on = piece.strip_suffix('\\');
        for (offset, letter) in goes_on.unwrap_or(piece).char_indices() {
            value.push(letter, start + offset, start + offset + letter.len_utf8());
        }
        if let Some(before) = goes_on {
            value.push(' ', start + before.len(), start + piece.len());
        }
    }

    fn put(&mut self, mut directive: Directive, line: &str) {
        if line.ends_with('\\') {
            self.open = Some(directive);
        } else {
            directive.value.trim_end();
            self.found.push(directive);
        }
    }

    fn finish(mut self) -> Vec<Directive> {
        self.found.extend(self.open);
        self.found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn continued_lines_and_comments_in_them() {
        let text =
            "[Unit]\nAfter=a\n[Service]\r\n# x=y\nExecStart=/k \\\n  # no\n  --a \\\n--b  \nExecStart=\n";
        let found: Vec<_> = directives(text)
            .into_iter()
            .map(|found| format!("{}.{}={}", found.section, found.key, found.value.text()))
            .collect();
        assert_eq!(found, ["Unit.After=a", "Service.ExecStart=/k    --a  --b", "Service.ExecStart="]);
    }

    #[test]
    fn words_stand_where_the_file_says_them() {
        let text = "[Service]\nEnvironment=\"A=--x=false\"\n";
        let word = directives(text).first().unwrap().value.words().first().unwrap().clone();
        let (_, value) = word.split_once('=').unwrap();
        assert_eq!(text.get(value.range()), Some("--x=false"));
    }
}
