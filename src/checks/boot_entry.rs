//! The entry that will boot: by itself, from a kernel that is there, and through this menu at all.

use crate::boot::grub::menu::NextEntry;
use crate::boot::hierarchy::Hierarchy;
use crate::boot::kargs::Kargs;
use crate::config::Settings;
use crate::facts::Facts;
use crate::report::{Finding, Severity};

/// Endings of kernel file names behind the release.
const ENDINGS: [&str; 5] = ["", ".efi.signed", ".signed", ".efi", ".gz"];

/// A host that has nothing to do is told nothing: it boots as it always did.
pub(super) fn check(facts: &Facts, _: &Settings) -> Vec<Finding> {
    let has_grub = facts.grub.is_there(true) && facts.hierarchy() != Hierarchy::Unified;
    if !facts.scan.running || !has_grub {
        return Vec::new();
    }
    let mut findings: Vec<Finding> = mismatch(facts).into_iter().collect();
    if let Ok(entry) = &facts.grub.next {
        findings.extend(
            [waits(facts, entry), locked(facts, entry), files_missing(facts, entry)].into_iter().flatten(),
        );
        findings.extend(another_kernel(facts, entry));
    }
    findings
}

fn blocker(facts: &Facts, id: &str, title: impl Into<String>, detail: impl Into<String>) -> Finding {
    Finding::new(Severity::Blocker, id, title, detail).about(facts.grub.menu_path()).acceptable()
}

fn title(entry: &NextEntry) -> String {
    entry.path.join(" > ")
}

fn waits(facts: &Facts, entry: &NextEntry) -> Option<Finding> {
    entry.waits_for_key.then(|| {
        blocker(
            facts,
            "boot-menu-waits",
            "GRUB would wait for a key and boot nothing by itself",
            "no timeout is set (GRUB_TIMEOUT is negative, or the menu sets none): after the reboot the host would stay \
             at the menu until somebody presses a key on its console",
        )
        .remedy("set GRUB_TIMEOUT=5 in /etc/default/grub, run update-grub, then try again")
    })
}

fn locked(facts: &Facts, entry: &NextEntry) -> Option<Finding> {
    entry.asks_password.then(|| {
        blocker(
            facts,
            "boot-entry-locked",
            "GRUB would ask for a password before it boots",
            format!(
                "superusers are set and `{}` is not --unrestricted: after the reboot the host would wait for a \
                 password on its console",
                title(entry)
            ),
        )
        .remedy("make the entries --unrestricted (CLASS in /etc/grub.d/10_linux), run update-grub, then try again")
    })
}

fn files_missing(facts: &Facts, entry: &NextEntry) -> Option<Finding> {
    let missing = facts.grub.next_files.as_ref()?.missing();
    (!missing.is_empty()).then(|| {
        blocker(
            facts,
            "boot-kernel-missing",
            "files of the entry that will boot are not there",
            format!(
                "`{}` loads {}, found neither below /boot nor below /: any reboot would end at GRUB",
                title(entry),
                missing.join(" and ")
            ),
        )
        .remedy("see that /boot is mounted and the kernel's package is whole (dpkg --audit), run update-grub")
    })
}

fn another_kernel(facts: &Facts, entry: &NextEntry) -> Option<Finding> {
    let running = facts.kernel.release.as_deref()?;
    let name = facts.grub.next_files.as_ref()?.kernel_name()?;
    let (_, release) = name.split_once('-')?;
    let has_release = release.starts_with(|letter: char| letter.is_ascii_digit());
    if !has_release || ENDINGS.iter().any(|ending| release.strip_suffix(ending) == Some(running)) {
        return None;
    }
    Some(Finding::new(
        Severity::Note,
        "boots-another-kernel",
        format!("the next boot is into {name}, and {running} runs now"),
        format!(
            "`{}` ({}): a kernel that this host has perhaps never booted; what changes after the reboot may come from \
             it, too",
            title(entry),
            entry.chosen_by
        ),
    ))
}

