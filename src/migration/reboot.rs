//! Asks logind for the reboot, and sees that it really begins.

use std::time::Duration;

use super::decide::Ending;
use super::journal::Journal;
use crate::checks;
use crate::config::Settings;
use crate::facts::{self, Scan};
use crate::host::{Host, Inhibitor, InitError, REBOOT_TARGET};

/// How long a reboot that logind accepted may take until it is seen to begin.
const BEGINS_WITHIN: Duration = Duration::from_secs(30);

/// Pause between two looks.
const PAUSE: Duration = Duration::from_secs(1);

/// Why the host does not go down, as an ending of the run. The state is kept.
pub type Refusal = Ending;

/// Waits, no longer than `patience`, until nothing stands in the way of a reboot.
///
/// Before systemd 257 logind lets root pass `block` locks without a word, and dpkg may hold one: so they are
/// looked at here and never passed, whatever the version.
///
/// Gives how long it waited.
///
/// # Errors
/// What stands in the way.
pub fn wait_until_free(
    host: Host<'_>,
    patience: Duration,
    stop_asked: &dyn Fn() -> bool,
) -> Result<Duration, Refusal> {
    let mut waited = Duration::ZERO;
    loop {
        match in_the_way(host)? {
            None => return Ok(waited),
            Some(_) if stop_asked() => return Err(Ending::by_signal()),
            Some(lock) if waited >= patience => return Err(Ending::TryLater(lock.to_string())),
            Some(_) => host.clock.sleep(PAUSE),
        }
        waited += PAUSE;
    }
}

fn in_the_way(host: Host<'_>) -> Result<Option<Inhibitor>, Refusal> {
    let state = host.init.unit_file_state(REBOOT_TARGET).map_err(try_later)?;
    if state.starts_with("masked") {
        let why = "reboot.target is masked: `systemctl unmask reboot.target`, then `resume`";
        return Err(Ending::NeedsPerson(why.to_owned()));
    }
    let locks = host.init.inhibitors().map_err(try_later)?;
    Ok(locks.into_iter().find(Inhibitor::forbids_reboot))
}

/// What forbids the reboot into v2 by now, and was not accepted: the plan may be days old.
#[must_use]
pub fn blocked(host: Host<'_>, journal: &Journal) -> Option<Refusal> {
    let options = &journal.options;
    let is_drained = journal.node.as_ref().is_some_and(|node| node.drained);
    let settings = Settings { no_drain: options.no_drain || is_drained, ..Settings::default() };
    let findings = checks::before_reboot(&facts::scan(host, &Scan::running()), &settings);
    let blockers = checks::blockers(&findings, &options.accepted);
    let told: Vec<String> = blockers.iter().map(|finding| finding.line()).collect();
    let can_be_accepted = blockers.iter().any(|finding| finding.acceptable);
    let or_accept = if can_be_accepted { " (or `migrate` with --accept or --no-drain)" } else { "" };
    (!told.is_empty()).then(|| {
        let told = told.join("; ");
        Ending::Blocked(format!(
            "found right before the reboot: {told}; set it right, then `resume`{or_accept}, or `rollback`"
        ))
    })
}

/// What came of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Requested {
    /// The host is going down.
    Accepted,
    /// It is not, and will not.
    Refused(Refusal),
    /// It may be: nobody answers.
    Unknown(String),
}

/// Asks for the reboot and waits until the host is seen going down. Locks are looked at once more: since the last look
/// the host was judged and the journal written, which takes its time.
#[must_use]
pub fn request(host: Host<'_>) -> Requested {
    match in_the_way(host) {
        Ok(None) => ask(host),
        Ok(Some(lock)) => Requested::Refused(Ending::TryLater(lock.to_string())),
        Err(refusal) => Requested::Refused(refusal),
    }
}

fn ask(host: Host<'_>) -> Requested {
    match host.init.reboot() {
        // Within a second of this the bus may be gone, as seen in a virtual machine.
        Ok(()) => watch(host, "logind accepted the reboot", true),
        // The call was sent and the answer did not come: the reboot may be under way, so it is looked at, not
        // asked for again.
        Err(error @ (InitError::Lost { .. } | InitError::TimedOut { .. })) => {
            watch(host, &error.to_string(), false)
        }
        Err(
            refused
            @ (InitError::Unreachable { .. } | InitError::Refused { .. } | InitError::TestHost { .. }),
        ) => Requested::Refused(why_refused(host, refused)),
    }
}

fn watch(host: Host<'_>, answer: &str, accepted: bool) -> Requested {
    let mut waited = Duration::ZERO;
    while waited < BEGINS_WITHIN {
        match host.init.is_going_down() {
            Ok(true) => return Requested::Accepted,
            Ok(false) => {}
            Err(_) if accepted => return Requested::Accepted,
            Err(error) => {
                return Requested::Unknown(format!("{answer}; whether the host is going down: {error}"));
            }
        }
        host.clock.sleep(PAUSE);
        waited += PAUSE;
    }
    Requested::Refused(Ending::TryLater(format!(
        "{answer}, but the host did not go down within {BEGINS_WITHIN:?}"
    )))
}

/// logind's refusal names nobody. A lock that was taken after we looked does, and is why as a rule.
fn why_refused(host: Host<'_>, refused: InitError) -> Refusal {
    let locks = host.init.inhibitors().unwrap_or_default();
    match locks.into_iter().find(Inhibitor::forbids_reboot) {
        Some(lock) => Ending::TryLater(format!("{lock} ({refused})")),
        None => try_later(refused),
    }
}

fn try_later(error: InitError) -> Refusal {
    Ending::TryLater(error.to_string())
}
