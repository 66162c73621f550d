//! Entries of a menu, and the words between `menuentry` and `{` they are made from.

use super::syntax::Statement;
use super::value::Value;

/// A menu entry as GRUB would have it in its list.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Entry<'m> {
    pub(super) title: String,
    pub(super) id: String,
    pub(super) submenu: bool,
    /// Bootable without a password even where superusers are set.
    pub(super) unrestricted: bool,
    pub(super) arguments: Vec<Value>,
    pub(super) body: &'m [Statement],
    /// Why it may not be in the menu.
    pub(super) doubt: Option<String>,
    /// Why its title or id is not known.
    pub(super) name_doubt: Option<String>,
}

/// The words between `menuentry` and `{`.
#[derive(Default)]
pub(super) struct Heading {
    pub(super) positional: Vec<Value>,
    pub(super) id: Option<Value>,
    unrestricted: bool,
}

impl Heading {
    pub(super) fn of(words: Vec<Value>) -> Option<Self> {
        let mut heading = Self::default();
        let mut words = words.into_iter();
        while let Some(word) = words.next() {
            match word.text.as_str() {
                "--class" | "--users" | "--hotkey" | "--source" => {
                    words.next();
                }
                // As long as nobody ran the header of the file, the option stands there as its variable.
                "--id" | "$menuentry_id_option" => heading.id = words.next(),
                "--unrestricted" => heading.unrestricted = true,
                text => match text.strip_prefix("--id=") {
                    Some(id) => heading.id = Some(Value { text: id.to_owned(), ..word }),
                    None if text.starts_with("--") && text.contains('=') => {}
                    None => heading.positional.push(word),
                },
            }
        }
        (!heading.positional.is_empty()).then_some(heading)
    }

    pub(super) fn entry(self, submenu: bool, body: &[Statement]) -> Entry<'_> {
        let title = self.positional.first().cloned().unwrap_or_default();
        let id = self.id.unwrap_or_else(|| title.clone());
        let known = title.known().is_some() && id.known().is_some();
        let name_doubt =
            (!known).then(|| format!("title or id of `{}` is not known before GRUB runs", title.text));
        Entry {
            title: title.text,
            id: id.text,
            submenu,
            unrestricted: self.unrestricted,
            arguments: self.positional,
            body,
            doubt: None,
            name_doubt,
        }
    }
}
