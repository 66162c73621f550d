//! Our client with a kubelet's certificate against a real API server.

mod support;

use std::path::Path;
use std::time::Duration;

use cgroup2_migrate::node::client::{Doings, accesses, missing, node_of_host};
use cgroup2_migrate::node::drain::{Happening, Outcome, Policy, Port};
use cgroup2_migrate::node::select::Allowed;
use cgroup2_migrate::node::{ApiError, EvictionRequest, NodeApi as _};
use kube_tests::{FakeKubelet, Programs, TestCluster, objects, tally};
use serde_json::json;
use support::{Story, begin, drained, pods, runtime};

#[test]
fn a_kubelet_has_every_right_a_run_needs_but_the_lock() {
    let Some(story) = begin("rights") else { return };
    let client = story.open();
    let doings = Doings { node: "rights", drains: true, deletes: true, locks_in: None };
    assert_eq!(missing(&client, accesses(&doings)).unwrap(), []);
    let with_lock = Doings { locks_in: Some("cgroup2-migrate"), ..doings };
    let refused = missing(&client, accesses(&with_lock)).unwrap();
    assert!(!refused.is_empty() && refused.iter().all(|access| access.resource == "leases"), "{refused:?}");
    assert_eq!(client.who_am_i().unwrap().as_deref(), Some("system:node:rights"));
    assert_eq!(client.nodes().unwrap_err().code(), Some(403));
}

#[test]
fn a_cordon_all_or_nothing() {
    let Some(story) = begin("cordons") else { return };
    let client = story.open();
    let add = json!({"op": "add", "path": "/spec/unschedulable", "value": true});
    let node = client.patch_node("cordons", &json!([add.clone()])).unwrap();
    assert_eq!(node.spec.unwrap().unschedulable, Some(true));
    let test = json!({"op": "test", "path": "/metadata/uid", "value": "another"});
    assert_eq!(client.patch_node("cordons", &json!([test, add])).unwrap_err().code(), Some(422));
}

#[test]
fn an_event_of_the_node() {
    let Some(story) = begin("events") else { return };
    let event = json!({
        "metadata": {"generateName": "events.", "namespace": "default"},
        "involvedObject": {"kind": "Node", "name": "events"}, "reason": "Drained", "message": "m", "type": "Normal",
    });
    story.open().create_event(&serde_json::from_value(event).unwrap()).unwrap();
}

#[test]
fn the_options_of_an_eviction_are_heard() {
    let Some(story) = begin("options") else { return };
    let client = story.open();
    story.pod("p", "a");
    let pod = pods(&client, "options", 1).remove(0);
    let mut asked = EvictionRequest { pod: pod.key.clone(), grace_seconds: Some(7), dry_run: true };
    asked.pod.uid = "another".into();
    let error = client.evict(&asked).unwrap_err();
    assert!(
        error.code() == Some(409) && error.to_string().contains("does not match the UID in record"),
        "{error}"
    );
    asked.pod.uid.clone_from(&pod.key.uid);
    client.evict(&asked).unwrap();
    assert_eq!(client.pods("options").unwrap()[0].deletion, None, "a dry run changes nothing");
    client.evict(&EvictionRequest { dry_run: false, ..asked }).unwrap();
    let deletion = client.pods("options").unwrap()[0].deletion.clone().unwrap();
    assert_eq!(deletion.grace, Duration::from_secs(7));
}

#[test]
fn the_no_of_a_budget_comes_at_once_and_names_it() {
    let Some(story) = begin("budgets") else { return };
    let client = story.open();
    story.pod("p", "a");
    story.runtime.block_on(async {
        objects::create_budget(&story.admin, "budgets", "b", "a").await;
        objects::set_budget(&story.admin, "budgets", "b", 1, 1).await;
    });
    let pod = pods(&client, "budgets", 1).remove(0);
    let asked = EvictionRequest { pod: pod.key.clone(), grace_seconds: None, dry_run: false };
    let Err(ApiError::Refused(status)) = client.evict(&asked) else { panic!() };
    assert_eq!(status.code, 429);
    assert!(status.cause("DisruptionBudget").unwrap().message.contains("disruption budget b needs 1"));
    let admin = story.open_at(&story.cluster.admin_kubeconfig().unwrap());
    assert_eq!(admin.budgets_of(&pod).unwrap(), ["b"]);
}

#[test]
fn the_node_is_this_machine_or_it_is_left_alone() {
    let Some(story) = begin("machines") else { return };
    let Ok(own) = std::fs::read_to_string("/etc/machine-id") else { return };
    let client = story.open();
    story.reports(own.trim());
    assert_eq!(node_of_host(&client).unwrap().metadata.name.as_deref(), Some("machines"));
    story.reports("dead");
    let why = node_of_host(&client).unwrap_err().to_string();
    assert!(why.contains("is another machine: machineID dead there"), "{why}");
    // With a credential of its own the node is found among all.
    story.reports(own.trim());
    let admin = story.open_at(&story.cluster.admin_kubeconfig().unwrap());
    assert_eq!(node_of_host(&admin).unwrap().metadata.name.as_deref(), Some("machines"));
}

