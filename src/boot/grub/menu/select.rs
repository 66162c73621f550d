//! Which entry of one menu a default names.
//!
//! Rules of GRUB's menu code (`get_entry_number`, `menuentry_eq`), confirmed by booting a menu of echoing
//! entries under GRUB 2.06, 2.12 and 2.14 (`tests/fixtures/grub-defaults-measured.json`):
//! a default that starts with a number *is* that number, whatever follows (`4.19 kernel` is entry 4, `010` is
//! entry 8); else the first entry whose title or id it equals; else entry 0. The text up to a single `>`
//! counts, a `>` of the title is written `>>`, and what follows is the default of the submenu.
//! Red Hat's GRUB looks for ids first, then titles, then numbers, and takes nothing that has a rest.

use super::Build;
use super::heading::Entry;

/// One level of the answer.
pub(super) struct Selected<'a> {
    /// Place in the menu.
    pub(super) index: usize,
    /// The default named nothing, and GRUB takes the first entry then.
    pub(super) fell_back: bool,
    /// The default for a submenu.
    pub(super) rest: Option<&'a str>,
}

/// The entry that `default` leads to.
pub(super) fn select<'a>(
    entries: &[Entry<'_>],
    default: &'a str,
    build: Build,
) -> Result<Selected<'a>, String> {
    let number = match build {
        Build::Upstream => upstream(entries, default)?,
        Build::RedHat => red_hat(entries, default)?,
        Build::Unknown => {
            let (one, other) = (upstream(entries, default)?, red_hat(entries, default)?);
            if in_menu(entries, one) != in_menu(entries, other) {
                return Err(format!(
                    "default `{default}` means different entries to different builds of GRUB"
                ));
            }
            one
        }
    };
    let chosen = in_menu(entries, number);
    let index = chosen.unwrap_or(0);
    certain_up_to(entries, index)?;
    Ok(Selected { index, fell_back: chosen.is_none() && !default.is_empty(), rest: rest(default) })
}

fn in_menu(entries: &[Entry<'_>], number: Option<usize>) -> Option<usize> {
    number.filter(|number| *number < entries.len())
}

/// An index means something only if every entry before it is surely there.
fn certain_up_to(entries: &[Entry<'_>], index: usize) -> Result<(), String> {
    let mut seen = entries.iter().take(index + 1);
    if entries.get(index).is_none() {
        return Err("the menu has no entry".to_owned());
    }
    match seen.find_map(|entry| entry.doubt.as_ref()) {
        Some(doubt) => Err(doubt.clone()),
        None => Ok(()),
    }
}

fn upstream(entries: &[Entry<'_>], default: &str) -> Result<Option<usize>, String> {
    match leading_number(default) {
        Some((number, _)) => Ok(usize::try_from(number).ok()),
        None => by_name(entries, |entry| equals(&entry.title, default) || equals(&entry.id, default)),
    }
}

fn red_hat(entries: &[Entry<'_>], default: &str) -> Result<Option<usize>, String> {
    let first_word = default.split(is_space).next().unwrap_or_default();
    let by_id = by_name(entries, |entry| !entry.id.contains(is_space) && equals(&entry.id, first_word))?;
    if by_id.is_some() {
        return Ok(by_id.filter(|_| first_word.len() == default.len()));
    }
    let by_title = by_name(entries, |entry| equals(&entry.title, default))?;
    if by_title.is_some() {
        return Ok(by_title);
    }
    let number = leading_number(default).filter(|(_, rest)| rest.is_empty());
    Ok(number.and_then(|(number, _)| usize::try_from(number).ok()))
}

fn by_name(entries: &[Entry<'_>], matches: impl Fn(&Entry<'_>) -> bool) -> Result<Option<usize>, String> {
    for (index, entry) in entries.iter().enumerate() {
        if let Some(doubt) = &entry.name_doubt {
            return Err(doubt.clone());
        }
        if matches(entry) {
            return match &entry.doubt {
                Some(doubt) => Err(doubt.clone()),
                None => Ok(Some(index)),
            };
        }
    }
    Ok(None)
}

/// Compares a title or id with a default, whose `>>` stands for `>` and whose first single `>` ends it.
fn equals(name: &str, default: &str) -> bool {
    let mut name = name.chars();
    let mut default = default.chars().peekable();
    loop {
        let wanted = match default.next() {
            Some('>') if default.next_if_eq(&'>').is_none() => None,
            other => other,
        };
        match (name.next(), wanted) {
            (None, None) => return true,
            (one, other) if one != other => return false,
            _ => {}
        }
    }
}

fn rest(default: &str) -> Option<&str> {
    let mut characters = default.char_indices().peekable();
    while let Some((offset, character)) = characters.next() {
        if character == '>' && characters.next_if(|&(_, next)| next == '>').is_none() {
            return default.get(offset + 1..).filter(|rest| !rest.is_empty());
        }
    }
    None
}

/// As GRUB's `strtoul` with base 0: leading blanks, `0x` for hexadecimal, `0` for octal, no sign.
fn leading_number(text: &str) -> Option<(u64, &str)> {
    let text = text.trim_start_matches(is_space);
    let octal = |text: &str| text.starts_with('0') && text.chars().nth(1).is_some_and(|c| c.is_digit(8));
    let (digits, base) = match text.strip_prefix("0x") {
        Some(digits) => (digits, 16),
        None if octal(text) => (text, 8),
        None => (text, 10),
    };
    let end = digits.find(|c: char| !c.is_digit(base)).unwrap_or(digits.len());
    let (number, rest) = digits.split_at_checked(end)?;
    if number.is_empty() {
        return None;
    }
    // Too large for GRUB is outside of any menu, too.
    Some((u64::from_str_radix(number, base).unwrap_or(u64::MAX), rest))
}

fn is_space(character: char) -> bool {
    matches!(character, '\n' | '\r' | ' ' | '\t')
}
