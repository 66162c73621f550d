//! Commands that may run or not: all they could set becomes unknown.

use std::collections::BTreeSet;

use super::builtin::Action;
use super::evaluate::{Reason, Val, World};
use crate::boot::grub::shell::{Command, Part, Sets, Simple, Word};

/// What commands could do.
#[derive(Debug, Default)]
struct Effects {
    names: BTreeSet<String>,
    functions: BTreeSet<Vec<u8>>,
    anything: bool,
    ends: bool,
    leaves: bool,
}

impl World {
    /// Follows commands of which it is not known whether they run.
    pub(super) fn conditional<'a>(
        &mut self,
        commands: impl Iterator<Item = &'a Command>,
        variable: Option<&str>,
        reason: &Reason,
        in_loop: bool,
    ) {
        let mut effects = Effects::default();
        effects.names.extend(variable.map(str::to_owned));
        for command in commands {
            self.collect(command, in_loop, &mut effects);
        }
        self.apply(effects, reason);
    }

    fn apply(&mut self, effects: Effects, reason: &Reason) {
        self.functions.extend(effects.functions);
        if effects.anything
            || effects.leaves
            || effects.names.iter().any(|name| self.read_only.contains(name))
        {
            self.taint(reason);
        }
        for name in &effects.names {
            self.put(name, Val::Opaque(reason.clone()));
        }
        if effects.ends || effects.leaves {
            let lasting = effects.leaves || self.doubt.as_ref().is_some_and(|(_, lasting)| *lasting);
            self.doubt = Some((reason.clone(), lasting));
        }
    }

    fn collect(&self, command: &Command, in_loop: bool, effects: &mut Effects) {
        match command {
            Command::Simple(simple) => self.collect_simple(simple, in_loop, effects),
            Command::Chain(first, others) => {
                self.collect(first, in_loop, effects);
                others.iter().for_each(|(_, command)| self.collect(command, in_loop, effects));
            }
            Command::Perhaps { keyword, inside, variable, .. } => {
                let in_loop = in_loop || matches!(*keyword, "for" | "while" | "until");
                effects.names.extend(variable.clone());
                inside.iter().for_each(|command| self.collect(command, in_loop, effects));
            }
            Command::Apart => {}
            Command::Function(name) => {
                // Called further on inside, it would not be known yet.
                effects.functions.insert(name.clone().into_bytes());
                effects.anything = true;
            }
        }
    }

    fn collect_simple(&self, simple: &Simple, in_loop: bool, effects: &mut Effects) {
        for part in simple.assignments.iter().chain(&simple.words).flat_map(|word| &word.parts) {
            let Part::Computed(computed) = part else { continue };
            match &computed.sets {
                Sets::Nothing => {}
                Sets::One(name) => effects.names.extend([name.clone()]),
                Sets::Anything => effects.anything = true,
            }
        }
        let assigned =
            simple.assignments.iter().filter_map(Word::assignment).map(|assignment| assignment.name);
        effects.names.extend(assigned);
        match self.action(simple) {
            Action::Nothing => {}
            Action::Assigns(read_only) => {
                effects.anything |= read_only;
                let words = simple.words.iter().skip(1);
                effects.names.extend(words.filter_map(Word::assignment).map(|assignment| assignment.name));
            }
            Action::Unsets(names) | Action::Computes(names) => effects.names.extend(names),
            Action::Anything(_) => effects.anything = true,
            Action::Ends => effects.ends = true,
            Action::Leaves => effects.leaves |= !in_loop,
        }
    }
}
