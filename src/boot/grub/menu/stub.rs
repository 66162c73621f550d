//! The small `grub.cfg` on an EFI system partition that only finds the real one.

use super::syntax::{Command, Statement};
use super::{Menu, visit};

/// Where a stub leads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stub {
    /// Path of the real file inside its own file system: `/boot/grub/grub.cfg`, or `/grub/grub.cfg` where
    /// `/boot` is one of its own.
    pub target: String,
    /// UUID of that file system, if the stub searches by it.
    pub uuid: Option<String>,
}

/// The target if the text only searches a file system, sets `prefix` and hands over; `None` if it has entries
/// of its own, or is no GRUB script.
#[must_use]
pub fn is_stub(text: &str) -> Option<Stub> {
    let menu = Menu::parse(text).ok()?;
    if menu.entry_count() > 0 || menu.uses_blscfg() {
        return None;
    }
    let mut reading = Reading::default();
    visit(&menu.statements, &mut |command| reading.command(command));
    let target = reading.target.filter(|_| is_short(&menu.statements))?;
    Some(Stub { target, uuid: reading.uuid })
}

/// A full `grub.cfg` sources `custom.cfg` too; no stub has as many commands as its header.
fn is_short(statements: &[Statement]) -> bool {
    let mut commands = 0;
    visit(statements, &mut |_| commands += 1);
    commands <= 24
}

#[derive(Default)]
struct Reading {
    prefix: String,
    uuid: Option<String>,
    target: Option<String>,
}

impl Reading {
    fn command(&mut self, command: &Command) {
        let words: Vec<_> = command.words.iter().map(|word| word.unexpanded()).collect();
        let Some((name, rest)) = words.split_first() else { return };
        match name.as_str() {
            "search.fs_uuid" => self.uuid = rest.first().cloned(),
            "search" => self.search(rest),
            "set" => {
                let prefix = rest.iter().find_map(|word| word.strip_prefix("prefix="));
                self.prefix = prefix.map_or(std::mem::take(&mut self.prefix), path_of);
            }
            "configfile" | "source" | "." => {
                self.target = rest.first().map(|file| path_of(&file.replace("$prefix", &self.prefix)));
            }
            _ => {}
        }
    }

    fn search(&mut self, rest: &[String]) {
        if rest.iter().any(|word| word == "--fs-uuid" || word == "-u") {
            self.uuid = rest.iter().rfind(|word| !word.starts_with('-')).cloned();
        }
    }
}

/// Without the device in front: `($root)/boot/grub` is `/boot/grub`.
fn path_of(path: &str) -> String {
    path.split_once(')').map_or(path, |(_, path)| path).to_owned()
}
