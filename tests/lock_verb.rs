//! `lock status`, `lock release`, `lock resume`, against a server that keeps one slot.
#![allow(clippy::unwrap_used, clippy::disallowed_methods, reason = "a test stops at the first surprise")]

use std::sync::{Arc, Mutex};

use assert_cmd::Command;
use predicates::prelude::PredicateBooleanExt as _;
use predicates::str::contains;
use serde_json::{Value, json};

#[path = "support/http.rs"]
mod http;
use http::{Asked, Reply, Server};

/// A pool of one slot and the settings that lead to it.
struct Fleet {
    tree: tempfile::TempDir,
    lease: Arc<Mutex<Value>>,
    server: Server,
}

/// As it is after another node has failed, and while this one is away.
fn lease() -> Value {
    let failures = json!([{"node": "n-2", "run": "r", "why": "rolled back: a driver"}]).to_string();
    json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {"name": "cgroup2-migrate-nodes-0", "namespace": "cgroup2-migrate", "resourceVersion": "7",
            "annotations": {
                "cgroup2-migrate.io/slots": "1", "cgroup2-migrate.io/node": "n-1",
                "cgroup2-migrate.io/phase": "rebooting", "cgroup2-migrate.io/failures": failures,
                "cgroup2-migrate.io/halted": "1 node failed (n-2: rolled back: a driver)",
            }},
        "spec": {"holderIdentity": "u-1/run/boot", "leaseTransitions": 4, "acquireTime": "2026-12-01T00:00:00.000000Z"},
    })
}

fn fleet() -> Fleet {
    let lease = Arc::new(Mutex::new(lease()));
    let kept = Arc::clone(&lease);
    let server = Server::start(move |asked| answer(&kept, asked));
    let tree = tempfile::tempdir().unwrap();
    let kubeconfig = tree.path().join("agent.conf");
    let address = server.address;
    std::fs::write(
        &kubeconfig,
        format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: d\nclusters: [{{name: c, cluster: {{server: 'http://{address}'}}}}]\n\
             users: [{{name: agent, user: {{token: t}}}}]\ncontexts: [{{name: d, context: {{cluster: c, user: agent}}}}]\n"
        ),
    )
    .unwrap();
    let settings = format!("[lock]\nmode = \"lease\"\nkubeconfig = {:?}\n", kubeconfig.to_str().unwrap());
    std::fs::write(tree.path().join("fleet.toml"), settings).unwrap();
    Fleet { tree, lease, server }
}

fn answer(lease: &Mutex<Value>, asked: &Asked) -> Reply {
    let mut lease = lease.lock().unwrap();
    let is_node = asked.path.starts_with("/api/v1/nodes/");
    match asked.method.as_str() {
        "GET" if is_node => {
            Reply::new(200, json!({"kind": "Node", "metadata": {"name": "n-1", "uid": "u-1"}}))
        }
        "GET" => Reply::new(200, json!({"kind": "LeaseList", "metadata": {}, "items": [*lease]})),
        _ => {
            let wanted: Value = serde_json::from_str(&asked.body).unwrap();
            if wanted.pointer("/metadata/resourceVersion") != lease.pointer("/metadata/resourceVersion") {
                return Reply::new(409, json!({"kind": "Status", "code": 409, "message": "changed"}));
            }
            *lease = wanted;
            Reply::new(200, &*lease)
        }
    }
}

impl Fleet {
    fn lock(&self, arguments: &[&str]) -> Command {
        let mut command = Command::cargo_bin("cgroup2-migrate").unwrap();
        command
            .env("CGROUP2_MIGRATE_TEST_HOST", "1")
            .arg("--config")
            .arg(self.tree.path().join("fleet.toml"));
        command.arg("lock").args(arguments);
        command
    }

    fn told(&self, pointer: &str) -> Option<String> {
        self.lease.lock().unwrap().pointer(pointer).and_then(Value::as_str).map(str::to_owned)
    }
}

#[test]
fn status_says_who_has_what_and_why_nobody_starts() {
    let fleet = fleet();
    let words =
        ["held by n-1 since 2026-12-01", "rebooting", "failed: n-2: rolled back: a driver", "halted: 1 node"];
    let assert = fleet.lock(&["status"]).assert().code(0);
    words
        .into_iter()
        .fold(assert, |assert, words| assert.stdout(contains(words)))
        .stdout(contains("pool nodes-control-plane: no node has asked for a slot yet"));
    assert!(fleet.server.lines().iter().all(|line| line.starts_with("GET ")), "{:?}", fleet.server.lines());
}

#[test]
fn status_as_json() {
    let output = fleet().lock(&["status", "--json"]).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/lock-status.json");
    if std::env::var_os("C2M_UPDATE_GOLDEN").is_some() {
        std::fs::write(path, &text).unwrap();
    }
    assert_eq!(text, std::fs::read_to_string(path).unwrap_or_default());
}

#[test]
fn a_slot_is_freed_only_with_its_number_and_a_reason_and_its_holder_is_named() {
    let fleet = fleet();
    for arguments in [
        &["release", "--slot", "0"][..],
        &["release", "--reason", "x"],
        &["release", "--slot", "0", "--reason", ""],
    ] {
        fleet.lock(arguments).assert().code(2);
    }
    assert_eq!(fleet.told("/spec/holderIdentity").as_deref(), Some("u-1/run/boot"));
    fleet
        .lock(&["release", "--slot", "0", "--reason", "its disk is dead"])
        .env("SUDO_USER", "kim")
        .assert()
        .code(0)
        .stdout(contains("slot 0 of pool nodes: held by n-1").and(contains("the slot is free")));
    assert_eq!(fleet.told("/spec/holderIdentity"), None);
    let note = fleet.told("/metadata/annotations/cgroup2-migrate.io~1released").unwrap();
    assert!(note.starts_with("by kim on ") && note.contains("its disk is dead"), "{note}");
    fleet
        .lock(&["release", "--slot", "0", "--reason", "x"])
        .assert()
        .code(0)
        .stdout(contains("nobody has this slot"));
    fleet.lock(&["release", "--slot", "9", "--reason", "x"]).assert().code(2).stdout(contains("there are 1"));
}

#[test]
fn resume_ends_a_halt_and_names_what_it_forgets() {
    let fleet = fleet();
    fleet.lock(&["resume"]).assert().code(0).stdout(contains("n-2: rolled back: a driver"));
    assert_eq!(fleet.told("/metadata/annotations/cgroup2-migrate.io~1halted"), None);
    fleet.lock(&["resume"]).assert().code(0).stdout(contains("nothing was halted"));
}

#[test]
fn a_server_that_is_away_is_tried_later_and_no_lock_is_wrong_usage() {
    let fleet = fleet();
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let path = fleet.tree.path().join("agent.conf");
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, text.replace(&fleet.server.address.to_string(), &format!("127.0.0.1:{port}")))
        .unwrap();
    fleet.lock(&["status"]).assert().code(75).stderr(contains("cannot be reached"));
    std::fs::write(fleet.tree.path().join("fleet.toml"), "").unwrap();
    fleet.lock(&["status"]).assert().code(2).stderr(contains("lock.mode is not"));
}
