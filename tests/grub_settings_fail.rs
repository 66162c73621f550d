//! Settings at which grub-mkconfig would end: found before anything is written, and only where real shells end, too.
#![allow(clippy::unwrap_used, clippy::disallowed_methods, reason = "makes trees and asks real shells")]
#![allow(clippy::panic, reason = "a test stops at the first surprise")]

#[path = "support/sim.rs"]
mod sim;

use std::process::Command;

use cgroup2_migrate::host::fake::Fuse;
use cgroup2_migrate::report::{Finding, Severity};
use sim::{Sim, Verb};

const PIN: &str = "GRUB_CMDLINE_LINUX=\"systemd.unified_cgroup_hierarchy=0\"\n";

/// Lines at which the reading ends, with the command that is not there.
const FATAL: [(&str, &str); 5] = [
    ("GRUB_CMDLINE_LINUX_DEFAULT=quiet splash", "splash"),
    ("GRUB_CMDLINE_LINUX_DEFAULT=quiet panic=1 nomodeset", "nomodeset"),
    ("GRUB_TIMEOUT = 5", "GRUB_TIMEOUT"),
    ("GRUB_DISTRIBUTOR=x\nsystemd.unified_cgroup_hierarchy", "systemd.unified_cgroup_hierarchy"),
    ("GRUB_TERMINAL=serial consoles >/dev/null", "consoles"),
];

/// Lines that look alike and do not end it.
const HARMLESS: [&str; 10] = [
    "GRUB_CMDLINE_LINUX_DEFAULT=quiet splash || true",
    "if GRUB_CMDLINE_LINUX_DEFAULT=quiet splash; then :; fi",
    "! GRUB_CMDLINE_LINUX_DEFAULT=quiet splash",
    "GRUB_CMDLINE_LINUX_DEFAULT=quiet splash | true",
    "GRUB_CMDLINE_LINUX_DEFAULT=quiet splash &",
    "GRUB_CMDLINE_LINUX_DEFAULT=quiet panic=1",
    "GRUB_CMDLINE_LINUX_DEFAULT=quiet true",
    "splash() { :; }\nsplash",
    "set +e\nsplash",
    "GRUB_CMDLINE_LINUX_DEFAULT=quiet program-of-this-host",
];

/// What grub-mkconfig does: `set -e`, and `.` for each file.
fn ends(shell: &str, settings: &str) -> bool {
    let tree = tempfile::tempdir().unwrap();
    let file = tree.path().join("grub");
    let program = tree.path().join("program-of-this-host");
    std::fs::write(&file, settings).unwrap();
    std::fs::write(&program, "#!/bin/sh\n").unwrap();
    std::fs::set_permissions(&program, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let path = format!("{}:/usr/bin:/bin", tree.path().display());
    let script = "set -e\nif test -f \"$1\" ; then\n  . \"$1\"\nfi\nexit 0\n";
    let mut command = Command::new(shell);
    let output = command.args(["-c", script, "sh"]).arg(&file).env("PATH", path).output().unwrap();
    !output.status.success()
}

fn machine(settings: &str) -> Sim {
    let sim = Sim::new(PIN);
    sim.put("etc/default/grub", settings);
    sim.put("usr/bin/program-of-this-host", "");
    sim
}

fn found(sim: &Sim) -> Option<Finding> {
    sim.plan().1.findings.into_iter().find(|finding| finding.id == "grub-settings-fail")
}

#[test]
fn a_line_at_which_grub_mkconfig_ends_is_a_blocker() {
    for (line, command) in FATAL {
        let settings = format!("{PIN}{line}\n");
        for shell in ["dash", "bash"] {
            assert!(ends(shell, &settings), "{shell}: {line}");
        }
        let sim = machine(&settings);
        let before = sim.boot_files();
        let finding = found(&sim).unwrap_or_else(|| panic!("not found: {line}"));
        let line_number = 1 + line.lines().count();
        assert_eq!((finding.severity, finding.acceptable), (Severity::Blocker, false));
        let at = format!("/etc/default/grub:{line_number}: `{command}`");
        assert!(finding.detail.contains(&at), "{finding:?}");
        assert_eq!(finding.remedy.unwrap().argv.unwrap(), ["sh", "-e", "/etc/default/grub"]);
        assert!(sim.run(Verb::Migrate, &Fuse::counting()).is_err() && sim.effects.borrow().is_empty());
        assert_eq!(sim.boot_files(), before);
    }
}

#[test]
fn lines_that_do_not_end_it_are_no_blocker() {
    for line in HARMLESS {
        let settings = format!("{PIN}{line}\nGRUB_TIMEOUT=5\n");
        for shell in ["dash", "bash"] {
            assert!(!ends(shell, &settings), "{shell}: {line}");
        }
        assert!(found(&machine(&settings)).is_none(), "{line}");
    }
}

#[test]
fn without_programs_to_look_at_nothing_is_claimed() {
    let sim = machine(&format!("{PIN}GRUB_CMDLINE_LINUX_DEFAULT=quiet splash\n"));
    std::fs::remove_dir_all(sim.path("usr/bin")).unwrap();
    assert!(found(&sim).is_none());
}

#[test]
fn a_value_cut_short_comes_with_its_remedy() {
    let sim = machine(&format!("{PIN}GRUB_CMDLINE_LINUX_DEFAULT=quiet panic=1\n"));
    let findings = sim.plan().1.findings;
    let finding = findings.iter().find(|finding| finding.id == "unquoted-second-word").unwrap();
    assert!(finding.remedy.as_ref().unwrap().text.contains("quotes"), "{finding:?}");
}
