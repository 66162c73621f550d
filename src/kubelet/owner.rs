//! Who writes the kubelet's files. What a vendor's machinery writes anew is not edited: the edit would be lost, or
//! never be read.

use std::path::Path;

use serde::Serialize;

use super::marks;
use crate::host::Fs;

/// Who.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Owner {
    /// kubeadm, which writes its file anew at an upgrade.
    Kubeadm,
    /// k3s, with the kubelet in its own process.
    K3s,
    /// RKE2.
    Rke2,
    /// k0s, which generates the file at every start.
    K0s,
    /// MicroK8s, with a file of flags.
    MicroK8s,
    /// EKS with nodeadm (Amazon Linux 2023), which writes its files anew at every boot.
    EksNodeadm,
    /// EKS on Amazon Linux 2.
    EksAl2,
    /// AKS.
    Aks,
    /// OpenShift's Machine Config Operator.
    OpenShift,
    /// GKE.
    Gke,
    /// A person.
    Plain,
}

impl std::fmt::Display for Owner {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(match self {
            Self::Kubeadm => "kubeadm",
            Self::K3s => "k3s",
            Self::Rke2 => "RKE2",
            Self::K0s => "k0s",
            Self::MicroK8s => "MicroK8s",
            Self::EksNodeadm => "EKS (nodeadm)",
            Self::EksAl2 => "EKS (Amazon Linux 2)",
            Self::Aks => "AKS",
            Self::OpenShift => "OpenShift's Machine Config Operator",
            Self::Gke => "GKE",
            Self::Plain => "nobody but the person who set this node up",
        })
    }
}

/// Files that give an owner away. Those of GKE and AKS are background knowledge, not looked up.
const FILES: [(&str, Owner); 8] = [
    ("/etc/machine-config-daemon", Owner::OpenShift),
    ("/etc/openshift/kubelet.conf.d", Owner::OpenShift),
    ("/home/kubernetes/kubelet-config.yaml", Owner::Gke),
    ("/etc/default/kubeletconfig.json", Owner::Aks),
    ("/etc/kubernetes/azure.json", Owner::Aks),
    ("/etc/kubernetes/kubelet/config.json", Owner::EksNodeadm),
    ("/etc/kubernetes/kubelet/kubelet-config.json", Owner::EksAl2),
    ("/var/snap/microk8s/current/args/kubelet", Owner::MicroK8s),
];

/// Units that do.
const UNITS: [(&str, Owner); 3] = [("k3s", Owner::K3s), ("rke2", Owner::Rke2), ("k0s", Owner::K0s)];

/// What may be left over of one who is gone, and speaks last.
const TRACES: [(&str, Owner); 7] = [
    ("/var/lib/kubelet/kubeadm-flags.env", Owner::Kubeadm),
    ("/etc/rancher/k3s", Owner::K3s),
    ("/var/lib/rancher/k3s", Owner::K3s),
    ("/etc/rancher/rke2", Owner::Rke2),
    ("/var/lib/rancher/rke2", Owner::Rke2),
    ("/etc/k0s", Owner::K0s),
    ("/var/lib/k0s", Owner::K0s),
];

impl Owner {
    /// Finds out by files and units.
    #[must_use]
    pub fn of(fs: &dyn Fs) -> Self {
        let units = marks::units(fs).unwrap_or_default();
        let there = |files: &[(&str, Self)]| {
            files.iter().find(|(path, _)| fs.exists(Path::new(path))).map(|(_, owner)| *owner)
        };
        let by_unit = UNITS.iter().find(|(start, _)| units.iter().any(|unit| unit.starts_with(start)));
        let found = there(&FILES).or(by_unit.map(|(_, owner)| *owner));
        found.or_else(|| there(&TRACES)).unwrap_or(Self::Plain)
    }

