//! A node of a real cluster, our client with a credential of its choice, and somebody who may do everything there.
#![allow(dead_code, reason = "each test uses its part")]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::path::{Path, PathBuf};
use std::time::Duration;

use cgroup2_migrate::host::fake::FakeInit;
use cgroup2_migrate::host::fake_mounts::FakeMounts;
use cgroup2_migrate::host::{Host, RootedFs, SystemClock, SystemRunner};
use cgroup2_migrate::node::client::Client;
use cgroup2_migrate::node::drain::{Listener, Outcome, Policy, Progress, run};
use cgroup2_migrate::node::{ApiError, EvictionRequest, NodeApi as _, NodePod};
use kube_tests::{Caller, TestCluster, objects};
use serde_json::{Value, json};
use tokio::runtime::Runtime;

/// What a client needs of the machine it runs on.
pub(crate) struct Seams {
    fs: RootedFs,
    runner: SystemRunner,
    init: FakeInit,
    mounts: FakeMounts,
}

impl Seams {
    pub(crate) fn new() -> Self {
        let (runner, init, mounts) = (SystemRunner::new(), FakeInit::new(), FakeMounts::default());
        Self { fs: RootedFs::new("/"), runner, init, mounts }
    }

    pub(crate) fn open(&self, kubeconfig: &Path) -> Client<'_> {
        let Self { fs, runner, init, mounts } = self;
        Client::open(Host { fs, runner, clock: &SystemClock, mounts, init }, kubeconfig).unwrap()
    }
}

/// A node of a cluster, and somebody who may do everything there. The client has a runtime of its own: what the test
/// does to the cluster it does on another one, in turns.
pub(crate) struct Story<'a> {
    pub(crate) runtime: Runtime,
    pub(crate) cluster: &'a TestCluster,
    pub(crate) admin: Caller,
    /// Its name, and that of a namespace.
    pub(crate) node: &'a str,
    seams: Seams,
}

pub(crate) fn runtime() -> Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

/// One on the cluster that all share.
pub(crate) fn begin(node: &'static str) -> Option<Story<'static>> {
    let runtime = runtime();
    let cluster = runtime.block_on(kube_tests::shared())?;
    Some(Story::new(runtime, cluster, node))
}

impl<'a> Story<'a> {
    pub(crate) fn new(runtime: Runtime, cluster: &'a TestCluster, node: &'a str) -> Self {
        let admin = runtime.block_on(async {
            let admin = cluster.admin().await;
            objects::create_node(&admin, node).await;
            objects::create_namespace(&admin, node).await;
            admin
        });
        Self { runtime, cluster, admin, node, seams: Seams::new() }
    }

    /// With nothing but the certificate of the node's kubelet.
    pub(crate) fn open(&self) -> Client<'_> {
        self.open_at(&self.kubeconfig())
    }

    pub(crate) fn open_at(&self, kubeconfig: &Path) -> Client<'_> {
        self.seams.open(kubeconfig)
    }

    pub(crate) fn kubeconfig(&self) -> PathBuf {
        self.cluster.kubelet_kubeconfig(self.node).unwrap()
    }

    /// The Node object.
    pub(crate) fn node(&self) -> Value {
        self.runtime.block_on(self.admin.get(&format!("/api/v1/nodes/{}", self.node))).ok()
    }

    /// A pod that runs.
    pub(crate) fn pod(&self, name: &str, app: &str) -> Value {
        self.runs(objects::pod(self.node, name, app))
    }

    /// Creates it, and lets it run.
    pub(crate) fn runs(&self, pod: Value) -> Value {
        self.runtime.block_on(async {
            let pod = objects::create_pod(&self.admin, self.node, pod).await;
            let name = pod.pointer("/metadata/name").and_then(Value::as_str).unwrap();
            objects::set_running(&self.admin, self.node, name, true).await;
            pod
        })
    }

    /// The API object of this node's machine, as its kubelet would report it.
    pub(crate) fn reports(&self, machine_id: &str) {
        let info = json!({
            "machineID": machine_id, "systemUUID": "other", "bootID": "other", "architecture": "amd64",
            "containerRuntimeVersion": "", "kernelVersion": "", "kubeProxyVersion": "", "kubeletVersion": "",
            "operatingSystem": "linux", "osImage": "",
        });
        let path = format!("/api/v1/nodes/{}/status", self.node);
        self.runtime.block_on(self.admin.patch(&path, json!({"status": {"nodeInfo": info}}))).ok();
    }
}

/// Keeps what it is told.
#[derive(Default)]
pub(crate) struct Heard(pub(crate) Vec<Progress>);

impl Listener for Heard {
    fn progress(&mut self, progress: &Progress) {
        self.0.push(progress.clone());
    }
}

pub(crate) fn drained(client: &Client<'_>, policy: Policy) -> Outcome {
    heard(client, policy).0
}

/// A drain, and what was told meanwhile.
pub(crate) fn heard(client: &Client<'_>, policy: Policy) -> (Outcome, Vec<Progress>) {
    let mut heard = Heard::default();
    let mut port = client.drain_port(&policy.node);
    (run(policy, &mut *port, &mut heard), heard.0)
}

/// The pods of this node, once the server lets its kubelet evict them.
pub(crate) fn pods(client: &Client<'_>, node: &str, count: usize) -> Vec<NodePod> {
    let asked = |pod: &NodePod| EvictionRequest { pod: pod.key.clone(), grace_seconds: None, dry_run: true };
    loop {
        let pods = client.pods(node).unwrap();
        if pods.len() == count && pods.iter().all(|pod| is_known(&client.evict(&asked(pod)))) {
            return pods;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// A server that has not heard of a pod yet says 404.
fn is_known(answer: &Result<(), ApiError>) -> bool {
    answer.as_ref().map_or_else(|error| error.code() == Some(429), |()| true)
}
