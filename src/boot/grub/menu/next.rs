//! What GRUB boots next.

use std::fmt;

use super::evaluate::{Evaluation, Kernel};
use super::heading::Entry;
use super::linux::LinuxLine;
use super::select::select;
use super::value::Value;
use super::{Build, Menu};
use crate::boot::grub::env::GrubEnv;

/// What made it the default.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChosenBy {
    /// A variable of the environment block: `next_entry` (one boot), `saved_entry`, `prev_saved_entry`.
    Environment {
        /// Name of the variable.
        variable: String,
        /// Its value.
        value: String,
    },
    /// A value that stands in `grub.cfg`, from `GRUB_DEFAULT`.
    Written(String),
    /// Nothing names a default: GRUB takes the first entry.
    First,
}

impl fmt::Display for ChosenBy {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Environment { variable, value } => write!(formatter, "{variable}={value} in grubenv"),
            Self::Written(value) => write!(formatter, "default {value} in grub.cfg"),
            Self::First => formatter.write_str("no default, so the first entry"),
        }
    }
}

/// The entry GRUB boots if nobody touches a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NextEntry {
    /// Titles from the outermost submenu to the entry.
    pub path: Vec<String>,
    /// Its id; the title where it has none of its own.
    pub id: String,
    /// Its kernel line; `None` for entries that boot something else (firmware, memtest, another loader).
    pub linux: Option<LinuxLine>,
    /// Files of its `initrd` line, as GRUB sees them; none if it has no such line. `None` if that depends on the
    /// machine.
    pub initrd: Option<Vec<String>>,
    /// Why it is this one.
    pub chosen_by: ChosenBy,
    /// The default names an entry that is not there, and GRUB silently takes the first one.
    pub fell_back: bool,
    /// No timeout is set: GRUB waits for a key and boots nothing by itself.
    pub waits_for_key: bool,
    /// Superusers are set and the entry is not `--unrestricted`: GRUB asks for a password.
    pub asks_password: bool,
}

/// The answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NextBoot {
    /// This entry.
    Entry(Box<NextEntry>),
    /// Nobody can say without running GRUB.
    Undetermined {
        /// The reason, as a clause: `blscfg: its entries are …`.
        why: String,
    },
}

/// Follows the menu with this environment block.
#[must_use]
pub fn next_boot(menu: &Menu, env: &GrubEnv) -> NextBoot {
    match follow(menu, env) {
        Ok(entry) => NextBoot::Entry(Box::new(entry)),
        Err(why) => NextBoot::Undetermined { why },
    }
}

fn follow(menu: &Menu, env: &GrubEnv) -> Result<NextEntry, String> {
    let top = Evaluation::of(menu, env);
    transparent(&top)?;
    let default = top.variables.get("default");
    let Some(text) = default.known() else {
        return Err(format!("the default is set to `{}`, which is not known before GRUB runs", default.text));
    };
    let descent = descend(&top, text, menu.build)?;
    let entry = descent.entry;
    Ok(NextEntry {
        path: descent.path,
        id: entry.id,
        linux: kernel_of(descent.inside.kernel)?,
        initrd: descent.inside.initrd,
        chosen_by: chosen_by(&default),
        fell_back: descent.fell_back,
        waits_for_key: waits(&top.variables.get("timeout")),
        asks_password: descent.restricted && is_set(&top.variables.get("superusers")),
    })
}

struct Descent<'m> {
    path: Vec<String>,
    entry: Entry<'m>,
    inside: Evaluation<'m>,
    fell_back: bool,
    restricted: bool,
}

/// Opens submenus until an entry is reached.
fn descend<'m>(top: &Evaluation<'m>, default: &str, build: Build) -> Result<Descent<'m>, String> {
    let mut level = top.clone();
    let mut default = default.to_owned();
    let (mut path, mut fell_back, mut restricted) = (Vec::new(), false, false);
    loop {
        let selected = select(&level.entries, &default, build)?;
        fell_back |= selected.fell_back;
        let entry = level.entries.get(selected.index).cloned().ok_or("the menu has no entry")?;
        restricted |= !entry.unrestricted;
        path.push(entry.title.clone());
        let inside = level.enter(&entry);
        transparent(&inside)?;
        if !entry.submenu {
            return Ok(Descent { path, entry, inside, fell_back, restricted });
        }
        default = submenu_default(&level, &inside, selected.rest)?;
        level = inside;
    }
}

/// Only what follows `>` counts in a submenu, unless the script does something of its own with `default`.
fn submenu_default(
    outer: &Evaluation<'_>,
    inside: &Evaluation<'_>,
    rest: Option<&str>,
) -> Result<String, String> {
    // Whether an exported default survives into a submenu differs between versions of GRUB.
    if rest.is_none() && outer.variables.is_exported("default") {
        return Err("`default` is exported into a submenu".to_owned());
    }
    if !outer.variables.is_exported("default") && is_set(&inside.variables.get("default")) {
        return Err("a submenu sets `default` itself".to_owned());
    }
    Ok(rest.unwrap_or_default().to_owned())
}

fn transparent(evaluation: &Evaluation<'_>) -> Result<(), String> {
    evaluation.opaque.clone().map_or(Ok(()), Err)
}

fn kernel_of(kernel: Kernel) -> Result<Option<LinuxLine>, String> {
    match kernel {
        Kernel::None => Ok(None),
        Kernel::Loaded(line) => Ok(Some(line)),
        Kernel::Doubt(why) => Err(why),
    }
}

fn chosen_by(default: &Value) -> ChosenBy {
    let value = default.text.clone();
    match default.origin.first() {
        Some(variable) => ChosenBy::Environment { variable: variable.clone(), value },
        None if value.is_empty() => ChosenBy::First,
        None => ChosenBy::Written(value),
    }
}

fn waits(timeout: &Value) -> bool {
    timeout.known().is_some_and(|text| !text.trim_start().starts_with(|c: char| c.is_ascii_digit()))
}

fn is_set(value: &Value) -> bool {
    !value.text.is_empty()
}
