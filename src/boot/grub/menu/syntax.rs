//! The parts a GRUB script is made of.

use std::ops::Range;

/// A piece of a word.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Part {
    /// Stands for itself.
    Text(String),
    /// `$name` or `${name}`; GRUB splits the value at blanks unless it is quoted.
    Variable {
        /// Without the dollar sign.
        name: String,
        /// Inside double quotes.
        quoted: bool,
    },
}

/// One word of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Word {
    /// In order.
    pub(super) parts: Vec<Part>,
    /// Some of it stood in quotes or behind a backslash: never a keyword, and never vanishes when empty.
    pub(super) quoted: bool,
    /// Place in the source.
    pub(super) span: Range<usize>,
}

impl Word {
    /// The word if it has neither quotes nor variables.
    pub(super) fn plain(&self) -> Option<&str> {
        match (self.quoted, self.parts.as_slice()) {
            (false, [Part::Text(text)]) => Some(text),
            _ => None,
        }
    }

    /// The text with variables left as `$name`.
    pub(super) fn unexpanded(&self) -> String {
        self.parts.iter().map(Part::unexpanded).collect()
    }

    /// Names of the variables in it.
    pub(super) fn variables(&self) -> impl Iterator<Item = &str> {
        self.parts.iter().filter_map(|part| match part {
            Part::Variable { name, .. } => Some(name.as_str()),
            Part::Text(_) => None,
        })
    }
}

impl Part {
    fn unexpanded(&self) -> String {
        match self {
            Self::Text(text) => text.clone(),
            Self::Variable { name, .. } => format!("${name}"),
        }
    }
}

/// One command with its words, and the block in braces that may follow them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Command {
    /// At least one.
    pub(super) words: Vec<Word>,
    /// `{ … }`.
    pub(super) block: Option<Vec<Statement>>,
    /// The source behind the second word, as it stands there: the arguments of a `linux` line.
    pub(super) tail: String,
}

impl Command {
    /// The command's name, if it is written plainly.
    pub(super) fn name(&self) -> Option<&str> {
        self.words.first().and_then(Word::plain)
    }
}

/// `if` or `elif` with what follows `then`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Arm {
    /// Commands whose last one decides.
    pub(super) condition: Vec<Statement>,
    /// Commands that run if it is true.
    pub(super) body: Vec<Statement>,
}

/// One statement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Statement {
    /// A command.
    Command(Command),
    /// `if … elif … else … fi`.
    If {
        /// `if`, and each `elif`.
        arms: Vec<Arm>,
        /// Behind `else`.
        otherwise: Vec<Statement>,
    },
    /// `for`, `while` and `until`.
    Loop {
        /// Condition and body.
        inside: Vec<Statement>,
    },
    /// `function name { … }`.
    Function {
        /// Its name.
        name: String,
        /// What it does.
        body: Vec<Statement>,
    },
}

/// True for the commands that load a Linux kernel.
pub(super) fn is_linux(name: &str) -> bool {
    matches!(name, "linux" | "linux16" | "linuxefi")
}
