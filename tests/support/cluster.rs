//! An API server with one node's pods, in made-up time: it answers as kube-apiserver does where nothing is scripted,
//! and as the script says where something is.
#![allow(dead_code, reason = "each test uses its part")]
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that cannot go on has failed"
)]

#[path = "replies.rs"]
pub(crate) mod replies;

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::time::Duration;

use cgroup2_migrate::host::fake::Fuse;
use cgroup2_migrate::node::drain::{Answer, Happening, Port, Request};
use cgroup2_migrate::node::{
    Access, ApiError, ApiStatus, Cause, Deletion, EvictionRequest, NodeApi, NodePod, Owner, PodKey,
};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Event, Node};
use replies::{Answered, Replies};
use serde_json::{Value, json};

/// How long an answer takes.
const LATENCY: Duration = Duration::from_millis(10);

/// When a list that broke is tried again.
const RELIST: Duration = Duration::from_secs(1);

/// How long a pod takes to stop, where nothing else is said.
const STOPS_IN: Duration = Duration::from_secs(1);

/// The server. Cheap to look at from tests: every request is in [`Cluster::requests`].
pub(crate) struct Cluster {
    world: RefCell<World>,
    /// Shared with the machine of the node: what is asked for here is an effect, too.
    pub(crate) fuse: RefCell<Fuse>,
}

pub(crate) struct World {
    pub(crate) elapsed: Duration,
    pub(crate) nodes: BTreeMap<String, Node>,
    pub(crate) pods: BTreeMap<PodKey, NodePod>,
    /// How long a pod takes to stop.
    pub(crate) stops_in: HashMap<String, Duration>,
    /// What the API answers to the eviction of `namespace/name`, in order; the last one for ever.
    pub(crate) scripts: HashMap<String, Script>,
    pub(crate) budgets: Vec<Budget>,
    /// Answers to requests of any kind, instead of the server's own.
    pub(crate) replies: Vec<Replies>,
    /// Budgets that may be read by name, for pods that have more than one; `namespace/name` where that counts.
    pub(crate) readable_budgets: Option<Vec<String>>,
    pub(crate) leases: BTreeMap<String, Lease>,
    pub(crate) events: Vec<Event>,
    pub(crate) refused: Vec<&'static str>,
    /// What the kubelet says of its configuration, if that may be asked.
    pub(crate) configz: Option<Value>,
    /// The API is away from here to there.
    pub(crate) away: Option<(Duration, Duration)>,
    /// What a node's kubelet had reported each time the node was uncordoned: its boot, and whether it was ready.
    pub(crate) uncordons: Vec<Uncordon>,
    requests: Vec<(Duration, String)>,
    agenda: BTreeMap<(Duration, u64), Due>,
    sequence: u64,
}

/// A node, as it was when it came back into service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Uncordon {
    pub(crate) boot_id: String,
    pub(crate) ready: bool,
}

/// Scripted answers of one eviction.
#[derive(Debug, Clone, Default)]
pub(crate) struct Script {
    pub(crate) answers: VecDeque<ApiResult>,
    /// The pod goes so long after the last new answer, whatever that was.
    pub(crate) gone_after: Option<Duration>,
}

type ApiResult = Result<(), ApiError>;

/// A disruption budget over pods of one namespace whose names begin alike.
#[derive(Debug, Clone)]
pub(crate) struct Budget {
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) prefix: String,
    pub(crate) allowed: usize,
    /// So long after a pod of it is gone there is room for one more.
    pub(crate) heals_in: Duration,
}

enum Due {
    Gone(PodKey),
    Appears(Box<NodePod>),
    Answered(PodKey, ApiResult),
    Heals(usize),
    Relist(String),
    Away,
    Back,
    Person(Box<dyn FnOnce(&mut World)>),
}

pub(crate) fn node(name: &str) -> Node {
    serde_json::from_value(json!({
        "metadata": {"name": name, "uid": format!("uid-of-{name}"), "resourceVersion": "1"},
        "spec": {}, "status": {"nodeInfo": {"bootID": "boot-A", "machineID": "m", "systemUUID": "s",
            "kernelVersion": "", "osImage": "", "containerRuntimeVersion": "", "kubeletVersion": "v1.35.0",
            "kubeProxyVersion": "", "operatingSystem": "linux", "architecture": "amd64"}},
    }))
    .unwrap()
}

