//! What the client asks of the API server, and what it makes of the answers, against a server that answers as the test
//! wants.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use cgroup2_migrate::kubelet::configz;
use cgroup2_migrate::node::drain::Happening;
use cgroup2_migrate::node::{ApiError, EvictionRequest, NodeApi, PodKey};
use k8s_openapi::api::coordination::v1::Lease;
use serde_json::{Value, json};

#[cfg(test)] // so that clippy takes its helpers for test code
#[path = "support/api_host.rs"]
mod api_host;
#[cfg(test)] // so that clippy takes its helpers for test code
#[path = "support/http.rs"]
mod http;
use api_host::{node_of, status};
use http::{Reply, Server};

fn pod_key() -> PodKey {
    PodKey { namespace: "web".into(), name: "a-0".into(), uid: "u1".into() }
}

fn eviction() -> EvictionRequest {
    EvictionRequest { pod: pod_key(), grace_seconds: Some(7), dry_run: true }
}

#[test]
fn an_eviction_says_what_the_server_reads() {
    let server = Server::start(|_| Reply::new(201, json!({"kind": "Status", "status": "Success"})));
    let node = node_of(&server);
    node.open().unwrap().evict(&eviction()).unwrap();
    let asked = server.asked().remove(0);
    assert_eq!((&*asked.method, &*asked.path), ("POST", "/api/v1/namespaces/web/pods/a-0/eviction"));
    assert_eq!(asked.header("authorization"), Some("Bearer t0ken"));
    assert!(asked.header("user-agent").unwrap().starts_with("cgroup2-migrate/"));
    let body: Value = serde_json::from_str(&asked.body).unwrap();
    let options = json!({"gracePeriodSeconds": 7, "preconditions": {"uid": "u1"}, "dryRun": ["All"]});
    assert_eq!(body["deleteOptions"], options);
    assert_eq!((&body["apiVersion"], &body["kind"]), (&json!("policy/v1"), &json!("Eviction")));
}

#[test]
fn a_refusal_is_told_at_once_with_its_causes_and_the_time_to_wait() {
    let server = Server::start(|_| {
        let cause = json!({"reason": "DisruptionBudget", "message": "The disruption budget b needs 2"});
        status(429, "TooManyRequests", "Cannot evict", json!({"causes": [cause], "retryAfterSeconds": 10}))
    });
    let node = node_of(&server);
    let Err(ApiError::Refused(told)) = node.open().unwrap().evict(&eviction()) else { panic!() };
    assert_eq!((told.code, told.retry_after), (429, Some(Duration::from_secs(10))));
    assert_eq!(told.cause("DisruptionBudget").unwrap().message, "The disruption budget b needs 2");
    assert_eq!(server.lines().len(), 1, "nothing asks again behind our back");
}

#[test]
fn an_overloaded_server_and_a_proxy_refuse_in_words_of_their_own() {
    let server = Server::start(|asked| match asked.path.as_str() {
        "/api/v1/nodes/busy" => Reply {
            headers: "retry-after: 3\r\n",
            ..Reply::new(429, "Too many requests, please try again later.\n")
        },
        _ => Reply::new(502, "<html>\n<b>Bad  Gateway</b>"),
    });
    let node = node_of(&server);
    let client = node.open().unwrap();
    let Err(ApiError::Refused(busy)) = client.node("busy") else { panic!() };
    assert_eq!((busy.code, busy.retry_after), (429, Some(Duration::from_secs(3))));
    assert_eq!(busy.message, "Too many requests, please try again later.");
    let Err(error @ ApiError::Refused(_)) = client.node("w0") else { panic!() };
    assert!(error.may_pass() && error.to_string().contains("<b>Bad Gateway</b>"), "{error}");
}

#[test]
fn the_kubelets_own_configuration_is_asked_for_through_the_server() {
    let server = Server::start(|asked| match asked.path.as_str() {
        "/api/v1/nodes/w0/proxy/configz" => Reply::new(200, json!({"kubeletconfig": {"failCgroupV1": true}})),
        _ => status(403, "Forbidden", "nodes \"w1\" is forbidden", json!({})),
    });
    let node = node_of(&server);
    let client = node.open().unwrap();
    assert_eq!(configz::fail_cgroup_v1(&client.configz("w0").unwrap()), Some(true));
    assert_eq!(client.configz("w1").unwrap_err().code(), Some(403));
    assert!(matches!(client.configz("../pods"), Err(ApiError::Unusable(_))));
}

#[test]
fn an_answer_that_is_none_of_an_api_server() {
    let server = Server::start(|_| Reply::new(200, "<html>please log in</html>"));
    let node = node_of(&server);
    let Err(error @ ApiError::Unusable(_)) = node.open().unwrap().node("w0") else { panic!() };
    assert!(
        error.to_string().contains("the answer to GET /api/v1/nodes/w0 is none of an API server"),
        "{error}"
    );
}

