//! Whether this host is a node of a Kubernetes cluster. A kubelet that runs is one sign among others: one that
//! refuses cgroup v1 (1.35 and later) is in a loop of crashes, and not there at the moment somebody looks, while the
//! pods it started run on.

use std::path::Path;

use serde::Serialize;

use crate::host::{Fs, FsError, Host, Invocation};
use crate::kubelet::{Owner, Setup, Version, marks};

/// Where the directory of each pod of a node is.
const PODS: &str = "/var/lib/kubelet/pods";

/// Everything that speaks for a node.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct KubeletFacts {
    /// What was found, in words, the surest first; empty if this is no node.
    pub found: Vec<String>,
}

/// Looks for a kubelet and its traces.
///
/// # Errors
/// Where a directory is there and cannot be read, and where `/proc` shows nobody at all.
pub fn scan(fs: &dyn Fs) -> Result<KubeletFacts, String> {
    let mut found: Vec<String> = process(fs)?.into_iter().collect();
    found.extend(pods(fs).map_err(super::said)?);
    let units = marks::units(fs).map_err(super::said)?;
    found.extend(units.into_iter().map(|name| format!("there is a unit {name}")));
    found.extend(marks::traces(fs).map(|path| format!("{path} exists")));
    Ok(KubeletFacts { found })
}

/// How the kubelet is set up; of a tree, with `running` false, without its release.
#[must_use]
pub fn setup(host: Host<'_>, running: bool) -> Setup {
    let mut setup = Setup::read(host.fs, running);
    if running && setup.has_a_kubelet() {
        setup.version = version(host, &setup);
    }
    setup
}

/// What the program itself says: that of the unit, or the one on the PATH. The one of the running process is not asked:
/// anybody can give a process a name, and this would start his program as root.
fn version(host: Host<'_>, setup: &Setup) -> Option<Version> {
    let program = match setup.owner {
        Owner::K3s => "k3s",
        Owner::Rke2 => "rke2",
        // They carry it within, or say nothing of it.
        Owner::K0s | Owner::MicroK8s => return None,
        Owner::Kubeadm
        | Owner::EksNodeadm
        | Owner::EksAl2
        | Owner::Aks
        | Owner::OpenShift
        | Owner::Gke
        | Owner::Plain => setup.program.as_deref().unwrap_or("kubelet"),
    };
    let invocation = Invocation {
        argv: [program, "--version"].map(str::to_owned).to_vec(),
        time_limit: std::time::Duration::from_secs(10),
        changes_host: false,
    };
    let finished = host.runner.run(&invocation).ok()?;
    Version::parse(&String::from_utf8_lossy(&finished.stdout))
}

/// The running process that is, or contains, a kubelet.
fn process(fs: &dyn Fs) -> Result<Option<String>, String> {
    let first = marks::processes(fs)?.into_iter().next();
    Ok(first.map(|process| format!("{} runs (process {})", process.name, process.pid)))
}

fn pods(fs: &dyn Fs) -> Result<Option<String>, FsError> {
    let pods = fs.list(Path::new(PODS))?.len();
    Ok((pods > 0).then(|| format!("{PODS} has {pods} pods")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::fs::RootedFs;

    fn found(files: &[(&str, &str)]) -> Vec<String> {
        let tree = tempfile::tempdir().unwrap();
        for (path, content) in files.iter().chain(&[("proc/1/comm", "systemd\n")]) {
            let path = tree.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::io::Write::write_all(&mut std::fs::File::create(path).unwrap(), content.as_bytes()).unwrap();
        }
        scan(&RootedFs::new(tree.path())).unwrap().found
    }

    #[test]
    fn a_kubelet_that_runs() {
        assert_eq!(found(&[("proc/7/comm", "kubelet\n")]), ["kubelet runs (process 7)"]);
        assert!(found(&[("proc/7/comm", "kubelet-exporter\n"), ("proc/self/comm", "kubelet\n")]).is_empty());
    }

    #[test]
    fn a_kubelet_that_does_not_run_right_now() {
        assert_eq!(found(&[("lib/systemd/system/kubelet.service", "")]), ["there is a unit kubelet.service"]);
        for unit in [
            "k3s.service",
            "k3s-agent.service",
            "rke2-server.service",
            "k0sworker.service",
            "snap.microk8s.daemon-kubelite.service",
        ] {
            assert_eq!(
                found(&[(&format!("etc/systemd/system/{unit}"), "")]),
                [format!("there is a unit {unit}")]
            );
        }
        assert_eq!(found(&[("var/lib/kubelet/pods/1/etc-hosts", "")]), ["/var/lib/kubelet/pods has 1 pods"]);
        assert_eq!(found(&[("var/lib/kubelet/config.yaml", "")]), ["/var/lib/kubelet/config.yaml exists"]);
        assert_eq!(found(&[("var/lib/rancher/k3s/agent/x", "")]), ["/var/lib/rancher/k3s exists"]);
    }

    #[test]
    fn what_is_no_node() {
        assert!(found(&[]).is_empty());
        assert!(found(&[("etc/systemd/system/kubelet-exporter.service", "")]).is_empty());
        let tree = tempfile::tempdir().unwrap();
        let directory = tree.path().join("etc/systemd/system");
        std::fs::create_dir_all(&directory).unwrap();
        std::fs::create_dir_all(tree.path().join("proc/1")).unwrap();
        std::os::unix::fs::symlink("/dev/null", directory.join("kubelet.service")).unwrap();
        assert!(scan(&RootedFs::new(tree.path())).unwrap().found.is_empty());
    }

    #[test]
    fn what_cannot_be_read_is_not_known() {
        let tree = tempfile::tempdir().unwrap();
        assert!(scan(&RootedFs::new(tree.path())).is_err());
        std::fs::File::create(tree.path().join("proc")).unwrap();
        assert!(scan(&RootedFs::new(tree.path())).is_err());
    }
}
