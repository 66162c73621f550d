//! A node with 110 pods leaves service and comes back, with nothing but the certificate of its kubelet.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test fails by panicking, in its helpers too"
)]

mod support;

use std::collections::{BTreeMap, BTreeSet};

use cgroup2_migrate::checks;
use cgroup2_migrate::node::cordon::{self, CORDONED_BY, Uncordoned};
use cgroup2_migrate::node::drain::{Outcome, Policy};
use cgroup2_migrate::node::preflight::look;
use cgroup2_migrate::node::select::Allowed;
use cgroup2_migrate::node::story::{self, Chapter, PHASE};
use kube_tests::{FakeController, FakeKubelet, Request, objects, tally};
use serde_json::{Value, json};
use support::{Story, begin, drained};

const NODE: &str = "full";
const USER: &str = "system:node:full";
/// Each budget lets two of its twenty pods go at once.
const BUDGETS: [&str; 3] = ["web", "api", "mail"];
const NEEDED: u32 = 18;

/// Pods by kind: how many, and what they are.
fn kinds() -> Vec<(&'static str, usize, Value)> {
    let owner = |api: &str, kind: &str| json!([{"apiVersion": api, "kind": kind, "name": "o", "uid": "o", "controller": true}]);
    let set = || owner("apps/v1", "ReplicaSet");
    let owned = |owners: Value| json!({"metadata": {"ownerReferences": owners}});
    let scratch = || json!([{"name": "scratch", "emptyDir": {}}]);
    let slow = json!({"metadata": {"annotations": {objects::STOPS_AFTER: "300"}, "ownerReferences": owner("apps/v1", "StatefulSet")}});
    let mirror = json!({"metadata": {"annotations": {"kubernetes.io/config.mirror": "h"}, "ownerReferences": owner("v1", "Node")}});
    let pending = json!({"metadata": {"annotations": {objects::NEVER_RUNS: ""}, "ownerReferences": set()}});
    let critical = json!({"metadata": {"ownerReferences": set()}, "spec": {"priorityClassName": "system-node-critical"}});
    vec![
        ("web", 20, owned(set())),
        ("api", 20, owned(set())),
        ("mail", 20, owned(set())),
        ("db", 10, slow),
        ("agent", 8, owned(owner("apps/v1", "DaemonSet"))),
        ("static", 4, mirror),
        (
            "finished",
            6,
            json!({"metadata": {"ownerReferences": owner("batch/v1", "Job")}, "spec": {"volumes": scratch()}}),
        ),
        ("pending", 6, pending),
        ("bare", 7, json!({})),
        ("scratch", 7, json!({"metadata": {"ownerReferences": set()}, "spec": {"volumes": scratch()}})),
        ("critical", 2, critical),
    ]
}

const STAYS: [&str; 2] = ["agent", "static"];

/// Creates them all; gives their names.
fn populate(story: &Story<'_>) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for (kind, count, what) in kinds() {
        for number in 0..count {
            let name = format!("{kind}-{number}");
            let mut pod = objects::pod(NODE, &name, kind);
            merge(&mut pod, &what);
            story.runtime.block_on(objects::create_pod(&story.admin, NODE, pod));
            match kind {
                "pending" => {}
                "finished" => ends(story, &name, if number % 2 == 0 { "Succeeded" } else { "Failed" }),
                _ => story.runtime.block_on(objects::set_running(&story.admin, NODE, &name, true)),
            }
            names.insert(name);
        }
    }
    names
}

fn merge(into: &mut Value, from: &Value) {
    match (into, from) {
        (Value::Object(into), Value::Object(from)) => {
            for (key, value) in from {
                merge(into.entry(key.clone()).or_insert(Value::Null), value);
            }
        }
        (into, from) => *into = from.clone(),
    }
}

fn ends(story: &Story<'_>, name: &str, phase: &str) {
    let path = format!("/api/v1/namespaces/{NODE}/pods/{name}/status");
    story.runtime.block_on(story.admin.patch(&path, json!({"status": {"phase": phase}}))).ok();
}

fn budgets(story: &Story<'_>) {
    story.runtime.block_on(async {
        for budget in BUDGETS {
            objects::create_budget(&story.admin, NODE, budget, budget).await;
            objects::set_budget(&story.admin, NODE, budget, 20, NEEDED).await;
        }
        // It holds nobody: its pods never ran.
        objects::create_budget(&story.admin, NODE, "pending", "pending").await;
        objects::set_budget(&story.admin, NODE, "pending", 0, 1).await;
    });
}

