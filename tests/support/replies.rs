//! What a script has the made-up server say instead of its own answer, and what happens along with it.

use std::collections::VecDeque;
use std::time::Duration;

use cgroup2_migrate::node::{ApiError, NodePod, PodKey};
use k8s_openapi::api::core::v1::Node;
use serde_json::Value;

use super::{Due, LATENCY, World, node};

/// Something that happens in the cluster.
pub(crate) type Change = Box<dyn FnOnce(&mut World)>;

/// The answers to one kind of request, in order.
pub(crate) struct Replies {
    /// `POST pods/shop/api-7d/eviction`; `*` stands for a word, and for all that follows at the end.
    pub(crate) request: String,
    pub(crate) answers: VecDeque<Reply>,
    /// The last answer is given for ever; else the server goes on with its own.
    pub(crate) repeats: bool,
    /// What happens once the last answer was given for the first time.
    pub(crate) then: Vec<Change>,
}

pub(crate) struct Reply {
    pub(crate) answer: Answered,
    pub(crate) changes: Vec<Change>,
}

/// One answer.
#[derive(Debug, Clone)]
pub(crate) enum Answered {
    /// The server does what it was asked for, and what it says has this merged in.
    Done(Option<Value>),
    /// It does not.
    No(ApiError),
    /// It does, and the answer is lost.
    Lost,
}

impl Replies {
    fn is_for(&self, request: &str) -> bool {
        let (wanted, given) = (self.request.split(['/', ' ']), request.split(['/', ' ']));
        if let Some(beginning) = self.request.strip_suffix('*').filter(|beginning| !beginning.contains('*')) {
            return request.starts_with(beginning);
        }
        wanted.clone().count() == given.clone().count()
            && wanted.zip(given).all(|(wanted, given)| wanted == "*" || wanted == given)
    }
}

impl World {
    /// The next scripted answer to this request. One that is only evaluated looks and does not take.
    pub(super) fn replied(&mut self, request: &str, takes: bool) -> Option<Answered> {
        let for_it = |replies: &&mut Replies| replies.is_for(request) && !replies.answers.is_empty();
        let replies = self.replies.iter_mut().find(for_it)?;
        let is_last = replies.answers.len() == 1;
        let first = replies.answers.front_mut()?;
        let answer = first.answer.clone();
        if !takes {
            return Some(answer);
        }
        let mut changes = std::mem::take(&mut first.changes);
        if is_last {
            changes.append(&mut replies.then);
        }
        if !is_last || !replies.repeats {
            replies.answers.pop_front();
        }
        changes.into_iter().for_each(|change| change(self));
        Some(answer)
    }

    /// The keys of the pods of this name.
    fn named(&self, name: &str) -> Vec<PodKey> {
        self.pods.keys().filter(|key| key.to_string() == name).cloned().collect()
    }

    /// The pods of this name (`namespace/name`) go then, and not when they would by themselves.
    pub(crate) fn goes(&mut self, name: &str, after: Duration) {
        let at = self.elapsed + after;
        self.stays(name);
        self.named(name).into_iter().for_each(|key| self.plan(at, Due::Gone(key)));
    }

    pub(crate) fn stays(&mut self, name: &str) {
        self.stops_in.insert(name.to_owned(), Duration::MAX);
    }

    /// Then there is another pod of this name, or the same is elsewhere.
    pub(crate) fn becomes(&mut self, name: &str, uid: Option<&str>, node: Option<&str>, after: Duration) {
        let at = self.elapsed + after.max(LATENCY);
        for key in self.named(name) {
            let mut pod: NodePod = self.pods[&key].clone();
            if uid.is_none_or(|uid| uid == key.uid) && node.is_none_or(|node| node == pod.node) {
                continue;
            }
            pod.deletion = None;
            node.iter().for_each(|node| (*node).clone_into(&mut pod.node));
            if let Some(uid) = uid.filter(|uid| *uid != key.uid) {
                uid.clone_into(&mut pod.key.uid);
                self.goes(name, at - self.elapsed);
                // The new one stops in its own time.
                let name = name.to_owned();
                self.plan(
                    at,
                    Due::Person(Box::new(move |world| world.stops_in.retain(|known, _| *known != name))),
                );
            }
            self.plan(at, Due::Appears(Box::new(pod)));
        }
    }

    /// Nobody answers for so long, from now on.
    pub(crate) fn goes_away(&mut self, length: Duration) {
        let (from, to) = (self.elapsed, self.elapsed.saturating_add(length));
        self.away = Some((from, to));
        self.plan(from, Due::Away);
        self.plan(to, Due::Back);
    }

    /// Somebody does something to a Node object then.
    pub(crate) fn later(&mut self, after: Duration, change: Change) {
        let at = self.elapsed + after.max(LATENCY);
        self.plan(at, Due::Person(change));
    }

    /// Merges this into a Node object, as `kubectl patch` would.
    pub(crate) fn merge_node(&mut self, name: &str, patch: &Value) {
        if let Some(known) = self.nodes.get_mut(name) {
            *known = merged(known, patch);
            let version = known.metadata.resource_version.as_deref().unwrap_or("1");
            known.metadata.resource_version = Some((version.parse::<u64>().unwrap() + 1).to_string());
        }
    }
}

/// As `kubectl patch --type merge`.
pub(crate) fn merged(node: &Node, patch: &Value) -> Node {
    let mut value = serde_json::to_value(node).unwrap();
    json_patch::merge(&mut value, patch);
    serde_json::from_value(value).unwrap()
}

/// The Node object as a scripted answer has it.
pub(super) fn shown(known: Option<&Node>, name: &str, body: &Value) -> Node {
    merged(&known.cloned().unwrap_or_else(|| node(name)), body)
}
