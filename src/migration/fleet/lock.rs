//! The lock of a run, of whichever kind: the same questions, the same answers.

use std::path::Path;

use crate::host::Host;
use crate::migration::journal::{FleetLock as Kind, FleetNode, FleetPart, Turn};
use crate::migration::service::Kubernetes;
use crate::node::lock::fleetlock::{self, FleetLock, FleetLockError, node_id};
use crate::node::lock::lease::{Acquired, Hold, Holder, LeaseLock, Me, Mine, Outcome, Settings};
use crate::node::lock::{announce, gates::Known};
use crate::node::{ApiError, NodeApi};

/// One question to the lock.
pub(super) struct Asking<'a> {
    pub(super) kubernetes: &'a dyn Kubernetes,
    pub(super) host: Host<'a>,
    pub(super) fleet: &'a FleetPart,
    pub(super) run: &'a str,
    pub(super) boot_id: &'a str,
}

/// What a lock says.
pub(super) enum Answer {
    /// It is ours, or was until now; with the slot where there are slots.
    Ours(Option<Hold>),
    /// It is not ours: somebody else has it, or it was lost.
    NotNow(String),
    /// Nobody may start.
    Halted(String),
    /// The settings do not fit.
    Refused(String),
    /// No answer; it may come later.
    Away(String),
    /// No answer, and none will come by itself.
    Useless(String),
}

impl Asking<'_> {
    pub(super) fn acquire(&self) -> Answer {
        match &self.fleet.lock {
            Kind::GatesAlone => Answer::Ours(None),
            Kind::Lease(settings) => self.lease(settings, |lock| lock.acquire().map(acquired)),
            Kind::Fleetlock(settings) => self.server(settings, FleetLock::pre_reboot),
        }
    }

    pub(super) fn still_ours(&self) -> Answer {
        match (&self.fleet.lock, &self.fleet.turn) {
            (Kind::Lease(settings), Turn::Ours(Some(hold))) => {
                self.lease(settings, |lock| lock.still_mine(hold).map(|mine| kept(mine, hold)))
            }
            // A FleetLock server is asked for what one has already.
            (Kind::GatesAlone | Kind::Lease(_) | Kind::Fleetlock(_), _) => Answer::Ours(None),
        }
    }

    /// A halt is no reason not to say where one is.
    pub(super) fn renew(&self, phase: &str, back_by: Option<jiff::Timestamp>) -> Answer {
        match (&self.fleet.lock, &self.fleet.turn) {
            (Kind::Lease(settings), Turn::Ours(Some(hold))) => self.lease(settings, |lock| {
                Ok(match lock.renew(hold, phase, back_by)? {
                    Mine::Yes { .. } => Answer::Ours(Some(hold.clone())),
                    lost @ Mine::Lost(_) => Answer::NotNow(lost.to_string()),
                })
            }),
            (Kind::Fleetlock(settings), _) => self.server(settings, FleetLock::pre_reboot),
            (Kind::GatesAlone | Kind::Lease(_), _) => Answer::Ours(None),
        }
    }

    pub(super) fn release(&self, outcome: &Outcome) -> Answer {
        match &self.fleet.lock {
            Kind::GatesAlone => Answer::Ours(None),
            Kind::Lease(settings) => self.lease(settings, |lock| {
                let halted = lock.release(outcome)?.halted;
                Ok(halted.map_or(Answer::Ours(None), |why| Answer::Halted(Acquired::Halted(why).to_string())))
            }),
            // The server knows no failures: what keeps the lock is all that can be said to it.
            Kind::Fleetlock(_) if matches!(outcome, Outcome::NeedsPerson(_)) => Answer::Ours(None),
            Kind::Fleetlock(settings) => self.server(settings, FleetLock::steady_state),
        }
    }

    /// The node's own word, for the locks of others. That it cannot be written is no reason to stop.
    pub(super) fn announce(&self, phase: &str) {
        let Some(node) = &self.fleet.node else { return };
        let hold = match &self.fleet.turn {
            Turn::Ours(hold) => hold.as_ref(),
            Turn::Waiting | Turn::Asked | Turn::Over => None,
        };
        let me = self.me(node);
        let said = self.fleet.as_node(self.kubernetes, |api| announce(api, &me, phase, hold));
        if let Err(error) = said {
            log::warn!("write the phase {phase} at node {}: {error}", node.name);
        }
    }

    fn me(&self, node: &FleetNode) -> Me {
        let (run, boot) = (self.run.to_owned(), self.boot_id.to_owned());
        Me { node: node.name.clone(), holder: Holder { node_uid: node.uid.clone(), run, boot } }
    }

    fn lease(&self, settings: &Settings, ask: impl Fn(&LeaseLock<'_>) -> Result<Answer, ApiError>) -> Answer {
        let Some(node) = &self.fleet.node else {
            let why = "lock.mode is \"lease\", and which node of a cluster this host is is not known";
            return Answer::Useless(why.to_owned());
        };
        let me = self.me(node);
        let asked = self.fleet.as_lock(self.kubernetes, |api| {
            ask(&LeaseLock { api, clock: self.host.clock, settings, me: &me })
        });
        asked.unwrap_or_else(|error| {
            let why = format!("the lock of pool {}: {error}", settings.pool);
            if error.may_pass() { Answer::Away(why) } else { Answer::Useless(why) }
        })
    }

    fn server(
        &self,
        settings: &fleetlock::Settings,
        ask: impl Fn(&FleetLock) -> Result<fleetlock::Answer, FleetLockError>,
    ) -> Answer {
        let id = match self.host.fs.read(Path::new("/etc/machine-id")) {
            Ok(text) => node_id(&String::from_utf8_lossy(&text)).map_err(|error| error.to_string()),
            Err(error) => Err(error.to_string()),
        };
        let asked = id.map(|id| ask(&FleetLock::new(settings.clone(), id)));
        match asked {
            Ok(Ok(fleetlock::Answer::Granted)) => Answer::Ours(None),
            Ok(Ok(fleetlock::Answer::Refused(why))) => {
                Answer::NotNow(format!("the FleetLock server says: {why}"))
            }
            Ok(Err(error)) => Answer::Away(error.to_string()),
            Err(why) => Answer::Useless(why),
        }
    }
}

