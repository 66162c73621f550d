//! The cluster of a scenario, with what is scripted in it.

use std::collections::VecDeque;
use std::time::Duration;

use cgroup2_migrate::node::ApiError;
use cgroup2_migrate::node::client::refusal;
use serde_json::{Value, json};

use super::form::{On, ReplyForm, Scenario};
use super::words::{Happens, Request, happenings, request};
use crate::sim::cluster::replies::{Answered, Change, Replies, Reply};
use crate::sim::cluster::{Budget, Cluster, World};

/// What a boot does beside what every boot does.
pub(crate) type Boots = VecDeque<Vec<Happens>>;

/// A cluster, and what is not its own: what boots do, and what restarts of the kubelet do.
pub(crate) struct Stage {
    pub(crate) cluster: Cluster,
    pub(crate) boots: Boots,
    pub(crate) last_boot_repeats: bool,
    /// What a restart of the kubelet does to pods, if the scenario is about one.
    pub(crate) kubelet_restart: Option<Vec<Happens>>,
}

pub(crate) fn build(scenario: &Scenario) -> Result<Stage, String> {
    let cluster = Cluster::new(&[]);
    let name = &scenario.node.name;
    // Where the nodes are listed, `node` is one of them or none at all.
    let nodes =
        if scenario.nodes.is_empty() { std::slice::from_ref(&scenario.node) } else { &scenario.nodes };
    for node in nodes.iter().map(super::form::NodeForm::object) {
        let name = node.metadata.name.clone().unwrap();
        cluster.with(|world| world.nodes.insert(name, node));
    }
    for pod in &scenario.pods {
        cluster.add(pod.pod(name)?);
    }
    for budget in scenario.pdbs.iter().flatten() {
        add_budget(&cluster, budget)?;
    }
    let mut stage =
        Stage { cluster, boots: VecDeque::new(), last_boot_repeats: false, kubelet_restart: None };
    let mut polls = Vec::new();
    for on in &scenario.on {
        let then = all_happenings(on)?;
        match request(&on.req)? {
            Request::KubeletRestart => {
                let happens: Result<Vec<Vec<Happens>>, String> =
                    on.reply.iter().map(|reply| reply.happens()).collect();
                stage.kubelet_restart = Some(happens?.concat());
            }
            Request::Boot => stage.boots_so(on, then)?,
            Request::Api(asked) if is_poll(&asked) => polls.push((asked, on, then)),
            Request::Api(asked) => {
                let replies = replies(&asked, on, then, name)?;
                stage.cluster.with(|world| world.replies.push(replies));
            }
        }
    }
    for (asked, on, then) in polls {
        polled(&stage.cluster, &asked, on, then, name)?;
    }
    Ok(stage)
}

fn all_happenings(on: &On) -> Result<Vec<Happens>, String> {
    let texts = on.then.iter().flat_map(super::form::Texts::all);
    let all: Result<Vec<Vec<Happens>>, String> = texts.map(|text| happenings(&text)).collect();
    Ok(all?.concat())
}

/// `"shop/api-pdb"`, or an object.
fn add_budget(cluster: &Cluster, budget: &Value) -> Result<(), String> {
    let text = |key: &str| budget.get(key).and_then(Value::as_str).map(str::to_owned);
    let name = match budget.as_str() {
        Some(name) => name.to_owned(),
        None => {
            let namespace = text("ns").or_else(|| text("namespace"));
            let name = text("name").ok_or_else(|| format!("pdbs: {budget} has no name"))?;
            namespace.map_or_else(|| name.clone(), |namespace| format!("{namespace}/{name}"))
        }
    };
    let number = |keys: [&str; 2]| keys.iter().find_map(|key| budget.get(key)?.as_u64());
    if let Some(allowed) = number(["disruptionsAllowed", "allowed"]) {
        let (namespace, own) =
            name.split_once('/').ok_or_else(|| format!("pdbs: {budget} has no namespace"))?;
        let heals_in = number(["heals_in_s", "heals_s"]).map_or(Duration::MAX, Duration::from_secs);
        let (namespace, own) = (namespace.to_owned(), own.to_owned());
        let prefix = text("prefix").unwrap_or_default();
        let allowed = usize::try_from(allowed).unwrap();
        cluster.with(|world| world.budgets.push(Budget { namespace, name: own, prefix, allowed, heals_in }));
    }
    cluster.with(|world| world.readable_budgets.get_or_insert_default().push(name));
    Ok(())
}

impl Stage {
    fn boots_so(&mut self, on: &On, then: Vec<Happens>) -> Result<(), String> {
        for reply in &on.reply {
            self.boots.push_back(reply.happens()?);
        }
        self.last_boot_repeats = then.contains(&Happens::Repeats);
        if let Some(last) = self.boots.back_mut() {
            last.extend(then.into_iter().filter(|happens| *happens != Happens::Repeats));
        } else if !then.is_empty() {
            self.boots.push_back(then);
        }
        Ok(())
    }
}

