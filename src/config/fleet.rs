//! `[lock]`, `[window]` and `[gates]`: how a fleet takes turns.

use std::path::{Path, PathBuf};
use std::time::Duration;

use jiff::civil::{Time, Weekday};
use jiff::tz::TimeZone;
use serde::Deserialize;

use crate::node::drain::Selector;
use crate::node::lock::gates::{Command, Rules, Window, Zones};
use crate::node::lock::{fleetlock, lease};

/// A day is the longest that anything here may wait or take, but for the window and the lease.
const DAY: u64 = 24 * 3600;

/// Which lock a node asks for before it starts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// None: whoever drives the fleet takes care of the turns.
    #[default]
    None,
    /// Slots that are Lease objects of the cluster.
    Lease,
    /// A FleetLock server.
    FleetLock,
}

/// How a fleet takes turns.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Fleet {
    /// Which lock.
    pub mode: Mode,
    /// Its settings, for [`Mode::Lease`].
    pub lease: lease::Settings,
    /// Its settings, for [`Mode::FleetLock`].
    pub fleetlock: fleetlock::Settings,
    /// Who asks for the lock, and looks at other nodes; `None` for whoever drains.
    pub kubeconfig: Option<PathBuf>,
    /// As written; [`Fleet::rules`] has what holds.
    gates: Gates,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Gates {
    rules: Rules,
    zones: Option<Zones>,
}

impl Fleet {
    /// True if a node waits for its turn: for a lock, or for gates alone.
    #[must_use]
    pub fn is_wanted(&self) -> bool {
        self.mode != Mode::None || self.rules() != Rules::default()
    }

    /// The gates. With a lock of slots they look after the pool and its zones without being told to.
    #[must_use]
    pub fn rules(&self) -> Rules {
        let is_shared = self.mode == Mode::Lease;
        let written = &self.gates.rules;
        let slots = usize::try_from(self.lease.slots).ok().filter(|_| is_shared);
        let zones = if is_shared { Zones::OneAtATime } else { Zones::Any };
        Rules {
            max_unavailable: written.max_unavailable.or(slots),
            zones: self.gates.zones.unwrap_or(zones),
            ..written.clone()
        }
    }
}

/// `[lock]`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct LockFragment {
    mode: Option<Mode>,
    namespace: Option<String>,
    pool: Option<String>,
    slots: Option<u64>,
    halt_after: Option<u64>,
    lease_seconds: Option<u64>,
    url: Option<String>,
    group: Option<String>,
    kubeconfig: Option<PathBuf>,
}

/// `[window]`: all of it or nothing, so that no window is mixed out of two files.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct WindowFragment {
    days: Option<Vec<String>>,
    start: String,
    length_seconds: u64,
    #[serde(default = "utc")]
    tz: String,
}

fn utc() -> String {
    "UTC".to_owned()
}

/// `[gates]`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct GatesFragment {
    max_unavailable: Option<u64>,
    pool: Option<String>,
    zones: Option<Zones>,
    pods: Option<Vec<PodsFragment>>,
    command: Option<Vec<String>>,
    command_seconds: Option<u64>,
    settle_seconds: Option<u64>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct PodsFragment {
    namespace: Option<String>,
    labels: Option<String>,
}

/// How long a command may take, if nothing is set.
const COMMAND_LIMIT: Duration = Duration::from_secs(30);

impl Fleet {
    /// Takes what one file says; that wins.
    pub(super) fn take(
        &mut self,
        lock: LockFragment,
        window: Option<WindowFragment>,
        gates: GatesFragment,
    ) -> Result<(), String> {
        self.take_lease(&lock)?;
        self.take_server(lock)?;
        if let Some(window) = window {
            self.gates.rules.window = Some(checked_window(&window)?);
        }
        self.gates.take(gates)
    }

    fn take_lease(&mut self, lock: &LockFragment) -> Result<(), String> {
        let lease = &mut self.lease;
        // `cgroup2-migrate-POOL-control-plane-0` must be a name too.
        set(&mut lease.pool, &lock.pool, |pool| label("lock.pool", pool))?;
        set(&mut lease.namespace, &lock.namespace, |namespace| label("lock.namespace", namespace))?;
        let slots = |slots: &u64| within("lock.slots", *slots, 1, u64::from(lease::MOST_SLOTS));
        set(&mut lease.slots, &lock.slots, |number| {
            slots(number).map(|slots| u32::try_from(slots).unwrap_or(1))
        })?;
        set(&mut lease.halt_after, &lock.halt_after, |number| count("lock.halt_after", *number))?;
        set(&mut lease.duration, &lock.lease_seconds, |number| {
            seconds("lock.lease_seconds", *number, 60, 30 * DAY)
        })
    }

