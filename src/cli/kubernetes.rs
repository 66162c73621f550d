//! The API server, with the credential of the settings; and how a drain is told.

use std::cell::RefCell;
use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};

use indicatif::{ProgressBar, ProgressStyle};

use super::output::tell;
use super::session::Session;
use crate::config::Settings;
use crate::config::fleet::{Fleet, Mode};
use crate::facts::Facts;
use crate::host::Host;
use crate::migration::service::Kubernetes;
use crate::node::client::{Client, Credentials, Doings, accesses, kubeconfig, missing, node_of_host};
use crate::node::cordon::{self, Before};
use crate::node::drain::{OnBlocked, Progress};
use crate::node::lock;
use crate::node::preflight::{self, Preflight};
use crate::node::{ApiError, NodeApi};

/// The way to the API server.
pub(super) struct Cluster<'a> {
    session: &'a Session,
    credentials: Credentials,
    lock: Option<PathBuf>,
    bar: RefCell<Option<ProgressBar>>,
}

impl<'a> Cluster<'a> {
    pub(super) fn new(session: &'a Session, settings: &Settings) -> Self {
        let (credentials, lock) = (settings.credentials.clone(), settings.fleet.kubeconfig.clone());
        Self { session, credentials, lock, bar: RefCell::new(None) }
    }

    fn client(&self) -> Result<Client<'a>, ApiError> {
        self.client_of(&self.credentials)
    }

    /// With the credential of the lock, which is the node's own where no other one is set.
    fn lock_client(&self, kubeconfig: Option<&Path>) -> Result<Client<'a>, ApiError> {
        match kubeconfig {
            Some(path) => self.client_of(&Credentials::Kubeconfig(path.to_owned())),
            None => self.client(),
        }
    }

    fn client_of(&self, credentials: &Credentials) -> Result<Client<'a>, ApiError> {
        let host: Host<'a> = self.session.host();
        let nobody =
            || ApiError::Unusable("node.credentials is \"none\": the API server is not asked".to_owned());
        let path = kubeconfig(host.fs, credentials)?.ok_or_else(nobody)?;
        Ok(Client::open(host, &path)?.with_interrupt(self.session.interrupt().clone()))
    }

    /// The Node object of this host.
    ///
    /// # Errors
    /// [`ApiError`].
    pub(super) fn node(&self) -> Result<Before, ApiError> {
        Ok(cordon::before(&node_of_host(&self.client()?)?))
    }

    /// What the API server says of this host's node.
    ///
    /// # Errors
    /// [`ApiError`].
    pub(super) fn look(&self, settings: &Settings) -> Result<Preflight, ApiError> {
        let client = self.client()?;
        let node = node_of_host(&client)?;
        let name = node.metadata.name.unwrap_or_default();
        let deletes = settings.drain.on_blocked == OnBlocked::Delete;
        let doings = Doings { node: &name, drains: true, deletes, locks_in: None };
        let denied = missing(&client, accesses(&doings))?;
        preflight::look(&client, &name, denied, self.session.host().clock.now())
    }

    /// What lock and gates would meet.
    fn look_at_fleet(&self, fleet: &Fleet) -> Result<lock::preflight::Preflight, ApiError> {
        let asks = self.lock_client(self.lock.as_deref())?;
        let knows = if self.credentials == Credentials::None { None } else { Some(self.client()?) };
        let name = node_of_host(knows.as_ref().unwrap_or(&asks))?.metadata.name.unwrap_or_default();
        let leases_in = (fleet.mode == Mode::Lease).then_some(fleet.lease.namespace.as_str());
        lock::preflight::look(&asks, self.session.host().fs, &name, &fleet.rules(), leases_in)
    }
}

impl Kubernetes for Cluster<'_> {
    fn connect(&self, with: &mut dyn FnMut(&dyn NodeApi)) -> Result<(), ApiError> {
        with(&self.client()?);
        Ok(())
    }

    fn connect_lock(
        &self,
        kubeconfig: Option<&Path>,
        with: &mut dyn FnMut(&dyn NodeApi),
    ) -> Result<(), ApiError> {
        with(&self.lock_client(kubeconfig)?);
        Ok(())
    }

    fn tell(&self, progress: &Progress) {
        if !std::io::stderr().is_terminal() {
            return tell(&format!("drain: {progress}"));
        }
        let mut bar = self.bar.borrow_mut();
        let bar = bar.get_or_insert_with(new_bar);
        bar.set_length(u64::try_from(progress.total).unwrap_or_default());
        bar.set_position(u64::try_from(progress.gone).unwrap_or_default());
        bar.set_message(progress.to_string());
        if progress.gone == progress.total {
            bar.finish();
        }
    }
}

fn new_bar() -> ProgressBar {
    let style = ProgressStyle::with_template("{bar:30} {pos}/{len} {wide_msg}");
    ProgressBar::new(0).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}

/// Asks the API server where this host is a node that we are to drain, or that waits for its turn.
pub(super) fn add_node(facts: &mut Facts, session: &Session, settings: &Settings) {
    let is_node = match &facts.kubelet {
        Some(Ok(kubelet)) => !kubelet.found.is_empty(),
        Some(Err(_)) | None => false,
    };
    if settings.fleet.is_wanted() && (is_node || settings.fleet.mode == Mode::Lease) {
        let looked = Cluster::new(session, settings).look_at_fleet(&settings.fleet);
        facts.fleet = Some(looked.map_err(|error| error.to_string()));
    }
    if !is_node || settings.no_drain || settings.credentials == Credentials::None {
        return;
    }
    let looked = Cluster::new(session, settings).look(settings);
    facts.node = Some(looked.map_err(|error| error.to_string()));
}
