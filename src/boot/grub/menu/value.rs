//! What is known of GRUB's variables while its script is read.

use std::collections::{BTreeMap, BTreeSet};

use super::syntax::{Part, Word};

/// Stands for the directory that holds `grub.cfg`: GRUB knows where that is, a reader of the text does not,
/// and need not, as long as it is only put in front of a file's name. A noncharacter, so that no file can
/// hold it by accident.
pub(super) const GRUB_DIRECTORY: &str = "\u{fdd0}";

/// The value of a variable or of a word.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Value {
    /// The text; what is not known stands in it as `$name`.
    pub(super) text: String,
    /// Variables of the environment block that it came from.
    pub(super) origin: BTreeSet<String>,
    /// Variables whose value is not known.
    pub(super) unknown: BTreeSet<String>,
}

impl Value {
    pub(super) fn literal(text: impl Into<String>) -> Self {
        Self { text: text.into(), ..Self::default() }
    }

    pub(super) fn stored(name: &str, text: &str) -> Self {
        Self { text: text.to_owned(), origin: BTreeSet::from([name.to_owned()]), ..Self::default() }
    }

    pub(super) fn unknown(name: &str) -> Self {
        Self { text: format!("${name}"), unknown: BTreeSet::from([name.to_owned()]), ..Self::default() }
    }

    /// The text if all of it is known.
    pub(super) fn known(&self) -> Option<&str> {
        self.unknown.is_empty().then_some(self.text.as_str())
    }

    /// The text if all of it is known and none of it is a place that only GRUB knows.
    pub(super) fn comparable(&self) -> Option<&str> {
        self.known().filter(|text| !text.contains(GRUB_DIRECTORY))
    }

    fn append(&mut self, other: Self) {
        self.text.push_str(&other.text);
        self.origin.extend(other.origin);
        self.unknown.extend(other.unknown);
    }
}

/// The variables of one context.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Variables {
    set: BTreeMap<String, Value>,
    exported: BTreeSet<String>,
    /// `$1` and on, innermost call last.
    arguments: Vec<Vec<Value>>,
}

impl Variables {
    pub(super) fn get(&self, name: &str) -> Value {
        if name.bytes().all(|byte| byte.is_ascii_digit()) {
            return self.argument(name);
        }
        self.set.get(name).cloned().unwrap_or_else(|| built_in(name))
    }

    fn argument(&self, number: &str) -> Value {
        let place = number.parse::<usize>().ok().and_then(|number| number.checked_sub(1));
        let arguments = self.arguments.last();
        place.and_then(|place| arguments?.get(place).cloned()).unwrap_or_default()
    }

    pub(super) fn set(&mut self, name: &str, value: Value) {
        self.set.insert(name.to_owned(), value);
    }

    /// As in GRUB, an unset variable and an empty one read the same.
    pub(super) fn unset(&mut self, name: &str) {
        self.set(name, Value::default());
    }

    pub(super) fn forget(&mut self, name: &str) {
        self.set(name, Value::unknown(name));
    }

    pub(super) fn export(&mut self, name: &str) {
        self.exported.insert(name.to_owned());
    }

    pub(super) fn is_exported(&self, name: &str) -> bool {
        self.exported.contains(name)
    }

    pub(super) fn enter(&mut self, arguments: Vec<Value>) {
        self.arguments.push(arguments);
    }

    pub(super) fn leave(&mut self) {
        self.arguments.pop();
    }

    /// What a submenu sees: GRUB opens a new context for it that inherits exported variables only.
    pub(super) fn of_submenu(&self) -> Self {
        let exported = self.exported.clone();
        let set = self.set.iter().filter(|(name, _)| exported.contains(*name));
        Self {
            set: set.map(|(name, value)| (name.clone(), value.clone())).collect(),
            exported,
            arguments: Vec::new(),
        }
    }

    /// What is known after one of two ways was taken and nobody can say which.
    pub(super) fn either(one: &Self, other: &Self) -> Self {
        let mut merged = one.clone();
        merged.exported.extend(other.exported.iter().cloned());
        for name in one.set.keys().chain(other.set.keys()) {
            if one.get(name) != other.get(name) {
                merged.forget(name);
            }
        }
        merged
    }

    /// The words a command gets from one word of the source.
    pub(super) fn expand(&self, word: &Word) -> Vec<Value> {
        let mut fields = vec![Value::default()];
        let mut vanishes = !word.quoted;
        for part in &word.parts {
            vanishes &= matches!(part, Part::Variable { quoted: false, .. });
            self.expand_part(part, &mut fields);
        }
        fields.retain(|field| !vanishes || !field.text.is_empty());
        fields
    }

    fn expand_part(&self, part: &Part, fields: &mut Vec<Value>) {
        let (value, split) = match part {
            Part::Text(text) => (Value::literal(text.clone()), false),
            Part::Variable { name, quoted } => (self.get(name), !quoted),
        };
        if split && value.text.contains([' ', '\t', '\n']) {
            append_split(&value, fields);
        } else if let Some(last) = fields.last_mut() {
            last.append(value);
        }
    }

    /// A word as one value, as in an assignment.
    pub(super) fn joined(&self, word: &Word) -> Value {
        let mut fields = self.expand(word).into_iter();
        let mut whole = fields.next().unwrap_or_default();
        for field in fields {
            whole.append(Value::literal(" "));
            whole.append(field);
        }
        whole
    }
}

fn append_split(value: &Value, fields: &mut Vec<Value>) {
    for (position, piece) in value.text.split([' ', '\t', '\n']).enumerate() {
        let piece = Value { text: piece.to_owned(), ..value.clone() };
        match fields.last_mut() {
            Some(last) if position == 0 || last.text.is_empty() => last.append(piece),
            _ => fields.push(piece),
        }
    }
    if fields.len() > 1 && fields.last().is_some_and(|field| field.text.is_empty()) {
        fields.pop();
    }
}

/// Features that every GRUB since 2.02 announces; `grub-mkconfig` asks for them.
const FEATURES: [&str; 9] = [
    "feature_chainloader_bpb",
    "feature_ntldr",
    "feature_platform_search_hint",
    "feature_default_font_path",
    "feature_all_video_module",
    "feature_menuentry_id",
    "feature_menuentry_options",
    "feature_200_final",
    "feature_nativedisk_cmd",
];

/// What firmware, disk and the embedded part of GRUB decide.
const DECIDED_BY_MACHINE: [&str; 15] = [
    "root",
    "cmdpath",
    "config_file",
    "chosen",
    "lockdown",
    "shim_lock",
    "secureboot",
    "lang",
    "?",
    "#",
    "*",
    "@",
    "biosnum",
    "debug",
    "env_block_device",
];
const FAMILIES_DECIDED_BY_MACHINE: [&str; 6] = ["feature_", "grub_", "net_", "pxe_", "smbios", "tpm"];

fn built_in(name: &str) -> Value {
    if FEATURES.contains(&name) || name == "feature_timeout_style" {
        return Value::literal("y");
    }
    if matches!(name, "prefix" | "config_directory") {
        return Value::literal(GRUB_DIRECTORY);
    }
    let is_of_machine = |start: &&str| name.starts_with(*start);
    if DECIDED_BY_MACHINE.contains(&name) || FAMILIES_DECIDED_BY_MACHINE.iter().any(is_of_machine) {
        return Value::unknown(name);
    }
    Value::default()
}
