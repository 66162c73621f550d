//! The boot loader must be one this version can change.

use crate::boot::grub::defaults::{Called, Defaults, Value};
use crate::boot::grub::menu::NextEntry;
use crate::boot::kargs::{Kargs, is_v1_pin};
use crate::config::Settings;
use crate::facts::Facts;
use crate::facts::bootloader::others::{OtherLoader, Sign};
use crate::report::{Finding, Severity};

/// The loaders this version can change, as `--assume-loader` names them.
pub const KNOWN_LOADERS: [&str; 1] = ["grub"];

pub(super) fn check(facts: &Facts, _: &Settings) -> Vec<Finding> {
    if facts.scan.assumed_loader.as_deref().is_some_and(|name| !KNOWN_LOADERS.contains(&name)) {
        return vec![not_found(facts)];
    }
    if let Some(why) = &facts.grub.unreadable {
        return vec![unreadable(why)];
    }
    if facts.grub.blscfg || settings_ask_for_bls(facts) {
        return vec![bls()];
    }
    if facts.grub.is_there(facts.scan.running) || facts.grub.menu_unreadable.is_some() {
        let ends = facts.grub.missing_commands.first().map(ends_there);
        return missing_tools(facts).into_iter().chain(ends).chain(next_entry(facts)).collect();
    }
    vec![facts.grub.others.first().map_or_else(|| not_found(facts), another)]
}

/// Another loader: named, with the file to change. Nothing is guessed about what is in it.
fn another(sign: &Sign) -> Finding {
    let name = sign.loader.name();
    let finding = Finding::new(
        Severity::Blocker,
        "loader-unsupported",
        format!("this host seems to be booted by {name}, which this version cannot change"),
        detail(sign),
    );
    let finding = sign.files.iter().fold(finding, |finding, file| finding.about(file));
    finding.remedy(format!("{}, reboot; `detect --line` says what a line will do", by_hand(sign.loader)))
}

fn detail(sign: &Sign) -> String {
    let files: Vec<_> = sign.files.iter().map(|file| file.display().to_string()).collect();
    let found = if files.is_empty() {
        "the firmware says so".to_owned()
    } else {
        format!("found {}", files.join(", "))
    };
    if sign.loader == OtherLoader::RaspberryPi && sign.has_second_line {
        return format!("{found}, which has text on a second line: only the first line is read");
    }
    found
}

fn by_hand(loader: OtherLoader) -> &'static str {
    match loader {
        OtherLoader::SystemdBoot => {
            "change /etc/kernel/cmdline and let kernel-install write the entries anew, or change every `options` line in \
             loader/entries"
        }
        OtherLoader::Extlinux => {
            "change every `append` line of extlinux.conf, and what writes it (/etc/default/u-boot)"
        }
        OtherLoader::RaspberryPi => "change cmdline.txt, which must stay one line",
        OtherLoader::UBoot => {
            "change what sets bootargs: see in boot.cmd whether it uses the variables of the other file; a changed \
             boot.cmd must be compiled with mkimage"
        }
    }
}

fn unreadable(why: &str) -> Finding {
    Finding::new(Severity::Blocker, "grub-settings-unreadable", "the settings of GRUB cannot be read", why)
        .about("/etc/default/grub")
}

/// `GRUB_ENABLE_BLSCFG=true`: on Fedora and its relatives the entries are files, and the menu only reads them in.
fn settings_ask_for_bls(facts: &Facts) -> bool {
    let Ok(defaults) = Defaults::parse(facts.grub.settings.clone()) else { return false };
    matches!(defaults.value("GRUB_ENABLE_BLSCFG"), Value::Known { text, .. } if text == b"true")
}

fn bls() -> Finding {
    Finding::new(
        Severity::Blocker,
        "loader-unsupported",
        "this GRUB boots from Boot Loader Specification entries",
        "changing /etc/default/grub would have no effect on them, and this version cannot change the entries",
    )
    .about("/boot/loader/entries")
    .remedy(
        "change the entries with the tool of the distribution, for example grubby --update-kernel=ALL \
         --remove-args='systemd.unified_cgroup_hierarchy systemd.legacy_systemd_cgroup_controller', and where the built-in \
         default is v1 (RHEL 8) then also --args=systemd.unified_cgroup_hierarchy=1",
    )
}

/// Only the first one: grub-mkconfig comes no further.
fn ends_there(called: &Called) -> Finding {
    let at = format!("{}:{}", called.path.display(), called.line);
    let path = called.path.display().to_string();
    Finding::new(
        Severity::Blocker,
        "grub-settings-fail",
        "grub-mkconfig would fail at the settings of GRUB",
        format!(
            "{at}: `{}` stands there as a command, and this host has no such program: grub-mkconfig reads the file \
             under `set -e` and ends there, so no menu could be generated",
            called.name
        ),
    )
    .about(&called.path)
    .remedy_command(
        format!("{} in {at}; this says what the shell says, and nothing once it is mended", mended(called)),
        &["sh", "-e", &path],
    )
}

