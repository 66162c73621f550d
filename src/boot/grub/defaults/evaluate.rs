//! Follows the commands of the files in one shell's way, and keeps for each byte of each value where it
//! stands.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use super::builtin::{self, Action};
use super::called::Call;
use super::{Notice, SourceFile, dropin};
use crate::boot::grub::shell::{Command, Part, Sets, Simple, Tail, Word};

/// The shell that `/bin/sh` is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Dialect {
    Dash,
    Bash,
}

/// Why a value cannot be known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Reason {
    pub(super) why: String,
    pub(super) file: usize,
    pub(super) at: usize,
}

impl Reason {
    pub(super) fn new(why: &str, file: usize, at: usize) -> Self {
        Self { why: why.to_owned(), file, at }
    }
}

/// Where a byte of a value stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Origin {
    pub(super) file: usize,
    pub(super) span: Range<usize>,
    /// Where the word of its assignment begins.
    pub(super) assignment: usize,
}

/// A byte of a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct LiveByte {
    pub(super) byte: u8,
    pub(super) origin: Option<Origin>,
}

/// An assignment in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Site {
    pub(super) file: usize,
    pub(super) word: Range<usize>,
    pub(super) value_start: usize,
    pub(super) tail: Tail,
    /// The value has neither quotes nor backslashes.
    pub(super) plain: bool,
}

/// A known value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Text {
    pub(super) live: Vec<LiveByte>,
    /// The assignment that gave it.
    pub(super) site: Site,
}

impl Text {
    pub(super) fn bytes(&self) -> Vec<u8> {
        self.live.iter().map(|live| live.byte).collect()
    }
}

/// What a variable is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Val {
    Text(Text),
    Unset,
    Opaque(Reason),
}

/// The variables after the files, and the way there.
#[derive(Debug, Clone)]
pub(super) struct World {
    pub(super) dialect: Dialect,
    pub(super) variables: BTreeMap<String, Val>,
    pub(super) read_only: BTreeSet<String>,
    pub(super) notices: Vec<Notice>,
    pub(super) calls: Vec<Call>,
    /// Set once every variable may be anything.
    pub(super) anything: Option<Reason>,
    /// Set while it is not sure that commands are reached at all; `true` if it holds for later files too.
    pub(super) doubt: Option<(Reason, bool)>,
    pub(super) functions: BTreeSet<Vec<u8>>,
    /// Code we cannot see has run: any command may be a function by now.
    pub(super) unseen_functions: bool,
    pub(super) file: usize,
    ended: bool,
}

/// Set by grub-mkconfig itself before it reads the files.
const SET_BEFORE: [&str; 9] = [
    "GRUB_DEVICE",
    "GRUB_DEVICE_UUID",
    "GRUB_DEVICE_PARTUUID",
    "GRUB_DEVICE_BOOT",
    "GRUB_DEVICE_BOOT_UUID",
    "GRUB_DISABLE_OS_PROBER",
    "GRUB_FS",
    "GRUB_EARLY_INITRD_LINUX_STOCK",
    "GRUB_PREFIX",
];

/// Variables that bash gives a value of its own whatever is assigned.
pub(super) const VOLATILE: [&str; 16] = [
    "RANDOM",
    "SRANDOM",
    "SECONDS",
    "LINENO",
    "EPOCHSECONDS",
    "EPOCHREALTIME",
    "FUNCNAME",
    "GROUPS",
    "DIRSTACK",
    "PIPESTATUS",
    "HISTCMD",
    "OPTIND",
    "_",
    "COMP_WORDBREAKS",
    "BASHPID",
    "IFS",
];

/// Variables that bash refuses to assign.
pub(super) const REFUSED: [&str; 7] =
    ["UID", "EUID", "PPID", "SHELLOPTS", "BASHOPTS", "BASH_VERSINFO", "POSIXLY_CORRECT"];

impl World {
    /// Follows all files.
    pub(super) fn after(files: &[SourceFile], dialect: Dialect) -> Self {
        let mut world = Self {
            dialect,
            variables: BTreeMap::new(),
            read_only: BTreeSet::new(),
            notices: Vec::new(),
            calls: Vec::new(),
            anything: None,
            doubt: None,
            functions: BTreeSet::new(),
            unseen_functions: false,
            file: 0,
            ended: false,
        };
        for (index, file) in files.iter().enumerate() {
            world.file = index;
            world.follow(file);
        }
        world
    }