impl ReplyForm {
    fn happens(&self) -> Result<Vec<Happens>, String> {
        match (&self.event, self.code) {
            (Some(event), None) => happenings(event),
            _ => Err(format!("the reply {self:?} is no event")),
        }
    }

    /// The answer to an API request, and what happens with it.
    fn reply(&self, subject: &Subject<'_>) -> Result<Reply, String> {
        let mut answer = self.code.map(|code| self.answer(code));
        let mut changes = Vec::new();
        for happens in
            self.event.iter().map(|event| happenings(event)).collect::<Result<Vec<_>, _>>()?.concat()
        {
            match &happens {
                Happens::Unanswered(why) => answer = Some(Answered::No(ApiError::Unreachable(why.clone()))),
                Happens::AnswerLost => answer = Some(Answered::Lost),
                Happens::Away(_) => {
                    answer
                        .get_or_insert(Answered::No(ApiError::Unreachable("connection refused".to_owned())));
                    changes.push(subject.change(happens)?);
                }
                _ => changes.push(subject.change(happens)?),
            }
        }
        Ok(Reply { answer: answer.unwrap_or(Answered::Done(None)), changes })
    }

    fn answer(&self, code: u16) -> Answered {
        if (200..300).contains(&code) {
            let is_status = |body: &&Value| body.get("kind").and_then(Value::as_str) == Some("Status");
            return Answered::Done(self.body.as_ref().filter(|body| !is_status(body)).cloned());
        }
        let mut body = self.body.clone().unwrap_or(Value::Null);
        // Often left out where somebody writes it by hand.
        if let Some(body) = body.as_object_mut() {
            body.entry("status").or_insert(json!("Failure"));
        }
        let text = match &body {
            Value::Null => Vec::new(),
            Value::String(text) => text.clone().into_bytes(),
            other => other.to_string().into_bytes(),
        };
        let mut headers = http::HeaderMap::new();
        for (name, value) in &self.headers {
            let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            let name: http::HeaderName = name.to_lowercase().parse().unwrap();
            headers.insert(name, value.parse().unwrap());
        }
        let code = http::StatusCode::from_u16(code).unwrap();
        Answered::No(ApiError::Refused(refusal(code, &headers, &text)))
    }
}

/// What words without a name are about: the pod and the node of the request, or the scenario's node.
struct Subject<'a> {
    pod: Option<String>,
    node: &'a str,
}

impl<'a> Subject<'a> {
    fn of(asked: &'a str, own_node: &'a str) -> Self {
        let path: Vec<&str> = asked.split([' ', '/']).skip(1).collect();
        match path.as_slice() {
            ["pods", namespace, name, ..] => {
                Self { pod: Some(format!("{namespace}/{name}")), node: own_node }
            }
            ["nodes", name, ..] if *name != "*" => Self { pod: None, node: name },
            _ => Self { pod: None, node: own_node },
        }
    }

    fn pod(&self, named: Option<String>) -> Result<String, String> {
        named.or_else(|| self.pod.clone()).ok_or_else(|| "`then` does not say which pod".to_owned())
    }

    fn change(&self, happens: Happens) -> Result<Change, String> {
        let node_or = |node: Option<String>| node.unwrap_or_else(|| self.node.to_owned());
        Ok(match happens {
            Happens::PodGone { pod, after } => {
                let pod = self.pod(pod)?;
                Box::new(move |world| world.goes(&pod, after))
            }
            Happens::PodStays { pod } => {
                let pod = self.pod(pod)?;
                Box::new(move |world| world.stays(&pod))
            }
            Happens::PodIs { pod, uid, node, after } => {
                Box::new(move |world| world.becomes(&pod, uid.as_deref(), node.as_deref(), after))
            }
            Happens::NodeIs { node, patch, after, length } => of_node(node_or(node), patch, after, length),
            Happens::NodeGone { node, after } => {
                let node = node_or(node);
                Box::new(move |world| {
                    world.later(after, Box::new(move |world| drop(world.nodes.remove(&node))));
                })
            }
            Happens::Away(length) => Box::new(move |world| world.goes_away(length)),
            Happens::Repeats
            | Happens::Itself
            | Happens::Unanswered(_)
            | Happens::AnswerLost
            | Happens::SameBoot
            | Happens::Restarted(_) => return Err(format!("{happens:?} has no meaning after this request")),
        })
    }
}

/// The node is like this then.
fn of_node(node: String, patch: Value, after: Duration, length: Option<Duration>) -> Change {
    Box::new(move |world: &mut World| {
        world.later(after, Box::new(move |world: &mut World| takes_place(world, &node, &patch, length)));
    })
}

