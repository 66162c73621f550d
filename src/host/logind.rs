//! logind and systemd over D-Bus: [`SystemBus`].

use std::time::Duration;

use serde::de::DeserializeOwned;
use zbus::Connection;
use zbus::zvariant::{DynamicType, OwnedValue, Type};

use super::{Inhibitor, Init, InitError};

pub(super) const CALL_LIMIT: Duration = Duration::from_secs(10);
/// logind asks polkit and systemd before it answers.
const REBOOT_LIMIT: Duration = Duration::from_secs(30);

const LOGIND: Peer = Peer {
    service: "org.freedesktop.login1",
    path: "/org/freedesktop/login1",
    interface: "org.freedesktop.login1.Manager",
};
pub(super) const SYSTEMD: Peer = Peer {
    service: "org.freedesktop.systemd1",
    path: "/org/freedesktop/systemd1",
    interface: "org.freedesktop.systemd1.Manager",
};
pub(super) const PROPERTIES: &str = "org.freedesktop.DBus.Properties";

/// A plain reboot. Never set here: 0x1 (check locks for root too, the default since systemd 257), 0x2 (kexec)
/// and 0x4, 0x8 (soft-reboot), which keep the running command line or kernel, and 0x10 (pass over locks).
const PLAIN: u64 = 0;

/// Errors that say the call reached nobody.
const NOBODY_THERE: [&str; 5] = [
    "org.freedesktop.DBus.Error.ServiceUnknown",
    "org.freedesktop.DBus.Error.NameHasNoOwner",
    "org.freedesktop.DBus.Error.NoServer",
    "org.freedesktop.DBus.Error.UnknownObject",
    "org.freedesktop.DBus.Error.UnknownInterface",
];
/// Start of the names of errors that say that the service could not be started.
const NOT_STARTED: &str = "org.freedesktop.DBus.Error.Spawn.";
/// Errors that say that the service took the call and went silent.
const NO_ANSWER: [&str; 4] = [
    "org.freedesktop.DBus.Error.NoReply",
    "org.freedesktop.DBus.Error.Timeout",
    "org.freedesktop.DBus.Error.TimedOut",
    "org.freedesktop.DBus.Error.Disconnected",
];
const UNKNOWN_METHOD: &str = "org.freedesktop.DBus.Error.UnknownMethod";
/// systemd's words for a unit file it does not know.
const NO_SUCH_FILE: &str = "org.freedesktop.DBus.Error.FileNotFound";
const NO_SUCH_UNIT: &str = "org.freedesktop.systemd1.NoSuchUnit";

/// logind and systemd on the system bus.
///
/// Each call makes its own connection: there are few, hours may lie between them, and the bus may have been
/// restarted since. `DBUS_SYSTEM_BUS_ADDRESS` is honoured.
#[derive(Debug)]
pub struct SystemBus {
    address: Option<String>,
    /// Given by whoever made this one, for every call.
    limit: Option<Duration>,
    changes_refused: bool,
}

impl SystemBus {
    /// The system bus.
    #[must_use]
    pub fn new() -> Self {
        let address = std::env::var("DBUS_SYSTEM_BUS_ADDRESS").ok();
        let changes_refused = super::test_host() && !address.as_deref().is_some_and(is_private);
        Self { address: None, limit: None, changes_refused }
    }

    /// The bus at this address.
    #[must_use]
    pub fn at(address: &str) -> Self {
        let changes_refused = super::test_host() && !is_private(address);
        Self { address: Some(address.to_owned()), changes_refused, ..Self::new() }
    }

    /// With this time limit for every call.
    #[must_use]
    pub fn with_limit(self, limit: Duration) -> Self {
        Self { limit: Some(limit), ..self }
    }
}

impl Default for SystemBus {
    fn default() -> Self {
        Self::new()
    }
}

impl Init for SystemBus {
    fn inhibitors(&self) -> Result<Vec<Inhibitor>, InitError> {
        type Row = (String, String, String, String, u32, u32);
        let rows: Vec<Row> = self.ask(&LOGIND.call("list shutdown inhibitors", "ListInhibitors"), &())?;
        let inhibitor = |(what, who, why, mode, uid, pid): Row| Inhibitor { what, who, why, mode, uid, pid };
        Ok(rows.into_iter().map(inhibitor).collect())
    }

    fn can_reboot(&self) -> Result<String, InitError> {
        self.ask(&LOGIND.call("ask whether a reboot is possible", "CanReboot"), &())
    }

