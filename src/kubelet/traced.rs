//! Text that knows which bytes of its file it stands in: after quotes, escapes and continued lines are gone, an edit
//! must still hit the right ones.

use std::ops::Range;

/// A letter and the bytes that say it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Letter {
    /// What it means.
    pub letter: char,
    /// First byte.
    pub start: usize,
    /// After the last byte.
    pub end: usize,
}

/// A text and where it stands.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Traced {
    letters: Vec<Letter>,
    /// Where it would go on.
    end: usize,
}

impl Traced {
    /// An empty text at this byte.
    #[must_use]
    pub fn at(start: usize) -> Self {
        Self { letters: Vec::new(), end: start }
    }

    /// A piece of a file that means what it says.
    #[must_use]
    pub fn literal(text: &str, start: usize) -> Self {
        let mut traced = Self::at(start);
        for (offset, letter) in text.char_indices() {
            traced.push(letter, start + offset, start + offset + letter.len_utf8());
        }
        traced
    }

    /// Adds a letter said by these bytes.
    pub fn push(&mut self, letter: char, start: usize, end: usize) {
        self.letters.push(Letter { letter, start, end });
        self.end = end;
    }

    /// Takes blanks away at the end.
    pub fn trim_end(&mut self) {
        while self.letters.last().is_some_and(|last| last.letter.is_whitespace()) {
            self.letters.pop();
        }
        self.end = self.letters.last().map_or(self.end, |last| last.end);
    }

    /// What it says.
    #[must_use]
    pub fn text(&self) -> String {
        self.letters.iter().map(|letter| letter.letter).collect()
    }

    /// True if there is nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.letters.is_empty()
    }

    /// The bytes it stands in; an empty range where it would begin if it is empty.
    #[must_use]
    pub fn range(&self) -> Range<usize> {
        self.letters.first().map_or(self.end, |first| first.start)..self.end
    }

    /// What stands after these words, if it begins with them.
    #[must_use]
    pub fn strip_prefix(&self, prefix: &str) -> Option<Self> {
        let count = prefix.chars().count();
        let begins = self.letters.iter().map(|letter| letter.letter).take(count).eq(prefix.chars());
        begins.then(|| self.after(count))
    }

    /// Both sides of the first such letter.
    #[must_use]
    pub fn split_once(&self, at: char) -> Option<(Self, Self)> {
        let index = self.letters.iter().position(|letter| letter.letter == at)?;
        let before: Vec<Letter> = self.letters.iter().take(index).copied().collect();
        let end = before.last().map_or(self.range().start, |last| last.end);
        Some((Self { letters: before, end }, self.after(index + 1)))
    }

    fn after(&self, count: usize) -> Self {
        Self { letters: self.letters.iter().skip(count).copied().collect(), end: self.end }
    }

    /// Its words, as systemd splits them: at blanks outside of quotes, quotes and backslashes taken away.
    #[must_use]
    pub fn words(&self) -> Vec<Self> {
        let mut splitter = Splitter::default();
        for letter in &self.letters {
            splitter.take(*letter);
        }
        splitter.finish()
    }
}

#[derive(Default)]
struct Splitter {
    words: Vec<Traced>,
    word: Option<Traced>,
    quote: Option<char>,
    escape: Option<usize>,
}

impl Splitter {
    fn take(&mut self, letter: Letter) {
        if let Some(start) = self.escape.take() {
            return self.append(letter.letter, start, letter.end);
        }
        match (letter.letter, self.quote) {
            ('\\', None | Some('"')) => self.escape = Some(letter.start),
            (mark, Some(quote)) if mark == quote => self.close(letter.end),
            (mark @ ('"' | '\''), None) => {
                self.quote = Some(mark);
                self.word.get_or_insert_with(|| Traced::at(letter.end));
            }
            (blank, None) if blank.is_whitespace() => self.words.extend(self.word.take()),
            (plain, _) => self.append(plain, letter.start, letter.end),
        }
    }

    fn close(&mut self, end: usize) {
        self.quote = None;
        // An empty word in quotes is one, too.
        self.word.get_or_insert_with(|| Traced::at(end));
    }

    fn append(&mut self, letter: char, start: usize, end: usize) {
        self.word.get_or_insert_with(|| Traced::at(start)).push(letter, start, end);
    }

    fn finish(mut self) -> Vec<Traced> {
        self.words.extend(self.word);
        self.words
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<(String, &str)> {
        let words = Traced::literal(text, 0).words();
        words.into_iter().map(|word| (word.text(), text.get(word.range()).unwrap())).collect()
    }

    #[test]
    fn words_know_where_they_stand() {
        assert_eq!(
            words(r#"a  "b c"'d' e\ f "" "g"#),
            [
                ("a".to_owned(), "a"),
                ("b cd".to_owned(), "b c\"'d"),
                ("e f".to_owned(), r"e\ f"),
                (String::new(), ""),
                ("g".to_owned(), "g")
            ]
        );
        assert!(words("  ").is_empty());
    }

    #[test]
    fn sides_of_a_sign() {
        let (name, value) = Traced::literal("--x=", 3).split_once('=').unwrap();
        assert_eq!((name.text().as_str(), value.range()), ("--x", 7..7));
        assert_eq!(name.strip_prefix("--").unwrap().range(), 5..6);
    }
}
