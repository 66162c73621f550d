//! Follows a generated `grub.cfg` the way GRUB would, as far as its text and the environment block decide.
//!
//! Where only the machine can decide (firmware, hardware, files nobody read), both ways are followed; what
//! comes out the same is known, the rest is in doubt. A command this reader does not know makes the whole
//! script opaque: it might set anything.

use std::collections::BTreeMap;

use super::Menu;
use super::heading::{Entry, Heading};
use super::linux::LinuxLine;
use super::syntax::{Arm, Command, Statement, Word, is_linux};
use super::value::{Value, Variables};
use crate::boot::grub::env::GrubEnv;

/// Far more than a generated file runs; ends scripts whose functions call each other without end.
const MAX_STEPS: usize = 100_000;
const MAX_CALLS: usize = 16;

/// The kernel an entry loads.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) enum Kernel {
    #[default]
    None,
    Loaded(LinuxLine),
    Doubt(String),
}

impl Kernel {
    /// `linuxefi` under EFI and `linux16` elsewhere make no difference to the kernel.
    fn boots_the_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Loaded(one), Self::Loaded(other)) => {
                (&one.kernel, &one.arguments) == (&other.kernel, &other.arguments)
            }
            (one, other) => one == other,
        }
    }
}

#[derive(Debug, Clone)]
pub(super) struct Evaluation<'m> {
    pub(super) menu: &'m Menu,
    pub(super) env: &'m GrubEnv,
    pub(super) variables: Variables,
    functions: BTreeMap<&'m str, &'m [Statement]>,
    pub(super) entries: Vec<Entry<'m>>,
    pub(super) kernel: Kernel,
    /// Files of the initial ramdisk; `None` if it depends on the machine which.
    pub(super) initrd: Option<Vec<String>>,
    /// Why the rest of the script means nothing to us.
    pub(super) opaque: Option<String>,
    pub(super) in_entry: bool,
    calls: usize,
    steps: usize,
}

impl<'m> Evaluation<'m> {
    /// Reads the whole file.
    pub(super) fn of(menu: &'m Menu, env: &'m GrubEnv) -> Self {
        let mut evaluation = Self {
            menu,
            env,
            variables: Variables::default(),
            functions: BTreeMap::new(),
            entries: Vec::new(),
            kernel: Kernel::None,
            initrd: Some(Vec::new()),
            opaque: None,
            in_entry: false,
            calls: 0,
            steps: 0,
        };
        evaluation.run(&menu.statements);
        evaluation
    }

    /// Runs an entry of the menu; its own entries, if it is a submenu, are in `entries` afterwards.
    pub(super) fn enter(&self, entry: &Entry<'m>) -> Self {
        let mut inside = self.clone();
        inside.entries.clear();
        inside.in_entry = !entry.submenu;
        if entry.submenu {
            inside.variables = self.variables.of_submenu();
        }
        inside.variables.enter(entry.arguments.clone());
        inside.run(entry.body);
        inside
    }

    pub(super) fn give_up(&mut self, why: String) {
        self.opaque.get_or_insert(why);
    }

    fn run(&mut self, statements: &'m [Statement]) -> Option<bool> {
        let mut status = Some(true);
        for statement in statements {
            self.steps += 1;
            if self.steps > MAX_STEPS {
                self.give_up("the script runs too long to be followed".to_owned());
            }
            if self.opaque.is_some() {
                return None;
            }
            status = self.statement(statement);
        }
        status
    }

    fn statement(&mut self, statement: &'m Statement) -> Option<bool> {
        match statement {
            Statement::Command(command) => self.command(command),
            Statement::If { arms, otherwise } => {
                self.conditional(arms, otherwise);
                None
            }
            Statement::Loop { .. } => {
                self.give_up("it has a loop".to_owned());
                None
            }
            Statement::Function { name, body } => {
                self.functions.insert(name, body);
                Some(true)
            }
        }
    }

    fn conditional(&mut self, arms: &'m [Arm], otherwise: &'m [Statement]) {
        let Some((arm, rest)) = arms.split_first() else {
            self.run(otherwise);
            return;
        };
        match self.run(&arm.condition) {
            Some(true) => {
                self.run(&arm.body);
            }
            Some(false) => self.conditional(rest, otherwise),
            None => self.both_ways(&arm.body, rest, otherwise),
        }
    }

