//! Whether the one reboot that is needed will be possible, and will be a real one.

use crate::config::Settings;
use crate::facts::Facts;
use crate::facts::reboot::RebootFacts;
use crate::report::{Finding, Severity};

pub(super) fn check(facts: &Facts, _: &Settings) -> Vec<Finding> {
    let Some(reboot) = &facts.reboot else { return Vec::new() };
    let single = [masked(reboot), refused(reboot), scheduled(reboot), kexec(reboot), soft_reboot(reboot)];
    single.into_iter().flatten().chain(locks(reboot)).collect()
}

/// Somebody else's shutdown alone.
pub(super) fn schedule(facts: &Facts, _: &Settings) -> Vec<Finding> {
    facts.reboot.as_ref().and_then(scheduled).into_iter().collect()
}

fn masked(reboot: &RebootFacts) -> Option<Finding> {
    let state = match &reboot.target_state {
        Ok(state) if state.starts_with("masked") => state,
        Ok(_) => return None,
        Err(why) => return Some(target_unknown(why)),
    };
    let finding = Finding::new(
        Severity::Blocker,
        "reboot-target-masked",
        "reboot.target is masked",
        format!("its unit file state is {state}: someone does not want this host to reboot"),
    );
    Some(finding.remedy_command("unmask it", &["systemctl", "unmask", "reboot.target"]))
}

fn target_unknown(why: &str) -> Finding {
    Finding::new(
        Severity::Blocker,
        "reboot-target-unknown",
        "it could not be found out whether reboot.target is masked",
        why,
    )
    .remedy("see that systemd answers: systemctl is-enabled reboot.target")
}

fn refused(reboot: &RebootFacts) -> Option<Finding> {
    let detail = match &reboot.can_reboot {
        // `challenge` means that a user would be asked for a password; root is not.
        Ok(answer) if answer == "yes" || answer == "challenge" => return None,
        Ok(answer) => format!("logind answers CanReboot with `{answer}`"),
        Err(why) => why.clone(),
    };
    let text = "see that dbus and systemd-logind run: systemctl status systemd-logind";
    Some(
        Finding::new(Severity::Blocker, "reboot-not-possible", "logind cannot reboot this host", detail)
            .remedy(text),
    )
}

fn locks(reboot: &RebootFacts) -> Vec<Finding> {
    match &reboot.inhibitors {
        Err(why) => vec![locks_unknown(why)],
        Ok(found) => found.iter().filter(|lock| lock.forbids_reboot()).map(lock_finding).collect(),
    }
}

fn locks_unknown(why: &str) -> Finding {
    Finding::new(Severity::Blocker, "reboot-locks-unknown", "locks on shutdown could not be listed", why)
        .remedy(
            "see that dbus and systemd-logind run: systemctl status systemd-logind, systemd-inhibit --list",
        )
}

fn lock_finding(lock: &crate::host::Inhibitor) -> Finding {
    Finding::new(Severity::Blocker, "reboot-inhibited", "a lock forbids the reboot", lock.to_string())
        .remedy("wait until it is gone (dpkg, a backup), then try again; it is never overridden")
}

fn scheduled(reboot: &RebootFacts) -> Option<Finding> {
    let kind = match &reboot.scheduled {
        Ok(kind) => kind.as_ref()?,
        Err(why) => return Some(schedule_unknown(why)),
    };
    Some(
        Finding::new(
            Severity::Blocker,
            "shutdown-scheduled",
            format!("someone scheduled a {kind}"),
            "it could fall between the change and its proof",
        )
        .acceptable()
        .remedy_command("cancel it, or let it happen first", &["shutdown", "-c"]),
    )
}

fn schedule_unknown(why: &str) -> Finding {
    Finding::new(
        Severity::Warning,
        "shutdown-schedule-unknown",
        "it could not be found out whether someone scheduled a shutdown",
        format!("{why}; it could fall between the change and its proof"),
    )
    .remedy("see whether there is one: cat /run/systemd/shutdown/scheduled")
}

fn kexec(reboot: &RebootFacts) -> Option<Finding> {
    const DETAIL: &str = "the reboot is asked of logind without kexec, so the boot loader is not skipped";
    match &reboot.kexec_loaded {
        Ok(false) => None,
        Ok(true) => {
            Some(Finding::new(Severity::Note, "kexec-loaded", "a kernel is loaded for kexec", DETAIL))
        }
        Err(why) => {
            let title = format!("whether a kernel is loaded for kexec is not known: {why}");
            Some(Finding::new(Severity::Note, "kexec-unknown", title, DETAIL))
        }
    }
}

fn soft_reboot(reboot: &RebootFacts) -> Option<Finding> {
    reboot.soft_reboot_prepared.then(|| {
        Finding::new(
            Severity::Note,
            "soft-reboot-prepared",
            "/run/nextroot is prepared for a soft-reboot",
            "the reboot is asked of logind as a full one, so the kernel line is read anew",
        )
    })
}