#[test]
fn a_drain_of_many_pods_asks_little() {
    let Some(story) = begin("many") else { return };
    let _kubelet = FakeKubelet::start(story.cluster, "many").unwrap();
    let client = story.open();
    for number in 0..30 {
        story.pod(&format!("p{number}"), "a");
    }
    pods(&client, "many", 30);
    let user = "system:node:many";
    let before = story.cluster.requests(user).unwrap().len();
    let allowed = Allowed { unmanaged: true, ..Allowed::default() };
    let policy = Policy { allowed, ..Policy::new("many") };
    assert_eq!(drained(&client, policy), Outcome::Drained(vec![]));
    let requests = story.cluster.requests(user).unwrap().split_off(before);
    assert!(requests.len() <= 30 + 5, "{:?}", tally(&requests));
    assert!(requests.iter().all(|request| request.agent.starts_with("cgroup2-migrate/")));
}

fn short(happening: Happening) -> String {
    match happening {
        Happening::Listed(pods) => format!("listed {}", pods.len()),
        Happening::Seen(pod) => format!("seen {}", pod.key.name),
        Happening::Gone(key) => format!("gone {}", key.name),
        Happening::Lost(ApiError::Unreachable(_) | ApiError::Refused(_)) => "lost".to_owned(),
        other @ (Happening::Lost(_) | Happening::Answered(..) | Happening::Time | Happening::Interrupted) => {
            format!("{other:?}")
        }
    }
}

fn next_but(port: &mut dyn Port, left_out: &str) -> String {
    loop {
        let happening = short(port.next(Duration::from_secs(120)));
        if happening != left_out {
            return happening;
        }
    }
}

#[test]
fn a_server_that_is_away_and_comes_back_in_the_middle_of_a_watch() {
    let Some(programs) = Programs::or_skip() else { return };
    let runtime = runtime();
    let cluster = runtime.block_on(TestCluster::start(programs)).unwrap();
    let story = Story::new(runtime, &cluster, "away");
    let client = story.open();
    let mut port = client.drain_port("away");
    assert_eq!(next_but(&mut *port, ""), "listed 0");
    story.runtime.block_on(async {
        objects::create_pod(&story.admin, "away", objects::pod("away", "p", "a")).await;
    });
    assert_eq!(next_but(&mut *port, ""), "seen p");
    cluster.stop_api();
    assert_eq!(next_but(&mut *port, "seen p"), "lost");
    let error = client.node("away").unwrap_err();
    assert!(matches!(error, ApiError::Unreachable(_)) && error.may_pass(), "{error}");
    story.runtime.block_on(cluster.start_api()).unwrap();
    // Right after its start a server refuses even its own kubelets for a moment.
    assert_eq!(next_but(&mut *port, "lost"), "listed 1");
    story.runtime.block_on(async {
        story.admin.delete("/api/v1/namespaces/away/pods/p", json!({"gracePeriodSeconds": 0})).await.ok();
    });
    assert_eq!(next_but(&mut *port, "seen p"), "gone p");
    client.node("away").unwrap();
}

#[test]
fn a_certificate_that_was_renewed_is_used_without_a_new_start() {
    let Some(story) = begin("renewal") else { return };
    let (kubeconfig, other) =
        (story.kubeconfig(), story.cluster.kubelet_kubeconfig("renewal-other").unwrap());
    let client = story.open_at(&kubeconfig);
    assert_eq!(client.who_am_i().unwrap().as_deref(), Some("system:node:renewal"));
    // As a kubelet does it: the link `current` is replaced in one step by one to another file.
    let current = story.cluster.folder().join("system-node-renewal-current.pem");
    let target = std::fs::read_link(other.with_file_name("system-node-renewal-other-current.pem")).unwrap();
    let link = |target: &Path| {
        let next = current.with_extension("next");
        std::os::unix::fs::symlink(target, &next).unwrap();
        std::fs::rename(next, &current).unwrap();
    };
    link(&target);
    assert_eq!(client.who_am_i().unwrap().as_deref(), Some("system:node:renewal-other"));
    let stranger = story.cluster.folder().join("stranger.pem");
    let made = rcgen::generate_simple_self_signed(vec!["stranger".to_owned()]).unwrap();
    let text = made.cert.pem() + &made.signing_key.serialize_pem();
    std::io::Write::write_all(&mut std::fs::File::create(&stranger).unwrap(), text.as_bytes()).unwrap();
    link(&stranger);
    let error = client.node("renewal").unwrap_err();
    assert_eq!(error.code(), Some(401), "{error}");
    link(Path::new("system-node-renewal-1.pem"));
    assert_eq!(client.who_am_i().unwrap().as_deref(), Some("system:node:renewal"));
}
