//! A reader of the shell text in `/etc/default/grub`: where each byte of each value stands, and which
//! commands there are. Nothing is ever executed. What this reader does not understand, it says so about.
//!
//! Two shells may run these files (`/bin/sh` is dash on Debian, bash on Red Hat and SUSE). Syntax only one of
//! them knows ends the reading with [`Foreign`]; syntax neither accepts is a [`SyntaxError`].

mod command;
mod expansion;
mod reserved;
mod word;

use std::ops::Range;

/// How a byte of a word was protected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Quote {
    /// Not at all.
    Plain,
    /// By a backslash in front of it.
    Escaped,
    /// By single quotes.
    Single,
    /// By double quotes.
    Double,
}

/// A part of a word.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Part {
    /// One byte of text. The span includes the backslash that protects it.
    Byte {
        /// The byte the shell sees.
        byte: u8,
        /// Where it stands in the file.
        span: Range<usize>,
        /// Its protection.
        quote: Quote,
    },
    /// `$NAME` or `${NAME…}` of a form that can be followed.
    Variable {
        /// Its name.
        name: String,
        /// What stands in for it.
        form: Form,
        /// True inside double quotes.
        quoted: bool,
    },
    /// Something whose value only the running shell knows.
    Computed(Computed),
}

/// What `${NAME…}` becomes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Form {
    /// The value, nothing if unset.
    Value,
    /// `-` and `:-`: this text if unset (or empty, with a colon).
    OrElse {
        /// The colon was there.
        colon: bool,
        /// The text, bytes only.
        text: Vec<Part>,
    },
    /// `+` and `:+`: this text if set (and not empty, with a colon).
    IfSet {
        /// The colon was there.
        colon: bool,
        /// The text, bytes only.
        text: Vec<Part>,
    },
}

/// A value that is computed while the file is sourced.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Computed {
    /// What it is, for people: `a command substitution`.
    pub what: &'static str,
    /// Variables it sets on the way.
    pub sets: Sets,
    /// Where it begins.
    pub at: usize,
}

/// Variables that something may set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Sets {
    /// None.
    Nothing,
    /// This one.
    One(String),
    /// Any.
    Anything,
}

/// How a word ends: where text can be added to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tail {
    /// Without quotes.
    Plain,
    /// With a single quote that stands here.
    Single(usize),
    /// With a double quote that stands here.
    Double(usize),
}

/// One word of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Word {
    /// All of it, quotes included.
    pub span: Range<usize>,
    /// In order.
    pub parts: Vec<Part>,
    /// Its end.
    pub tail: Tail,
}

/// `NAME=value` or `NAME+=value`, taken apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Assignment<'a> {
    /// The name.
    pub name: String,
    /// `+=`, which only bash knows.
    pub append: bool,
    /// Where the value begins in the file.
    pub value_start: usize,
    /// The value.
    pub value: &'a [Part],
}

impl Word {
    /// The text if it is known without running anything and without variables.
    #[must_use]
    pub fn literal(&self) -> Option<Vec<u8>> {
        let byte = |part: &Part| match part {
            Part::Byte { byte, .. } => Some(*byte),
            Part::Variable { .. } | Part::Computed(_) => None,
        };
        self.parts.iter().map(byte).collect()
    }

    /// The word as an assignment, if it is one: name and `=` without any protection.
    #[must_use]
    pub fn assignment(&self) -> Option<Assignment<'_>> {
        let plain = |part: &Part| match part {
            Part::Byte { byte, quote: Quote::Plain, span } => Some((*byte, span.end)),
            Part::Byte { .. } | Part::Variable { .. } | Part::Computed(_) => None,
        };
        let head: Vec<(u8, usize)> = self.parts.iter().map_while(plain).collect();
        let equals = head.iter().position(|(byte, _)| *byte == b'=')?;
        let (_, value_start) = *head.get(equals)?;
        let bytes: Vec<u8> = head.iter().take(equals).map(|(byte, _)| *byte).collect();
        let (name, append) = match bytes.strip_suffix(b"+") {
            Some(name) => (name, true),
            None => (bytes.as_slice(), false),
        };
        let name = variable_name(name)?;
        Some(Assignment { name, append, value_start, value: self.parts.get(equals + 1..)? })
    }
}

/// The bytes as the name of a variable, if they are one.
#[must_use]
pub fn variable_name(bytes: &[u8]) -> Option<String> {
    let (first, rest) = bytes.split_first()?;
    let fits = is_name_start(*first) && rest.iter().all(|byte| is_name(*byte));
    fits.then(|| String::from_utf8_lossy(bytes).into_owned())
}

fn is_name_start(byte: u8) -> bool {
    byte.is_ascii_alphabetic() || byte == b'_'
}

fn is_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

/// A command without control structure.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Simple {
    /// Assignments in front.
    pub assignments: Vec<Word>,
    /// The command and its arguments.
    pub words: Vec<Word>,
    /// It has redirections.
    pub redirected: bool,
    /// Where it begins.
    pub at: usize,
}