    fn take_server(&mut self, lock: LockFragment) -> Result<(), String> {
        set(&mut self.fleetlock.url, &lock.url, |url| web_address("lock.url", url))?;
        set(&mut self.fleetlock.group, &lock.group, |group| not_empty("lock.group", group))?;
        set(&mut self.kubeconfig, &lock.kubeconfig, |path| whole_path("lock.kubeconfig", path).map(Some))?;
        self.mode = lock.mode.unwrap_or(self.mode);
        if self.mode == Mode::FleetLock && self.fleetlock.url.is_empty() {
            return Err(
                "lock.mode is \"fleetlock\" and there is no lock.url, here or in an earlier file".to_owned()
            );
        }
        Ok(())
    }
}

impl Gates {
    fn take(&mut self, gates: GatesFragment) -> Result<(), String> {
        if let Some(number) = gates.max_unavailable {
            self.rules.max_unavailable = Some(count("gates.max_unavailable", number)?);
        }
        set(&mut self.rules.pool, &gates.pool, |text| labels("gates.pool", text))?;
        self.zones = gates.zones.or(self.zones);
        if let Some(pods) = gates.pods {
            self.rules.pods = pods.iter().map(selector).collect::<Result<_, _>>()?;
        }
        set(&mut self.rules.settle, &gates.settle_seconds, |number| {
            seconds("gates.settle_seconds", *number, 0, DAY)
        })?;
        self.take_command(gates.command, gates.command_seconds)
    }

    /// An empty command is none: a later file can take it away.
    fn take_command(&mut self, argv: Option<Vec<String>>, limit: Option<u64>) -> Result<(), String> {
        match argv {
            Some(argv) if argv.is_empty() => self.rules.command = None,
            Some(argv) if argv.iter().take(1).any(String::is_empty) => {
                return Err("gates.command names no program".to_owned());
            }
            Some(argv) => self.rules.command = Some(Command { argv, limit: COMMAND_LIMIT }),
            None => {}
        }
        let Some(limit) = limit else { return Ok(()) };
        let limit = seconds("gates.command_seconds", limit, 1, 3600)?;
        let command =
            self.rules.command.as_mut().ok_or("gates.command_seconds is set without gates.command")?;
        command.limit = limit;
        Ok(())
    }
}

fn set<T, U>(
    target: &mut T,
    written: &Option<U>,
    check: impl FnOnce(&U) -> Result<T, String>,
) -> Result<(), String> {
    if let Some(written) = written {
        *target = check(written)?;
    }
    Ok(())
}

fn within(key: &str, number: u64, least: u64, most: u64) -> Result<u64, String> {
    if (least..=most).contains(&number) {
        return Ok(number);
    }
    Err(format!("{key} is {number}; it can be {least} to {most}"))
}

fn count(key: &str, number: u64) -> Result<usize, String> {
    within(key, number, 1, 100_000).map(|number| usize::try_from(number).unwrap_or(usize::MAX))
}

fn seconds(key: &str, number: u64, least: u64, most: u64) -> Result<Duration, String> {
    within(key, number, least, most).map(Duration::from_secs)
}

fn whole_path(key: &str, path: &Path) -> Result<PathBuf, String> {
    if path.is_absolute() {
        Ok(path.to_owned())
    } else {
        Err(format!("{key} is {path:?}; it must be a whole path"))
    }
}

fn not_empty(key: &str, text: &str) -> Result<String, String> {
    if text.is_empty() { Err(format!("{key} is empty")) } else { Ok(text.to_owned()) }
}

/// A name that can be part of the name of a Kubernetes object (RFC 1123 label).
fn label(key: &str, text: &str) -> Result<String, String> {
    let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let has_ends = !text.is_empty() && !text.starts_with('-') && !text.ends_with('-');
    if has_ends && text.len() <= 63 && text.chars().all(is_plain) {
        return Ok(text.to_owned());
    }
    Err(format!("{key} is {text:?}; it can have 1 to 63 of a-z, 0-9 and, inside, -"))
}