/// A pod of a ReplicaSet that has nothing special about it.
pub(crate) fn pod(node: &str, namespace: &str, name: &str) -> NodePod {
    NodePod {
        key: PodKey {
            namespace: namespace.into(),
            name: name.into(),
            uid: format!("uid-{namespace}-{name}"),
        },
        node: node.into(),
        labels: vec![("app".into(), name.rsplit_once('-').map_or(name, |(app, _)| app).into())],
        owner: Some(Owner {
            api_version: "apps/v1".into(),
            kind: "ReplicaSet".into(),
            name: format!("rs-{name}"),
        }),
        mirror: false,
        finished: false,
        pending: false,
        empty_dirs: Vec::new(),
        priority: 0,
        grace: Duration::from_secs(30),
        deletion: None,
        finalizers: Vec::new(),
        containers_gone: false,
        ready: true,
        running: Vec::new(),
    }
}

pub(crate) fn refusal(code: u16, message: &str, cause: Option<(&str, &str)>) -> ApiError {
    let cause = cause.map(|(reason, message)| Cause { reason: reason.into(), message: message.into() });
    ApiError::Refused(ApiStatus {
        code,
        message: message.into(),
        causes: cause.into_iter().collect(),
        ..ApiStatus::default()
    })
}

fn lost() -> ApiError {
    ApiError::Unreachable("the connection broke before the answer".into())
}

pub(crate) fn over_budget(name: &str) -> ApiError {
    let words = format!("The disruption budget {name} needs 2 healthy pods and has 2 currently");
    let message = "Cannot evict pod as it would violate the pod's disruption budget.";
    refusal(429, message, Some(("DisruptionBudget", &words)))
}

impl Cluster {
    pub(crate) fn new(nodes: &[&str]) -> Self {
        let world = World {
            elapsed: Duration::ZERO,
            nodes: nodes.iter().map(|name| ((*name).to_owned(), node(name))).collect(),
            pods: BTreeMap::new(),
            stops_in: HashMap::new(),
            scripts: HashMap::new(),
            replies: Vec::new(),
            budgets: Vec::new(),
            readable_budgets: None,
            leases: BTreeMap::new(),
            events: Vec::new(),
            refused: Vec::new(),
            configz: None,
            away: None,
            uncordons: Vec::new(),
            requests: Vec::new(),
            agenda: BTreeMap::new(),
            sequence: 0,
        };
        Self { world: RefCell::new(world), fuse: RefCell::default() }
    }

    pub(crate) fn with<T>(&self, change: impl FnOnce(&mut World) -> T) -> T {
        change(&mut self.world.borrow_mut())
    }

    pub(crate) fn add(&self, pod: NodePod) {
        self.with(|world| world.pods.insert(pod.key.clone(), pod));
    }

    /// Somebody does something at that time.
    pub(crate) fn at(&self, time: Duration, change: impl FnOnce(&mut World) + 'static) {
        self.with(|world| world.plan(time, Due::Person(Box::new(change))));
    }

    /// A pod shows up at that time.
    pub(crate) fn appears(&self, time: Duration, pod: NodePod) {
        self.with(|world| world.plan(time, Due::Appears(Box::new(pod))));
    }

    pub(crate) fn is_away(&self, from: Duration, to: Duration) {
        self.with(|world| {
            world.away = Some((from, to));
            world.plan(from, Due::Away);
            world.plan(to, Due::Back);
        });
    }

    /// Requests that were sent, without those that only evaluate.
    pub(crate) fn requests(&self) -> Vec<String> {
        self.with(|world| world.requests.iter().map(|(_, request)| request.clone()).collect())
    }

    pub(crate) fn count(&self, words: &str) -> usize {
        self.requests().iter().filter(|request| request.starts_with(words)).count()
    }

    pub(crate) fn elapsed(&self) -> Duration {
        self.with(|world| world.elapsed)
    }

    pub(crate) fn cordoned(&self, name: &str) -> bool {
        self.with(|world| world.nodes[name].spec.as_ref().unwrap().unschedulable.unwrap_or_default())
    }
}

