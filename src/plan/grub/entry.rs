//! The entry that will boot against the settings: what generating it anew will make of its line, and words in it that no
//! setting explains.

use std::path::PathBuf;

use crate::boot::grub::defaults::{Defaults, Value};
use crate::boot::grub::menu::{Menu, NextEntry};
use crate::boot::kargs::{Arg, Kargs, is_v1_pin};
use crate::facts::Facts;
use crate::facts::source::{self, Place};
use crate::report::{Finding, Severity};

/// Arguments of Xen, and of Linux below it. Entries without Xen have none of them.
const XEN: [&str; 4] = [
    "GRUB_CMDLINE_XEN",
    "GRUB_CMDLINE_XEN_DEFAULT",
    "GRUB_CMDLINE_LINUX_XEN_REPLACE",
    "GRUB_CMDLINE_LINUX_XEN_REPLACE_DEFAULT",
];

/// The line of the entry with the settings' old words replaced by the new ones; `None` where they do not stand in it
/// in one piece.
pub(super) fn after(before: &str, old: &str, new: &str) -> Option<String> {
    let (old, new) = (as_handed_over(old)?, as_handed_over(new)?);
    let (line, old, new) = (words(before), words(&old), words(&new));
    let at = place(&line, &old)?;
    let (front, rest) = line.split_at_checked(at)?;
    let behind = rest.get(old.len()..)?;
    Some([front, &new, behind].concat().join(" "))
}

/// Where the words of the settings begin. Without any it is behind `root=… ro`, if there is nothing else.
fn place(line: &[&str], old: &[&str]) -> Option<usize> {
    if old.is_empty() {
        let end = line.iter().position(|word| word.starts_with('$')).unwrap_or(line.len());
        let plain = |word: &&str| word.starts_with("root=") || matches!(*word, "ro" | "rw");
        return line.get(..end)?.iter().all(plain).then_some(end);
    }
    let mut places = line.windows(old.len()).enumerate().filter(|(_, window)| *window == old);
    let (at, _) = places.next()?;
    places.next().is_none().then_some(at)
}

fn words(line: &str) -> Vec<&str> {
    Kargs::parse(line).iter().map(|arg| arg.raw).collect()
}

/// What GRUB makes of arguments that stand in its menu.
pub(super) fn as_handed_over(arguments: &str) -> Option<String> {
    let menu = Menu::parse(&format!("menuentry A {{\nlinux /k {arguments}\n}}\n")).ok()?;
    Some(menu.all_linux_entries().first()?.lines.first()?.arguments.clone())
}

/// Pins of the next entry that stand in a file of their own: changing the settings would not reach them. `known` are
/// the arguments of the settings.
pub(super) fn foreign_pins(facts: &Facts, known: Option<&str>) -> Vec<Finding> {
    let Ok(entry) = &facts.grub.next else { return Vec::new() };
    let Some(line) = facts.grub.next_arguments() else { return Vec::new() };
    let settings = known.and_then(as_handed_over);
    let settings = settings.as_deref().map(Kargs::parse);
    let line = Kargs::parse(line);
    let pins = line.iter().filter(|arg| is_v1_pin(arg));
    pins.filter_map(|pin| {
        let unexplained = settings.as_ref().is_some_and(|settings| !holds(settings, pin));
        let files = facts.grub.scripts.iter();
        let files: Vec<_> = files.filter(|(_, text)| unexplained || names(text, entry)).cloned().collect();
        Some(foreign_pin(entry, pin, source::locate_argument(pin.raw, &files).first()?))
    })
    .collect()
}

fn holds(settings: &Kargs<'_>, pin: &Arg<'_>) -> bool {
    settings.iter().any(|arg| (&arg.key, &arg.value) == (&pin.key, &pin.value))
}

/// The file has the title of the entry: it was written there by hand.
fn names(text: &str, entry: &NextEntry) -> bool {
    let title = entry.path.last().map(String::as_str).unwrap_or_default();
    ['\'', '"'].iter().any(|quote| text.contains(&format!("menuentry {quote}{title}{quote}")))
}

fn foreign_pin(entry: &NextEntry, pin: &Arg<'_>, place: &Place) -> Finding {
    let at = format!("{}:{}", place.path.display(), place.line);
    let detail = format!(
        "`{}` ({}) boots with `{}` from {at}, which does not come from /etc/default/grub: changing the settings would \
         not take it away",
        entry.path.join(" > "),
        entry.chosen_by,
        pin.raw
    );
    Finding::new(
        Severity::Blocker,
        "pin-not-in-settings",
        "the entry that will boot has arguments of its own",
        detail,
    )
    .about(&place.path)
    .acceptable()
    .remedy(format!("take `{}` out of {at} and run update-grub, or make another entry the default", pin.raw))
}

/// Pins in settings for Xen are left as they are: they reach no entry that boots Linux without it.
pub(super) fn xen_pins(defaults: &Defaults) -> Vec<Finding> {
    XEN.iter().filter_map(|name| xen_pin(name, defaults.value(name))).collect()
}

fn xen_pin(name: &str, value: Value) -> Option<Finding> {
    let Value::Known { text, sources } = value else { return None };
    let text = String::from_utf8_lossy(&text).into_owned();
    let kargs = Kargs::parse(&text);
    let pin = kargs.iter().find(|arg| is_v1_pin(arg))?;
    let file =
        sources.first().map_or_else(|| PathBuf::from("/etc/default/grub"), |source| source.path.clone());
    let detail =
        format!("`{}` stands in {name}, which only entries with Xen have: it is left as it is", pin.raw);
    let title = "an argument for cgroup v1 is in the settings for Xen";
    Some(Finding::new(Severity::Note, "pin-in-xen-settings", title, detail).about(file))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PIN: &str = "systemd.unified_cgroup_hierarchy=0";

    #[test]
    fn the_words_of_the_settings_are_replaced_where_they_stand_in_one_piece() {
        let line = format!("root=UUID=1 ro quiet {PIN} $vt_handoff");
        let said = after(&line, &format!("  quiet  {PIN}"), "quiet");
        assert_eq!(said.as_deref(), Some("root=UUID=1 ro quiet $vt_handoff"));
        let said = after("root=UUID=1 ro dyndbg=\"file a\"", "'dyndbg=file a'", "'dyndbg=file a' x=1");
        assert_eq!(said, None, "GRUB puts the quotes around the whole word");
        let said = after("root=UUID=1 ro \"dyndbg=file a\"", "'dyndbg=file a'", "'dyndbg=file a' x=1");
        assert_eq!(said.as_deref(), Some("root=UUID=1 ro \"dyndbg=file a\" x=1"));
    }

    #[test]
    fn nothing_is_claimed_of_an_entry_that_the_settings_do_not_explain() {
        assert_eq!(after(&format!("root=UUID=1 ro {PIN}"), "quiet", "quiet"), None);
        assert_eq!(after("root=UUID=1 ro quiet splash quiet splash", "quiet splash", "quiet"), None);
        assert_eq!(after("root=UUID=1 ro rescue", "", "x=1"), None);
        assert_eq!(
            after("root=UUID=1 ro $vt_handoff", "", "x=1").as_deref(),
            Some("root=UUID=1 ro x=1 $vt_handoff")
        );
    }
}