fn web_address(key: &str, text: &str) -> Result<String, String> {
    let host = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
    match host {
        Some(host) if !host.is_empty() && text.chars().all(|c| c.is_ascii_graphic()) => Ok(text.to_owned()),
        Some(_) | None => Err(format!("{key} is {text:?}; it must be http://HOST or https://HOST")),
    }
}

/// `a=b,c=d`.
fn labels(key: &str, text: &str) -> Result<Vec<(String, String)>, String> {
    let pair = |part: &str| {
        let (name, value) = part.split_once('=')?;
        let (name, value) = (name.trim(), value.trim());
        // `a==b`, `a!=b` and `a in (b)` mean something to kubectl that is not meant here.
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./".contains(c);
        (!name.is_empty() && [name, value].into_iter().all(|word| word.chars().all(is_plain)))
            .then(|| (name.to_owned(), value.to_owned()))
    };
    let parts = text.split(',').filter(|_| !text.is_empty());
    let parts =
        parts.map(|part| pair(part).ok_or_else(|| format!("{key} has {part:?}; it must be NAME=VALUE")));
    parts.collect()
}

fn selector(pods: &PodsFragment) -> Result<Selector, String> {
    let labels = labels("gates.pods.labels", pods.labels.as_deref().unwrap_or_default())?;
    if labels.is_empty() && pods.namespace.is_none() {
        return Err(
            "an entry of gates.pods has neither namespace nor labels: it would be every pod".to_owned()
        );
    }
    Ok(Selector { namespace: pods.namespace.clone(), labels })
}

fn checked_window(window: &WindowFragment) -> Result<Window, String> {
    let WindowFragment { days, start, length_seconds, tz } = window;
    let zone = TimeZone::get(tz).map_err(|_| {
        format!("window.tz is {tz:?}, and there is no such time zone in /usr/share/zoneinfo; the package tzdata has them")
    })?;
    let start = Time::strptime("%H:%M", start)
        .map_err(|_| format!("window.start is {start:?}; it must be a time of day as 22:30"))?;
    let days = match days {
        None => every_day().collect(),
        Some(days) if days.is_empty() => {
            return Err("window.days is empty; without it every day counts".to_owned());
        }
        Some(days) => days.iter().map(|day| weekday(day)).collect::<Result<_, _>>()?,
    };
    Ok(Window { days, start, length: seconds("window.length_seconds", *length_seconds, 60, 7 * DAY)?, zone })
}

fn every_day() -> impl Iterator<Item = Weekday> {
    Weekday::Monday.cycle_forward().take(7)
}