impl Cluster {
    /// Time passes without anybody asking.
    pub(crate) fn passes(&self, duration: Duration) {
        self.with(|world| {
            let until = world.elapsed + duration;
            while let Some((at, _)) = world.agenda.keys().next().copied().filter(|(at, _)| *at <= until) {
                world.elapsed = world.elapsed.max(at);
                let (_, due) = world.agenda.pop_first().unwrap();
                // Nobody watches: what happens is only done.
                world.happens(due);
            }
            world.elapsed = until;
        });
    }

    /// The machine behind a node is in another boot, and its kubelet has said so.
    pub(crate) fn booted(&self, node: &str, boot_id: &str) {
        self.with(|world| {
            let Some(node) = world.nodes.get_mut(node) else { return };
            let mut value = serde_json::to_value(&*node).unwrap();
            value["status"]["nodeInfo"]["bootID"] = json!(boot_id.trim());
            value["status"]["conditions"] = json!([{"type": "Ready", "status": "True"}]);
            *node = serde_json::from_value(value).unwrap();
        });
    }

    /// The kubelet of a node has come up at that time, and said so.
    pub(crate) fn reported(&self, node: &str, boot_id: &str, at: jiff::Timestamp) {
        self.with(|world| {
            let Some(node) = world.nodes.get_mut(node) else { return };
            let mut value = serde_json::to_value(&*node).unwrap();
            value["status"]["nodeInfo"]["bootID"] = json!(boot_id.trim());
            let heartbeat = jiff::Timestamp::from_second(at.as_second()).unwrap();
            let ready =
                json!([{"type": "Ready", "status": "True", "lastHeartbeatTime": heartbeat.to_string()}]);
            value["status"]["conditions"] = ready;
            *node = serde_json::from_value(value).unwrap();
        });
    }
}

impl World {
    /// What runs is started anew at that time.
    pub(crate) fn containers_are_new(&mut self, at: jiff::Timestamp) {
        for container in self.pods.values_mut().flat_map(|pod| &mut pod.running) {
            container.id.push('x');
            container.started = at;
        }
    }

    fn plan(&mut self, time: Duration, due: Due) {
        self.sequence += 1;
        self.agenda.insert((time, self.sequence), due);
    }

    fn log(&mut self, request: String) {
        self.requests.push((self.elapsed, request));
    }

    fn is_away(&self) -> bool {
        self.away.is_some_and(|(from, to)| (from..to).contains(&self.elapsed))
    }

    fn reachable(&self) -> Result<(), ApiError> {
        if self.is_away() { Err(ApiError::Unreachable("connection refused".into())) } else { Ok(()) }
    }

    pub(crate) fn now(&self) -> jiff::Timestamp {
        jiff::Timestamp::from_second(1_800_000_000).unwrap() + self.elapsed
    }

    /// As `reachable`, where the script says nothing else.
    fn answers(&mut self, request: &str) -> Result<Option<Value>, ApiError> {
        self.reachable()?;
        match self.replied(request, true) {
            Some(Answered::No(error)) => Err(error),
            Some(Answered::Done(body)) => Ok(body),
            Some(Answered::Lost) => Err(lost()),
            None => Ok(None),
        }
    }

    fn list(&mut self, node: &str) -> Result<Vec<NodePod>, ApiError> {
        self.log(format!("LIST pods of {node}"));
        self.answers("GET pods")?;
        Ok(self.pods.values().filter(|pod| pod.node == node).cloned().collect())
    }

    /// What a drain hears of a list. One that breaks is tried again by itself.
    fn listed(&mut self, node: &str) -> Happening {
        self.list(node).map_or_else(
            |error| {
                self.plan(self.elapsed + RELIST, Due::Relist(node.to_owned()));
                Happening::Lost(error)
            },
            Happening::Listed,
        )
    }

