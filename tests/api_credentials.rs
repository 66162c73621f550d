//! Kubeconfigs, credentials, certificates, and the name of the node, against a server that answers as the test wants.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking, in its helpers too")]

use std::sync::atomic::{AtomicUsize, Ordering};

use cgroup2_migrate::host::Finished;
use cgroup2_migrate::host::fake::FakeRunner;
use cgroup2_migrate::node::client::node_of_host;
use cgroup2_migrate::node::{ApiError, NodeApi};
use serde_json::{Value, json};

#[cfg(test)] // so that clippy takes its helpers for test code
#[path = "support/api_host.rs"]
mod api_host;
#[cfg(test)] // so that clippy takes its helpers for test code
#[path = "support/http.rs"]
mod http;
use api_host::{Authority, KUBECONFIG, Node, kubeconfig, node_of, status};
use http::{Asked, Reply, Server};

#[test]
fn a_token_that_is_not_accepted_any_more_is_asked_for_anew_once() {
    let server = Server::start(|asked| match asked.header("authorization") {
        Some("Bearer t2") => Reply::new(200, json!({"metadata": {"name": "w0"}})),
        _ => status(401, "Unauthorized", "Unauthorized", Value::Null),
    });
    let times = AtomicUsize::new(0);
    let runner = FakeRunner::new().on("plugin", move |_| {
        let token = format!("t{}", times.fetch_add(1, Ordering::SeqCst) + 1);
        let stdout = json!({"kind": "ExecCredential", "status": {"token": token}}).to_string().into_bytes();
        Ok(Finished { code: Some(0), stdout, stderr: Vec::new() })
    });
    let node = Node::new(runner);
    let exec = "exec: {apiVersion: client.authentication.k8s.io/v1, command: plugin}";
    node.write(KUBECONFIG, &kubeconfig(&format!("http://{}", server.address), "", exec));
    let client = node.open().unwrap();
    client.node("w0").unwrap();
    assert_eq!(server.lines().len(), 2);
    client.node("w0").unwrap();
    assert_eq!(node.runner.calls().len(), 2);
}

#[test]
fn credentials_that_are_never_accepted_are_tried_twice_and_named() {
    let server = Server::start(|_| status(401, "Unauthorized", "Unauthorized", Value::Null));
    let node = node_of(&server);
    let error = node.open().unwrap().node("w0").unwrap_err();
    assert_eq!((error.code(), server.lines().len()), (Some(401), 2));
    assert!(
        error.to_string().contains("does not accept the credentials of /etc/kubernetes/kubelet.conf"),
        "{error}"
    );
    assert!(!error.to_string().contains("t0ken"));
}

#[test]
fn a_file_that_changed_is_read_anew_before_the_next_request() {
    let server =
        Server::start(|asked| Reply::new(200, json!({"metadata": {"name": asked.header("authorization")}})));
    let node = Node::new(FakeRunner::new());
    node.write("/etc/kubernetes/token", "one\n");
    node.write(KUBECONFIG, &kubeconfig(&format!("http://{}", server.address), "", "tokenFile: token"));
    let client = node.open().unwrap();
    let sent = || client.node("w0").unwrap().metadata.name.unwrap();
    assert_eq!(sent(), "Bearer one");
    node.write("/etc/kubernetes/token", "two\n");
    assert_eq!(sent(), "Bearer two");
    std::fs::remove_file(node.tree.path().join("etc/kubernetes/token")).unwrap();
    assert_eq!(sent(), "Bearer two", "what is being replaced is not taken away from us");
}

#[test]
fn nobody_there_and_no_such_name() {
    let server = Server::start(|_| Reply::new(200, ""));
    let node = node_of(&server);
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    for (address, words) in
        [(format!("http://{free}"), "Connection refused"), ("http://api.invalid:6443".into(), "lookup")]
    {
        node.write(KUBECONFIG, &kubeconfig(&address, "", "token: t0ken"));
        let Err(ApiError::Unreachable(why)) = node.open().unwrap().node("w0") else { panic!() };
        assert!(why.contains(words), "{why}");
    }
}

#[test]
fn kubeconfigs_that_are_of_no_use() {
    let node = Node::new(FakeRunner::new());
    assert!(
        node.refusal().contains("it cannot be read from /etc/kubernetes/kubelet.conf"),
        "{}",
        node.refusal()
    );
    node.write(KUBECONFIG, "users:\n- name: a\n  user: {token: s3cret\nclusters: [\n");
    let broken = node.refusal();
    assert!(broken.contains("it is not understood (line ") && !broken.contains("s3cret"), "{broken}");
    let cases = [
        ("kind: Config\n", "no current-context"),
        ("current-context: x\n", "no context x"),
        (&kubeconfig("", "", "token: a"), "no https address"),
        (
            &kubeconfig("https://a", ", certificate-authority: ca.crt", ""),
            "cannot be read from /etc/kubernetes/ca.crt",
        ),
        (
            &kubeconfig("https://a", "", "client-certificate: /pki/c.pem"),
            "the client certificate cannot be read from /pki",
        ),
        (
            &kubeconfig("https://a", "", "client-certificate-data: '?'"),
            "the client certificate in it is no base64",
        ),
        (&kubeconfig("https://a", "", "auth-provider: {name: gcp}"), "auth-provider gcp"),
        (&kubeconfig("https://a", "", "exec: {command: plugin}"), "the program plugin is not in"),
    ];
    for (text, expected) in cases {
        node.write(KUBECONFIG, text);
        assert!(node.refusal().contains(expected), "{}", node.refusal());
    }
}