    fn unit_file_state(&self, unit: &str) -> Result<String, InitError> {
        let call = SYSTEMD.call("ask for the state of a unit file", "GetUnitFileState");
        let limit = self.limit(CALL_LIMIT);
        match self.exchange(&call, &(unit,), limit) {
            Err(failure) if failure.is_named(&[NO_SUCH_FILE, NO_SUCH_UNIT]) => Ok(String::new()),
            other => other.map_err(|failure| call.explain(failure, limit)),
        }
    }

    fn is_going_down(&self) -> Result<bool, InitError> {
        self.property("ask whether a shutdown is under way", "PreparingForShutdown")
    }

    fn scheduled_shutdown(&self) -> Result<Option<String>, InitError> {
        let (kind, _microseconds): (String, u64) =
            self.property("ask for a scheduled shutdown", "ScheduledShutdown")?;
        Ok(Some(kind).filter(|kind| !kind.is_empty()))
    }

    /// Locks are not what holds this back: before systemd 257 a `block` lock stops only unprivileged callers,
    /// and root goes through. Whoever calls this has listed the locks first.
    fn reboot(&self) -> Result<(), InitError> {
        const ACTION: &str = "ask for a reboot";
        self.may_change(ACTION)?;
        let limit = self.limit(REBOOT_LIMIT);
        let call = LOGIND.call(ACTION, "RebootWithFlags");
        let answer = match self.exchange(&call, &(PLAIN,), limit) {
            // Before systemd 248 there is only the old method. `false`: do not wait for a person's password.
            Err(failure) if failure.is_named(&[UNKNOWN_METHOD]) => {
                self.exchange(&LOGIND.call(ACTION, "Reboot"), &(false,), limit)
            }
            other => other,
        };
        answer.map_err(|failure| call.explain(failure, limit))
    }

    fn reload_units(&self) -> Result<(), InitError> {
        self.reload()
    }

    fn restart_unit(&self, unit: &str) -> Result<String, InitError> {
        self.restart(unit)
    }

    fn active_state(&self, unit: &str) -> Result<String, InitError> {
        self.state(unit)
    }
}

impl SystemBus {
    pub(super) fn limit(&self, usual: Duration) -> Duration {
        self.limit.unwrap_or(usual)
    }

    /// On a test host only a private bus is asked to change anything.
    pub(super) fn may_change(&self, action: &'static str) -> Result<(), InitError> {
        if self.changes_refused { Err(InitError::TestHost { action }) } else { Ok(()) }
    }

    fn ask<B, T>(&self, call: &Call, arguments: &B) -> Result<T, InitError>
    where
        B: serde::Serialize + DynamicType,
        T: DeserializeOwned + Type,
    {
        let limit = self.limit(CALL_LIMIT);
        self.exchange(call, arguments, limit).map_err(|failure| call.explain(failure, limit))
    }

    fn property<T>(&self, action: &'static str, name: &str) -> Result<T, InitError>
    where
        T: TryFrom<OwnedValue>,
        T::Error: std::fmt::Display,
    {
        let call = Call { action, method: "Get", peer: Peer { interface: PROPERTIES, ..LOGIND } };
        let value: OwnedValue = self.ask(&call, &(LOGIND.interface, name))?;
        T::try_from(value).map_err(|error| call.unreachable(format!("property {name}: {error}")))
    }

    /// One call on a connection of its own.
    pub(super) fn exchange<B, T>(&self, call: &Call, arguments: &B, limit: Duration) -> Result<T, Failure>
    where
        B: serde::Serialize + DynamicType,
        T: DeserializeOwned + Type,
    {
        self.converse(limit, async |connection| {
            call.send(&connection, arguments).await.map_err(Failure::Unanswered)
        })
    }

    /// Several of them, on one connection.
    pub(super) fn converse<T>(
        &self,
        limit: Duration,
        conversation: impl AsyncFnOnce(Connection) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| Failure::Unconnected(error.into()))?;
        let conversation = async { conversation(self.connect().await.map_err(Failure::Unconnected)?).await };
        runtime
            .block_on(async { tokio::time::timeout(limit, conversation).await })
            .unwrap_or(Err(Failure::Silence))
    }

    async fn connect(&self) -> zbus::Result<Connection> {
        match &self.address {
            Some(address) => zbus::connection::Builder::address(address.as_str())?.build().await,
            None => Connection::system().await,
        }
    }
}

