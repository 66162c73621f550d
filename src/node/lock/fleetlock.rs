//! The FleetLock protocol, for people who run a server of it (airlock, poseidon/fleetlock): two POSTs.
//!
//! The server counts; a lock is recursive (asking again for what one has is granted) and has no end by itself.

use std::sync::Arc;
use std::time::Duration;

use hmac::{Hmac, Mac};
use serde::{Deserialize, Serialize};
use serde_json::json;
use sha2::Sha256;
use ureq::Agent;
use ureq::tls::{RootCerts, TlsConfig};

/// What makes our node ids ours: other programs on the same node that speak to the same server must have other ones,
/// or they would share one lock.
const APP_ID: u128 = 0x1548_6e7f_9880_4811_a2bc_f6ba_417d_f6ba;

/// How long a connection may take.
const CONNECT_LIMIT: Duration = Duration::from_secs(10);
/// The most that is read of an answer.
const ANSWER_LIMIT: u64 = 64 << 10;

/// The server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// `https://fleetlock.example`; the paths of the protocol come after it.
    pub url: String,
    /// Nodes of different groups do not wait for each other.
    pub group: String,
    /// How long a request may take, all in all.
    pub limit: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self { url: String::new(), group: "default".to_owned(), limit: Duration::from_secs(30) }
    }
}

/// What the server said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// Yes.
    Granted,
    /// Not now, and why in its own words.
    Refused(String),
}

/// No answer, or none that can be used.
#[derive(Debug, thiserror::Error)]
pub enum FleetLockError {
    /// It cannot be reached, or does not speak HTTP.
    #[error("ask the FleetLock server at {url}: {why}; look whether it runs, and at lock.url")]
    NoAnswer {
        /// What was asked for.
        url: String,
        /// What went wrong.
        why: String,
    },
    /// No id can be made of this machine's.
    #[error(
        "read /etc/machine-id: found {found:?} and not 32 hexadecimal digits; systemd-machine-id-setup makes one"
    )]
    MachineId {
        /// What is there.
        found: String,
    },
}

/// One node at a FleetLock server.
#[derive(Debug)]
pub struct FleetLock {
    agent: Agent,
    settings: Settings,
    id: String,
}

/// `kind` for programs, `value` for people.
#[derive(Deserialize)]
struct Reason {
    kind: String,
    value: String,
}

impl FleetLock {
    /// The node with this id ([`node_id`]).
    #[must_use]
    pub fn new(settings: Settings, id: String) -> Self {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let tls = TlsConfig::builder()
            .root_certs(RootCerts::PlatformVerifier)
            .unversioned_rustls_crypto_provider(provider)
            .build();
        let config = Agent::config_builder()
            .tls_config(tls)
            .http_status_as_error(false)
            // A redirected POST becomes a GET, and its 200 would look like a yes.
            .max_redirects(0)
            .max_redirects_will_error(false)
            // What a person's shell says about proxies is not there at boot.
            .proxy(None)
            .timeout_connect(Some(CONNECT_LIMIT.min(settings.limit)))
            .timeout_global(Some(settings.limit))
            .build();
        Self { agent: config.into(), settings, id }
    }

    /// Asks for the lock.
    ///
    /// # Errors
    /// [`FleetLockError`]: not known; asking again does no harm.
    pub fn pre_reboot(&self) -> Result<Answer, FleetLockError> {
        self.post("v1/pre-reboot")
    }

    /// Gives the lock back, or says that there is none.
    ///
    /// # Errors
    /// [`FleetLockError`]: not known; asking again does no harm.
    pub fn steady_state(&self) -> Result<Answer, FleetLockError> {
        self.post("v1/steady-state")
    }

    fn post(&self, path: &str) -> Result<Answer, FleetLockError> {
        let url = format!("{}/{path}", self.settings.url.trim_end_matches('/'));
        let fail = |error: ureq::Error| FleetLockError::NoAnswer { url: url.clone(), why: error.to_string() };
        let body = json!({"client_params": {"group": self.settings.group, "id": self.id}}).to_string();
        let request = self.agent.post(&url).header("fleet-lock-protocol", "true");
        let mut response = request.content_type("application/json").send(body).map_err(fail)?;
        let status = response.status();
        if status == 200 {
            return Ok(Answer::Granted);
        }
        let body = response.body_mut().with_config().limit(ANSWER_LIMIT).read_to_vec().map_err(fail)?;
        Ok(Answer::Refused(reason(status.as_u16(), &body)))
    }
}

fn reason(status: u16, body: &[u8]) -> String {
    match serde_json::from_slice::<Reason>(body) {
        Ok(Reason { kind, value }) => format!("{value} ({kind})"),
        Err(_) => format!("HTTP status {status} without a reason"),
    }
}

/// The id of this node, of the text of `/etc/machine-id`: what sd_id128_get_machine_app_specific(3) makes of it and
/// [`APP_ID`], in 32 hexadecimal digits. HMAC-SHA256 of the application with the machine as key, 16 bytes of it, as a
/// UUID of version 4. The machine's own id is not to leave the machine (machine-id(5)).
///
/// # Errors
/// [`FleetLockError::MachineId`].
pub fn node_id(machine_id: &str) -> Result<String, FleetLockError> {
    let found = machine_id.trim_end_matches('\n');
    let fail = || FleetLockError::MachineId { found: found.to_owned() };
    let is_plain = found.len() == 32 && found.bytes().all(|byte| byte.is_ascii_hexdigit());
    let machine = u128::from_str_radix(found, 16).ok().filter(|id| is_plain && *id != 0).ok_or_else(fail)?;
    let mut mac = Hmac::<Sha256>::new_from_slice(&machine.to_be_bytes()).map_err(|_| fail())?;
    mac.update(&APP_ID.to_be_bytes());
    let digest = mac.finalize().into_bytes();
    let half = digest.iter().take(16).fold(0_u128, |id, byte| id << 8 | u128::from(*byte));
    Ok(format!("{:032x}", as_uuid(half)))
}

/// Version 4, variant 1.
fn as_uuid(id: u128) -> u128 {
    let version = (id & !(0xf << 76)) | (0x4 << 76);
    (version & !(0x3 << 62)) | (0x2 << 62)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By an HMAC of another language, which agrees with `systemd-id128 machine-id --app-specific=` of systemd 252.
    #[test]
    fn the_id_is_the_one_that_systemd_makes() {
        let id = node_id("0123456789abcdef0123456789abcdef\n").unwrap();
        assert_eq!(id, "412fd15376f34a4587e16b7b08ea592d");
    }

    #[test]
    fn what_is_no_machine_id_makes_none() {
        for text in [
            "",
            "uninitialized\n",
            "00000000000000000000000000000000\n",
            "0123",
            "+123456789abcdef0123456789abcdef",
        ] {
            assert!(node_id(text).is_err(), "{text}");
        }
    }
}
