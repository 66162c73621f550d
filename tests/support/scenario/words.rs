//! The words of a scenario: requests, and what happens after them. What is not understood is an error that names it.

use std::time::Duration;

use serde_json::{Value, json};

/// What `req` names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Request {
    /// `POST pods/shop/api-7d/eviction`.
    Api(String),
    /// The kubelet is restarted by us.
    KubeletRestart,
    /// The node comes up after the reboot.
    Boot,
}

/// Something that happens.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Happens {
    /// The last answer is given for ever.
    Repeats,
    /// From then on the server answers for itself.
    Itself,
    /// A pod is gone after this time.
    PodGone { pod: Option<String>, after: Duration },
    /// A pod does not go, whatever was answered.
    PodStays { pod: Option<String> },
    /// A pod of this name is another one, or elsewhere.
    PodIs { pod: String, uid: Option<String>, node: Option<String>, after: Duration },
    /// A Node object changes after this time, and back again after `length`.
    NodeIs { node: Option<String>, patch: Value, after: Duration, length: Option<Duration> },
    /// A Node object is deleted.
    NodeGone { node: Option<String>, after: Duration },
    /// The API server does not answer anybody for this time.
    Away(Duration),
    /// It does not answer this request.
    Unanswered(String),
    /// It does what it was asked for, and its answer is lost.
    AnswerLost,
    /// The node comes up with the boot id it had.
    SameBoot,
    /// What a restart of the kubelet does to a pod.
    Restarted(String),
}

const RESOURCES: [&str; 8] = [
    "pods",
    "nodes",
    "leases",
    "events",
    "poddisruptionbudgets",
    "selfsubjectaccessreviews",
    "namespaces",
    "*",
];

pub(crate) fn request(text: &str) -> Result<Request, String> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let lower = words.join(" ").to_lowercase();
    match lower.as_str() {
        "kubelet restart"
        | "restart kubelet"
        | "systemctl restart kubelet"
        | "systemctl restart kubelet.service" => {
            return Ok(Request::KubeletRestart);
        }
        "boot" | "reboot" | "after reboot" | "after boot" => return Ok(Request::Boot),
        _ => {}
    }
    let refusal = || format!("the request `{text}` is not understood");
    let [method, path] = words.as_slice() else { return Err(refusal()) };
    let method = match method.to_uppercase().as_str() {
        "GET" | "LIST" | "WATCH" => "GET",
        "POST" => "POST",
        "PATCH" => "PATCH",
        "PUT" => "PUT",
        "DELETE" => "DELETE",
        "*" | "ANY" => "*",
        _ => return Err(refusal()),
    };
    let path = short(path);
    // They are only ever listed.
    let path = if method == "GET" && path.starts_with("leases/") { "leases".to_owned() } else { path };
    let resource = path.split('/').next().unwrap_or_default();
    if !RESOURCES.contains(&resource) {
        return Err(refusal());
    }
    Ok(Request::Api(format!("{method} {path}")))
}

/// `/api/v1/namespaces/shop/pods/a/eviction` is `pods/shop/a/eviction`.
fn short(path: &str) -> String {
    let path = path.split('?').next().unwrap_or_default().trim_matches('/');
    let mut parts: Vec<&str> = path.split('/').collect();
    match parts.first() {
        Some(&"api") => drop(parts.drain(..parts.len().min(2))),
        Some(&"apis") => drop(parts.drain(..parts.len().min(3))),
        _ => {}
    }
    match parts.as_slice() {
        ["namespaces", _, "leases", name] => format!("leases/{name}"),
        ["namespaces", _, "leases"] => "leases".to_owned(),
        ["namespaces", namespace, resource, rest @ ..] => [&[*resource, *namespace], rest].concat().join("/"),
        ["pdbs", rest @ ..] => [&["poddisruptionbudgets"], rest].concat().join("/"),
        ["leases", _, name] => format!("leases/{name}"),
        parts => parts.join("/"),
    }
}

