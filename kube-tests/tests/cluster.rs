//! The cluster itself: what other tests rely on.
#![expect(clippy::disallowed_methods, reason = "starts itself anew, and writes files for itself")]

use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Stdio};

use http::Method;
use kube_tests::{FakeKubelet, Programs, TestCluster, objects, tally, until};
use serde_json::json;

#[tokio::test]
async fn requests_are_counted_by_who_asked_what_and_the_answer() {
    let Some(cluster) = kube_tests::shared().await else { return };
    let kubelet = cluster.kubelet("counted").await;
    let own = "/api/v1/pods?fieldSelector=spec.nodeName%3Dcounted";
    kubelet.get(own).await.ok();
    kubelet.get(own).await.ok();
    kubelet.get(&format!("{own}&watch=1&timeoutSeconds=1")).await.ok();
    kubelet.get("/api/v1/pods?watch=1").await.refused(403);
    kubelet
        .post("/api/v1/namespaces/n/pods/p/eviction", json!({"metadata": {"name": "p"}}))
        .await
        .refused(404);
    let counts = tally(&cluster.requests("system:node:counted").unwrap());
    let expected = [
        (("create", "pods/eviction", 404), 1),
        (("list", "pods", 200), 2),
        (("watch", "pods", 200), 1),
        (("watch", "pods", 403), 1),
    ];
    let expected =
        expected.map(|((verb, resource, code), count)| ((verb.into(), resource.into(), code), count));
    assert_eq!(counts, expected.into());
    assert!(cluster.metrics().await.contains("apiserver_request_total"));
}

#[tokio::test]
async fn an_outage_refuses_connections_and_forgets_nothing() {
    let Some(programs) = Programs::or_skip() else { return };
    let cluster = TestCluster::start(programs).await.unwrap();
    let admin = cluster.admin().await;
    objects::create_node(&admin, "n").await;
    cluster.stop_api();
    assert!(admin.ask(Method::GET, "/api/v1/nodes/n", None).await.is_err());
    cluster.start_api().await.unwrap();
    admin.get("/api/v1/nodes/n").await.ok();
    let folder = cluster.folder().to_owned();
    drop(cluster);
    assert!(!folder.exists());
}

#[tokio::test]
async fn a_program_that_ends_while_the_cluster_starts_is_quoted() {
    let folder = tempfile::tempdir().unwrap();
    for (program, text) in [("etcd", "exec sleep 60"), ("kube-apiserver", "echo no such flag >&2; exit 1")] {
        let path = folder.path().join(program);
        std::fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o700)).unwrap();
    }
    let started = TestCluster::start(Programs::at(folder.path().to_owned())).await;
    let why = started.err().unwrap().to_string();
    assert!(why.starts_with("kube-apiserver of ") && why.ends_with("by itself:\nno such flag"), "{why}");
}

#[tokio::test]
async fn the_fake_kubelet_lets_pods_run_and_go_after_their_time() {
    let Some(cluster) = kube_tests::shared().await else { return };
    let (admin, _kubelet) = (cluster.admin().await, FakeKubelet::start(cluster, "fake").unwrap());
    objects::create_namespace(&admin, "fake").await;
    for (name, stops_after) in [("quick", "0"), ("slow", "300"), ("hangs", "never")] {
        let mut pod = objects::pod("fake", name, "a");
        pod["metadata"]["annotations"][objects::STOPS_AFTER] = stops_after.into();
        objects::create_pod(&admin, "fake", pod).await;
        until(async || admin.get(&path(name)).await.json()["status"]["phase"] == "Running").await;
        admin.delete(&path(name), json!({})).await.ok();
    }
    for name in ["quick", "slow"] {
        until(async || admin.get(&path(name)).await.code == 404).await;
    }
    admin.get(&path("hangs")).await.ok();
}

fn path(pod: &str) -> String {
    format!("/api/v1/namespaces/fake/pods/{pod}")
}

#[tokio::test]
async fn nothing_of_it_outlives_tests_that_are_killed() {
    let Some(programs) = Programs::or_skip() else { return };
    let note = std::env::temp_dir().join(format!("kube-tests-{}", std::process::id()));
    let mut child = Command::new(std::env::current_exe().unwrap());
    let child = child.args(["--exact", "a_cluster_for_the_test_that_kills_it"]).env("C2M_NOTE", &note);
    let mut child = child.stdout(Stdio::null()).spawn().unwrap();
    until(async || note.exists()).await;
    let said = std::fs::read_to_string(&note).unwrap();
    let (address, folder) = said.split_once(' ').unwrap();
    let etcd = Path::new(folder).join("etcd.sock:0");
    assert!(TcpStream::connect(address).is_ok() && UnixStream::connect(&etcd).is_ok());
    child.kill().unwrap();
    child.wait().unwrap();
    until(async || TcpStream::connect(address).is_err() && UnixStream::connect(&etcd).is_err()).await;
    drop(TestCluster::start(programs).await.unwrap());
    assert!(!Path::new(folder).exists(), "the next cluster sweeps {folder}");
    std::fs::remove_file(note).unwrap();
}

#[tokio::test]
async fn a_cluster_for_the_test_that_kills_it() {
    let Some(note) = std::env::var_os("C2M_NOTE") else { return };
    let cluster = TestCluster::start(Programs::or_skip().unwrap()).await.unwrap();
    let address = cluster.server().unwrap().replace("https://", "");
    let unfinished = Path::new(&note).with_extension("unfinished");
    std::fs::write(&unfinished, format!("{address} {}", cluster.folder().display())).unwrap();
    std::fs::rename(unfinished, note).unwrap();
    loop {
        std::thread::park();
    }
}
