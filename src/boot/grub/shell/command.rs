//! Commands: lists, pipelines, simple commands, redirections and here-documents.

use super::word::ends_word;
use super::{Command, HereDocument, Part, Reader, Simple, Stop, Word};

impl Reader<'_> {
    /// Reads the file to its end. Commands read before trouble stay in `commands`.
    pub(super) fn script(&mut self, commands: &mut Vec<Command>) -> Result<(), Stop> {
        loop {
            self.skip_lines()?;
            let Some(byte) = self.peek() else { return Ok(()) };
            if let Some(word) = self.closing_word() {
                return Stop::syntax(self.at, format!("`{word}` with nothing to close"));
            }
            if matches!(byte, b')' | b';' | b'&' | b'|') {
                return Stop::syntax(self.at, format!("`{}` where a command should be", char::from(byte)));
            }
            let command = self.list_item()?;
            commands.push(command);
        }
    }

    /// Commands up to (not including) one of these reserved words.
    pub(super) fn list_until(&mut self, opener: usize, closers: &[&str]) -> Result<Vec<Command>, Stop> {
        let mut commands = Vec::new();
        loop {
            self.skip_lines()?;
            if self.reserved_word().is_some_and(|word| closers.contains(&word)) {
                return Ok(commands);
            }
            if closers.contains(&";;") && self.starts_with(b";;") {
                return Ok(commands);
            }
            self.demand_command(opener)?;
            commands.push(self.list_item()?);
        }
    }

    /// Commands up to and including `)`; what they do stays inside their own process.
    pub(super) fn list_until_parenthesis(&mut self, opener: usize) -> Result<(), Stop> {
        loop {
            self.skip_lines()?;
            if self.peek() == Some(b')') {
                self.at += 1;
                return Ok(());
            }
            self.demand_command(opener)?;
            self.list_item()?;
        }
    }

    fn demand_command(&self, opener: usize) -> Result<(), Stop> {
        match self.peek() {
            None => Stop::syntax(opener, "what begins here is never closed"),
            Some(byte @ (b')' | b';' | b'&' | b'|')) => {
                Stop::syntax(self.at, format!("`{}` where a command should be", char::from(byte)))
            }
            Some(_) => match self.closing_word() {
                Some(word) => Stop::syntax(self.at, format!("`{word}` with nothing to close")),
                None => Ok(()),
            },
        }
    }

    /// Goes past blanks, comments and ends of lines.
    pub(super) fn skip_lines(&mut self) -> Result<(), Stop> {
        loop {
            self.skip_blanks();
            if self.peek() != Some(b'\n') {
                return Ok(());
            }
            self.end_of_line()?;
        }
    }

    fn end_of_line(&mut self) -> Result<(), Stop> {
        self.at += 1;
        for document in std::mem::take(&mut self.here_documents) {
            self.here_document_body(&document)?;
        }
        Ok(())
    }

    fn here_document_body(&mut self, document: &HereDocument) -> Result<(), Stop> {
        let start = self.at;
        while self.at < self.text.len() {
            let rest = self.text.get(self.at..).unwrap_or_default();
            let line = rest.split(|byte| *byte == b'\n').next().unwrap_or_default();
            self.at = (self.at + line.len() + 1).min(self.text.len());
            let tabs = line.iter().take_while(|byte| document.strip_tabs && **byte == b'\t').count();
            if line.get(tabs..) == Some(document.delimiter.as_slice()) {
                let body = self.text.get(start..self.at).unwrap_or_default();
                return self.judge_here_document(start, body);
            }
        }
        Stop::syntax(start, "a here-document that is never closed")
    }

    /// Expansions in a here-document can assign; and a continued line could hide the delimiter.
    fn judge_here_document(&self, at: usize, body: &[u8]) -> Result<(), Stop> {
        let expands = body.iter().any(|byte| b"`\\".contains(byte))
            || body.windows(2).any(|two| two == b"${" || two == b"$(");
        if expands { Stop::foreign(at, "a here-document with expansions inside") } else { Ok(()) }
    }

    /// One command of a list, with its `&&` and `||`, and what separates it from the next.
    fn list_item(&mut self) -> Result<Command, Stop> {
        let command = self.deeper(Self::chain)?;
        self.skip_blanks();
        match self.peek() {
            Some(b'&') => {
                self.refuse_bash_redirection()?;
                self.at += 1;
                Ok(Command::Apart)
            }
            Some(b';') if !self.starts_with(b";;") => {
                self.at += 1;
                Ok(command)
            }
            Some(b';') if self.starts_with(b";;&") => Stop::foreign(self.at, "`;;&`, which only bash knows"),
            Some(b'(' | b'<' | b'>' | b'|') => Stop::syntax(self.at, "an operator that does not belong here"),
            Some(b'\n' | b';' | b')') | None => Ok(command),
            // After a compound command only an operator may follow.
            Some(_) => Stop::syntax(self.at, "a word where the command should end"),
        }
    }

    fn refuse_bash_redirection(&self) -> Result<(), Stop> {
        if self.starts_with(b"&>") { Stop::foreign(self.at, "`&>`, which only bash knows") } else { Ok(()) }
    }

    fn chain(&mut self) -> Result<Command, Stop> {
        let first = self.pipeline()?;
        let mut others = Vec::new();
        loop {
            self.skip_blanks();
            let on_success = match self.text.get(self.at..self.at + 2) {
                Some(b"&&") => true,
                Some(b"||") => false,
                Some(_) | None => break,
            };
            let operator = self.at;
            self.at += 2;
            self.skip_lines()?;
            self.demand_command(operator)?;
            others.push((on_success, self.pipeline()?));
        }
        Ok(if others.is_empty() { first } else { Command::Chain(Box::new(first), others) })
    }

    fn pipeline(&mut self) -> Result<Command, Stop> {
        let negated = self.negations();
        let mut command = self.command()?;
        self.skip_blanks();
        while self.peek() == Some(b'|') && !self.starts_with(b"||") {
            if self.starts_with(b"|&") {
                return Stop::foreign(self.at, "`|&`, which only bash knows");
            }
            let operator = self.at;
            self.at += 1;
            self.skip_lines()?;
            self.demand_command(operator)?;
            self.command()?;
            command = Command::Apart;
            self.skip_blanks();
        }
        Ok(if negated { Command::Chain(Box::new(command), Vec::new()) } else { command })
    }

    fn negations(&mut self) -> bool {
        let negated = self.reserved_word() == Some("!");
        if negated {
            self.at += 1;
            self.skip_blanks();
        }
        negated
    }

    fn command(&mut self) -> Result<Command, Stop> {
        if self.peek() == Some(b'(') {
            return self.subshell();
        }
        match self.reserved_word() {
            Some(word) => self.compound(word),
            None => self.simple(),
        }
    }

    fn subshell(&mut self) -> Result<Command, Stop> {
        let at = self.at;
        if self.starts_with(b"((") {
            return Stop::foreign(at, "`((…))`, which only bash knows");
        }
        self.at += 1;
        self.list_until_parenthesis(at)?;
        self.trailing_redirections()?;
        Ok(Command::Apart)
    }

    /// Redirections after a compound command.
    pub(super) fn trailing_redirections(&mut self) -> Result<(), Stop> {
        self.skip_blanks();
        while self.redirection()? {
            self.skip_blanks();
        }
        Ok(())
    }

    fn simple(&mut self) -> Result<Command, Stop> {
        let mut simple = Simple { at: self.at, ..Simple::default() };
        loop {
            self.skip_blanks();
            if self.redirection()? {
                simple.redirected = true;
                continue;
            }
            if self.peek() == Some(b'(') {
                return self.parenthesis(&simple);
            }
            let Some(word) = self.word()? else { break };
            let is_assignment = simple.words.is_empty() && word.assignment().is_some();
            let kind = if is_assignment { &mut simple.assignments } else { &mut simple.words };
            kind.push(word);
        }
        if simple.words.is_empty() && simple.assignments.is_empty() && !simple.redirected {
            return Stop::syntax(self.at, "an operator where a command should be");
        }
        Ok(Command::Simple(simple))
    }

    /// `name()` begins a function, `name=(` an array of bash.
    fn parenthesis(&mut self, before: &Simple) -> Result<Command, Stop> {
        let at = self.at;
        if before.assignments.last().is_some_and(|word| word.span.end == at) && before.words.is_empty() {
            return Stop::foreign(before.at, "an array, which only bash knows");
        }
        let [name] = before.words.as_slice() else { return Stop::syntax(at, "`(` inside a command") };
        let Some(name) = name.literal().filter(|_| before.assignments.is_empty()) else {
            return Stop::syntax(at, "`(` inside a command");
        };
        self.at += 1;
        self.skip_blanks();
        if self.peek() != Some(b')') {
            return Stop::syntax(at, "`(` inside a command");
        }
        self.at += 1;
        self.skip_lines()?;
        self.demand_command(at)?;
        self.deeper(Self::command)?;
        Ok(Command::Function(String::from_utf8_lossy(&name).into_owned()))
    }

    /// Reads a redirection if there is one.
    fn redirection(&mut self) -> Result<bool, Stop> {
        let rest = self.text.get(self.at..).unwrap_or_default();
        let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let Some(operator @ (b'<' | b'>')) = rest.get(digits).copied() else { return Ok(false) };
        let start = self.at;
        self.at += digits + 1;
        if operator == b'<' && self.peek() == Some(b'<') {
            self.here_document(start)?;
            return Ok(true);
        }
        if self.peek() == Some(b'(') {
            return Stop::foreign(start, "process substitution, which only bash knows");
        }
        if matches!(self.peek(), Some(b'<' | b'>' | b'&' | b'|')) {
            self.at += 1;
        }
        self.redirection_target(start)?;
        Ok(true)
    }

    fn redirection_target(&mut self, start: usize) -> Result<Word, Stop> {
        self.skip_blanks();
        match self.word()? {
            Some(word) if word.parts.iter().all(|part| matches!(part, Part::Byte { .. })) => Ok(word),
            Some(_) => Stop::foreign(start, "a redirection to a computed name"),
            None => Stop::syntax(start, "a redirection to nowhere"),
        }
    }

    fn here_document(&mut self, start: usize) -> Result<(), Stop> {
        self.at += 1;
        if self.peek() == Some(b'<') {
            return Stop::foreign(start, "`<<<`, which only bash knows");
        }
        let strip_tabs = self.peek() == Some(b'-');
        self.at += usize::from(strip_tabs);
        let word = self.redirection_target(start)?;
        let delimiter = word.literal().unwrap_or_default();
        self.here_documents.push(HereDocument { delimiter, strip_tabs });
        Ok(())
    }

    /// The reserved word that stands here, if the shell would take it for one.
    pub(super) fn reserved_word(&self) -> Option<&'static str> {
        let rest = self.text.get(self.at..).unwrap_or_default();
        let length = rest.iter().position(|byte| ends_word(*byte)).unwrap_or(rest.len());
        let word = rest.get(..length)?;
        super::reserved::WORDS.iter().copied().find(|reserved| reserved.as_bytes() == word)
    }

    fn closing_word(&self) -> Option<&'static str> {
        self.reserved_word().filter(|word| super::reserved::CLOSERS.contains(word))
    }
}