/// `then`, or the text of an `event`: one or more, parted by `;`.
pub(crate) fn happenings(text: &str) -> Result<Vec<Happens>, String> {
    text.split(';').map(str::trim).filter(|part| !part.is_empty()).map(happening).collect()
}

fn happening(text: &str) -> Result<Happens, String> {
    let text = text.replace("->", " -> ").replace("→", " -> ").replace("=>", " -> ");
    let mut words: Vec<&str> = text.split_whitespace().collect();
    let refusal = || format!("`{}` is not understood", text.trim());
    let mut taken = |marks: &[&str]| taken(&mut words, marks);
    let after = taken(&["after", "in"])?;
    let length = taken(&["for"])?;
    let after_or_now = after.unwrap_or_default();
    if let [method, path, "->", rest @ ..] = words.as_slice() {
        let Request::Api(asked) = request(&format!("{method} {path}"))? else { return Err(refusal()) };
        return shown(&asked, rest, after_or_now).ok_or_else(refusal);
    }
    let lower = words.join(" ").to_lowercase();
    let simple = simple(&lower, after.or(length));
    simple
        .or_else(|| of_pod(&words, after_or_now))
        .or_else(|| of_node(&words, after_or_now, length))
        .ok_or_else(refusal)
}

/// Takes `after 20s` out of the words.
fn taken(words: &mut Vec<&str>, marks: &[&str]) -> Result<Option<Duration>, String> {
    let is_mark = |word: &&str| marks.contains(&word.to_lowercase().as_str());
    let Some(place) = words.iter().position(is_mark) else { return Ok(None) };
    let rest = &words[place + 1..];
    let (time, used) = match rest {
        [number, unit, ..] if number.parse::<f64>().is_ok() && time(&format!("{number}{unit}")).is_some() => {
            (time(&format!("{number}{unit}")), 2)
        }
        [word, ..] => (time(word), 1),
        [] => (None, 0),
    };
    // "after reboot" is no time.
    let Some(time) = time else { return Ok(None) };
    words.drain(place..=place + used);
    Ok(Some(time))
}

