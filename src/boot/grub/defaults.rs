//! `/etc/default/grub` and its drop-ins: what the variables will be, and the smallest edit that takes the
//! cgroup v1 arguments out of them. Nothing is executed to find out.
//!
//! The files are followed twice, as dash and as bash would: a value is only called known if both agree.

mod builtin;
mod called;
mod dropin;
mod effects;
mod evaluate;
mod expand;
mod notices;
mod patch;
mod readers;
mod unify;
mod verify;

use std::ops::Range;
use std::path::{Path, PathBuf};

pub use called::Called;
pub use unify::{DefaultMode, EditError, Unification, unify};

use super::shell::{self, Script};
use evaluate::{Dialect, Reason, Val, World};

/// The main file.
pub const MAIN_FILE: &str = "/etc/default/grub";
/// The directory of the drop-ins.
pub const DROP_IN_DIRECTORY: &str = "/etc/default/grub.d";
/// The variables that hold kernel arguments.
pub const ARGUMENT_VARIABLES: [&str; 3] = [LINUX, LINUX_DEFAULT, "GRUB_CMDLINE_LINUX_RECOVERY"];

const LINUX: &str = "GRUB_CMDLINE_LINUX";
const LINUX_DEFAULT: &str = "GRUB_CMDLINE_LINUX_DEFAULT";

/// A file that cannot be read as the shell would.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// A byte no text file has.
    #[error("read {}:{line}: found a NUL byte; this is no shell text, restore the file from a backup", path.display())]
    Nul {
        /// The file.
        path: PathBuf,
        /// From 1.
        line: usize,
    },
    /// The shell would take the mark for part of the first word.
    #[error("read {}:1: found a byte order mark in front of the text; save the file without it", path.display())]
    ByteOrderMark {
        /// The file.
        path: PathBuf,
    },
    /// Neither dash nor bash would accept it.
    #[error("read {}:{line}: found {what}{hint}; grub-mkconfig cannot read this either, mend the line first", path.display())]
    Syntax {
        /// The file.
        path: PathBuf,
        /// From 1.
        line: usize,
        /// What is wrong.
        what: String,
        /// A likely reason, or empty.
        hint: &'static str,
    },
}

/// Text of a file that went into a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    /// The file.
    pub path: PathBuf,
    /// From 1.
    pub line: usize,
    /// Bytes of the file.
    pub span: Range<usize>,
}

/// What a variable will be after all files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    /// This text, from these places.
    Known {
        /// The text.
        text: Vec<u8>,
        /// In the order of the text.
        sources: Vec<Source>,
    },
    /// Not set by these files.
    Unset,
    /// Cannot be known without running shell code.
    Opaque {
        /// Why, for people.
        why: String,
        /// The file.
        path: PathBuf,
        /// From 1.
        line: usize,
    },
}

/// Something a person should know. The id is a stable word.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Notice {
    /// Stable word.
    pub id: &'static str,
    /// The file.
    pub path: PathBuf,
    /// From 1.
    pub line: usize,
    /// What was found, and what it means.
    pub text: String,
}

/// One file.
#[derive(Debug, Clone)]
struct SourceFile {
    path: PathBuf,
    text: Vec<u8>,
    script: Script,
}

/// The files, followed to their end.
#[derive(Debug, Clone)]
pub struct Defaults {
    files: Vec<SourceFile>,
    worlds: [World; 2],
}

impl Defaults {
    /// Follows the files as grub-mkconfig would: [`MAIN_FILE`], then each `*.cfg` directly below
    /// [`DROP_IN_DIRECTORY`] that does not begin with a dot, in byte order (the order of the C locale).
    /// Any other file is left out.
    ///
    /// # Errors
    /// [`ReadError`] if a file is no shell text.
    pub fn parse(files: Vec<(PathBuf, Vec<u8>)>) -> Result<Self, ReadError> {
        let mut files: Vec<_> = files.into_iter().filter(|(path, _)| is_read(path)).collect();
        files.sort_by_key(|(path, _)| rank(path));
        let files = files.into_iter().map(|(path, text)| read(path, text)).collect::<Result<Vec<_>, _>>()?;
        let worlds = [World::after(&files, Dialect::Dash), World::after(&files, Dialect::Bash)];
        Ok(Self { files, worlds })
    }

    /// What a variable will be.
    #[must_use]
    pub fn value(&self, name: &str) -> Value {
        let [dash, bash] = &self.worlds;
        match (dash.lookup(name), bash.lookup(name)) {
            (Val::Opaque(reason), _) | (_, Val::Opaque(reason)) => self.opaque(&reason),
            (Val::Unset, Val::Unset) => Value::Unset,
            (Val::Text(one), Val::Text(other)) if one.bytes() == other.bytes() => {
                Value::Known { text: one.bytes(), sources: self.sources(&one) }
            }
            (Val::Text(text), _) | (_, Val::Text(text)) => {
                let reason =
                    Reason::new("dash and bash read this differently", text.site.file, text.site.word.start);
                self.opaque(&reason)
            }
        }
    }

