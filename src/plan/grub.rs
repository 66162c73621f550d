//! The change of a host with GRUB, as data.

mod entry;

use std::path::PathBuf;

use super::Effective;
use crate::boot::FileEdit;
use crate::boot::grub::defaults::{DefaultMode, Defaults, Notice, Value, unify};
use crate::boot::hierarchy::Hierarchy;
use crate::boot::kargs;
use crate::facts::Facts;
use crate::report::{Finding, Severity};

/// Edits, what is generated from them, and what that does to the kernel line.
#[derive(Debug, Default)]
pub(super) struct Change {
    pub(super) edits: Vec<FileEdit>,
    pub(super) generated: Option<PathBuf>,
    pub(super) effective: Effective,
    pub(super) findings: Vec<Finding>,
}

impl Change {
    /// No change: only what the kernel line is now.
    pub(super) fn none(facts: &Facts) -> Self {
        let before = facts.grub.next_arguments().map(str::to_owned);
        Self { effective: Effective { after: before.clone(), before }, ..Self::default() }
    }

    /// No change, and why there can be none.
    pub(super) fn blocked(facts: &Facts, blocker: Finding) -> Self {
        Self { findings: vec![blocker], ..Self::none(facts) }
    }
}

/// Works the change out.
///
/// # Errors
/// A blocker, where the settings cannot be read or not be changed safely, or where nothing would change.
pub(super) fn change(facts: &Facts) -> Result<Change, Box<Finding>> {
    let defaults = Defaults::parse(facts.grub.settings.clone())
        .map_err(|error| blocker("grub-settings-unreadable", &error))?;
    let mode = mode(facts, &defaults);
    let found = unify(&defaults, mode).map_err(|error| blocker("grub-settings-not-editable", &error))?;
    let foreign = entry::foreign_pins(facts, known(&defaults).as_deref());
    let effective = effective(facts, &defaults, &found.edits, !foreign.is_empty());
    leads_to_v2(facts, &effective)?;
    let mut findings: Vec<Finding> = found.notices.into_iter().map(notice).collect();
    findings.extend(entry::xen_pins(&defaults));
    // The check of the loader has told them then, and whoever accepted that has accepted this.
    findings.extend(foreign.into_iter().filter(|_| facts.hands_on_v1().is_none()));
    let only_the_reboot_is_left = found.edits.is_empty() && generated_is_up_to_date(facts);
    if only_the_reboot_is_left {
        findings.push(settings_lead_to_v2(facts)?);
    }
    let located = facts.grub.located.as_ref().filter(|_| !only_the_reboot_is_left);
    Ok(Change {
        generated: located.map(|located| located.grub_cfg.clone()),
        effective,
        findings,
        edits: found.edits,
    })
}

/// The built-in default that the edit may rely on. A host on v1 without any pin, in its files or in the line it was
/// booted with, has proven that its own is not unified, whatever is known of its systemd. A tree has proven nothing: its
/// pin may have been taken out a moment ago, and a second plan over it changes nothing.
fn mode(facts: &Facts, defaults: &Defaults) -> DefaultMode {
    let running = facts.kernel.command_line.as_deref().filter(|_| facts.scan.running);
    let lines = [facts.grub.next_arguments(), running];
    let explained = !facts.scan.running
        || known(defaults).is_some_and(|line| has_pin(&line))
        || lines.into_iter().flatten().any(has_pin);
    match facts.systemd.default_hierarchy {
        Hierarchy::Unified if explained => DefaultMode::Unified,
        Hierarchy::Unified | Hierarchy::Legacy | Hierarchy::Hybrid => DefaultMode::NotUnified,
        Hierarchy::Unknown => DefaultMode::Unknown,
    }
}

fn has_pin(line: &str) -> bool {
    kargs::Kargs::parse(line).iter().any(kargs::is_v1_pin)
}

/// The kernel line of the entry that will boot; without a generated menu what the settings add to it. An entry
/// that is copied stays as it is, and of one with foreign words it cannot be said what it will be.
fn effective(facts: &Facts, defaults: &Defaults, edits: &[FileEdit], is_foreign: bool) -> Effective {
    let old = known(defaults);
    let new = edited(facts, edits).and_then(|defaults| known(&defaults));
    let Some(before) = facts.grub.next_arguments() else { return Effective { before: old, after: new } };
    if facts.grub.copied_from.is_some() {
        return Effective { before: Some(before.to_owned()), after: Some(before.to_owned()) };
    }
    let after = old.zip(new).filter(|_| !is_foreign);
    let after = after.and_then(|(old, new)| entry::after(before, &old, &new));
    Effective { before: Some(before.to_owned()), after }
}