    fn follow(&mut self, file: &SourceFile) {
        self.doubt = self.doubt.take().filter(|(_, lasting)| *lasting);
        self.ended = false;
        if let Some(ours) = dropin::recognise(&file.text) {
            return dropin::apply(ours, self);
        }
        for command in &file.script.commands {
            if !self.ended {
                self.keep_call(command);
                self.run(command, file);
            }
        }
        if let Some(foreign) = file.script.unread.filter(|_| !self.ended) {
            self.note(
                file,
                "not-understood",
                foreign.at,
                format!("{}: the rest of the file is not read", foreign.what),
            );
            self.taint(&Reason::new(foreign.what, self.file, foreign.at));
        }
    }

    /// The variable as it is now.
    pub(super) fn lookup(&self, name: &str) -> Val {
        match (self.variables.get(name), &self.anything) {
            (Some(value), _) => value.clone(),
            (None, Some(reason)) => Val::Opaque(reason.clone()),
            (None, None)
                if VOLATILE.contains(&name) || !name.starts_with("GRUB_") || SET_BEFORE.contains(&name) =>
            {
                Val::Opaque(Reason::new("its value comes from outside these files", self.file, 0))
            }
            (None, None) => Val::Unset,
        }
    }

    pub(super) fn put(&mut self, name: &str, value: Val) {
        let value = match &self.doubt {
            Some((reason, _)) => Val::Opaque(reason.clone()),
            None => value,
        };
        self.variables.insert(name.to_owned(), value);
    }

    /// From here on nothing is known.
    pub(super) fn taint(&mut self, reason: &Reason) {
        self.variables.clear();
        self.anything = Some(reason.clone());
        self.unseen_functions = true;
    }

    fn run(&mut self, command: &Command, file: &SourceFile) {
        match command {
            Command::Simple(simple) => self.simple(simple, file),
            Command::Chain(first, others) => self.chain(first, others, file),
            Command::Perhaps { keyword, inside, variable, at } => {
                let reason = Reason::new(&format!("it depends on `{keyword}`"), self.file, *at);
                self.conditional(
                    inside.iter(),
                    variable.as_deref(),
                    &reason,
                    matches!(*keyword, "for" | "while" | "until"),
                );
            }
            Command::Apart => {}
            Command::Function(name) => {
                self.functions.insert(name.clone().into_bytes());
            }
        }
    }

    /// Runs the first, and the others as far as it is certain whether they run.
    fn chain(&mut self, first: &Command, others: &[(bool, Command)], file: &SourceFile) {
        self.run(first, file);
        let mut last = first;
        for (index, (on_success, command)) in others.iter().enumerate() {
            if !cannot_fail(last, self.dialect) {
                let reason = Reason::new("it depends on `&&` or `||`", self.file, start_of(first));
                let rest = others.iter().skip(index).map(|(_, command)| command);
                return self.conditional(rest, None, &reason, false);
            }
            if *on_success {
                self.run(command, file);
                last = command;
            }
        }
    }

    fn simple(&mut self, simple: &Simple, file: &SourceFile) {
        self.side_effects(simple);
        let appends = |word: &Word| word.assignment().is_some_and(|assignment| assignment.append);
        if let Some(word) = simple.assignments.iter().find(|word| appends(word)) {
            self.note(
                file,
                "bash-only-syntax",
                word.span.start,
                "`+=` is an error where /bin/sh is dash".to_owned(),
            );
            if self.dialect == Dialect::Dash {
                return;
            }
        }
        if simple.words.is_empty() {
            self.note_second_word(simple, file);
            for word in &simple.assignments {
                self.assign(word, simple.redirected, false);
            }
            return;
        }
        self.note_prefix(simple, file);
        self.command(simple, file);
    }