    /// The arguments of an ordinary menu entry, as 10_linux joins them.
    #[must_use]
    pub fn effective_arguments(&self) -> Value {
        match (self.value(LINUX), self.value(LINUX_DEFAULT)) {
            (Value::Opaque { why, path, line }, _) | (_, Value::Opaque { why, path, line }) => {
                Value::Opaque { why, path, line }
            }
            (first, second) => joined(first, second),
        }
    }

    /// What a person should know about these files.
    #[must_use]
    pub fn notices(&self) -> Vec<Notice> {
        let mut notices: Vec<Notice> =
            self.worlds.iter().flat_map(|world| world.notices.iter().cloned()).collect();
        notices.extend(self.order_notice());
        notices.sort();
        notices.dedup();
        notices
    }

    /// Drop-ins that both set kernel arguments and swap places in a locale that sorts like a dictionary.
    fn order_notice(&self) -> Option<Notice> {
        let sets_arguments = |file: &&SourceFile| {
            file.path.starts_with(DROP_IN_DIRECTORY)
                && file.text.windows(LINUX.len()).any(|at| at == LINUX.as_bytes())
        };
        let names: Vec<&SourceFile> = self.files.iter().filter(sets_arguments).collect();
        let keys = names.iter().zip(names.iter().skip(1));
        let (one, other) = keys
            .into_iter()
            .find(|(one, other)| dropin::dictionary_key(&one.path) > dropin::dictionary_key(&other.path))?;
        let text =
            format!("is read after {} in the C locale, but before it in many others", one.path.display());
        Some(Notice { id: "drop-in-order-depends-on-locale", path: other.path.clone(), line: 1, text })
    }

    fn opaque(&self, reason: &Reason) -> Value {
        let file = self.files.get(reason.file);
        let path = file.map(|file| file.path.clone()).unwrap_or_default();
        let line = file.map_or(1, |file| shell::line_of(&file.text, reason.at));
        Value::Opaque { why: reason.why.clone(), path, line }
    }

    fn sources(&self, text: &evaluate::Text) -> Vec<Source> {
        let mut sources: Vec<(usize, Range<usize>)> = Vec::new();
        for origin in text.live.iter().filter_map(|byte| byte.origin.as_ref()) {
            match sources.last_mut() {
                Some((file, span)) if *file == origin.file && span.end == origin.span.start => {
                    span.end = origin.span.end
                }
                Some(_) | None => sources.push((origin.file, origin.span.clone())),
            }
        }
        let named = |(file, span): (usize, Range<usize>)| {
            let file = self.files.get(file)?;
            Some(Source { path: file.path.clone(), line: shell::line_of(&file.text, span.start), span })
        };
        sources.into_iter().filter_map(named).collect()
    }
}

fn joined(first: Value, second: Value) -> Value {
    let mut all = (Vec::new(), Vec::new());
    for (index, value) in [first, second].into_iter().enumerate() {
        if index > 0 {
            all.0.push(b' ');
        }
        if let Value::Known { text, sources } = value {
            all.0.extend(text);
            all.1.extend(sources);
        }
    }
    Value::Known { text: all.0, sources: all.1 }
}

/// True if grub-mkconfig reads this file: the main one, or `*.cfg` in the directory as the shell matches it.
#[must_use]
pub fn is_read(path: &Path) -> bool {
    rank(path).is_some()
}

/// The place in the order of reading, or `None` if the file is not read.
fn rank(path: &Path) -> Option<Vec<u8>> {
    use std::os::unix::ffi::OsStrExt as _;
    if path == Path::new(MAIN_FILE) {
        return Some(Vec::new());
    }
    let name = path.file_name()?.as_bytes();
    let read =
        path.parent()? == Path::new(DROP_IN_DIRECTORY) && name.ends_with(b".cfg") && !name.starts_with(b".");
    read.then(|| name.to_vec())
}

fn read(path: PathBuf, text: Vec<u8>) -> Result<SourceFile, ReadError> {
    if let Some(at) = text.iter().position(|byte| *byte == 0) {
        return Err(ReadError::Nul { line: shell::line_of(&text, at), path });
    }
    if text.starts_with(b"\xef\xbb\xbf") {
        return Err(ReadError::ByteOrderMark { path });
    }
    match shell::read(&text) {
        Ok(script) => Ok(SourceFile { path, text, script }),
        Err(error) => {
            let windows = text.windows(2).any(|two| two == b"\r\n");
            let hint = if windows { " (the file has Windows line ends)" } else { "" };
            Err(ReadError::Syntax { line: shell::line_of(&text, error.at), path, what: error.what, hint })
        }
    }
}