    fn both_ways(&mut self, body: &'m [Statement], rest: &'m [Arm], otherwise: &'m [Statement]) {
        let mut one = self.clone();
        one.run(body);
        self.steps = one.steps;
        let before = self.entries.len();
        self.conditional(rest, otherwise);
        self.merge(one, before);
    }

    fn merge(&mut self, one: Self, before: usize) {
        let why = "whether it is in the menu depends on the machine (a condition in grub.cfg)";
        let doubt = |entry: Entry<'m>| Entry { doubt: Some(format!("`{}`: {why}", entry.title)), ..entry };
        let mut tail: Vec<_> = one.entries.into_iter().skip(before).collect();
        tail.extend(self.entries.split_off(before));
        self.entries.extend(tail.into_iter().map(doubt));
        self.variables = Variables::either(&self.variables, &one.variables);
        self.functions.extend(one.functions);
        if !self.kernel.boots_the_same(&one.kernel) {
            let why = "its `linux` line depends on the machine (a condition in grub.cfg)".to_owned();
            self.kernel = Kernel::Doubt(why);
        }
        if self.initrd != one.initrd {
            self.initrd = None;
        }
        if let Some(why) = one.opaque {
            self.give_up(why);
        }
    }

    pub(super) fn words(&self, words: &[Word]) -> Vec<Value> {
        words.iter().flat_map(|word| self.variables.expand(word)).collect()
    }

    fn command(&mut self, command: &'m Command) -> Option<bool> {
        let (first, rest) = command.words.split_first()?;
        if first.plain() == Some("!") {
            let words = rest.to_vec();
            let inner = Command { words, block: None, tail: command.tail.clone() };
            return self.simple(&inner).map(|status| !status);
        }
        match command.name() {
            Some("menuentry" | "submenu") => {
                self.add_entry(command);
                Some(true)
            }
            Some(_) | None => self.simple(command),
        }
    }

    fn simple(&mut self, command: &Command) -> Option<bool> {
        let Some((first, rest)) = command.words.split_first() else { return Some(true) };
        let name = self.variables.joined(first);
        if rest.is_empty() && self.assigned(&name) {
            return Some(true);
        }
        let Some(name) = name.known().map(ToOwned::to_owned) else {
            self.give_up(format!("the command `{}` is not known before GRUB runs", name.text));
            return None;
        };
        if is_linux(&name) {
            return self.load(command);
        }
        if let Some(body) = self.functions.get(name.as_str()).copied() {
            let arguments = self.words(rest);
            return self.call(body, arguments);
        }
        self.builtin(&name, rest)
    }

    pub(super) fn call(&mut self, body: &'m [Statement], arguments: Vec<Value>) -> Option<bool> {
        if self.calls >= MAX_CALLS {
            self.give_up("its functions call each other too deeply".to_owned());
            return None;
        }
        self.calls += 1;
        self.variables.enter(arguments);
        let status = self.run(body);
        self.variables.leave();
        self.calls -= 1;
        status
    }

    fn load(&mut self, command: &Command) -> Option<bool> {
        if !self.in_entry {
            self.give_up("it loads a kernel outside of a menu entry".to_owned());
            return None;
        }
        // A kernel that is loaded drops the ramdisk of one before it.
        self.initrd = Some(Vec::new());
        self.kernel = match LinuxLine::of(command, |word| self.variables.expand(word)) {
            Some(line) => Kernel::Loaded(line),
            None => Kernel::Doubt("its `linux` line names no kernel".to_owned()),
        };
        Some(true)
    }

    fn add_entry(&mut self, command: &'m Command) {
        let words = self.words(command.words.get(1..).unwrap_or_default());
        let Some(body) = command.block.as_deref() else {
            self.give_up("a menu entry has no block in braces".to_owned());
            return;
        };
        let submenu = command.name() == Some("submenu");
        match Heading::of(words) {
            Some(heading) => self.entries.push(heading.entry(submenu, body)),
            None => self.give_up("a menu entry has no title".to_owned()),
        }
    }
}