    /// Where its kubelet's configuration lies if no flag says so.
    #[must_use]
    pub fn config_file(self) -> Option<&'static str> {
        match self {
            Self::Kubeadm | Self::Plain => Some("/var/lib/kubelet/config.yaml"),
            Self::EksNodeadm => Some("/etc/kubernetes/kubelet/config.json"),
            Self::EksAl2 => Some("/etc/kubernetes/kubelet/kubelet-config.json"),
            Self::OpenShift => Some("/etc/kubernetes/kubelet.conf"),
            Self::Gke => Some("/home/kubernetes/kubelet-config.yaml"),
            Self::Aks => Some("/etc/default/kubeletconfig.json"),
            Self::K3s | Self::Rke2 | Self::K0s | Self::MicroK8s => None,
        }
    }

    /// Where its kubelet reads drop-ins though no flag in any file says so. That of RKE2 is by analogy with k3s, not
    /// verified: like the other it counts only if it is there. k3s has it from 1.32 on.
    #[must_use]
    pub fn drop_in_directory(self) -> Option<&'static str> {
        match self {
            Self::K3s => Some("/var/lib/rancher/k3s/agent/etc/kubelet.conf.d"),
            Self::Rke2 => Some("/var/lib/rancher/rke2/agent/etc/kubelet.conf.d"),
            Self::OpenShift => Some("/etc/openshift/kubelet.conf.d"),
            Self::Kubeadm
            | Self::Plain
            | Self::K0s
            | Self::MicroK8s
            | Self::EksNodeadm
            | Self::EksAl2
            | Self::Aks
            | Self::Gke => None,
        }
    }

    /// Units that run its kubelet.
    #[must_use]
    pub fn units(self) -> &'static [&'static str] {
        match self {
            Self::K3s => &["k3s-agent.service", "k3s.service"],
            Self::Rke2 => &["rke2-agent.service", "rke2-server.service"],
            Self::K0s => &["k0sworker.service", "k0scontroller.service"],
            Self::MicroK8s => &["snap.microk8s.daemon-kubelite.service"],
            Self::Kubeadm
            | Self::EksNodeadm
            | Self::EksAl2
            | Self::Aks
            | Self::OpenShift
            | Self::Gke
            | Self::Plain => &["kubelet.service"],
        }
    }

    /// True if an edit of this file would not last.
    #[must_use]
    pub fn writes_anew(self, file: &Path) -> bool {
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        match self {
            Self::K3s | Self::Rke2 => {
                let own = ["-k3s-defaults.conf", "-rke2-defaults.conf", "-cli-config.conf"];
                own.iter().any(|end| name.ends_with(end))
            }
            Self::EksNodeadm => name == "config.json" || name == "40-nodeadm.conf",
            Self::K0s | Self::Aks | Self::OpenShift | Self::Gke => true,
            Self::Kubeadm | Self::MicroK8s | Self::EksAl2 | Self::Plain => false,
        }
    }

    /// True if drop-ins and flags are its own, too: then nothing on this host is ours to change.
    #[must_use]
    pub fn owns_everything(self) -> bool {
        matches!(self, Self::K0s | Self::Aks | Self::OpenShift | Self::Gke)
    }

    /// Its own way to set `failCgroupV1` to this.
    #[must_use]
    pub fn own_way(self, to: bool) -> String {
        match self {
            Self::Kubeadm => format!("set failCgroupV1: {to} in /var/lib/kubelet/config.yaml"),
            Self::K3s => rancher("k3s", to),
            Self::Rke2 => rancher("rke2", to),
            Self::K0s => format!(
                "set spec.workerProfiles[].values.failCgroupV1 to {to} in k0s.yaml on the controllers, then restart \
                 k0s"
            ),
            Self::MicroK8s => format!(
                "put a line --fail-cgroupv1={to} into /var/snap/microk8s/current/args/kubelet, then microk8s stop \
                 and start"
            ),
            Self::EksNodeadm => format!(
                "set spec.kubelet.config.failCgroupV1 to {to} in the NodeConfig of the node's user data, and \
                 replace the node"
            ),
            Self::EksAl2 => {
                format!("set failCgroupV1: {to} in /etc/kubernetes/kubelet/kubelet-config.json")
            }
            Self::Aks => {
                "update the node image of the AKS node pool, and take away what turned its nodes back to \
                          cgroup v1"
                    .to_owned()
            }
            Self::OpenShift => {
                "set spec.cgroupMode of the cluster's nodes.config.openshift.io; never on the host".to_owned()
            }
            Self::Gke => "set linuxNodeConfig.cgroupMode of the GKE node pool".to_owned(),
            Self::Plain => format!("set failCgroupV1: {to} in the file that the kubelet's --config names"),
        }
    }
}

fn rancher(name: &str, to: bool) -> String {
    format!("put fail-cgroupv1={to} into kubelet-arg in /etc/rancher/{name}/config.yaml, then restart {name}")
}
