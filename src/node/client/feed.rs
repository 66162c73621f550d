//! What becomes of the pods of a node: one list, then one watch, each made anew when it ends.

use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::time::Duration;

use futures_util::{Stream, StreamExt as _, stream};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{WatchEvent, WatchParams};

use super::exchange::refused;
use super::link::{Events, Link, built};
use crate::node::api::ApiError;
use crate::node::drain::Happening;
use crate::node::pod::NodePod;

/// All pods, of which a field selector takes those of one node.
pub(super) const PODS: &str = "/api/v1/pods";

/// The server ends a watch after this time.
const LASTS: u32 = 240;

/// A server sends a bookmark about once a minute. A watch that says nothing for longer may be dead without anybody
/// having said so; to go on from where it was costs one request.
const SILENCE: Duration = Duration::from_secs(90);

const SHORTEST: Duration = Duration::from_millis(500);
const LONGEST: Duration = Duration::from_secs(10);

/// How pods of a node are selected.
pub(super) fn of_node(node: &str) -> String {
    format!("spec.nodeName={node}")
}

/// Never ends.
pub(super) fn feed<'a>(link: &'a Link<'a>, node: &str) -> impl Stream<Item = Happening> + 'a {
    let feed = Feed { link, fields: of_node(node), place: Place::Anew, failures: 0 };
    stream::unfold(feed, |feed| async { Some(feed.next().await) })
}

/// Where it stands.
enum Place {
    /// A list is needed.
    Anew,
    /// A watch is needed that goes on from this resource version.
    From(String),
    /// A watch is open.
    In(String, Events<Pod>),
}

struct Feed<'a> {
    link: &'a Link<'a>,
    fields: String,
    place: Place,
    /// Ends of watches and failures of requests since something came.
    failures: u32,
}

impl Feed<'_> {
    async fn next(mut self) -> (Happening, Self) {
        loop {
            let happening = match std::mem::replace(&mut self.place, Place::Anew) {
                Place::Anew => Some(self.list().await),
                Place::From(version) => self.open(version).await,
                Place::In(version, events) => self.read(version, events).await,
            };
            if let Some(happening) = happening {
                return (happening, self);
            }
        }
    }

    async fn list(&mut self) -> Happening {
        pause(self.failures).await;
        match self.link.list::<Pod>(PODS, Some(&self.fields)).await {
            Ok((pods, version)) => {
                self.place = Place::From(version);
                Happening::Listed(pods.iter().map(NodePod::from).collect())
            }
            Err(error) => self.lost(error),
        }
    }

    async fn open(&mut self, version: String) -> Option<Happening> {
        pause(self.failures).await;
        match self.watch(&version).await {
            Ok(events) => self.place = Place::In(version, events),
            Err(error) => return self.failed(error),
        }
        None
    }

    async fn watch(&self, version: &str) -> Result<Events<Pod>, ApiError> {
        let wanted = WatchParams::default().fields(&self.fields).timeout(LASTS);
        let request = built(kube::core::Request::new(PODS).watch(&wanted, version))?;
        self.link.watch(request).await
    }

    async fn read(&mut self, version: String, mut events: Events<Pod>) -> Option<Happening> {
        match tokio::time::timeout(SILENCE, events.next()).await {
            Ok(Some(Ok(event))) => self.took(event, version, events),
            Ok(Some(Err(error))) => self.failed(error),
            Ok(None) => self.goes_on(version, "ended"),
            Err(_) => self.goes_on(version, "has been silent for long"),
        }
    }

    fn took(&mut self, event: WatchEvent<Pod>, version: String, events: Events<Pod>) -> Option<Happening> {
        let (happening, now) = match event {
            WatchEvent::Error(status) => return self.failed(ApiError::Refused(refused(&status))),
            WatchEvent::Bookmark(bookmark) => (None, Some(bookmark.metadata.resource_version)),
            WatchEvent::Added(pod) | WatchEvent::Modified(pod) => {
                (Some(Happening::Seen(NodePod::from(&pod))), pod.metadata.resource_version)
            }
            WatchEvent::Deleted(pod) => {
                (Some(Happening::Gone(NodePod::from(&pod).key)), pod.metadata.resource_version)
            }
        };
        self.failures = 0;
        self.place = Place::In(now.unwrap_or(version), events);
        happening
    }

    fn goes_on(&mut self, version: String, why: &str) -> Option<Happening> {
        log::debug!("the watch of the pods {why}; it is opened again");
        self.failures += 1;
        self.place = Place::From(version);
        None
    }

    /// A version that is too old is nobody's fault: it takes a list. After anything else what was missed is not known
    /// until there is a list again.
    fn failed(&mut self, error: ApiError) -> Option<Happening> {
        if error.code() == Some(410) {
            self.failures += 1;
            return None;
        }
        Some(self.lost(error))
    }

    fn lost(&mut self, error: ApiError) -> Happening {
        self.failures += 1;
        Happening::Lost(error)
    }
}

/// None at first, then longer each time; never the same on two nodes.
async fn pause(failures: u32) {
    if failures > 0 {
        let doubled = SHORTEST.saturating_mul(1 << failures.saturating_sub(1).min(10));
        let jitter = RandomState::new().build_hasher().finish() % 250;
        tokio::time::sleep(doubled.min(LONGEST) + Duration::from_millis(jitter)).await;
    }
}