    /// What the server answers, and does.
    fn evict(&mut self, key: &PodKey, dry_run: bool, with_budget: bool) -> ApiResult {
        let name = key.to_string();
        self.reachable()?;
        let Some(pod) = self.pods.get(key).cloned() else {
            return Err(refusal(404, &format!("pods \"{}\" not found", key.name), None));
        };
        if let Some(answer) = self.scripted(&name, key, dry_run) {
            return answer.map(|()| {
                if !dry_run {
                    self.stops(&pod)
                }
            });
        }
        let request =
            if with_budget { format!("POST pods/{name}/eviction") } else { format!("DELETE pods/{name}") };
        if let Some(answer) = self.replied(&request, !dry_run) {
            if !dry_run && !matches!(answer, Answered::No(_)) {
                self.stops(&pod);
            }
            return match answer {
                Answered::Done(_) => Ok(()),
                Answered::No(error) => Err(error),
                Answered::Lost => Err(lost()),
            };
        }
        let budgets: Vec<usize> =
            (0..self.budgets.len()).filter(|index| self.budgets[*index].holds(key)).collect();
        if with_budget && !pod.pending && !pod.finished && pod.deletion.is_none() {
            match budgets.as_slice() {
                [] => {}
                [index] if self.budgets[*index].allowed == 0 => {
                    return Err(over_budget(&self.budgets[*index].name));
                }
                [index] if !dry_run => self.budgets[*index].allowed -= 1,
                [_] => {}
                _ => {
                    let words = "This pod has more than one PodDisruptionBudget, which the eviction subresource does \
                                 not support.";
                    return Err(refusal(500, words, None));
                }
            }
        }
        if !dry_run {
            self.stops(&pod);
        }
        Ok(())
    }

    /// The next scripted answer. One that is only evaluated looks and does not take.
    fn scripted(&mut self, name: &str, key: &PodKey, dry_run: bool) -> Option<ApiResult> {
        let script = self.scripts.get_mut(name)?;
        let answer = script.answers.front()?.clone();
        if dry_run {
            return Some(answer);
        }
        let is_last = script.answers.len() == 1;
        if !is_last {
            script.answers.pop_front();
        }
        if let Some(after) = script.gone_after.filter(|_| is_last) {
            script.gone_after = None;
            let at = self.elapsed + after;
            // Its end is the script's business then.
            self.stops_in.insert(name.to_owned(), Duration::MAX);
            self.plan(at, Due::Gone(key.clone()));
        }
        Some(answer)
    }

    fn stops(&mut self, pod: &NodePod) {
        let name = pod.key.to_string();
        let now = self.now();
        let known = self.pods.get_mut(&pod.key).unwrap();
        if known.deletion.is_some() {
            return;
        }
        known.deletion = Some(Deletion { deadline: now + known.grace, grace: known.grace });
        let stops_in = self.stops_in.get(&name).copied().unwrap_or(STOPS_IN);
        if let Some(at) = self.elapsed.checked_add(stops_in) {
            self.plan(at, Due::Gone(pod.key.clone()));
        }
    }

    fn gone(&mut self, key: &PodKey) {
        self.pods.remove(key);
        let heals: Vec<(usize, Duration)> = (0..self.budgets.len())
            .filter(|index| self.budgets[*index].holds(key))
            .map(|index| (index, self.elapsed + self.budgets[index].heals_in))
            .collect();
        heals.into_iter().for_each(|(index, at)| self.plan(at, Due::Heals(index)));
    }

    fn happens(&mut self, due: Due) -> Option<Happening> {
        match due {
            Due::Gone(key) => {
                self.gone(&key);
                (!self.is_away()).then_some(Happening::Gone(key))
            }
            Due::Appears(pod) => {
                self.pods.insert(pod.key.clone(), (*pod).clone());
                (!self.is_away()).then_some(Happening::Seen(*pod))
            }
            Due::Answered(key, result) => Some(Happening::Answered(key, Answer::of(&result))),
            Due::Heals(index) => {
                self.budgets[index].allowed += 1;
                None
            }
            Due::Relist(node) => Some(self.listed(&node)),
            Due::Away => Some(Happening::Lost(ApiError::Unreachable("connection refused".into()))),
            Due::Back => Some(Happening::Listed(self.pods.values().cloned().collect())),
            Due::Person(change) => {
                change(self);
                None
            }
        }
    }
}

impl Cluster {
    fn effect<T>(&self, what: &str, act: impl FnOnce() -> Result<T, ApiError>) -> Result<T, ApiError> {
        let fuse = self.fuse.borrow().clone();
        fuse.effect(what, act, |error| ApiError::Unreachable(error.to_string()))
    }

