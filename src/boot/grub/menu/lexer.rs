//! Source text to tokens, by the rules of GRUB's own lexer: quotes as in a POSIX shell, except that a
//! backslash in double quotes only escapes `$`, `"`, `\` and a line's end, and that `{` and `}` always stand
//! for themselves outside quotes.

use std::iter::Peekable;
use std::str::CharIndices;

use super::MenuError;
use super::syntax::{Part, Word};

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Token {
    Word(Word),
    Open,
    Close,
    /// Line end or `;`.
    Separator,
    /// `|`, `&`, `<`, `>`: GRUB knows the signs and has no use for them.
    Stray(char),
}

pub(super) struct Placed {
    pub(super) token: Token,
    pub(super) offset: usize,
}

pub(super) fn tokens(source: &str) -> Result<Vec<Placed>, MenuError> {
    let mut lexer = Lexer { source, characters: source.char_indices().peekable() };
    let mut found = Vec::new();
    while let Some(&(offset, character)) = lexer.characters.peek() {
        if let Some(token) = lexer.token(offset, character)? {
            found.push(Placed { token, offset });
        }
    }
    Ok(found)
}

struct Lexer<'s> {
    source: &'s str,
    characters: Peekable<CharIndices<'s>>,
}

impl Lexer<'_> {
    fn token(&mut self, offset: usize, character: char) -> Result<Option<Token>, MenuError> {
        let single = match character {
            ' ' | '\t' | '\r' => None,
            '#' => {
                while self.characters.next_if(|&(_, c)| c != '\n').is_some() {}
                return Ok(None);
            }
            '\n' | ';' => Some(Token::Separator),
            '{' => Some(Token::Open),
            '}' => Some(Token::Close),
            '|' | '&' | '<' | '>' => Some(Token::Stray(character)),
            _ => return self.word(offset),
        };
        self.characters.next();
        Ok(single)
    }

    fn word(&mut self, start: usize) -> Result<Option<Token>, MenuError> {
        let mut building = Building::default();
        while let Some(&(offset, character)) = self.characters.peek() {
            if ends_word(character) {
                break;
            }
            self.characters.next();
            match character {
                '\'' => self.single_quoted(offset, &mut building)?,
                '"' => self.double_quoted(offset, &mut building)?,
                '\\' => self.escaped(&mut building),
                '$' => self.variable(false, &mut building),
                _ => building.text.push(character),
            }
        }
        let end = self.characters.peek().map_or(self.source.len(), |&(offset, _)| offset);
        // A lone backslash before a line's end joins two lines; it is no empty word.
        let word = building.finish(start..end);
        Ok((word.quoted || !word.parts.is_empty()).then_some(Token::Word(word)))
    }

    fn escaped(&mut self, building: &mut Building) {
        if let Some((_, character)) = self.characters.next()
            && character != '\n'
        {
            building.text.push(character);
            building.quoted = true;
        }
    }

    fn single_quoted(&mut self, start: usize, building: &mut Building) -> Result<(), MenuError> {
        building.quoted = true;
        for (_, character) in self.characters.by_ref() {
            if character == '\'' {
                return Ok(());
            }
            building.text.push(character);
        }
        Err(MenuError::OpenQuote { line: line_of(self.source, start), quote: '\'' })
    }

    fn double_quoted(&mut self, start: usize, building: &mut Building) -> Result<(), MenuError> {
        building.quoted = true;
        while let Some((_, character)) = self.characters.next() {
            match character {
                '"' => return Ok(()),
                '\\' => self.escaped_in_double_quotes(building),
                '$' => self.variable(true, building),
                _ => building.text.push(character),
            }
        }
        Err(MenuError::OpenQuote { line: line_of(self.source, start), quote: '"' })
    }

    fn escaped_in_double_quotes(&mut self, building: &mut Building) {
        match self.characters.next_if(|&(_, c)| matches!(c, '$' | '\\' | '"' | '\n')) {
            Some((_, '\n')) => {}
            Some((_, character)) => building.text.push(character),
            None => building.text.push('\\'),
        }
    }

    fn variable(&mut self, quoted: bool, building: &mut Building) {
        let braced = self.characters.next_if(|&(_, c)| c == '{').is_some();
        let name = self.variable_name();
        if braced {
            self.characters.next_if(|&(_, c)| c == '}');
        }
        if name.is_empty() {
            building.text.push('$');
        } else {
            building.variable(name, quoted);
        }
    }

    fn variable_name(&mut self) -> String {
        let mut name = String::new();
        if let Some((_, special)) = self.characters.next_if(|&(_, c)| matches!(c, '?' | '#' | '*' | '@')) {
            name.push(special);
            return name;
        }
        let digits = self.characters.peek().is_some_and(|&(_, c)| c.is_ascii_digit());
        let belongs = |c: char| c.is_ascii_digit() || (!digits && (c.is_ascii_alphabetic() || c == '_'));
        while let Some((_, character)) = self.characters.next_if(|&(_, c)| belongs(c)) {
            name.push(character);
        }
        name
    }
}

#[derive(Default)]
struct Building {
    parts: Vec<Part>,
    text: String,
    quoted: bool,
}

impl Building {
    fn flush(&mut self) {
        if !self.text.is_empty() {
            self.parts.push(Part::Text(std::mem::take(&mut self.text)));
        }
    }

    fn variable(&mut self, name: String, quoted: bool) {
        self.flush();
        self.parts.push(Part::Variable { name, quoted });
    }

    fn finish(mut self, span: std::ops::Range<usize>) -> Word {
        self.flush();
        Word { parts: self.parts, quoted: self.quoted, span }
    }
}

fn ends_word(character: char) -> bool {
    matches!(character, ' ' | '\t' | '\r' | '\n' | ';' | '{' | '}' | '|' | '&' | '<' | '>')
}

/// Line number, from 1, of an offset.
pub(super) fn line_of(source: &str, offset: usize) -> usize {
    source.bytes().take(offset).filter(|byte| *byte == b'\n').count() + 1
}