fn time(text: &str) -> Option<Duration> {
    let end = text.find(|letter: char| !letter.is_ascii_digit() && letter != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let number: f64 = number.parse().ok()?;
    let factor = match unit.to_lowercase().trim_end_matches('.') {
        "" | "s" | "sec" | "secs" | "second" | "seconds" => 1.0,
        "ms" => 0.001,
        "m" | "min" | "mins" | "minute" | "minutes" => 60.0,
        "h" | "hour" | "hours" => 3600.0,
        _ => return None,
    };
    Some(Duration::from_secs_f64(number * factor))
}

fn simple(lower: &str, length: Option<Duration>) -> Option<Happens> {
    const REPEATS: [&str; 5] = ["repeat", "repeats", "repeat forever", "forever", "always"];
    const ITSELF: [&str; 8] =
        ["ok", "allow", "allowed", "allows", "succeeds", "success", "normal", "as usual"];
    const LOST: [&str; 4] =
        ["answer lost", "response lost", "applied but answer lost", "applied but the answer is lost"];
    const SAME_BOOT: [&str; 5] =
        ["bootid unchanged", "boot id unchanged", "same bootid", "same boot id", "bootid stays the same"];
    const SERVERS: [&str; 6] =
        ["api server ", "apiserver ", "api ", "the api server ", "kube-apiserver ", "server "];
    const UNANSWERED: [&str; 22] = [
        "away",
        "down",
        "gone",
        "unreachable",
        "is unreachable",
        "unavailable",
        "is away",
        "is down",
        "restarts",
        "refuses connections",
        "connection refused",
        "refused",
        "connect refused",
        "timeout",
        "timed out",
        "times out",
        "no answer",
        "connection reset",
        "connection reset by peer",
        "no route to host",
        "i/o timeout",
        "eof",
    ];
    let is_of = |list: &[&str]| list.contains(&lower);
    if is_of(&REPEATS) {
        return Some(Happens::Repeats);
    }
    if is_of(&ITSELF) {
        return Some(Happens::Itself);
    }
    if is_of(&LOST) {
        return Some(Happens::AnswerLost);
    }
    if is_of(&SAME_BOOT) {
        return Some(Happens::SameBoot);
    }
    let what = SERVERS.iter().find_map(|server| lower.strip_prefix(server)).unwrap_or(lower);
    if UNANSWERED.contains(&what) || what == "tls handshake timeout" {
        return Some(length.map_or_else(|| Happens::Unanswered(lower.to_owned()), Happens::Away));
    }
    None
}

/// `GET pods/shop/web-0 -> uid u9 nodeName n-birch`, `GET nodes/n-gone -> 404`.
fn shown(asked: &str, rest: &[&str], after: Duration) -> Option<Happens> {
    let path: Vec<&str> = asked.strip_prefix("GET ")?.split('/').collect();
    match (path.as_slice(), rest) {
        (["pods", namespace, name], ["404"]) => {
            Some(Happens::PodGone { pod: Some(format!("{namespace}/{name}")), after })
        }
        (["pods", namespace, name], rest) => {
            let pairs = pairs(rest)?;
            let value =
                |key: &str| pairs.iter().find(|(known, _)| known == key).map(|(_, value)| value.clone());
            let (uid, node) = (value("uid"), value("nodename").or_else(|| value("node")));
            let known = usize::from(uid.is_some()) + usize::from(node.is_some());
            (known == pairs.len() && known > 0).then(|| Happens::PodIs {
                pod: format!("{namespace}/{name}"),
                uid,
                node,
                after,
            })
        }
        (["nodes", name], ["404"]) => Some(Happens::NodeGone { node: Some((*name).to_owned()), after }),
        (["nodes", name], rest) => {
            let patch = node_patch(&pairs(rest)?)?;
            Some(Happens::NodeIs { node: Some((*name).to_owned()), patch, after, length: None })
        }
        _ => None,
    }
}

/// `uid u9 nodeName n-birch`, `ready=false`.
fn pairs(words: &[&str]) -> Option<Vec<(String, String)>> {
    let words: Vec<String> = words
        .iter()
        .flat_map(|word| word.trim_end_matches(',').split(['=', ':']))
        .filter(|word| !word.is_empty())
        .map(str::to_owned)
        .collect();
    let pairs = words.chunks(2).map(|pair| match pair {
        [key, value] => Some((key.to_lowercase(), value.clone())),
        _ => None,
    });
    pairs.collect()
}

fn node_patch(pairs: &[(String, String)]) -> Option<Value> {
    let mut patch = json!({});
    for (key, value) in pairs {
        let part = match (key.as_str(), value.to_lowercase().as_str()) {
            ("ready", ready @ ("true" | "false" | "unknown")) => readiness(ready),
            ("unschedulable", word @ ("true" | "false")) => cordon(word == "true"),
            ("bootid", _) => json!({"status": {"nodeInfo": {"bootID": value}}}),
            ("uid", _) => json!({"metadata": {"uid": value}}),
            ("machineid", _) => json!({"status": {"nodeInfo": {"machineID": value}}}),
            _ => return None,
        };
        json_patch::merge(&mut patch, &part);
    }
    (!pairs.is_empty()).then_some(patch)
}

/// The condition as the node controller and the kubelet write it.
pub(crate) fn readiness(word: &str) -> Value {
    let status = match word {
        "true" => "True",
        "false" => "False",
        _ => "Unknown",
    };
    json!({"status": {"conditions": [{"type": "Ready", "status": status}]}})
}

/// Somebody else's: without our mark, and written by `kubectl`.
fn cordon(on: bool) -> Value {
    let value = if on { json!(true) } else { Value::Null };
    let fields = json!({"f:spec": {"f:unschedulable": {}}});
    let writers = json!([{"manager": "kubectl-cordon", "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": fields}]);
    json!({"metadata": {"managedFields": if on { writers } else { Value::Null }}, "spec": {"unschedulable": value}})
}

/// `pod gone`, `pod shop/api-7d stays`, `sandbox u1 killed and recreated`.
fn of_pod(words: &[&str], after: Duration) -> Option<Happens> {
    let (first, mut rest) = words.split_first()?;
    let kind = first.to_lowercase();
    if !matches!(kind.as_str(), "pod" | "sandbox" | "the") {
        return None;
    }
    if kind == "the" {
        return of_pod(rest, after).filter(|_| !rest.is_empty());
    }
    let mut pod = None;
    if let Some((name, others)) = rest.split_first()
        && (name.contains('/') || kind == "sandbox")
    {
        (pod, rest) = (Some((*name).to_owned()), others);
    }
    let done = rest.join(" ").to_lowercase();
    let done = done.strip_prefix("is ").unwrap_or(&done);
    match (kind.as_str(), done) {
        (
            "pod",
            "gone" | "deleted" | "disappears" | "ends" | "goes" | "terminates" | "terminated" | "removed",
        ) => Some(Happens::PodGone { pod, after }),
        (
            "pod",
            "stays" | "never gone" | "never goes" | "remains" | "stuck" | "stuck terminating" | "still there",
        ) => Some(Happens::PodStays { pod }),
        (_, "killed and recreated" | "killed" | "recreated" | "restarted" | "restarts") => {
            Some(Happens::Restarted(pod.unwrap_or_default()))
        }
        _ => None,
    }
}

/// `node NotReady for 60s`, `node n-birch gone`, `kubectl uncordon n-alder`, `bootID boot-B`.
fn of_node(words: &[&str], after: Duration, length: Option<Duration>) -> Option<Happens> {
    let lower: Vec<String> = words.iter().map(|word| word.to_lowercase()).collect();
    let lower: Vec<&str> = lower.iter().map(String::as_str).collect();
    let is = |node: Option<String>, patch: Value| Some(Happens::NodeIs { node, patch, after, length });
    let named = |index: usize| words.get(index).map(|name| (*name).to_owned());
    match lower.as_slice() {
        [
            "person" | "somebody" | "someone" | "admin" | "kubectl" | "operator" | "human",
            verb,
            place @ ..,
        ] => {
            let on = match *verb {
                "cordon" | "cordons" => true,
                "uncordon" | "uncordons" => false,
                _ => return None,
            };
            let node = match place {
                [] | ["node"] | ["the", "node"] | ["it"] => None,
                ["node", _] => named(3),
                [_] => named(2),
                _ => return None,
            };
            is(node, cordon(on))
        }
        ["bootid", _] => is(None, json!({"status": {"nodeInfo": {"bootID": words[1]}}})),
        ["node", state @ ..] => {
            let (node, state) = match state {
                [name, rest @ ..]
                    if state_patch(&state.join(" ")).is_none()
                        && !state.join(" ").contains("gone")
                        && !rest.is_empty() =>
                {
                    (words.get(1).map(|_| (*name).to_owned()), rest.join(" "))
                }
                [name, "gone" | "deleted"] => (Some((*name).to_owned()), "gone".to_owned()),
                state => (None, state.join(" ")),
            };
            let state = state.strip_prefix("is ").unwrap_or(&state).to_owned();
            if matches!(state.as_str(), "gone" | "deleted") {
                return Some(Happens::NodeGone { node, after });
            }
            is(node, state_patch(&state)?)
        }
        _ => None,
    }
}

fn state_patch(state: &str) -> Option<Value> {
    match state {
        "notready" | "not ready" | "ready=false" | "ready false" | "unready" => Some(readiness("false")),
        "unknown" | "ready unknown" => Some(readiness("unknown")),
        "ready" | "ready=true" | "ready true" => Some(readiness("true")),
        "cordoned" | "cordoned by a person" => Some(cordon(true)),
        "uncordoned" => Some(cordon(false)),
        _ => None,
    }
}