    fn patched(&self, name: &str, operations: &Value) -> Result<Node, ApiError> {
        self.with(|world| {
            let request = format!("PATCH nodes/{name}");
            world.log(request.clone());
            world.reachable()?;
            let answer = world.replied(&request, true);
            if let Some(Answered::No(error)) = answer {
                return Err(error);
            }
            let node = world.nodes.get_mut(name).ok_or_else(|| refusal(404, "no such node", None))?;
            let mut value = serde_json::to_value(&*node).unwrap();
            let patch: json_patch::Patch = serde_json::from_value(operations.clone()).unwrap();
            json_patch::patch(&mut value, &patch).map_err(|error| refusal(422, &error.to_string(), None))?;
            if is_cordoned(node) && value["spec"]["unschedulable"] != json!(true) {
                world.uncordons.push(uncordon(node));
            }
            let next = value["metadata"]["resourceVersion"].as_str().unwrap().parse::<u64>().unwrap() + 1;
            value["metadata"]["resourceVersion"] = json!(next.to_string());
            *node = serde_json::from_value(value).unwrap();
            if matches!(answer, Some(Answered::Lost)) { Err(lost()) } else { Ok(node.clone()) }
        })
    }
}

fn is_cordoned(node: &Node) -> bool {
    node.spec.as_ref().and_then(|spec| spec.unschedulable).unwrap_or_default()
}

fn uncordon(node: &Node) -> Uncordon {
    let status = node.status.as_ref();
    let boot_id = status.and_then(|status| Some(status.node_info.as_ref()?.boot_id.clone()));
    let mut conditions = status.iter().flat_map(|status| status.conditions.iter().flatten());
    let ready = conditions.any(|condition| condition.type_ == "Ready" && condition.status == "True");
    Uncordon { boot_id: boot_id.unwrap_or_default(), ready }
}

impl Budget {
    fn holds(&self, key: &PodKey) -> bool {
        self.namespace == key.namespace && key.name.starts_with(&self.prefix)
    }
}

/// The conversation of a drain over the made-up server.
struct FakePort<'a> {
    cluster: &'a Cluster,
    node: String,
    begun: Duration,
    listed: bool,
}

impl Port for FakePort<'_> {
    fn elapsed(&self) -> Duration {
        self.cluster.elapsed() - self.begun
    }

    fn now(&self) -> jiff::Timestamp {
        self.cluster.with(|world| world.now())
    }

    fn send(&mut self, request: Request) {
        let (key, words, with_budget) = match &request {
            Request::Evict(key) => (key, format!("POST pods/{key}/eviction"), true),
            Request::Delete(key) => (key, format!("DELETE pods/{key}"), false),
        };
        let act = || {
            self.cluster.with(|world| {
                world.log(words.clone());
                world.evict(key, false, with_budget)
            })
        };
        let result = self.cluster.effect(&words, act);
        self.cluster.with(|world| world.plan(world.elapsed + LATENCY, Due::Answered(key.clone(), result)));
    }

    fn next(&mut self, limit: Duration) -> Happening {
        if self.cluster.fuse.borrow().power_is_lost() {
            return Happening::Interrupted;
        }
        if !std::mem::replace(&mut self.listed, true) && !self.cluster.with(|world| world.is_away()) {
            return self.cluster.with(|world| world.listed(&self.node));
        }
        let limit = limit.saturating_add(self.begun);
        self.cluster.with(|world| {
            loop {
                let Some((at, _)) = world.agenda.keys().next().copied().filter(|(at, _)| *at <= limit) else {
                    assert!(limit < Duration::MAX, "nothing would ever happen again");
                    world.elapsed = world.elapsed.max(limit);
                    return Happening::Time;
                };
                world.elapsed = world.elapsed.max(at);
                let (_, due) = world.agenda.pop_first().unwrap();
                if let Some(happening) = world.happens(due) {
                    return happening;
                }
            }
        })
    }
}