    fn command(&mut self, simple: &Simple, file: &SourceFile) {
        let action = self.action(simple);
        if simple.words.first().is_some_and(builtin::is_only_bash) {
            let text = "this command is an error where /bin/sh is dash".to_owned();
            self.note(file, "bash-only-syntax", simple.at, text);
        }
        self.prefix_of_special(simple);
        let reason = |why: &str| Reason::new(why, self.file, simple.at);
        match action {
            Action::Nothing => {}
            Action::Assigns(read_only) => self.declare(simple, read_only),
            Action::Unsets(names) => self.unset(&names, simple),
            Action::Computes(names) => {
                let reason = reason("a command sets it");
                names.iter().for_each(|name| self.put(name, Val::Opaque(reason.clone())));
            }
            Action::Anything(why) => self.taint(&reason(why)),
            Action::Ends => self.ended = true,
            Action::Leaves => {
                let reason = reason("`break` or `continue` outside a loop");
                self.taint(&reason);
                self.doubt = Some((reason, true));
            }
        }
    }

    /// The command's action, functions considered.
    pub(super) fn action(&self, simple: &Simple) -> Action {
        let name = simple.words.first().and_then(Word::literal).unwrap_or_default();
        if self.functions.contains(&name) {
            return Action::Anything("a function is called");
        }
        let action = builtin::action(simple, self.dialect);
        let foreign = action == Action::Nothing && !builtin::SPECIAL.contains(&name.as_slice());
        if foreign && self.unseen_functions {
            return Action::Anything("a command that may be a function by now");
        }
        action
    }

    fn declare(&mut self, simple: &Simple, read_only: bool) {
        for word in simple.words.iter().skip(1) {
            let name = match word.assignment() {
                Some(assignment) if assignment.append && self.dialect == Dialect::Dash => {
                    return self.taint(&Reason::new("`+=` after `export`", self.file, word.span.start));
                }
                Some(assignment) => {
                    self.assign(word, false, true);
                    assignment.name
                }
                None => String::from_utf8_lossy(&word.literal().unwrap_or_default()).into_owned(),
            };
            if read_only {
                self.read_only.insert(name);
            }
        }
    }

    fn unset(&mut self, names: &[String], simple: &Simple) {
        for name in names {
            if self.read_only.contains(name) {
                return self.refused(simple.at);
            }
            self.put(name, Val::Unset);
        }
    }

    /// The shell ends at an assignment to a read-only variable, or goes on without it.
    pub(super) fn refused(&mut self, at: usize) {
        let reason = Reason::new("a read-only variable is assigned", self.file, at);
        self.taint(&reason);
        self.doubt = Some((reason, true));
    }

    fn prefix_of_special(&mut self, simple: &Simple) {
        let name = simple.words.first().and_then(Word::literal).unwrap_or_default();
        if builtin::SPECIAL.contains(&name.as_slice()) {
            let reason = Reason::new(
                "an assignment in front of a command, which only some shells keep",
                self.file,
                simple.at,
            );
            let names: Vec<String> =
                simple.assignments.iter().filter_map(Word::assignment).map(|one| one.name).collect();
            names.iter().for_each(|name| self.put(name, Val::Opaque(reason.clone())));
        }
    }

    /// Expansions that assign.
    fn side_effects(&mut self, simple: &Simple) {
        for part in simple.assignments.iter().chain(&simple.words).flat_map(|word| &word.parts) {
            let Part::Computed(computed) = part else { continue };
            let reason = Reason::new(computed.what, self.file, computed.at);
            match &computed.sets {
                Sets::Nothing => {}
                Sets::One(name) => self.put(name, Val::Opaque(reason)),
                Sets::Anything => self.taint(&reason),
            }
        }
    }
}

/// True of plain assignments.
fn cannot_fail(command: &Command, dialect: Dialect) -> bool {
    let Command::Simple(simple) = command else { return false };
    let may_fail = |word: &Word| {
        let appends = word.assignment().is_some_and(|assignment| assignment.append);
        let computed = word.parts.iter().any(|part| matches!(part, Part::Computed(_)));
        computed || (appends && dialect == Dialect::Dash)
    };
    simple.words.is_empty() && !simple.redirected && !simple.assignments.iter().any(may_fail)
}

fn start_of(command: &Command) -> usize {
    match command {
        Command::Simple(simple) => simple.at,
        Command::Chain(first, _) => start_of(first),
        Command::Perhaps { at, .. } => *at,
        Command::Apart | Command::Function(_) => 0,
    }
}