#[test]
fn a_full_node_leaves_service_and_comes_back() {
    let Some(story) = begin(NODE) else { return };
    let names = populate(&story);
    assert_eq!(names.len(), 110);
    budgets(&story);
    let _kubelet = FakeKubelet::start(story.cluster, NODE).unwrap();
    let _controller = FakeController::start(story.cluster, NODE).unwrap();
    let client = story.open();
    support::pods(&client, NODE, 110);

    let begun = requests(&story).len();
    let preflight = look(&client, NODE, vec![], jiff::Timestamp::now()).unwrap();
    assert_eq!((preflight.to_evict.len(), preflight.objections.len()), (84, 14), "{preflight:?}");
    assert_eq!(preflight.obstacles, []);
    let ids: Vec<_> = checks::of_node(&preflight).into_iter().map(|finding| finding.id).collect();
    assert_eq!(ids, ["pod-emptydir-data", "pod-unmanaged"]);
    let looked = requests(&story).split_off(begun);
    let before_drain = begun + looked.len();
    assert!(looked.len() <= 2 + 20, "{:?}", tally(&looked));

    let version = story.node()["metadata"]["resourceVersion"].as_str().unwrap().to_owned();
    cordon::cordon(&client, &preflight.before, "run-1").unwrap();
    story::phase(&client, &preflight.before, "cordoned");
    let allowed = Allowed { empty_dir_data: true, unmanaged: true };
    let outcome = drained(&client, Policy { allowed, ..Policy::new(NODE) });
    assert_eq!(outcome, Outcome::Drained(vec![]));
    let message = outcome.to_string();
    let chapter = Chapter { reason: "CgroupMigrationDrained", message: &message, is_warning: false };
    story::event(&client, &preflight.before, chapter, jiff::Timestamp::now());
    let node = story.node();
    assert_eq!(node["spec"]["unschedulable"], true);
    let annotations = &node["metadata"]["annotations"];
    assert_eq!((&annotations[CORDONED_BY], &annotations[PHASE]), (&json!("run-1"), &json!("cordoned")));
    assert_eq!(cordon::uncordon(&client, &preflight.before, "run-1").unwrap(), Uncordoned::Done);

    let node = story.node();
    assert_eq!(
        (&node["spec"]["unschedulable"], &node["metadata"]["annotations"][CORDONED_BY]),
        (&Value::Null, &Value::Null)
    );
    let (stay, go): (BTreeSet<String>, BTreeSet<String>) =
        names.into_iter().partition(|name| STAYS.iter().any(|kind| name.starts_with(kind)));
    assert_eq!(names_on(&story, NODE), stay);
    // The controller may still be at the last one.
    let elsewhere = || names_on(&story, "elsewhere").len();
    for _ in (0..100).take_while(|_| elsewhere() < 60) {
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
    assert_eq!(elsewhere(), 60, "nobody touched what came in their place");
    is_told_in_events(&story, &message);
    asks_little(&requests(&story).split_off(before_drain), &go);
    budgets_hold(&story, &version);
}

fn requests(story: &Story<'_>) -> Vec<Request> {
    story.cluster.requests(USER).unwrap()
}

fn names_on(story: &Story<'_>, node: &str) -> BTreeSet<String> {
    let path = format!("/api/v1/namespaces/{NODE}/pods?fieldSelector=spec.nodeName%3D{node}");
    let listed = story.runtime.block_on(story.admin.get(&path)).ok();
    let items = listed["items"].as_array().unwrap();
    items.iter().map(|pod| pod["metadata"]["name"].as_str().unwrap().to_owned()).collect()
}

fn is_told_in_events(story: &Story<'_>, message: &str) {
    let path = format!("/api/v1/namespaces/default/events?fieldSelector=involvedObject.name%3D{NODE}");
    let events = story.runtime.block_on(story.admin.get(&path)).ok();
    let told: Vec<_> = events["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|event| (&event["reason"], &event["message"]))
        .collect();
    assert_eq!(told, [(&json!("CgroupMigrationDrained"), &json!(message))]);
}

/// One list, one watch, one eviction for each pod; a question for each pause of a budget; never a pod by name.
fn asks_little(asked: &[Request], go: &BTreeSet<String>) {
    let counts = tally(asked);
    let count = |verb: &str, resource: &str, code| {
        counts.get(&(verb.into(), resource.into(), code)).copied().unwrap_or(0)
    };
    assert_eq!((count("list", "pods", 200), count("watch", "pods", 200)), (1, 1), "{counts:?}");
    let accepted: Vec<&Request> =
        asked.iter().filter(|request| request.resource == "pods/eviction" && request.code == 201).collect();
    let evicted: BTreeSet<String> = accepted.iter().map(|request| request.name.clone()).collect();
    assert_eq!((accepted.len(), &evicted), (go.len(), go));
    let last: Vec<&str> = accepted.iter().rev().take(2).map(|request| &request.name[..8]).collect();
    assert_eq!(last, ["critical"; 2], "what others depend on goes last");
    let held = count("create", "pods/eviction", 429);
    assert!(held <= 100, "{counts:?}");
    assert!(asked.len() - held <= go.len() + 20, "{counts:?}");
}

/// Every state the pods were in, one after the other: as many of each budget ran as it asks for.
fn budgets_hold(story: &Story<'_>, since: &str) {
    let path = format!("/api/v1/namespaces/{NODE}/pods?watch=1&resourceVersion={since}&timeoutSeconds=1");
    let events = story.runtime.block_on(story.admin.get(&path));
    let mut running: BTreeMap<&str, BTreeSet<String>> = BUDGETS
        .into_iter()
        .map(|app| (app, (0..20).map(|number| format!("{app}-{number}")).collect()))
        .collect();
    let mut seen = 0;
    for line in events.text.lines() {
        let event: Value = serde_json::from_str(line).unwrap();
        let pod = &event["object"];
        let Some(running) = pod["metadata"]["labels"]["app"].as_str().and_then(|app| running.get_mut(app))
        else {
            continue;
        };
        let name = pod["metadata"]["name"].as_str().unwrap().to_owned();
        let is_up = event["type"] != "DELETED"
            && pod["metadata"]["deletionTimestamp"].is_null()
            && pod["status"]["phase"] == "Running";
        if is_up {
            running.insert(name)
        } else {
            running.remove(&name)
        };
        assert!(running.len() >= usize::try_from(NEEDED).unwrap(), "{event}");
        seen += 1;
    }
    assert!(seen > 60 * 4, "only {seen} changes of pods");
}