/// A command. Of control structures only that is kept which commands are inside.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Command {
    /// Runs here and now.
    Simple(Simple),
    /// A first command, and others that depend on its success (`true`) or failure.
    Chain(Box<Command>, Vec<(bool, Command)>),
    /// Commands that may run or not, or several times.
    Perhaps {
        /// `if`, `case`, …
        keyword: &'static str,
        /// All commands inside, conditions too.
        inside: Vec<Command>,
        /// Name of the variable a `for` sets.
        variable: Option<String>,
        /// Where it begins.
        at: usize,
    },
    /// Runs in a process of its own: sets nothing here.
    Apart,
    /// A function is defined.
    Function(String),
}

/// Text that one of the shells may understand but this reader does not; the rest of the file is unread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Foreign {
    /// Where.
    pub at: usize,
    /// What, for people.
    pub what: &'static str,
}

/// Text that no shell accepts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SyntaxError {
    /// Where.
    pub at: usize,
    /// What is wrong, for people.
    pub what: String,
}

/// A file, read.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Script {
    /// In order.
    pub commands: Vec<Command>,
    /// Where reading ended early.
    pub unread: Option<Foreign>,
}

/// Why reading stopped.
#[derive(Debug)]
enum Stop {
    Syntax(SyntaxError),
    Foreign(Foreign),
}

impl Stop {
    fn syntax<T>(at: usize, what: impl Into<String>) -> Result<T, Self> {
        Err(Self::Syntax(SyntaxError { at, what: what.into() }))
    }

    fn foreign<T>(at: usize, what: &'static str) -> Result<T, Self> {
        Err(Self::Foreign(Foreign { at, what }))
    }
}

/// Depth of nesting beyond which a file is not read: no file people write comes near, and the stack is finite.
const DEEPEST: usize = 64;

/// A here-document whose body has not been reached.
#[derive(Debug)]
struct HereDocument {
    delimiter: Vec<u8>,
    strip_tabs: bool,
}

/// The place reading has come to.
#[derive(Debug)]
struct Reader<'a> {
    text: &'a [u8],
    at: usize,
    depth: usize,
    here_documents: Vec<HereDocument>,
}

impl Reader<'_> {
    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    fn starts_with(&self, what: &[u8]) -> bool {
        self.text.get(self.at..).is_some_and(|rest| rest.starts_with(what))
    }

    fn deeper<T>(&mut self, read: impl FnOnce(&mut Self) -> Result<T, Stop>) -> Result<T, Stop> {
        if self.depth >= DEEPEST {
            return Stop::foreign(self.at, "commands nested very deeply");
        }
        self.depth += 1;
        let result = read(self);
        self.depth -= 1;
        result
    }
}

/// Reads a file.
///
/// # Errors
/// [`SyntaxError`] if no shell would accept it.
pub fn read(text: &[u8]) -> Result<Script, SyntaxError> {
    let mut reader = Reader { text, at: 0, depth: 0, here_documents: Vec::new() };
    let mut script = Script::default();
    match reader.script(&mut script.commands) {
        Ok(()) => Ok(script),
        Err(Stop::Syntax(error)) => Err(error),
        Err(Stop::Foreign(foreign)) => Ok(Script { unread: Some(foreign), ..script }),
    }
}

/// Line number of a place, from 1.
#[must_use]
pub fn line_of(text: &[u8], at: usize) -> usize {
    text.iter().take(at).filter(|byte| **byte == b'\n').count() + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_no_shell_accepts_is_an_error_with_its_place() {
        for (text, line) in [
            ("A=1\nB=\"x\n", 2),
            ("A='", 1),
            ("A=`x", 1),
            ("A=$(x", 1),
            ("A=1\nif x; then\n", 2),
            ("A=1\n\nfi\n", 3),
            ("A=1 |\n", 1),
            ("x )", 1),
            ("cat <<E\nx\n", 2),
        ] {
            let error = read(text.as_bytes()).unwrap_err();
            assert_eq!(line_of(text.as_bytes(), error.at), line, "{text}");
        }
    }

    #[test]
    fn what_only_bash_knows_ends_the_reading() {
        for text in [
            "A=(1 2)",
            "[[ x ]]",
            "a &> b",
            "a <<< b",
            "for ((;;)); do :; done",
            "A=$'\\n'",
            "function f { :; }",
        ] {
            let script = read(format!("B=1\n{text}\nC=2\n").as_bytes()).unwrap();
            assert!(script.unread.is_some(), "{text}");
            assert_eq!(script.commands.len(), 1, "{text}");
        }
    }

    #[test]
    fn nesting_without_end_does_not_exhaust_the_stack() {
        let text = "$(".repeat(100_000);
        assert!(read(text.as_bytes()).unwrap().unread.is_some());
    }

    #[test]
    fn a_case_inside_a_substitution_does_not_close_it() {
        let script = read(b"A=$(case x in a) echo ')' ;; esac)\nB=2\n").unwrap();
        assert_eq!((script.commands.len(), script.unread), (2, None));
    }
}
