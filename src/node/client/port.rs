//! The conversation of a drain over a real link.

use std::pin::Pin;
use std::time::{Duration, Instant};

use futures_util::stream::FuturesUnordered;
use futures_util::{Stream, StreamExt as _};
use tokio::runtime::Runtime;

use super::feed::feed;
use super::interrupt::Wakeful;
use super::link::Link;
use super::requests;
use crate::host::Interrupt;
use crate::node::api::EvictionRequest;
use crate::node::drain::{Answer, Happening, Port, Request};
use crate::node::pod::PodKey;

type Pending<'a> = Pin<Box<dyn Future<Output = (PodKey, Answer)> + 'a>>;

/// List and watch, requests beside each other, signals: all on one thread, that of the caller.
pub(super) struct LivePort<'a> {
    runtime: &'a Runtime,
    link: &'a Link<'a>,
    began: Instant,
    feed: Pin<Box<dyn Stream<Item = Happening> + 'a>>,
    pending: FuturesUnordered<Pending<'a>>,
    wakeful: Option<Wakeful>,
}

impl<'a> LivePort<'a> {
    pub(super) fn new(runtime: &'a Runtime, link: &'a Link<'a>, node: &str, interrupt: Interrupt) -> Self {
        let _within = runtime.enter();
        let wakeful = Wakeful::new(interrupt);
        let wakeful = wakeful.inspect_err(|error| log::warn!("signals cannot be listened to: {error}"));
        Self {
            runtime,
            link,
            began: Instant::now(),
            feed: Box::pin(feed(link, node)),
            pending: FuturesUnordered::new(),
            wakeful: wakeful.ok(),
        }
    }
}

impl Port for LivePort<'_> {
    fn elapsed(&self) -> Duration {
        self.began.elapsed()
    }

    fn now(&self) -> jiff::Timestamp {
        self.link.host.clock.now()
    }

    fn send(&mut self, request: Request) {
        let link = self.link;
        self.pending.push(Box::pin(async move {
            let (pod, outcome) = match request {
                Request::Evict(pod) => {
                    let request = EvictionRequest { pod: pod.clone(), grace_seconds: None, dry_run: false };
                    (pod, requests::evict(link, &request).await)
                }
                Request::Delete(pod) => {
                    let outcome = requests::delete(link, &pod).await;
                    (pod, outcome)
                }
            };
            (pod, Answer::of(&outcome))
        }));
    }

    fn next(&mut self, limit: Duration) -> Happening {
        let left = limit.saturating_sub(self.elapsed());
        let Self { runtime, feed, pending, wakeful, .. } = self;
        runtime.block_on(async {
            tokio::select! {
                biased;
                () = asked(wakeful) => Happening::Interrupted,
                Some((pod, answer)) = pending.next() => Happening::Answered(pod, answer),
                Some(happening) = feed.next() => happening,
                () = tokio::time::sleep(left) => Happening::Time,
            }
        })
    }
}

async fn asked(wakeful: &mut Option<Wakeful>) {
    match wakeful {
        Some(wakeful) => wakeful.asked().await,
        None => std::future::pending().await,
    }
}
