//! A real Kubernetes API server for tests, as small as it can be: etcd and kube-apiserver, nothing else.
//!
//! ```text
//! programs      where the binaries are; a test without them skips itself and says why
//! cluster       one etcd and one API server on loopback, from their start to their end
//! process       a program that cannot outlive the tests
//! authority     certificates, and kubeconfigs in the form that kubeadm gives a kubelet
//! caller        requests as they go over the wire, answers with their code
//! audit         what the server was asked, by whom, and what it said
//! objects       nodes, pods, disruption budgets; what controllers would write to them, the test writes
//! fake_kubelet  runs the pods of a node on paper: ready at once, gone some time after they are told to stop
//! fake_controller  makes new pods for those that go, and counts budgets anew
//! worker        what the fakes work on: a thread that ends when it is dropped
//! ```
//!
//! No scheduler and no controller runs: a test binds its pods to nodes itself and writes the status of its budgets, or
//! starts the fakes that do, so nothing happens that the test did not do.
//!
//! ```no_run
//! # async fn a_test() {
//! let Some(cluster) = kube_tests::shared().await else { return };
//! let kubelet = cluster.kubelet("a-node").await;
//! let answer = kubelet.get("/api/v1/nodes/a-node").await;
//! # }
//! ```
// For tests only: it starts programs, writes files of its own, and fails by panicking where a test would.
#![allow(clippy::disallowed_methods, clippy::expect_used, clippy::indexing_slicing, clippy::panic)]

mod audit;
mod authority;
mod caller;
mod cluster;
mod fake_controller;
mod fake_kubelet;
mod folder;
pub mod objects;
mod process;
mod programs;
mod worker;

pub use audit::{Request, tally};
pub use caller::{Answer, Caller};
pub use cluster::{TestCluster, shared};
pub use fake_controller::FakeController;
pub use fake_kubelet::FakeKubelet;
pub use programs::Programs;

/// Waits for what the server does on its own time; panics after a minute.
pub async fn until(is_so: impl AsyncFn() -> bool) {
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(60);
    while !is_so().await {
        assert!(std::time::Instant::now() < deadline, "waited a minute");
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
}
