//! Options for systemd that live in the firmware.

use crate::boot::hierarchy::Hierarchy;
use crate::boot::kargs::{Kargs, is_v1_pin};
use crate::config::Settings;
use crate::facts::Facts;
use crate::facts::firmware::{self, SystemOptions};
use crate::report::{Finding, Severity};

/// A pin in it holds the host on v1 where the kernel command line says nothing: after the pins there were taken out.
pub(super) fn check(facts: &Facts, _: &Settings) -> Vec<Finding> {
    // On v2 already nothing is changed that a pin could undo.
    let worst = if facts.hierarchy() == Hierarchy::Unified { Severity::Warning } else { Severity::Blocker };
    match &facts.efi_system_options {
        Ok(None) => Vec::new(),
        Ok(Some(options)) if Kargs::parse(&options.text).iter().any(is_v1_pin) => {
            vec![pinned(options, worst)]
        }
        Ok(Some(options)) => vec![harmless(options)],
        Err(why) => vec![unknown(why)],
    }
}

fn pinned(options: &SystemOptions, severity: Severity) -> Finding {
    Finding::new(
        severity,
        "efi-system-options",
        "the EFI variable SystemdOptions asks for cgroup v1",
        format!("{}; it holds `{}`", firmware::HOW_OPTIONS_COUNT, options.text),
    )
    .about(&options.path)
    .remedy_command("empty it (and set again what else is in it)", &["bootctl", "systemd-efi-options", ""])
}

fn harmless(options: &SystemOptions) -> Finding {
    Finding::new(
        Severity::Note,
        "efi-system-options",
        "the EFI variable SystemdOptions is set",
        format!("it holds `{}`, nothing that asks for cgroup v1", options.text),
    )
    .about(&options.path)
}

fn unknown(why: &str) -> Finding {
    Finding::new(
        Severity::Warning,
        "efi-system-options-unknown",
        "it could not be found out whether the EFI variable SystemdOptions is set",
        format!("{why}; {}", firmware::HOW_OPTIONS_COUNT),
    )
    .remedy_command("look at it", &["bootctl", "systemd-efi-options"])
}
