//! Who the members of the etcd are that has one on this node.

use std::path::Path;

use k8s_openapi::api::core::v1::Pod;

use super::{EtcdMember, Known, PoolNode};
use crate::host::Fs;
use crate::node::{NodeApi, NodePod};

/// Static pods as kubeadm and those who follow it write them.
const ETCD: &str = "/etc/kubernetes/manifests/etcd.yaml";
const API_SERVER: &str = "/etc/kubernetes/manifests/kube-apiserver.yaml";

/// The members, by their pods on the control-plane nodes where those may be seen. None if no etcd runs on this node.
///
/// # Errors
/// Why they are not known.
pub fn members(
    api: &dyn NodeApi,
    fs: &dyn Fs,
    own: &Known<PoolNode>,
    nodes: &Known<Vec<PoolNode>>,
) -> Known<Vec<EtcdMember>> {
    if !own.as_ref().is_ok_and(|own| own.control_plane) {
        return Ok(Vec::new());
    }
    if fs.exists(Path::new(ETCD)) {
        return of_pods(api, nodes).map_or_else(|| of_manifest(fs), Ok);
    }
    if fs.exists(Path::new(API_SERVER)) {
        // The API server's etcd is elsewhere.
        return Ok(Vec::new());
    }
    Err(format!("this control-plane node has neither {ETCD} nor {API_SERVER}: its etcd cannot be looked at"))
}

/// The kubelets of the control plane say how their etcd is. `None` if a single one cannot be asked.
fn of_pods(api: &dyn NodeApi, nodes: &Known<Vec<PoolNode>>) -> Option<Vec<EtcdMember>> {
    let mut members = Vec::new();
    for node in nodes.as_ref().ok()?.iter().filter(|node| node.control_plane) {
        let pods = api.pods(&node.name).ok()?;
        let etcd = pods.iter().filter(|pod| is_etcd_of(pod, &node.name));
        members.extend(etcd.map(|pod| EtcdMember {
            name: pod.key.name.clone(),
            // What a node says that is not heard of any more is old.
            healthy: Some(pod.ready && node.ready),
            learner: false,
        }));
    }
    (!members.is_empty()).then_some(members)
}

fn is_etcd_of(pod: &NodePod, node: &str) -> bool {
    pod.mirror && pod.key.namespace == "kube-system" && pod.key.name == format!("etcd-{node}")
}

/// Only how many they were when this one joined: nothing better is known. How they are is not.
fn of_manifest(fs: &dyn Fs) -> Known<Vec<EtcdMember>> {
    let fail = |why: String| format!("read {ETCD}: {why}");
    let bytes = fs.read(Path::new(ETCD)).map_err(|error| fail(error.to_string()))?;
    let pod: Pod = serde_saphyr::from_slice(&bytes).map_err(|error| fail(error.to_string()))?;
    let cluster = initial_cluster(&pod).ok_or_else(|| fail("it has no --initial-cluster".to_owned()))?;
    let names = cluster.split(',').map(|member| member.split('=').next().unwrap_or(member).to_owned());
    Ok(names.map(|name| EtcdMember { name, healthy: None, learner: false }).collect())
}

fn initial_cluster(pod: &Pod) -> Option<&str> {
    let containers = &pod.spec.as_ref()?.containers;
    let mut words = containers.iter().flat_map(|one| one.command.iter().chain(&one.args).flatten());
    words.find_map(|word| word.strip_prefix("--initial-cluster="))
}