fn mended(called: &Called) -> String {
    match &called.cut_short {
        Some(name) => format!("put the whole value of {name} in quotes ({name}=\"… {}\")", called.name),
        None if called.name.starts_with("GRUB_") => {
            format!("write {}=\"…\", without blanks beside the `=`", called.name)
        }
        None => {
            format!("take `{}` out, or put it into the quotes of the value that it belongs to", called.name)
        }
    }
}

fn missing_tools(facts: &Facts) -> Option<Finding> {
    let missing = &facts.missing_tools;
    (!missing.is_empty()).then(|| {
        Finding::new(
            Severity::Blocker,
            "grub-tools-missing",
            "tools of GRUB are not installed",
            format!(
                "{} cannot be found; without them the menu can neither be generated nor checked",
                missing.join(", ")
            ),
        )
        .remedy_command(
            "install them (Debian, Ubuntu)",
            &["apt-get", "install", "grub2-common", "grub-common"],
        )
    })
}

/// The entry that will boot must be known beforehand: it is read back after the change. A tree may come without a
/// menu; one that is there and cannot be judged is told.
fn next_entry(facts: &Facts) -> Option<Finding> {
    let seen = facts.grub.located.is_some() || facts.grub.menu_unreadable.is_some();
    if !facts.scan.running && !seen {
        return None;
    }
    if let Some(why) = &facts.grub.menu_unreadable {
        return Some(menu_unreadable(facts, why));
    }
    match &facts.grub.next {
        Err(why) => Some(entry_unknown(facts, why)),
        Ok(entry) if entry.linux.is_none() => Some(no_linux(facts, entry)),
        Ok(entry) => copied(facts, entry),
    }
}

/// An entry that asks for v1, and that no setting reaches.
fn copied(facts: &Facts, entry: &NextEntry) -> Option<Finding> {
    let script = facts.hands_on_v1()?;
    Some(
        Finding::new(
            severity(facts),
            "boot-entry-by-hand",
            "the entry that GRUB will boot is not made from the settings",
            format!(
                "{} ({}) is handed on by {} as it stands{}, so it would still lead to cgroup v1",
                entry.path.join(" > "),
                entry.chosen_by,
                script.display(),
                with_pins(facts.grub.next_arguments().unwrap_or_default())
            ),
        )
        .about(script)
        .acceptable()
        .remedy("take the v1 arguments out of it where it was written, or set GRUB_DEFAULT to another entry; then run \
                 update-grub and try again"),
    )
}

fn with_pins(line: &str) -> String {
    let line = Kargs::parse(line);
    let pins: Vec<String> =
        line.iter().filter(|arg| is_v1_pin(arg)).map(|arg| format!("`{}`", arg.raw)).collect();
    if pins.is_empty() { String::new() } else { format!(", with {}", pins.join(" and ")) }
}

/// What stops a running host is worth knowing of a tree, which may boot elsewhere or otherwise.
fn severity(facts: &Facts) -> Severity {
    if facts.scan.running { Severity::Blocker } else { Severity::Warning }
}

fn menu_unreadable(facts: &Facts, why: &str) -> Finding {
    let title = "the menu of GRUB cannot be read";
    Finding::new(severity(facts), "boot-menu-unreadable", title, why)
        .remedy("see that the file can be read: run this as root, or generate it anew (update-grub)")
}

fn entry_unknown(facts: &Facts, why: &str) -> Finding {
    let remedy = "set GRUB_DEFAULT to an entry's id, run update-grub, then try again";
    Finding::new(severity(facts), "boot-entry-unknown", "it cannot be said which entry GRUB will boot", why)
        .about(facts.grub.directory().join("grub.cfg"))
        .remedy(remedy)
}

fn no_linux(facts: &Facts, entry: &NextEntry) -> Finding {
    Finding::new(
        severity(facts),
        "boot-entry-not-linux",
        "the entry that GRUB will boot loads no Linux kernel",
        format!(
            "{} ({}): it is a hypervisor, another loader or another system, and its arguments cannot be read back",
            entry.path.join(" > "),
            entry.chosen_by
        ),
    )
    .about(facts.grub.directory().join("grub.cfg"))
    .remedy("set GRUB_DEFAULT to the id of an entry that loads Linux, run update-grub, then try again")
}

fn not_found(facts: &Facts) -> Finding {
    let detail = match &facts.scan.assumed_loader {
        Some(name) if !KNOWN_LOADERS.contains(&name.as_str()) => {
            format!("`{name}` is not a loader this version knows; it knows {}", KNOWN_LOADERS.join(", "))
        }
        Some(_) | None => "no /etc/default/grub with a generated /boot/grub/grub.cfg was found".to_owned(),
    };
    Finding::new(Severity::Blocker, "loader-not-found", "no boot loader that this version can change", detail)
        .remedy("change the kernel command line by hand and reboot; `detect --line` says what it will do")
}