/// What is known of the line after the change is read once more as GRUB and systemd will: a quote or a line's end
/// somewhere before them can keep the words from being words. Of a copied entry the loader's check tells.
fn leads_to_v2(facts: &Facts, effective: &Effective) -> Result<(), Box<Finding>> {
    let Some(after) = effective.after.as_deref().filter(|_| facts.grub.copied_from.is_none()) else {
        return Ok(());
    };
    let line = match facts.grub.next_arguments() {
        Some(_) => Some(after.to_owned()),
        None => entry::as_handed_over(after),
    };
    let Some(line) = line else {
        return Err(blocker(
            "grub-settings-not-editable",
            &format!("GRUB could not read the line `{after}`"),
        ));
    };
    let decision = facts.systemd.decide(&line);
    if decision.hierarchy == Hierarchy::Unified {
        return Ok(());
    }
    let (hierarchy, reason) = (decision.hierarchy, decision.reason);
    let found = format!("after the change GRUB would hand over `{line}`, which is {hierarchy}: {reason}");
    Err(blocker("grub-settings-not-editable", &found))
}

/// The arguments of the settings. A pin in computed ones explains nothing beforehand: then `=1` is written out as
/// well.
fn known(defaults: &Defaults) -> Option<String> {
    match defaults.effective_arguments() {
        Value::Known { text, .. } => Some(String::from_utf8_lossy(&text).into_owned()),
        Value::Unset => Some(String::new()),
        Value::Opaque { .. } => None,
    }
}

fn edited(facts: &Facts, edits: &[FileEdit]) -> Option<Defaults> {
    let mut files = facts.grub.settings.clone();
    files.retain(|(path, _)| !edits.iter().any(|edit| edit.path == *path));
    files.extend(edits.iter().map(|edit| (edit.path.clone(), edit.after.clone())));
    Defaults::parse(files).ok()
}

/// True if generating the menu anew would change nothing about the hierarchy, as far as can be seen.
fn generated_is_up_to_date(facts: &Facts) -> bool {
    facts.grub.next_arguments().is_none_or(|line| facts.systemd.decide(line).hierarchy == Hierarchy::Unified)
}

/// The settings lead to v2 already. Either nobody rebooted since they were changed, and that is all that is left
/// to do; or the running kernel has the arguments, is on v1 all the same, and success would be a lie.
fn settings_lead_to_v2(facts: &Facts) -> Result<Finding, Box<Finding>> {
    let title =
        format!("the host is {}, but its boot configuration asks for cgroup v2 already", facts.hierarchy());
    let running = facts.kernel.command_line.as_deref().filter(|_| facts.scan.running);
    if running.is_some_and(|line| facts.systemd.decide(line).hierarchy == Hierarchy::Unified) {
        let detail = "the running kernel was booted with these arguments, and something mounts v1 before systemd \
                      decides: an initramfs with an old systemd, or the EFI variable SystemdOptions";
        let remedy = "rebuild the initramfs (update-initramfs -u) and reboot";
        return Err(Box::new(
            Finding::new(Severity::Blocker, "arguments-without-effect", title, detail).remedy(remedy),
        ));
    }
    let detail = "it was changed and the host was not rebooted since; no file has to be changed";
    Ok(Finding::new(Severity::Note, "only-reboot-left", title, detail))
}

fn blocker(id: &str, error: &dyn std::fmt::Display) -> Box<Finding> {
    Box::new(Finding::new(
        Severity::Blocker,
        id,
        "the settings of GRUB cannot be changed safely",
        error.to_string(),
    ))
}

fn notice(notice: Notice) -> Finding {
    let at = format!("{}:{}", notice.path.display(), notice.line);
    let detail = format!("{at}: {}", notice.text);
    let finding = Finding::new(Severity::Warning, notice.id, "worth a look in the settings of GRUB", detail)
        .about(notice.path);
    match way_out(notice.id) {
        Some(words) => finding.remedy(format!("{words} ({at})")),
        None => finding,
    }
}

fn way_out(id: &str) -> Option<&'static str> {
    match id {
        "unquoted-second-word" => {
            Some("if all of it was meant, put the whole value in quotes: NAME=\"one two\"")
        }
        "bash-only-syntax" => Some("write it in plain shell: NAME=\"$NAME more\" instead of NAME+=\" more\""),
        "drop-in-order-depends-on-locale" => Some("rename it so that the order is the same in every locale"),
        "not-understood" => {
            Some("look at what the line does to GRUB_CMDLINE_LINUX and GRUB_CMDLINE_LINUX_DEFAULT")
        }
        _ => None,
    }
}
