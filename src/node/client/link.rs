//! The link to the API server: made anew when a certificate was renewed, when a credential is not accepted, and when
//! a connection broke.

use std::cell::{Cell, RefCell};
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::time::Duration;

use futures_util::{Stream, StreamExt as _};
use http::Request;
use k8s_openapi::Resource;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ListMeta;
use kube::api::{ListParams, WatchEvent};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::certificate::Certificate;
use super::exchange::{TIME_LIMIT, exchange, unanswered};
use super::kubeconfig::Access;
use crate::host::Host;
use crate::node::api::ApiError;

/// Objects a page of a list has at most.
const PAGE: u32 = 500;
/// A list that takes so long that the server forgets its beginning is begun anew so often.
const LISTS: usize = 3;

/// What a watch brings.
pub(super) type Events<K> = Pin<Box<dyn Stream<Item = Result<WatchEvent<K>, ApiError>>>>;

struct Session {
    access: Access,
    client: kube::Client,
    number: u64,
}

impl Session {
    /// Within a runtime: the client has a task of its own.
    fn new(access: Access, number: u64) -> Result<Self, ApiError> {
        let client = kube::Client::try_from(access.config.clone()).map_err(|error| unanswered(&error))?;
        Ok(Self { access, client, number })
    }
}

/// The link.
pub(super) struct Link<'a> {
    pub(super) host: Host<'a>,
    pub(super) path: PathBuf,
    session: RefCell<Session>,
    is_broken: Cell<bool>,
}

impl<'a> Link<'a> {
    /// Within a runtime.
    pub(super) fn new(host: Host<'a>, path: &Path) -> Result<Self, ApiError> {
        // Only the first one counts; it fails where there is one already.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let session = Session::new(Access::read(host, path)?, 0)?;
        Ok(Self { host, path: path.to_owned(), session: RefCell::new(session), is_broken: Cell::new(false) })
    }

    /// The user's name in the kubeconfig, and its certificate.
    pub(super) fn user(&self) -> (String, Option<Certificate>) {
        let session = self.session.borrow();
        (session.access.user.clone(), session.access.certificate.clone())
    }

    fn client(&self) -> (kube::Client, u64) {
        if self.session.borrow().access.is_outdated(self.host) {
            // The old one may do for some time yet; if not, the server says so.
            self.renew()
                .unwrap_or_else(|error| log::warn!("renewed credentials cannot be used yet: {error}"));
        } else if self.is_broken.take() {
            self.reconnect();
        }
        let session = self.session.borrow();
        (session.client.clone(), session.number)
    }

    fn renew(&self) -> Result<(), ApiError> {
        let number = self.session.borrow().number + 1;
        let session = Session::new(Access::read(self.host, &self.path)?, number)?;
        self.session.replace(session);
        Ok(())
    }

    /// Other connections to the same server may be dead as well: each would cost a time limit.
    fn reconnect(&self) {
        let mut session = self.session.borrow_mut();
        if let Ok(client) = kube::Client::try_from(session.access.config.clone()) {
            session.client = client;
        }
    }

    /// Sends a request; once more, with credentials read anew, if these are not accepted.
    pub(super) async fn ask(&self, request: Request<Vec<u8>>) -> Result<Vec<u8>, ApiError> {
        let (client, number) = self.client();
        match exchange(&client, request.clone()).await {
            Err(error) if error.code() == Some(401) => {
                self.renew_from(number)?;
                let (client, _) = self.client();
                exchange(&client, request).await.map_err(|error| self.not_accepted(error))
            }
            outcome => self.noted(outcome),
        }
    }

    /// The same, with the answer understood.
    pub(super) async fn ask_for<T: DeserializeOwned>(
        &self,
        request: Request<Vec<u8>>,
    ) -> Result<T, ApiError> {
        let asked = format!("{} {}", request.method(), request.uri().path());
        let answer = self.ask(request).await?;
        serde_json::from_slice(&answer).map_err(|error| {
            ApiError::Unusable(format!("the answer to {asked} is none of an API server ({error})"))
        })
    }

