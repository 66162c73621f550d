//! Units of systemd over D-Bus: read again, restarted, looked at.

use std::time::Duration;

use futures_util::StreamExt as _;
use serde::de::DeserializeOwned;
use zbus::zvariant::{DynamicType, OwnedObjectPath, OwnedValue, Type};
use zbus::{Connection, Proxy};

use super::InitError;
use super::logind::{CALL_LIMIT, Call, Failure, PROPERTIES, SYSTEMD, SystemBus};

/// systemd reads every unit file of the host.
const RELOAD_LIMIT: Duration = Duration::from_secs(60);
/// A unit of type `notify` has started only when it says so: k3s does when its API server answers.
const RESTART_LIMIT: Duration = Duration::from_secs(300);

const UNIT: &str = "org.freedesktop.systemd1.Unit";

impl SystemBus {
    pub(super) fn reload(&self) -> Result<(), InitError> {
        let call = SYSTEMD.call("let systemd read its unit files again", "Reload");
        self.may_change(call.action)?;
        let limit = self.limit(RELOAD_LIMIT);
        self.exchange(&call, &(), limit).map_err(|failure| call.explain(failure, limit))
    }

    /// Whoever listens before the call misses no answer, however soon it comes.
    pub(super) fn restart(&self, unit: &str) -> Result<String, InitError> {
        let call = SYSTEMD.call("restart a unit", "RestartUnit");
        self.may_change(call.action)?;
        let limit = self.limit(RESTART_LIMIT);
        let restarted = self.converse(limit, async |connection| restarted(&connection, &call, unit).await);
        restarted.map_err(|failure| call.explain(failure, limit))
    }

    pub(super) fn state(&self, unit: &str) -> Result<String, InitError> {
        let call = SYSTEMD.call("ask for the state of a unit", "LoadUnit");
        let limit = self.limit(CALL_LIMIT);
        let state = self.converse(limit, async |connection| state(&connection, unit).await);
        state.map_err(|failure| call.explain(failure, limit))
    }
}

async fn restarted(connection: &Connection, call: &Call, unit: &str) -> Result<String, Failure> {
    let peer = SYSTEMD;
    let manager = Proxy::new(connection, peer.service, peer.path, peer.interface).await;
    let manager = manager.map_err(Failure::Unconnected)?;
    let mut ended = manager.receive_signal("JobRemoved").await.map_err(Failure::Unconnected)?;
    // Without it systemd sends no signals to this connection.
    ask::<_, ()>(connection, (peer.path, peer.interface, "Subscribe"), &()).await?;
    let job: OwnedObjectPath =
        call.send(connection, &(unit, "replace")).await.map_err(Failure::Unanswered)?;
    while let Some(signal) = ended.next().await {
        let read = signal.body().deserialize::<(u32, OwnedObjectPath, String, String)>();
        if let Ok((_, removed, _, result)) = read
            && removed == job
        {
            return Ok(result);
        }
    }
    Err(Failure::Silence)
}

async fn state(connection: &Connection, unit: &str) -> Result<String, Failure> {
    let manager = (SYSTEMD.path, SYSTEMD.interface, "LoadUnit");
    let path: OwnedObjectPath = ask(connection, manager, &(unit,)).await?;
    let properties = (path.as_str(), PROPERTIES, "Get");
    let value: OwnedValue = ask(connection, properties, &(UNIT, "ActiveState")).await?;
    String::try_from(value).map_err(|error| Failure::Unanswered(error.into()))
}

/// One call to systemd: at this path and interface, this method.
async fn ask<B, T>(
    connection: &Connection,
    (path, interface, method): (&str, &str, &str),
    arguments: &B,
) -> Result<T, Failure>
where
    B: serde::Serialize + DynamicType,
    T: DeserializeOwned + Type,
{
    let reply = connection.call_method(Some(SYSTEMD.service), path, Some(interface), method, arguments).await;
    reply.and_then(|reply| reply.body().deserialize()).map_err(Failure::Unanswered)
}
