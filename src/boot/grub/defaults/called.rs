//! Commands that the files run for certain. grub-mkconfig reads them under `set -e` (`. /etc/default/grub`), and so
//! ends at the first one that is not there: dash and bash both end with 127 at `GRUB_CMDLINE_LINUX=a b`, which runs
//! `b` with the variable set for it alone. They go on where it stands before `||`, `|` or `&`, behind `!` or in a
//! condition.

use std::path::PathBuf;

use super::evaluate::World;
use super::{ARGUMENT_VARIABLES, Defaults};
use crate::boot::grub::shell::{self, Command, Simple, Word};

/// What dash or bash has built in.
const BUILT_IN: [&str; 66] = [
    ".",
    ":",
    "[",
    "alias",
    "bg",
    "bind",
    "break",
    "builtin",
    "caller",
    "cd",
    "chdir",
    "command",
    "compgen",
    "complete",
    "compopt",
    "continue",
    "declare",
    "dirs",
    "disown",
    "echo",
    "enable",
    "eval",
    "exec",
    "exit",
    "export",
    "false",
    "fc",
    "fg",
    "getopts",
    "hash",
    "help",
    "history",
    "jobs",
    "kill",
    "let",
    "local",
    "logout",
    "mapfile",
    "popd",
    "printf",
    "pushd",
    "pwd",
    "read",
    "readarray",
    "readonly",
    "return",
    "set",
    "shift",
    "shopt",
    "source",
    "suspend",
    "test",
    "time",
    "times",
    "trap",
    "true",
    "type",
    "typeset",
    "ulimit",
    "umask",
    "unalias",
    "unset",
    "wait",
    "[[",
    "((",
    "coproc",
];

/// Functions of grub-mkconfig and its library, beside those that begin with one of [`FUNCTION_BEGINNINGS`].
const FUNCTIONS: [&str; 9] = [
    "make_system_path_relative_to_its_root",
    "is_path_readable_by_grub",
    "convert_system_path_to_grub_path",
    "save_default_entry",
    "prepare_grub_to_access_device",
    "uses_abstraction",
    "print_option_help",
    "usage",
    "argument",
];
const FUNCTION_BEGINNINGS: [&str; 3] = ["grub_", "gettext", "version_"];

/// A command that is run, and that the shell has to find among the programs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Called {
    /// Its name.
    pub name: String,
    /// The file.
    pub path: PathBuf,
    /// From 1.
    pub line: usize,
    /// The variable whose value was meant to hold it, most likely.
    pub cut_short: Option<String>,
}

/// The same, in one shell's way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Call {
    name: String,
    file: usize,
    at: usize,
    cut_short: Option<String>,
}

impl World {
    /// Keeps a command that stands by itself.
    pub(super) fn keep_call(&mut self, command: &Command) {
        let Command::Simple(simple) = command else { return };
        let Some(name) = name(simple) else { return };
        let is_certain = self.doubt.is_none() && !self.unseen_functions;
        if is_certain && !self.functions.contains(name.as_bytes()) && !is_known(&name) {
            self.calls.push(Call { name, file: self.file, at: simple.at, cut_short: cut_short(simple) });
        }
    }
}

fn name(simple: &Simple) -> Option<String> {
    let name = String::from_utf8(simple.words.first()?.literal()?).ok()?;
    (!name.is_empty() && !name.contains('/')).then_some(name)
}

fn is_known(name: &str) -> bool {
    BUILT_IN.contains(&name)
        || FUNCTIONS.contains(&name)
        || FUNCTION_BEGINNINGS.iter().any(|beginning| name.starts_with(beginning))
}

fn cut_short(simple: &Simple) -> Option<String> {
    let mut assigned = simple.assignments.iter().filter_map(Word::assignment).map(|one| one.name);
    assigned.find(|name| ARGUMENT_VARIABLES.contains(&name.as_str()) || name.starts_with("GRUB_"))
}

impl Defaults {
    /// The commands that both shells run for certain, and whose failure ends the reading.
    #[must_use]
    pub fn called(&self) -> Vec<Called> {
        let goes_on = |text: &[u8]| text.windows(5).any(|at| at == b"set +");
        if self.files.iter().any(|file| goes_on(&file.text)) {
            return Vec::new();
        }
        let [dash, bash] = &self.worlds;
        let both = dash.calls.iter().filter(|call| bash.calls.contains(call));
        both.filter_map(|call| self.placed(call)).collect()
    }

    fn placed(&self, call: &Call) -> Option<Called> {
        let file = self.files.get(call.file)?;
        Some(Called {
            name: call.name.clone(),
            path: file.path.clone(),
            line: shell::line_of(&file.text, call.at),
            cut_short: call.cut_short.clone(),
        })
    }
}