impl NodeApi for Cluster {
    fn node(&self, name: &str) -> Result<Node, ApiError> {
        self.with(|world| {
            let body = world.answers(&format!("GET nodes/{name}"))?;
            let known = world.nodes.get(name);
            if let Some(body) = body {
                return Ok(replies::shown(known, name, &body));
            }
            known.cloned().ok_or_else(|| refusal(404, &format!("nodes \"{name}\" not found"), None))
        })
    }

    fn nodes(&self) -> Result<Vec<Node>, ApiError> {
        self.with(|world| {
            world.answers("GET nodes")?;
            if world.refused.contains(&"nodes") {
                return Err(refusal(403, "nodes is forbidden", None));
            }
            Ok(world.nodes.values().cloned().collect())
        })
    }

    fn patch_node(&self, name: &str, operations: &Value) -> Result<Node, ApiError> {
        let patch = || self.patched(name, operations);
        self.effect(&format!("patch node {name}"), patch)
    }

    fn pods(&self, node: &str) -> Result<Vec<NodePod>, ApiError> {
        self.with(|world| world.list(node))
    }

    fn evict(&self, request: &EvictionRequest) -> Result<(), ApiError> {
        self.with(|world| {
            let words = if request.dry_run { "EVALUATE" } else { "POST" };
            world.log(format!("{words} pods/{}/eviction", request.pod));
            world.evict(&request.pod, request.dry_run, true)
        })
    }

    fn budgets_of(&self, pod: &NodePod) -> Result<Vec<String>, ApiError> {
        let namespace = &pod.key.namespace;
        self.with(|world| world.answers(&format!("GET poddisruptionbudgets/{namespace}")))?;
        let names = self.with(|world| world.readable_budgets.clone());
        let names = names.ok_or_else(|| refusal(403, "poddisruptionbudgets.policy is forbidden", None))?;
        let of_namespace = |name: String| match name.split_once('/') {
            Some((place, name)) => (place == namespace).then(|| name.to_owned()),
            None => Some(name),
        };
        Ok(names.into_iter().filter_map(of_namespace).collect())
    }

    fn configz(&self, node: &str) -> Result<Value, ApiError> {
        self.with(|world| {
            world.log(format!("GET configz of {node}"));
            world.reachable()?;
            world.configz.clone().ok_or_else(|| refusal(403, "nodes/proxy is forbidden", None))
        })
    }

    fn drain_port(&self, node: &str) -> Box<dyn Port + '_> {
        Box::new(FakePort { cluster: self, node: node.to_owned(), begun: self.elapsed(), listed: false })
    }

    fn may(&self, access: &Access) -> Result<bool, ApiError> {
        self.with(|world| {
            world.answers("POST selfsubjectaccessreviews")?;
            Ok(!world.refused.contains(&access.resource))
        })
    }

    fn create_event(&self, event: &Event) -> Result<(), ApiError> {
        let act = || {
            self.with(|world| {
                world.answers("POST events")?;
                world.events.push(event.clone());
                Ok(())
            })
        };
        self.effect("write an Event", act)
    }

    fn leases(&self, _namespace: &str) -> Result<Vec<Lease>, ApiError> {
        self.with(|world| {
            world.answers("GET leases")?;
            Ok(world.leases.values().cloned().collect())
        })
    }

    fn put_lease(&self, _namespace: &str, lease: &Lease) -> Result<Lease, ApiError> {
        let put = || self.put(lease);
        self.effect("write a lease", put)
    }
}

impl Cluster {
    fn put(&self, lease: &Lease) -> Result<Lease, ApiError> {
        self.with(|world| {
            let name = lease.metadata.name.clone().unwrap();
            let method = if lease.metadata.resource_version.is_some() { "PUT" } else { "POST" };
            let request = format!("{method} leases/{name}");
            world.log(request.clone());
            world.answers(&request)?;
            let found = world.leases.get(&name).and_then(|lease| lease.metadata.resource_version.clone());
            if found != lease.metadata.resource_version {
                return Err(refusal(409, "the object has been modified", None));
            }
            let mut lease = lease.clone();
            let next = found.map_or(1, |version| version.parse::<u64>().unwrap() + 1);
            lease.metadata.resource_version = Some(next.to_string());
            world.leases.insert(name, lease.clone());
            Ok(lease)
        })
    }
}
