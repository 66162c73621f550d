//! The generated `grub.cfg`: which entries it has, and which one GRUB boots next.
//!
//! The file is a script that decides by itself what the default is (`next_entry`, `saved_entry`, boot
//! counting, …), differently in each distribution. So it is parsed as the script it is and followed
//! ([`next_boot`]); what cannot be followed is [`NextBoot::Undetermined`], never a guess.

mod builtins;
mod condition;
mod evaluate;
mod heading;
mod lexer;
mod linux;
mod next;
mod parser;
mod select;
mod stub;
mod syntax;
#[cfg(test)]
mod tests;
mod value;

use std::collections::{BTreeMap, BTreeSet};

use syntax::{Command, Statement, is_linux};
use value::Value;

pub use linux::LinuxLine;
pub use next::{ChosenBy, NextBoot, NextEntry, next_boot};
pub use stub::{Stub, is_stub};

/// Why a text is no GRUB script.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MenuError {
    /// A quote without its partner.
    #[error(
        "parse grub.cfg: line {line}: the quote {quote} opened here is never closed; regenerate the file"
    )]
    OpenQuote {
        /// From 1.
        line: usize,
        /// `'` or `"`.
        quote: char,
    },
    /// A brace without its partner.
    #[error("parse grub.cfg: line {line}: the `{{` opened here is never closed; regenerate the file")]
    OpenBrace {
        /// From 1.
        line: usize,
    },
    /// Something stands where it cannot.
    #[error("parse grub.cfg: line {line}: found {found} where {expected} should be; regenerate the file")]
    Unexpected {
        /// From 1.
        line: usize,
        /// In words.
        expected: &'static str,
        /// In words.
        found: String,
    },
    /// Nesting beyond all use.
    #[error("parse grub.cfg: line {line}: nested more than {limit} deep")]
    TooDeep {
        /// From 1.
        line: usize,
        /// The limit.
        limit: usize,
    },
}

/// Whose GRUB reads the menu: Red Hat's finds the default by other rules than everybody else's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Build {
    /// As released by GNU, and as Debian, Ubuntu and SUSE build it.
    #[default]
    Upstream,
    /// Fedora, RHEL and its relatives.
    RedHat,
    /// Not known: only a default that both agree on is an answer.
    Unknown,
}

/// A file that `grub.cfg` reads in.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Beside {
    Absent,
    Script(Vec<Statement>),
    Broken(MenuError),
}

/// A parsed `grub.cfg`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Menu {
    statements: Vec<Statement>,
    beside: BTreeMap<String, Beside>,
    build: Build,
}

/// An entry that loads a Linux kernel, wherever it stands in the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LinuxEntry {
    /// Titles from the outermost submenu to the entry.
    pub path: Vec<String>,
    /// Its id, if it has one.
    pub id: Option<String>,
    /// Its `linux` lines: more than one where a condition decides.
    pub lines: Vec<LinuxLine>,
}

impl Menu {
    /// Parses the text of a `grub.cfg`, read by an upstream [`Build`] with nothing known of other files.
    ///
    /// # Errors
    /// [`MenuError`] if it is no GRUB script: quotes, braces or `if … fi` that do not close.
    pub fn parse(text: &str) -> Result<Self, MenuError> {
        let statements = parser::parse(text)?;
        Ok(Self { statements, beside: BTreeMap::new(), build: Build::default() })
    }

    /// Says whose GRUB reads it.
    #[must_use]
    pub fn built_by(mut self, build: Build) -> Self {
        self.build = build;
        self
    }

    /// Adds the text of a file in GRUB's directory that the menu may read in, or that it is absent. A file
    /// that is read in and was not added makes the next boot undetermined.
    #[must_use]
    pub fn beside(mut self, name: &str, text: Option<&str>) -> Self {
        let beside = match text.map(parser::parse) {
            None => Beside::Absent,
            Some(Ok(statements)) => Beside::Script(statements),
            Some(Err(error)) => Beside::Broken(error),
        };
        self.beside.insert(name.to_owned(), beside);
        self
    }