/// Another loader boots this host, and GRUB's files are left over.
fn mismatch(facts: &Facts) -> Option<Finding> {
    let line = facts.kernel.command_line.as_deref()?;
    let why = without_grub(line, facts.grub.loader_info.as_deref())
        .or_else(|| another_root(line, &facts.grub.roots))?;
    let title = "this menu of GRUB is likely not what boots this host";
    Some(
        blocker(facts, "boot-entry-mismatch", title, why)
            .about("/proc/cmdline")
            .remedy("change the kernel command line where the loader that boots this host reads it"),
    )
}

/// GRUB puts `BOOT_IMAGE=` in front of every line, and never `initrd=` with a backslash.
fn without_grub(line: &str, loader_info: Option<&str>) -> Option<String> {
    if Kargs::parse(line).value("BOOT_IMAGE").is_some() {
        return None;
    }
    if let Some(word) = line.split_whitespace().find(|word| word.starts_with("initrd=\\")) {
        return Some(format!(
            "the running kernel was given `{word}`, as EFI loaders do, and no BOOT_IMAGE= of GRUB"
        ));
    }
    let info = loader_info.filter(|info| !info.starts_with("GRUB"))?;
    Some(format!(
        "the firmware says that `{info}` was the loader, and the running kernel was given no BOOT_IMAGE="
    ))
}

/// Only where all of them are of one kind can they be compared.
fn another_root(line: &str, roots: &[String]) -> Option<String> {
    let line = Kargs::parse(line);
    let running = unique(line.value("root")?)?;
    let comparable: Vec<_> = roots.iter().map(|root| unique(root)).collect::<Option<_>>()?;
    let same_kind = comparable.iter().all(|(kind, _)| *kind == running.0);
    if comparable.is_empty() || !same_kind || comparable.contains(&running) {
        return None;
    }
    let (kind, value) = running;
    Some(format!("the running kernel has root={kind}={value}, and no entry of the menu has that root"))
}

/// `UUID=…` or `PARTUUID=…`; names of devices may change from boot to boot.
fn unique(root: &str) -> Option<(&str, String)> {
    let (kind, value) = root.split_once('=')?;
    let known = matches!(kind, "UUID" | "PARTUUID") && !value.contains('$');
    known.then(|| (kind, value.to_ascii_lowercase()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_that_grub_did_not_hand_over_is_recognised() {
        let efi = r"initrd=\debian\initrd.img root=UUID=1 ro";
        assert!(without_grub(efi, None).is_some());
        assert!(without_grub("root=UUID=1 ro", Some("systemd-boot 252.39")).is_some());
        assert_eq!(without_grub("BOOT_IMAGE=/vmlinuz root=UUID=1", Some("systemd-boot 252.39")), None);
        assert_eq!(without_grub("root=UUID=1 ro", Some("GRUB 2.12")), None);
        // As after a kexec.
        assert_eq!(without_grub("root=UUID=1 ro", None), None);
    }

    #[test]
    fn roots_are_compared_only_where_they_can_be() {
        let differs = |line: &str, roots: &[&str]| {
            another_root(line, &roots.iter().map(|root| (*root).to_owned()).collect::<Vec<_>>()).is_some()
        };
        assert!(differs("root=UUID=aa ro", &["UUID=bb", "UUID=cc"]));
        assert!(differs("root=PARTUUID=aa-02", &["PARTUUID=bb-02"]));
        for (line, roots) in [
            ("root=UUID=AA ro", &["UUID=bb", "UUID=aa"][..]),
            ("root=/dev/sda1", &["UUID=bb"]),
            ("root=UUID=aa", &["/dev/sda1"]),
            ("root=UUID=aa", &["UUID=bb", "PARTUUID=aa-02"]),
            ("root=UUID=aa", &["UUID=$uuid"]),
            ("root=UUID=aa", &["UUID=bb", ""]),
            ("root=UUID=aa", &[]),
            ("root=/dev/sda1", &["/dev/sdb1"]),
            ("quiet", &["UUID=bb"]),
        ] {
            assert!(!differs(line, roots), "{line} {roots:?}");
        }
    }
}