#[test]
fn a_client_certificate_out_of_its_time_is_known_before_the_first_request() {
    let node = Node::new(FakeRunner::new());
    node.write("/pki/current.pem", &Authority::new("kubernetes").client(2020..2021));
    let user = "client-certificate: /pki/current.pem, client-key: /pki/current.pem";
    node.write(KUBECONFIG, &kubeconfig("https://127.0.0.1:1", "", user));
    let why = node.refusal();
    assert!(
        why.contains("/pki/current.pem: the certificate of system:node:w0 has been invalid since 2021-01-01"),
        "{why}"
    );
}

#[test]
fn a_server_that_another_authority_signed_for() {
    // Authorities of kubeadm all have one name; those of others do not.
    another_authority("kubernetes");
    another_authority("another");
}

fn another_authority(name: &str) {
    let ours = Authority::new("kubernetes");
    let server = Server::secure(Authority::new(name).server("127.0.0.1"), |_| Reply::new(200, "{}"));
    let node = Node::new(FakeRunner::new());
    node.write("/etc/kubernetes/ca.crt", &ours.0.pem());
    let cluster = ", certificate-authority: ca.crt";
    node.write(KUBECONFIG, &kubeconfig(&format!("https://{}", server.address), cluster, "token: a"));
    let Err(ApiError::Unusable(why)) = node.open().unwrap().node("w0") else { panic!() };
    assert!(why.contains("not signed by the certificate authority in the kubeconfig"), "{why}");
    assert_eq!(server.lines(), [""; 0], "no token went there");
}

#[test]
fn a_server_of_another_name_unless_the_kubeconfig_says_which() {
    let authority = Authority::new("kubernetes");
    let server =
        Server::secure(authority.server("api.example"), |_| Reply::new(200, json!({"metadata": {}})));
    let node = Node::new(FakeRunner::new());
    node.write("/etc/kubernetes/ca.crt", &authority.0.pem());
    let address = format!("https://{}", server.address);
    node.write(KUBECONFIG, &kubeconfig(&address, ", certificate-authority: ca.crt", "token: a"));
    let Err(ApiError::Unusable(why)) = node.open().unwrap().node("w0") else { panic!() };
    assert!(why.contains("tls-server-name"), "{why}");
    let cluster = ", certificate-authority: ca.crt, tls-server-name: api.example";
    node.write(KUBECONFIG, &kubeconfig(&address, cluster, "token: a"));
    node.open().unwrap().node("w0").unwrap();
}

fn node_object(name: &str, machine_id: &str) -> Value {
    let info = json!({
        "machineID": machine_id, "systemUUID": "", "bootID": "", "architecture": "", "containerRuntimeVersion": "",
        "kernelVersion": "", "kubeProxyVersion": "", "kubeletVersion": "", "operatingSystem": "", "osImage": "",
    });
    json!({"metadata": {"name": name}, "status": {"nodeInfo": info}})
}

/// Two nodes: this host's, and one that has this host's host name.
fn two_nodes(asked: &Asked) -> Reply {
    let (ours, other) = (node_object("alder-w0.example", "4f1c"), node_object("alder-worker-0", "dead"));
    match asked.path.as_str() {
        "/api/v1/nodes/alder-w0.example" => Reply::new(200, ours),
        "/api/v1/nodes/alder-worker-0" => Reply::new(200, other),
        path if path.starts_with("/api/v1/nodes?") => {
            Reply::new(200, json!({"metadata": {}, "items": [other, ours]}))
        }
        _ => status(404, "NotFound", "not found", Value::Null),
    }
}

#[test]
fn the_name_of_the_node_is_what_the_kubelet_was_told_and_not_the_host_name() {
    let server = Server::start(two_nodes);
    let node = node_of(&server);
    node.write("/etc/hostname", "ALDER-Worker-0\n");
    node.write("/etc/machine-id", "4f1c\n");
    let found = || node_of_host(&node.open().unwrap()).unwrap().metadata.name.unwrap();
    assert_eq!(found(), "alder-w0.example", "by the list");
    let arguments = "KUBELET_KUBEADM_ARGS=\"--hostname-override=alder-w0.example\"\n";
    node.write("/var/lib/kubelet/kubeadm-flags.env", arguments);
    let lists = || server.lines().iter().filter(|line| line.contains("nodes?")).count();
    let before = lists();
    assert_eq!(found(), "alder-w0.example", "by the flag");
    assert_eq!(lists(), before);
}

#[test]
fn a_node_that_is_another_machine_is_refused() {
    let server = Server::start(|asked| match asked.path.as_str() {
        "/apis/authentication.k8s.io/v1/selfsubjectreviews" => Reply::new(
            201,
            json!({"metadata": {}, "status": {"userInfo": {"username": "system:node:alder-worker-0"}}}),
        ),
        _ => two_nodes(asked),
    });
    let node = node_of(&server);
    node.write("/etc/machine-id", "4f1c\n");
    let Err(ApiError::Unusable(why)) = node_of_host(&node.open().unwrap()) else { panic!() };
    assert!(why.contains(
        "the node alder-worker-0 (by the user that the API server knows us as) is another machine"
    ));
    assert!(why.contains("machineID dead there and 4f1c here"), "{why}");
}
