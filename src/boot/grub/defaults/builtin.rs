//! Which commands can set a variable of the shell that runs them.

use super::evaluate::Dialect;
use crate::boot::grub::shell::{Part, Quote, Simple, Word, variable_name};

/// What a command does to variables.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Action {
    /// Nothing.
    Nothing,
    /// Its arguments are assignments or names; `true` makes them read-only.
    Assigns(bool),
    /// Unsets these.
    Unsets(Vec<String>),
    /// Gives these a value nobody knows beforehand.
    Computes(Vec<String>),
    /// May set anything.
    Anything(&'static str),
    /// Ends the file.
    Ends,
    /// Ends a loop: the one of grub-mkconfig itself, if the file has none around it.
    Leaves,
}

/// Special built-in commands: assignments in front of them stay in effect in some shells.
pub(super) const SPECIAL: [&[u8]; 15] = [
    b":",
    b".",
    b"break",
    b"continue",
    b"eval",
    b"exec",
    b"exit",
    b"export",
    b"readonly",
    b"return",
    b"set",
    b"shift",
    b"times",
    b"trap",
    b"unset",
];

/// Judges a command by its name and arguments.
pub(super) fn action(simple: &Simple, dialect: Dialect) -> Action {
    let Some((first, arguments)) = simple.words.split_first() else { return Action::Nothing };
    if let Some(name) = array_element(first) {
        return if dialect == Dialect::Bash { Action::Computes(vec![name]) } else { Action::Nothing };
    }
    let Some(name) = first.literal() else { return Action::Anything("a command whose name is computed") };
    match name.as_slice() {
        b"export" => declares(arguments, false),
        b"readonly" => declares(arguments, true),
        b"unset" => unsets(arguments),
        b"set" => sets(arguments),
        b"read" => Action::Computes(names(arguments)),
        b"return" | b"exit" => Action::Ends,
        b"break" | b"continue" => Action::Leaves,
        b"declare" | b"typeset" | b"local" | b"source" | b"let" | b"mapfile" | b"readarray" => {
            only_bash(&name, arguments, dialect)
        }
        b"." => Action::Anything("another file is read"),
        b"printf" | b"command" => with_option(arguments, &name),
        other => by_name(other),
    }
}

/// True if bash knows the command and dash does not.
pub(super) fn is_only_bash(word: &Word) -> bool {
    let name = word.literal().unwrap_or_default();
    let known: [&[u8]; 6] = [b"declare", b"typeset", b"source", b"let", b"mapfile", b"readarray"];
    known.contains(&name.as_slice()) || array_element(word).is_some()
}

fn only_bash(name: &[u8], arguments: &[Word], dialect: Dialect) -> Action {
    match (dialect, name) {
        (Dialect::Dash, b"local") => Action::Anything("`local` outside a function"),
        (Dialect::Dash, _) => Action::Nothing,
        (Dialect::Bash, b"declare" | b"typeset" | b"local") => match declared(arguments) {
            Some(names) => Action::Computes(names),
            None => Action::Anything("a declaration whose names are computed"),
        },
        (Dialect::Bash, b"source") => Action::Anything("another file is read"),
        (Dialect::Bash, _) => Action::Anything("a command that sets variables"),
    }
}

fn declared(arguments: &[Word]) -> Option<Vec<String>> {
    let is_option = |word: &&Word| !word.literal().is_some_and(|text| text.starts_with(b"-"));
    arguments.iter().filter(is_option).map(named).collect()
}

fn named(word: &Word) -> Option<String> {
    match word.assignment() {
        Some(assignment) => Some(assignment.name),
        None => variable_name(&word.literal()?),
    }
}

fn declares(arguments: &[Word], read_only: bool) -> Action {
    let is_list = arguments.iter().all(|word| word.literal().as_deref() == Some(b"-p"));
    if is_list {
        return Action::Nothing;
    }
    if arguments.iter().all(|word| named(word).is_some()) {
        return Action::Assigns(read_only);
    }
    Action::Anything("`export` or `readonly` of something computed")
}

fn unsets(arguments: &[Word]) -> Action {
    let rest = match arguments.first().and_then(Word::literal).as_deref() {
        Some(b"-v") => arguments.get(1..).unwrap_or_default(),
        Some(_) | None => arguments,
    };
    let names: Option<Vec<String>> = rest.iter().map(|word| variable_name(&word.literal()?)).collect();
    names.map_or(Action::Anything("`unset` of something computed"), Action::Unsets)
}

/// Options that change how the rest of the file is read make everything after them unknown.
fn sets(arguments: &[Word]) -> Action {
    let harmless = |word: &Word| {
        word.literal().is_some_and(|text| match text.split_first() {
            Some((b'-', flags)) => flags.iter().all(|flag| b"aefxvhbmC".contains(flag)),
            Some((b'+', flags)) => flags.iter().all(|flag| b"aefxvhbmCu".contains(flag)),
            Some(_) | None => false,
        })
    };
    let parameters = arguments.first().and_then(Word::literal).as_deref() == Some(b"--");
    if parameters || arguments.iter().all(harmless) {
        Action::Nothing
    } else {
        Action::Anything("an option of the shell is set")
    }
}

fn names(arguments: &[Word]) -> Vec<String> {
    arguments.iter().filter_map(|word| variable_name(&word.literal()?)).collect()
}

fn with_option(arguments: &[Word], name: &[u8]) -> Action {
    let option = arguments.first().and_then(Word::literal);
    match (name, option.as_deref()) {
        (b"printf", Some(b"-v") | None) => Action::Anything("`printf` into a variable"),
        (b"printf", Some(_)) | (_, Some(b"-v" | b"-V")) => Action::Nothing,
        (_, _) => Action::Anything("a command run in an unusual way"),
    }
}

fn by_name(name: &[u8]) -> Action {
    match name {
        b"eval" => Action::Anything("`eval`"),
        b"exec" | b"trap" | b"alias" | b"unalias" | b"getopts" | b"enable" | b"builtin" | b"shopt" => {
            Action::Anything("a command that changes the shell")
        }
        b"grub_warn" | b"gettext" | b"gettext_printf" => Action::Nothing,
        // The other functions of grub-mkconfig_lib.
        name if name.starts_with(b"grub_") => Action::Anything("a function of grub-mkconfig"),
        _ => Action::Nothing,
    }
}

/// `NAME[…` at the beginning of a command: in bash the element of an array, the first being the variable itself.
fn array_element(word: &Word) -> Option<String> {
    let plain = |part: &Part| match part {
        Part::Byte { byte, quote: Quote::Plain, .. } => Some(*byte),
        Part::Byte { .. } | Part::Variable { .. } | Part::Computed(_) => None,
    };
    let head: Vec<u8> = word.parts.iter().map_while(plain).collect();
    let open = head.iter().position(|byte| *byte == b'[')?;
    variable_name(head.get(..open)?)
}