#[test]
fn an_api_server_without_this_version_of_evictions() {
    let server = Server::start(|asked| match asked.path.as_str() {
        "/api/v1" => {
            let eviction = json!({
                "name": "pods/eviction", "singularName": "", "namespaced": true, "kind": "Eviction", "verbs": ["create"],
                "group": "policy", "version": "v1beta1",
            });
            Reply::new(200, json!({"groupVersion": "v1", "resources": [eviction]}))
        }
        "/version" => Reply::new(
            200,
            json!({
                "major": "1", "minor": "21", "gitVersion": "v1.21.14", "gitCommit": "", "gitTreeState": "", "buildDate": "",
                "goVersion": "", "compiler": "", "platform": "",
            }),
        ),
        _ => status(
            400,
            "BadRequest",
            "no kind \"Eviction\" is registered for version \"policy/v1\"",
            Value::Null,
        ),
    });
    let node = node_of(&server);
    let Err(error @ ApiError::Unusable(_)) = node.open().unwrap().evict(&eviction()) else { panic!() };
    assert!(error.to_string().contains("(v1.21.14) has no evictions of policy/v1"), "{error}");
}

#[test]
fn a_pod_that_is_gone_costs_no_second_question() {
    let server = Server::start(|_| status(404, "NotFound", "pods \"a-0\" not found", Value::Null));
    let node = node_of(&server);
    let error = node.open().unwrap().evict(&eviction()).unwrap_err();
    assert_eq!((error.code(), server.lines().len()), (Some(404), 1));
}

#[test]
fn a_patch_names_its_author() {
    let server = Server::start(|_| Reply::new(200, json!({"metadata": {"name": "w0"}})));
    let node = node_of(&server);
    let operations = json!([{"op": "add", "path": "/spec/unschedulable", "value": true}]);
    node.open().unwrap().patch_node("w0", &operations).unwrap();
    let asked = server.asked().remove(0);
    assert_eq!(asked.path, "/api/v1/nodes/w0?fieldManager=cgroup2-migrate");
    assert_eq!(asked.header("content-type"), Some("application/json-patch+json"));
    assert_eq!(asked.body, operations.to_string());
    assert!(matches!(node.open().unwrap().node("../w0"), Err(ApiError::Unusable(_))));
}

#[test]
fn lists_are_read_page_by_page_and_begun_anew_when_the_server_forgot_them() {
    let lost = AtomicBool::new(false);
    let server = Server::start(move |asked| {
        let name = |name: &str| json!([{"metadata": {"name": name, "namespace": "n", "uid": name}}]);
        if !asked.path.contains("continue=") {
            return Reply::new(
                200,
                json!({"metadata": {"continue": "next", "resourceVersion": "5"}, "items": name("a")}),
            );
        }
        if !lost.swap(true, Ordering::SeqCst) {
            return status(410, "Expired", "The provided continue parameter is too old", Value::Null);
        }
        Reply::new(200, json!({"metadata": {"resourceVersion": "5"}, "items": name("b")}))
    });
    let node = node_of(&server);
    let pods = node.open().unwrap().pods("w0").unwrap();
    assert_eq!(pods.iter().map(|pod| &*pod.key.name).collect::<Vec<_>>(), ["a", "b"]);
    let first = "GET /api/v1/pods?&fieldSelector=spec.nodeName%3Dw0&limit=500";
    let next = format!("{first}&continue=next");
    assert_eq!(server.lines(), [first, &next, first, &next]);
}

#[test]
fn budgets_that_select_a_pod() {
    let server = Server::start(|asked| {
        if asked.path.contains("/pods") {
            let pod =
                json!({"metadata": {"name": "a-0", "namespace": "web", "labels": {"app": "a", "tier": "x"}}});
            return Reply::new(200, json!({"metadata": {}, "items": [pod]}));
        }
        let budget =
            |name: &str, selector: Value| json!({"metadata": {"name": name}, "spec": {"selector": selector}});
        let items = [
            budget("yes", json!({"matchLabels": {"app": "a"}})),
            budget("no", json!({"matchLabels": {"app": "b"}})),
            budget(
                "among",
                json!({"matchExpressions": [{"key": "tier", "operator": "In", "values": ["x", "y"]}]}),
            ),
            budget("all", json!({})),
            json!({"metadata": {"name": "none"}, "spec": {}}),
        ];
        Reply::new(200, json!({"metadata": {}, "items": items}))
    });
    let node = node_of(&server);
    let client = node.open().unwrap();
    let pod = client.pods("w0").unwrap().remove(0);
    assert_eq!(client.budgets_of(&pod).unwrap(), ["yes", "among", "all"]);
}

