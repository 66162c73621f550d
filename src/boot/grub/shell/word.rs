//! Words: quotes, backslashes, and what ends them.

use super::{Part, Quote, Reader, Stop, Tail, Word};

/// True if the byte ends an unquoted word.
pub(super) fn ends_word(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b';' | b'&' | b'|' | b'<' | b'>' | b'(' | b')')
}

impl Reader<'_> {
    /// Goes past blanks, continued lines and a comment.
    pub(super) fn skip_blanks(&mut self) {
        loop {
            match self.peek() {
                Some(b' ' | b'\t') => self.at += 1,
                Some(b'\\') if self.starts_with(b"\\\n") => self.at += 2,
                Some(b'#') => return self.skip_comment(),
                Some(_) | None => return,
            }
        }
    }

    fn skip_comment(&mut self) {
        // A backslash at the end of a comment does not continue it.
        while self.peek().is_some_and(|byte| byte != b'\n') {
            self.at += 1;
        }
    }

    /// The word that begins here, or `None` if none does.
    pub(super) fn word(&mut self) -> Result<Option<Word>, Stop> {
        let start = self.at;
        let mut parts = Vec::new();
        let mut tail = Tail::Plain;
        while let Some(byte) = self.peek().filter(|byte| !ends_word(*byte)) {
            tail = self.word_piece(byte, &mut parts)?;
        }
        if self.at == start {
            return Ok(None);
        }
        Ok(Some(Word { span: start..self.at, parts, tail }))
    }

    fn word_piece(&mut self, byte: u8, parts: &mut Vec<Part>) -> Result<Tail, Stop> {
        match byte {
            b'\\' => self.backslash(parts),
            b'\'' => return self.single_quoted(parts),
            b'"' => return self.double_quoted(parts),
            b'$' => self.dollar(false, parts)?,
            b'`' => self.backticks(parts)?,
            byte => self.take(byte, 1, Quote::Plain, parts),
        }
        Ok(Tail::Plain)
    }

    /// Takes `length` bytes of the file as one byte of text.
    pub(super) fn take(&mut self, byte: u8, length: usize, quote: Quote, parts: &mut Vec<Part>) {
        parts.push(Part::Byte { byte, span: self.at..self.at + length, quote });
        self.at += length;
    }

    fn backslash(&mut self, parts: &mut Vec<Part>) {
        match self.text.get(self.at + 1) {
            Some(b'\n') => self.at += 2,
            Some(byte) => self.take(*byte, 2, Quote::Escaped, parts),
            // At the very end of the file it stands for itself.
            None => self.take(b'\\', 1, Quote::Escaped, parts),
        }
    }

    pub(super) fn single_quoted(&mut self, parts: &mut Vec<Part>) -> Result<Tail, Stop> {
        let open = self.at;
        self.at += 1;
        loop {
            match self.peek() {
                Some(b'\'') => break,
                Some(byte) => self.take(byte, 1, Quote::Single, parts),
                None => return Stop::syntax(open, "a single quote that is never closed"),
            }
        }
        self.at += 1;
        Ok(Tail::Single(self.at - 1))
    }

    pub(super) fn double_quoted(&mut self, parts: &mut Vec<Part>) -> Result<Tail, Stop> {
        let open = self.at;
        self.at += 1;
        loop {
            match self.peek() {
                Some(b'"') => break,
                Some(b'\\') => self.backslash_in_quotes(parts),
                Some(b'$') => self.dollar(true, parts)?,
                Some(b'`') => self.backticks(parts)?,
                Some(byte) => self.take(byte, 1, Quote::Double, parts),
                None => return Stop::syntax(open, "a double quote that is never closed"),
            }
        }
        self.at += 1;
        Ok(Tail::Double(self.at - 1))
    }

    fn backslash_in_quotes(&mut self, parts: &mut Vec<Part>) {
        match self.text.get(self.at + 1) {
            Some(b'\n') => self.at += 2,
            Some(byte @ (b'$' | b'`' | b'"' | b'\\')) => self.take(*byte, 2, Quote::Double, parts),
            Some(_) | None => self.take(b'\\', 1, Quote::Double, parts),
        }
    }
}
