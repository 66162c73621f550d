//! Control structures: read for where they end and which commands are inside.

use super::{Command, Reader, Stop, variable_name};

/// All reserved words of both shells.
pub(super) const WORDS: [&str; 22] = [
    "if", "then", "elif", "else", "fi", "while", "until", "do", "done", "for", "case", "in", "esac", "{",
    "}", "!", "[[", "]]", "function", "select", "time", "coproc",
];

/// Those that only end or divide something.
pub(super) const CLOSERS: [&str; 9] = ["then", "elif", "else", "fi", "do", "done", "esac", "}", "in"];

impl Reader<'_> {
    /// The command that a reserved word begins.
    pub(super) fn compound(&mut self, word: &'static str) -> Result<Command, Stop> {
        match word {
            "if" => self.conditional(),
            "while" | "until" => self.repeated(word),
            "for" => self.for_each(),
            "case" => self.case(),
            "{" => self.group(),
            "[[" | "function" | "select" | "time" | "coproc" | "]]" => {
                Stop::foreign(self.at, "a keyword that only bash knows")
            }
            other => Stop::syntax(self.at, format!("`{other}` where a command should be")),
        }
    }

    fn keyword(&mut self, opener: usize, word: &'static str) -> Result<(), Stop> {
        self.skip_lines()?;
        if self.reserved_word() != Some(word) {
            return Stop::syntax(opener, format!("no `{word}` to what begins here"));
        }
        self.at += word.len();
        Ok(())
    }

    fn perhaps(
        &mut self,
        keyword: &'static str,
        at: usize,
        inside: Vec<Command>,
        variable: Option<String>,
    ) -> Result<Command, Stop> {
        self.trailing_redirections()?;
        Ok(Command::Perhaps { keyword, inside, variable, at })
    }

    fn conditional(&mut self) -> Result<Command, Stop> {
        let at = self.at;
        let mut inside = Vec::new();
        // The first round is the `if`: behind a branch there can be none.
        while let Some(word @ ("if" | "elif")) = self.reserved_word() {
            self.at += word.len();
            inside.extend(self.list_until(at, &["then"])?);
            self.keyword(at, "then")?;
            inside.extend(self.list_until(at, &["elif", "else", "fi"])?);
        }
        if self.reserved_word() == Some("else") {
            self.at += 4;
            inside.extend(self.list_until(at, &["fi"])?);
        }
        self.keyword(at, "fi")?;
        self.perhaps("if", at, inside, None)
    }

    fn body_of_loop(&mut self, at: usize) -> Result<Vec<Command>, Stop> {
        self.keyword(at, "do")?;
        let inside = self.list_until(at, &["done"])?;
        self.keyword(at, "done")?;
        Ok(inside)
    }

    fn repeated(&mut self, keyword: &'static str) -> Result<Command, Stop> {
        let at = self.at;
        self.at += keyword.len();
        let mut inside = self.list_until(at, &["do"])?;
        inside.extend(self.body_of_loop(at)?);
        self.perhaps(keyword, at, inside, None)
    }

    fn for_each(&mut self) -> Result<Command, Stop> {
        let at = self.at;
        self.at += 3;
        self.skip_blanks();
        if self.starts_with(b"((") {
            return Stop::foreign(at, "`for ((…))`, which only bash knows");
        }
        let name = self.word()?.and_then(|word| word.literal()).and_then(|name| variable_name(&name));
        let Some(name) = name else { return Stop::syntax(at, "`for` without a variable") };
        self.skip_lines()?;
        if self.reserved_word() == Some("in") {
            self.at += 2;
            self.words_to_end_of_command()?;
        } else if self.peek() == Some(b';') {
            self.at += 1;
        }
        let inside = self.body_of_loop(at)?;
        self.perhaps("for", at, inside, Some(name))
    }

    fn words_to_end_of_command(&mut self) -> Result<(), Stop> {
        loop {
            self.skip_blanks();
            match self.word()? {
                Some(word) => self.refuse_assigning(&word)?,
                None if self.peek() == Some(b';') => {
                    self.at += 1;
                    return Ok(());
                }
                None => return Ok(()),
            }
        }
    }

    /// An expansion that assigns, in a place whose words are not kept.
    fn refuse_assigning(&self, word: &super::Word) -> Result<(), Stop> {
        let assigns = |part: &super::Part| matches!(part, super::Part::Computed(computed) if computed.sets != super::Sets::Nothing);
        if word.parts.iter().any(assigns) {
            return Stop::foreign(word.span.start, "an expansion that also assigns");
        }
        Ok(())
    }

    fn case(&mut self) -> Result<Command, Stop> {
        let at = self.at;
        self.at += 4;
        self.skip_blanks();
        match self.word()? {
            Some(word) => self.refuse_assigning(&word)?,
            None => return Stop::syntax(at, "`case` without a word"),
        }
        self.keyword(at, "in")?;
        let mut inside = Vec::new();
        loop {
            self.skip_lines()?;
            if self.reserved_word() == Some("esac") {
                break;
            }
            self.pattern(at)?;
            inside.extend(self.list_until(at, &[";;", "esac"])?);
            if self.starts_with(b";;") {
                self.at += 2;
            }
        }
        self.keyword(at, "esac")?;
        self.perhaps("case", at, inside, None)
    }

    fn pattern(&mut self, at: usize) -> Result<(), Stop> {
        if self.peek() == Some(b'(') {
            self.at += 1;
        }
        loop {
            self.skip_blanks();
            match self.word()? {
                Some(word) => self.refuse_assigning(&word)?,
                None => return Stop::syntax(at, "`case` with something that is no pattern"),
            }
            self.skip_blanks();
            match self.peek() {
                Some(b'|') => self.at += 1,
                Some(b')') => break,
                Some(_) | None => return Stop::syntax(at, "`case` with something that is no pattern"),
            }
        }
        self.at += 1;
        Ok(())
    }

    fn group(&mut self) -> Result<Command, Stop> {
        let at = self.at;
        self.at += 1;
        let inside = self.list_until(at, &["}"])?;
        self.keyword(at, "}")?;
        self.perhaps("{ … }", at, inside, None)
    }
}