    /// Names of the files in GRUB's directory that it may read in: `custom.cfg`, `user.cfg`.
    #[must_use]
    pub fn files_read_in(&self) -> BTreeSet<String> {
        let mut names = BTreeSet::new();
        visit(&self.statements, &mut |command| {
            if matches!(command.name(), Some("source" | ".")) {
                let file = command.words.get(1).map(syntax::Word::unexpanded).unwrap_or_default();
                let directory = file.strip_prefix("$config_directory/").or(file.strip_prefix("$prefix/"));
                names.extend(directory.map(ToOwned::to_owned));
            }
        });
        names
    }

    /// True if its entries are files in `loader/entries` that `blscfg` reads.
    #[must_use]
    pub fn uses_blscfg(&self) -> bool {
        let mut found = false;
        visit(&self.statements, &mut |command| found |= matches!(command.name(), Some("blscfg" | "blsuki")));
        found
    }

    /// Number of `menuentry` commands of the file.
    #[must_use]
    pub fn entry_count(&self) -> usize {
        let mut count = 0;
        visit(&self.statements, &mut |command| count += usize::from(command.name() == Some("menuentry")));
        count
    }

    /// All entries that load a Linux kernel, submenus included, in the order of the file.
    #[must_use]
    pub fn all_linux_entries(&self) -> Vec<LinuxEntry> {
        let mut found = Vec::new();
        collect(&self.statements, &[], &mut found);
        found
    }
}

/// Every command, those of conditions, functions and blocks included.
fn visit(statements: &[Statement], act: &mut dyn FnMut(&Command)) {
    for statement in statements {
        match statement {
            Statement::Command(command) => {
                act(command);
                visit(command.block.as_deref().unwrap_or_default(), act);
            }
            Statement::If { arms, otherwise } => {
                for arm in arms {
                    visit(&arm.condition, act);
                    visit(&arm.body, act);
                }
                visit(otherwise, act);
            }
            Statement::Loop { inside } => visit(inside, act),
            Statement::Function { body, .. } => visit(body, act),
        }
    }
}

fn collect(statements: &[Statement], above: &[String], found: &mut Vec<LinuxEntry>) {
    for statement in statements {
        match statement {
            Statement::Command(command) => collect_command(command, above, found),
            Statement::If { arms, otherwise } => {
                arms.iter().for_each(|arm| collect(&arm.body, above, found));
                collect(otherwise, above, found);
            }
            Statement::Loop { inside } => collect(inside, above, found),
            Statement::Function { .. } => {}
        }
    }
}

fn collect_command(command: &Command, above: &[String], found: &mut Vec<LinuxEntry>) {
    let (Some(name @ ("menuentry" | "submenu")), Some(body)) = (command.name(), &command.block) else {
        return;
    };
    let words = command.words.iter().skip(1).map(as_written).collect();
    let Some(heading) = heading::Heading::of(words) else { return };
    let title = heading.positional.first().map(|title| title.text.clone());
    let path: Vec<_> = above.iter().cloned().chain(title).collect();
    if name == "submenu" {
        return collect(body, &path, found);
    }
    let lines = linux_lines(body);
    if !lines.is_empty() {
        found.push(LinuxEntry { path, id: heading.id.map(|id| id.text), lines });
    }
}

fn linux_lines(body: &[Statement]) -> Vec<LinuxLine> {
    let mut lines = Vec::new();
    visit(body, &mut |command| {
        if command.name().is_some_and(is_linux) {
            lines.extend(LinuxLine::of(command, |word| vec![as_written(word)]));
        }
    });
    lines
}

fn as_written(word: &syntax::Word) -> Value {
    Value {
        text: word.unexpanded(),
        unknown: word.variables().map(ToOwned::to_owned).collect(),
        ..Value::default()
    }
}