/// After `length` the node is as ready as it was.
fn takes_place(world: &mut World, node: &str, patch: &Value, length: Option<Duration>) {
    let status = world.nodes.get(node).and_then(|node| node.status.clone());
    world.merge_node(node, patch);
    if let Some(length) = length {
        let before = json!({"status": {"conditions": status.and_then(|status| status.conditions)}});
        let node = node.to_owned();
        world.later(length, Box::new(move |world| world.merge_node(&node, &before)));
    }
}

fn replies(asked: &str, on: &On, then: Vec<Happens>, own_node: &str) -> Result<Replies, String> {
    let subject = Subject::of(asked, own_node);
    let answers: Result<VecDeque<Reply>, String> =
        on.reply.iter().map(|reply| reply.reply(&subject)).collect();
    let mut answers = answers?;
    if answers.is_empty() {
        answers.push_back(Reply { answer: Answered::Done(None), changes: Vec::new() });
    }
    // Where the script says how the pod ends, its last answer stands until then.
    let tells_the_end = |happens: &Happens| {
        matches!(happens, Happens::Repeats | Happens::PodGone { .. } | Happens::PodStays { .. })
    };
    let repeats = then.iter().any(tells_the_end);
    let is_change = |happens: &Happens| !matches!(happens, Happens::Repeats | Happens::Itself);
    let then: Result<Vec<Change>, String> =
        then.into_iter().filter(is_change).map(|happens| subject.change(happens)).collect();
    Ok(Replies { request: asked.to_owned(), answers, repeats, then: then? })
}

/// `GET pods/shop/web-0`: a way to look at one pod that the program does not take, since it watches all of them.
fn is_poll(asked: &str) -> bool {
    asked.starts_with("GET pods/")
}

/// What a look at the pod would show is what becomes of it once its eviction was asked for.
fn polled(cluster: &Cluster, asked: &str, on: &On, then: Vec<Happens>, own_node: &str) -> Result<(), String> {
    let subject = Subject::of(asked, own_node);
    let pod = subject.pod(None)?;
    let mut happens = Vec::new();
    for reply in &on.reply {
        happens.extend(seen(&pod, reply)?);
    }
    happens.extend(then.into_iter().filter(|happens| *happens != Happens::Repeats));
    let changes: Result<Vec<Change>, String> =
        happens.into_iter().map(|happens| subject.change(happens)).collect();
    let request = format!("POST pods/{pod}/eviction");
    cluster.with(|world| {
        if let Some(known) = world.replies.iter_mut().find(|known| known.request == request) {
            known.then.extend(changes?);
            return Ok(());
        }
        let answers = [Reply { answer: Answered::Done(None), changes: Vec::new() }].into();
        world.replies.push(Replies { request, answers, repeats: false, then: changes? });
        Ok(())
    })
}

fn seen(pod: &str, reply: &ReplyForm) -> Result<Vec<Happens>, String> {
    const HICCUP: Duration = Duration::from_secs(2);
    let text = |path: &str| {
        let value = reply.body.as_ref().and_then(|body| body.pointer(path))?;
        value.as_str().map(str::to_owned)
    };
    match (reply.code, &reply.event) {
        (Some(404), _) => {
            Ok(vec![Happens::PodGone { pod: Some(pod.to_owned()), after: Duration::from_secs(1) }])
        }
        (Some(200), _) => {
            let uid = text("/metadata/uid").or_else(|| text("/uid"));
            let node = text("/spec/nodeName").or_else(|| text("/nodeName"));
            let is = Happens::PodIs { pod: pod.to_owned(), uid, node, after: Duration::from_secs(1) };
            Ok(if text("/metadata/uid").or_else(|| text("/uid")).is_some() { vec![is] } else { Vec::new() })
        }
        (Some(401 | 408 | 429 | 500..), _) => Ok(vec![Happens::Away(HICCUP)]),
        (None, Some(event)) => Ok(happenings(event)?
            .into_iter()
            .map(|happens| if let Happens::Unanswered(_) = happens { Happens::Away(HICCUP) } else { happens })
            .collect()),
        _ => Err(format!("the reply {reply:?} to a look at a pod is not understood")),
    }
}

/// Makes the boot of this turn what the scenario says.
pub(crate) fn boots(cluster: &Cluster, happens: &[Happens], node: &str, boot_id: &str) {
    let subject = Subject { pod: None, node };
    for happens in happens {
        let change = match happens {
            Happens::SameBoot => {
                let patch = json!({"status": {"nodeInfo": {"bootID": boot_id}}});
                Ok(at_once(node, patch, None))
            }
            // Not a moment later: the program looks as soon as it is up.
            Happens::NodeIs { node: named, patch, after: Duration::ZERO, length } => {
                Ok(at_once(named.as_deref().unwrap_or(node), patch.clone(), *length))
            }
            other => subject.change(other.clone()),
        };
        let change = change.unwrap_or_else(|why| panic!("{why}"));
        cluster.with(change);
    }
}

fn at_once(node: &str, patch: Value, length: Option<Duration>) -> Change {
    let node = node.to_owned();
    Box::new(move |world| takes_place(world, &node, &patch, length))
}
