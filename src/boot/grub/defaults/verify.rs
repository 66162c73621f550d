//! The proof of an edit: the edited files are followed again, and nothing but the words that were meant to
//! change may have changed.

use std::collections::BTreeSet;

use super::dropin::{self, Ours};
use super::evaluate::{Val, World};
use super::unify::DefaultMode;
use super::{ARGUMENT_VARIABLES, Defaults, LINUX, LINUX_DEFAULT, readers};
use crate::boot::grub::words;
use crate::boot::kargs::{Meaning, ask_for_unified};

/// What is wrong with an edit, or nothing.
pub(super) fn fault(before: &Defaults, after: &Defaults, mode: DefaultMode) -> Option<String> {
    let ours = last_is_ours(after);
    let worlds = before.worlds.iter().zip(&after.worlds);
    worlds
        .into_iter()
        .find_map(|(old, new)| changed(old, new, ours).or_else(|| unfinished(old, new, ours, mode)))
}

/// A variable that lost, gained or swapped anything it should not have.
fn changed(before: &World, after: &World, ours: Option<Ours>) -> Option<String> {
    let names: BTreeSet<&String> = before.variables.keys().chain(after.variables.keys()).collect();
    let fixed = ARGUMENT_VARIABLES.map(str::to_owned);
    let mut names = names.into_iter().chain(&fixed);
    let same = |name: &str| same_others(name, &before.lookup(name), &after.lookup(name), ours);
    names.find(|name| !same(name)).map(|name| format!("{name} would change"))
}

/// A variable that an edit in place changes under the eyes of shell code: what a condition on it or a computed value
/// makes of the change cannot be checked.
pub(super) fn seen_by_others(before: &Defaults, after: &Defaults) -> Option<String> {
    let changes = |name: &&String| {
        let mut worlds = before.worlds.iter().zip(&after.worlds);
        worlds.any(|(old, new)| known_bytes(old, name) != known_bytes(new, name))
    };
    let mut names = after.worlds.iter().flat_map(|world| world.variables.keys());
    let seen = names.find(|name| changes(name) && readers::are_there(&before.files, name))?;
    Some(format!("{seen} would change, and shell code looks at it"))
}

fn known_bytes(world: &World, name: &str) -> Option<Vec<u8>> {
    match world.lookup(name) {
        Val::Text(text) => Some(text.bytes()),
        Val::Unset | Val::Opaque(_) => None,
    }
}

fn same_others(name: &str, before: &Val, after: &Val, ours: Option<Ours>) -> bool {
    match (before, after) {
        (Val::Text(one), Val::Text(other)) => {
            let (one, other) = (one.bytes(), other.bytes());
            one == other || (may_change(name, &one, &other) && others(&one, ours) == others(&other, ours))
        }
        (Val::Unset, Val::Text(text)) => name == LINUX && others(&text.bytes(), ours).is_empty(),
        (Val::Unset, Val::Unset) | (Val::Opaque(_), Val::Opaque(_)) => true,
        (Val::Text(_) | Val::Opaque(_), _) | (Val::Unset, Val::Opaque(_)) => false,
    }
}

/// Variables that hold kernel arguments, or a copy of such words from one of them.
fn may_change(name: &str, before: &[u8], after: &[u8]) -> bool {
    let about_hierarchy =
        |value: &[u8]| words::words(value).iter().any(|word| word.meaning != Meaning::Foreign);
    ARGUMENT_VARIABLES.contains(&name) || about_hierarchy(before) || about_hierarchy(after)
}

/// The words that no edit of ours touches; a value systemd cannot read goes only where all such words go.
fn others(value: &[u8], ours: Option<Ours>) -> Vec<Vec<u8>> {
    let untouched = |meaning| {
        meaning == Meaning::Foreign || (meaning == Meaning::UnifiedJunk && ours != Some(Ours::Force))
    };
    let words = words::words(value).into_iter().filter(|word| untouched(word.meaning));
    words.filter_map(|word| value.get(word.range).map(<[u8]>::to_vec)).collect()
}

/// A pin that is left, or a line that does not lead to v2.
fn unfinished(before: &World, after: &World, ours: Option<Ours>, mode: DefaultMode) -> Option<String> {
    ARGUMENT_VARIABLES.iter().find_map(|name| left_in(name, after, ours, mode)).or_else(|| match ours {
        Some(Ours::Force) => None,
        Some(Ours::Strip) | None => undecided(&meanings(before), &meanings(after), mode),
    })
}

fn left_in(name: &str, after: &World, ours: Option<Ours>, mode: DefaultMode) -> Option<String> {
    match after.lookup(name) {
        Val::Text(text) if words::words(&text.bytes()).iter().any(|word| word.meaning.is_pin()) => {
            Some(format!("{name} would still ask for cgroup v1"))
        }
        Val::Opaque(_) if !suffices(ours, mode) => Some(format!("{name} is computed by shell code")),
        Val::Text(_) | Val::Unset | Val::Opaque(_) => None,
    }
}

fn undecided(before: &[Meaning], after: &[Meaning], mode: DefaultMode) -> Option<String> {
    let wanted = |words: &[Meaning]| {
        words.iter().filter(|word| matches!(word, Meaning::UnifiedTrue | Meaning::UnifiedBare)).count()
    };
    let added = usize::from(mode != DefaultMode::Unified);
    if added > 0 && !ask_for_unified(after) {
        return Some("no argument would ask for cgroup v2".to_owned());
    }
    (wanted(after) > wanted(before).max(added)).then(|| "cgroup v2 would be asked for twice".to_owned())
}

fn suffices(ours: Option<Ours>, mode: DefaultMode) -> bool {
    ours == Some(Ours::Force) || (ours == Some(Ours::Strip) && mode == DefaultMode::Unified)
}

/// Which drop-in of ours is read last of all.
fn last_is_ours(files: &Defaults) -> Option<Ours> {
    let last = files.files.last()?;
    let expected = dropin::free_path(&files.files)?;
    dropin::recognise(&last.text).filter(|_| last.path >= expected)
}

/// The words of an ordinary menu entry.
pub(super) fn meanings(world: &World) -> Vec<Meaning> {
    let texts = [LINUX, LINUX_DEFAULT].map(|name| match world.lookup(name) {
        Val::Text(text) => words::words(&text.bytes()),
        Val::Unset | Val::Opaque(_) => Vec::new(),
    });
    texts.into_iter().flatten().map(|word| word.meaning).collect()
}