#[test]
fn a_lease_is_created_or_replaced_as_it_was_read() {
    let server = Server::start(|asked| Reply::new(200, &asked.body));
    let node = node_of(&server);
    let client = node.open().unwrap();
    let mut lease: Lease = serde_json::from_value(json!({"metadata": {"name": "slot-0"}})).unwrap();
    client.put_lease("cgroup2-migrate", &lease).unwrap();
    lease.metadata.resource_version = Some("41".into());
    client.put_lease("cgroup2-migrate", &lease).unwrap();
    let path = "/apis/coordination.k8s.io/v1/namespaces/cgroup2-migrate/leases";
    assert_eq!(server.lines(), [format!("POST {path}"), format!("PUT {path}/slot-0")]);
}

fn watched(kind: &str, name: &str, version: &str) -> String {
    let metadata = json!({"name": name, "namespace": "n", "uid": name, "resourceVersion": version});
    json!({"type": kind, "object": {"kind": "Pod", "apiVersion": "v1", "metadata": metadata}}).to_string()
        + "\n"
}

/// A list, then watches that end as the test wants: the first one brings a pod and a bookmark.
fn watching(second: impl Fn() -> Reply + Send + Sync + 'static) -> Server {
    let watches = AtomicUsize::new(0);
    Server::start(move |asked| {
        if !asked.path.contains("watch=true") {
            return Reply::new(200, json!({"metadata": {"resourceVersion": "5"}, "items": []}));
        }
        match watches.fetch_add(1, Ordering::SeqCst) {
            0 => Reply::new(200, watched("ADDED", "a", "6") + &watched("BOOKMARK", "", "9")),
            1 => second(),
            _ => Reply::new(200, watched("DELETED", "a", "12")),
        }
    })
}

/// The first happenings of a drain, in short.
fn happenings(server: &Server, count: usize) -> Vec<String> {
    let node = node_of(server);
    let client = node.open().unwrap();
    let mut port = client.drain_port("w0");
    let short = |happening| match happening {
        Happening::Listed(pods) => format!("listed {}", pods.len()),
        Happening::Seen(pod) => format!("seen {}", pod.key.name),
        Happening::Gone(key) => format!("gone {}", key.name),
        Happening::Lost(_) => "lost".to_owned(),
        other @ (Happening::Answered(..) | Happening::Time | Happening::Interrupted) => format!("{other:?}"),
    };
    (0..count).map(|_| short(port.next(Duration::from_secs(600)))).collect()
}

fn versions(server: &Server) -> Vec<String> {
    let version = |line: String| {
        line.rsplit_once("resourceVersion=").map_or("list".to_owned(), |(_, version)| version.to_owned())
    };
    server.lines().into_iter().map(version).collect()
}

#[test]
fn a_watch_that_ends_goes_on_from_its_last_version() {
    let server = watching(|| Reply::new(200, watched("MODIFIED", "a", "11")));
    assert_eq!(happenings(&server, 4), ["listed 0", "seen a", "seen a", "gone a"]);
    assert_eq!(versions(&server), ["list", "5", "9", "11"]);
    let watch = server.lines().remove(1);
    for part in ["allowWatchBookmarks=true", "timeoutSeconds=240", "fieldSelector=spec.nodeName%3Dw0"] {
        assert!(watch.contains(part), "{watch}");
    }
}

#[test]
fn a_version_that_is_too_old_takes_a_list_and_is_no_loss() {
    let gone = json!({"kind": "Status", "status": "Failure", "code": 410, "reason": "Expired", "message": "too old"});
    let event = json!({"type": "ERROR", "object": gone.clone()}).to_string() + "\n";
    for second in [(200, event), (410, gone.to_string())] {
        let server = watching(move || Reply::new(second.0, &second.1));
        assert_eq!(happenings(&server, 4), ["listed 0", "seen a", "listed 0", "gone a"]);
        assert_eq!(versions(&server), ["list", "5", "9", "list", "5"]);
    }
}

#[test]
fn a_watch_that_fails_is_told_and_takes_a_list() {
    let server = watching(|| Reply::new(503, "the server is starting"));
    assert_eq!(happenings(&server, 5), ["listed 0", "seen a", "lost", "listed 0", "gone a"]);
}

#[test]
fn time_passes_while_nothing_happens() {
    let server = Server::start(|asked| match asked.path.contains("watch=true") {
        true => Reply::new(200, ""),
        false => Reply::new(200, json!({"metadata": {"resourceVersion": "5"}, "items": []})),
    });
    let node = node_of(&server);
    let client = node.open().unwrap();
    let mut port = client.drain_port("w0");
    assert!(matches!(port.next(Duration::MAX), Happening::Listed(_)));
    assert_eq!(port.next(Duration::ZERO), Happening::Time);
}
