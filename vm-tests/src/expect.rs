//! What must be true of a machine, asked of the program and, independently, of the machine itself.

use anyhow::{Result, ensure};
use serde_json::Value;

use crate::node::{Fingerprint, Node, text_at};

/// Words that pin a Debian system to cgroup v1; none may be left after a migration.
const PINS: [&str; 3] = [
    "systemd.unified_cgroup_hierarchy",
    "systemd.legacy_systemd_cgroup_controller",
    "SYSTEMD_CGROUP_ENABLE_LEGACY_FORCE",
];

/// A finished migration, by the program's word and by plain commands.
pub(crate) fn migrated(node: &mut Node, status: &Value, words_before: &[String]) -> Result<()> {
    phase(status, "done")?;
    hierarchy(node, status, "unified")?;
    let defaults = node.vm.must("cat /etc/default/grub /etc/default/grub.d/*.cfg 2>/dev/null || true")?;
    let words = node.kernel_words()?;
    for pin in PINS {
        ensure!(!defaults.contains(pin), "{pin} is still in /etc/default/grub");
        ensure!(!words.iter().any(|word| word.contains(pin)), "{pin} is still in /proc/cmdline");
    }
    other_words_kept(words_before, &words)
}

/// The state before, byte for byte, on the hierarchy of before.
pub(crate) fn rolled_back(node: &mut Node, status: &Value, before: &Fingerprint, kind: &str) -> Result<()> {
    phase(status, "rolled-back")?;
    hierarchy(node, status, kind)?;
    before.ensure_unchanged(&node.fingerprint()?)
}

/// The phase, with the whole status when it is another.
pub(crate) fn phase(status: &Value, expected: &str) -> Result<()> {
    let phase = text_at(status, "phase")?;
    ensure!(phase == expected, "the phase is {phase}, not {expected}: {status}");
    Ok(())
}

/// The hierarchy, by the program's word and by the file systems mounted.
pub(crate) fn hierarchy(node: &mut Node, status: &Value, expected: &str) -> Result<()> {
    let mounted = node.hierarchy()?;
    ensure!(mounted == expected, "the machine is {mounted}, not {expected}: {status}");
    let told = text_at(status, "hierarchy")?;
    ensure!(told == expected, "the machine is {expected}, but status says {told}");
    Ok(())
}

/// So many boots, this one included.
pub(crate) fn boots(node: &mut Node, expected: usize) -> Result<()> {
    let boots = node.boots()?.len();
    ensure!(boots == expected, "the machine booted {boots} times, not {expected}");
    Ok(())
}

/// Every word but the pins, and but the root device, which the guest's own `update-grub` names by UUID.
fn other_words_kept(before: &[String], after: &[String]) -> Result<()> {
    let is_free = |word: &&String| word.starts_with("root=") || PINS.iter().any(|pin| word.starts_with(pin));
    let lost: Vec<&String> = before.iter().filter(|word| !is_free(word) && !after.contains(word)).collect();
    ensure!(lost.is_empty(), "words lost from the kernel command line: {lost:?}");
    ensure!(after.iter().any(|word| word.starts_with("root=")), "no root= on the kernel command line");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<String> {
        line.split(' ').map(str::to_owned).collect()
    }

    #[test]
    fn pins_may_go_and_the_root_device_may_be_renamed() {
        let before = words("root=/dev/vda2 ro quiet systemd.unified_cgroup_hierarchy=0");
        other_words_kept(&before, &words("root=UUID=1 ro quiet")).unwrap();
    }

    #[test]
    fn any_other_word_lost_is_named() {
        let lost = other_words_kept(&words("root=/dev/vda2 ro panic=5"), &words("root=/dev/vda2 ro"));
        assert!(lost.unwrap_err().to_string().contains("panic=5"));
    }
}