/// Who is called.
#[derive(Debug, Clone, Copy)]
pub(super) struct Peer {
    pub(super) service: &'static str,
    pub(super) path: &'static str,
    pub(super) interface: &'static str,
}

impl Peer {
    pub(super) fn call(self, action: &'static str, method: &'static str) -> Call {
        Call { action, method, peer: self }
    }
}

/// What is called, and in which words that is told.
#[derive(Debug, Clone, Copy)]
pub(super) struct Call {
    pub(super) action: &'static str,
    method: &'static str,
    peer: Peer,
}

/// Why there is no answer.
#[derive(Debug)]
pub(super) enum Failure {
    /// The call was never sent.
    Unconnected(zbus::Error),
    /// The call was sent, and this came back.
    Unanswered(zbus::Error),
    /// Nothing came back in time.
    Silence,
}

impl Failure {
    fn is_named(&self, names: &[&str]) -> bool {
        matches!(self, Self::Unanswered(zbus::Error::MethodError(name, ..)) if names.contains(&name.as_str()))
    }
}

impl Call {
    pub(super) async fn send<B, T>(&self, connection: &Connection, arguments: &B) -> zbus::Result<T>
    where
        B: serde::Serialize + DynamicType,
        T: DeserializeOwned + Type,
    {
        let Peer { service, path, interface } = self.peer;
        let reply =
            connection.call_method(Some(service), path, Some(interface), self.method, arguments).await?;
        reply.body().deserialize()
    }

    pub(super) fn explain(&self, failure: Failure, limit: Duration) -> InitError {
        match failure {
            Failure::Unconnected(error) => self.unreachable(error.to_string()),
            Failure::Unanswered(zbus::Error::MethodError(name, text, _)) => {
                self.explain_answer(name.as_str(), text.as_deref().unwrap_or_default())
            }
            Failure::Unanswered(error) => self.lost(error.to_string()),
            Failure::Silence => {
                InitError::TimedOut { action: self.action, service: self.peer.service, limit }
            }
        }
    }

    fn explain_answer(&self, name: &str, text: &str) -> InitError {
        let reason = format!("{name}: {text}");
        if NOBODY_THERE.contains(&name) || name.starts_with(NOT_STARTED) {
            self.unreachable(reason)
        } else if NO_ANSWER.contains(&name) {
            self.lost(reason)
        } else {
            InitError::Refused { action: self.action, service: self.peer.service, reason }
        }
    }

    fn unreachable(&self, reason: String) -> InitError {
        InitError::Unreachable { action: self.action, service: self.peer.service, reason }
    }

    fn lost(&self, reason: String) -> InitError {
        InitError::Lost { action: self.action, service: self.peer.service, reason }
    }
}

/// True for a bus that a test has started. In doubt it is the machine's.
fn is_private(address: &str) -> bool {
    !address.is_empty() && !address.contains("system_bus_socket") && !address.contains('%')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_bus_of_ones_own_is_private() {
        assert!(is_private("unix:path=/tmp/x/bus,guid=0123"));
        for address in
            ["", "unix:path=/run/dbus/system_bus_socket", "unix:path=/tmp/x;unix:path=/run/dbus%2Fbus"]
        {
            assert!(!is_private(address), "{address}");
        }
    }

    #[test]
    fn a_bus_that_says_nothing_is_given_up() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("bus");
        let _listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
        let bus =
            SystemBus::at(&format!("unix:path={}", path.display())).with_limit(Duration::from_millis(100));
        let error = bus.can_reboot().unwrap_err();
        assert!(matches!(error, InitError::TimedOut { .. }), "{error}");
    }

    #[test]
    fn errors_by_their_names() {
        let call = LOGIND.call("ask for a reboot", "Reboot");
        let explain = |name: &str| call.explain_answer(&format!("org.freedesktop.{name}"), "text");
        assert!(matches!(explain("DBus.Error.ServiceUnknown"), InitError::Unreachable { .. }));
        assert!(matches!(explain("DBus.Error.Spawn.ChildExited"), InitError::Unreachable { .. }));
        assert!(matches!(explain("DBus.Error.NoReply"), InitError::Lost { .. }));
        let refused = explain("DBus.Error.InteractiveAuthorizationRequired").to_string();
        let expected = "ask for a reboot: org.freedesktop.login1 refused: \
                        org.freedesktop.DBus.Error.InteractiveAuthorizationRequired: text";
        assert_eq!(refused, expected);
        assert!(matches!(explain("systemd1.UnitMasked"), InitError::Refused { .. }));
    }
}