fn weekday(text: &str) -> Result<Weekday, String> {
    let days = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"].into_iter().zip(every_day());
    let found = days.into_iter().find(|(name, _)| *name == text).map(|(_, day)| day);
    found.ok_or_else(|| format!("window.days has {text:?}; there are mon, tue, wed, thu, fri, sat, sun"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::tests::loaded;

    fn fleet(text: &str) -> Fleet {
        loaded(text).unwrap().fleet
    }

    #[test]
    fn nothing_is_asked_where_nothing_is_set() {
        let fleet = fleet("");
        assert_eq!((fleet.mode, fleet.rules()), (Mode::None, Rules::default()));
    }

    #[test]
    fn a_lock_of_slots_looks_after_its_pool() {
        let text =
            "[lock]\nmode = \"lease\"\npool = \"gpu\"\nslots = 5\nhalt_after = 2\nlease_seconds = 7200\n";
        let of_file = fleet(text);
        assert!(of_file.is_wanted() && !fleet("").is_wanted());
        assert!(fleet("[window]\nstart = \"22:00\"\nlength_seconds = 3600\n").is_wanted());
        let lease = &of_file.lease;
        assert_eq!((lease.slots, lease.halt_after, lease.duration.as_secs()), (5, 2, 7200));
        assert_eq!((lease.lease_name(4), of_file.mode), ("cgroup2-migrate-gpu-4".to_owned(), Mode::Lease));
        let rules = of_file.rules();
        assert_eq!((rules.max_unavailable, rules.zones), (Some(5), Zones::OneAtATime));
        let rules = fleet(&format!("{text}[gates]\nmax_unavailable = 7\nzones = \"any\"\n")).rules();
        assert_eq!((rules.max_unavailable, rules.zones), (Some(7), Zones::Any));
    }

    #[test]
    fn gates_are_read() {
        let rules = fleet(
            "[window]\ndays = [\"sat\", \"sun\"]\nstart = \"22:30\"\nlength_seconds = 14400\ntz = \"Europe/Berlin\"\n\
             [gates]\npool = \"team=a,tier=\"\nsettle_seconds = 60\ncommand = [\"may-i\", \"a b\"]\n\
             pods = [{ namespace = \"db\" }, { labels = \"app=x\" }]\n",
        )
        .rules();
        let window = rules.window.unwrap();
        assert_eq!(window.days, [Weekday::Saturday, Weekday::Sunday]);
        assert_eq!(
            (window.start.to_string(), window.zone.iana_name()),
            ("22:30:00".into(), Some("Europe/Berlin"))
        );
        assert_eq!(rules.pool, [("team".into(), "a".into()), ("tier".into(), String::new())]);
        assert_eq!(
            rules.command.unwrap(),
            Command { argv: vec!["may-i".into(), "a b".into()], limit: COMMAND_LIMIT }
        );
        assert_eq!((rules.pods.len(), rules.settle.as_secs()), (2, 60));
    }

    #[test]
    fn the_server_of_fleetlock_is_read() {
        let fleet = fleet(
            "[lock]\nmode = \"fleetlock\"\nurl = \"http://fleetlock.kube-system\"\ngroup = \"workers\"\n",
        );
        assert_eq!(
            (fleet.fleetlock.url.as_str(), fleet.fleetlock.group.as_str()),
            ("http://fleetlock.kube-system", "workers")
        );
    }

    #[test]
    fn what_cannot_be_is_told_with_its_file_and_key() {
        let window = "[window]\nstart = \"22:00\"\nlength_seconds = 3600\n";
        for (text, words) in [
            ("[lock]\nmode = \"etcd\"\n", "unknown variant `etcd`"),
            ("[lock]\nslot = 3\n", "`slot`"),
            ("[lock]\nslots = 0\n", "lock.slots is 0; it can be 1 to 1000"),
            ("[lock]\nhalt_after = 0\n", "lock.halt_after is 0"),
            ("[lock]\nlease_seconds = 5\n", "lock.lease_seconds is 5"),
            ("[lock]\npool = \"A b\"\n", "lock.pool is \"A b\""),
            ("[lock]\nnamespace = \"-x\"\n", "lock.namespace"),
            ("[lock]\nmode = \"fleetlock\"\n", "there is no lock.url"),
            ("[lock]\nurl = \"fleetlock:80\"\n", "lock.url is \"fleetlock:80\""),
            ("[lock]\ngroup = \"\"\n", "lock.group is empty"),
            ("[lock]\nkubeconfig = \"agent.conf\"\n", "lock.kubeconfig is \"agent.conf\""),
            ("[window]\nstart = \"22:00\"\n", "length_seconds"),
            ("[window]\nstart = \"25:00\"\nlength_seconds = 3600\n", "window.start is \"25:00\""),
            ("[window]\nstart = \"22:00\"\nlength_seconds = 0\n", "window.length_seconds is 0"),
            (&format!("{window}tz = \"Mars/Phobos\"\n"), "window.tz is \"Mars/Phobos\""),
            (&format!("{window}days = [\"Saturday\"]\n"), "window.days has \"Saturday\""),
            (&format!("{window}days = []\n"), "window.days is empty"),
            (&format!("{window}until = 3\n"), "`until`"),
            ("[gates]\nmax_unavailable = 0\n", "gates.max_unavailable is 0"),
            ("[gates]\nzones = \"all\"\n", "unknown variant `all`"),
            ("[gates]\npool = \"a!=b\"\n", "gates.pool has \"a!=b\""),
            ("[gates]\npods = [{}]\n", "gates.pods has neither"),
            ("[gates]\npods = [{ name = \"x\" }]\n", "`name`"),
            ("[gates]\ncommand = [\"\"]\n", "gates.command names no program"),
            ("[gates]\ncommand_seconds = 0\n", "gates.command_seconds is 0"),
            ("[gates]\ncommand_seconds = 9\n", "without gates.command"),
            ("[gates]\nsettle_seconds = 86401\n", "gates.settle_seconds is 86401"),
        ] {
            let error = loaded(text).unwrap_err();
            let file = "/etc/cgroup2-migrate/config.d/10-x.toml";
            assert!(error.contains(file) && error.contains(words), "{text}: {error}");
        }
    }
}