impl FleetPart {
    /// With the credential of the lock.
    pub(super) fn as_lock<T>(
        &self,
        kubernetes: &dyn Kubernetes,
        ask: impl Fn(&dyn NodeApi) -> Result<T, ApiError>,
    ) -> Result<T, ApiError> {
        let mut outcome = None;
        kubernetes.connect_lock(self.kubeconfig.as_deref(), &mut |api| outcome = Some(ask(api)))?;
        outcome.unwrap_or_else(|| Err(no_client()))
    }

    /// With the node's own credential, which may write to its Node object; with that of the lock where there is none.
    pub(super) fn as_node<T>(
        &self,
        kubernetes: &dyn Kubernetes,
        ask: impl Fn(&dyn NodeApi) -> Result<T, ApiError>,
    ) -> Result<T, ApiError> {
        let mut outcome = None;
        match kubernetes.connect(&mut |api| outcome = Some(ask(api))) {
            Ok(()) => outcome.unwrap_or_else(|| Err(no_client())),
            Err(_) if self.kubeconfig.is_some() => self.as_lock(kubernetes, ask),
            Err(error) => Err(error),
        }
    }

    /// As [`Self::as_node`], of what is only to be known.
    pub(super) fn known<T>(
        &self,
        kubernetes: &dyn Kubernetes,
        doing: &str,
        ask: impl Fn(&dyn NodeApi) -> Result<T, ApiError>,
    ) -> Known<T> {
        self.as_node(kubernetes, ask).map_err(|error| format!("{doing}: {error}"))
    }
}

fn no_client() -> ApiError {
    ApiError::Unusable("no client was made".to_owned())
}

fn acquired(answer: Acquired) -> Answer {
    let words = answer.to_string();
    match answer {
        Acquired::Yes { hold, .. } => Answer::Ours(Some(hold)),
        Acquired::Busy(_) | Acquired::Contended => Answer::NotNow(words),
        Acquired::Halted(_) => Answer::Halted(words),
        Acquired::Refused(_) => Answer::Refused(words),
    }
}

fn kept(mine: Mine, hold: &Hold) -> Answer {
    match mine {
        Mine::Yes { halted: None } => Answer::Ours(Some(hold.clone())),
        Mine::Yes { halted: Some(why) } => Answer::Halted(Acquired::Halted(why).to_string()),
        lost @ Mine::Lost(_) => Answer::NotNow(lost.to_string()),
    }
}