    /// Many requests may learn the same at once: one renewal is enough for them.
    fn renew_from(&self, number: u64) -> Result<(), ApiError> {
        let is_first = self.session.borrow().number == number;
        if is_first { self.renew() } else { Ok(()) }
    }

    fn noted<T>(&self, outcome: Result<T, ApiError>) -> Result<T, ApiError> {
        self.is_broken.set(self.is_broken.get() || matches!(outcome, Err(ApiError::Unreachable(_))));
        outcome
    }

    fn not_accepted(&self, error: ApiError) -> ApiError {
        let ApiError::Refused(mut status) = error else { return error };
        if status.code == 401 {
            let path = self.path.display();
            let hint =
                format!("the API server does not accept the credentials of {path}, read anew just now");
            status.message = format!("{}: {hint}", status.message);
        }
        ApiError::Refused(status)
    }

    /// All objects of a list, page by page, and its resource version.
    pub(super) async fn list<K>(&self, path: &str, fields: Option<&str>) -> Result<(Vec<K>, String), ApiError>
    where
        K: Resource + DeserializeOwned,
    {
        for _ in 1..LISTS {
            match self.pages(path, fields).await {
                // The rest of a list is kept for some minutes only.
                Err(error) if error.code() == Some(410) => {}
                outcome => return outcome,
            }
        }
        self.pages(path, fields).await
    }

    async fn pages<K: DeserializeOwned>(
        &self,
        path: &str,
        fields: Option<&str>,
    ) -> Result<(Vec<K>, String), ApiError> {
        let mut wanted = ListParams::default().limit(PAGE);
        wanted.field_selector = fields.map(str::to_owned);
        let mut all = Vec::new();
        loop {
            let request = built(kube::core::Request::new(path).list(&wanted))?;
            let page: Page<K> = self.ask_for(request).await?;
            all.extend(page.items);
            match page.metadata.continue_.filter(|token| !token.is_empty()) {
                Some(token) => wanted.continue_token = Some(token),
                None => return Ok((all, page.metadata.resource_version.unwrap_or_default())),
            }
        }
    }

    /// Opens a watch; like [`Link::ask`] once more with credentials read anew.
    pub(super) async fn watch<K>(&self, request: Request<Vec<u8>>) -> Result<Events<K>, ApiError>
    where
        K: DeserializeOwned + Clone + 'static,
    {
        let (client, number) = self.client();
        match opened(client, request.clone()).await {
            Err(error) if error.code() == Some(401) => {
                self.renew_from(number)?;
                opened(self.client().0, request).await.map_err(|error| self.not_accepted(error))
            }
            outcome => self.noted(outcome),
        }
    }
}

/// A list of anything: its items are read, their `kind` is not.
#[derive(Deserialize)]
struct Page<K> {
    #[serde(default)]
    metadata: ListMeta,
    items: Vec<K>,
}

async fn opened<K>(client: kube::Client, request: Request<Vec<u8>>) -> Result<Events<K>, ApiError>
where
    K: DeserializeOwned + Clone + 'static,
{
    let limit: Duration = TIME_LIMIT;
    match tokio::time::timeout(limit, client.request_events::<K>(request)).await {
        Ok(Ok(events)) => Ok(events.map(understood).boxed_local()),
        Ok(Err(error)) => Err(unanswered(&error)),
        Err(_) => Err(ApiError::Unreachable(format!("no answer to a watch within {limit:?}"))),
    }
}

fn understood<K>(event: kube::Result<WatchEvent<K>>) -> Result<WatchEvent<K>, ApiError> {
    event.map_err(|error| unanswered(&error))
}

/// A request that could not even be built.
pub(super) fn built<T>(request: Result<T, kube::core::request::Error>) -> Result<T, ApiError> {
    request.map_err(|error| ApiError::Unusable(format!("a request cannot be built: {error}")))
}
