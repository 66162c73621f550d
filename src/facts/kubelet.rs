//! Whether this host is a node of a Kubernetes cluster. A kubelet that runs is one sign among others: one that
//! refuses cgroup v1 (1.35 and later) is in a loop of crashes, and not there at the moment somebody looks, while the
//! pods it started run on.

use std::path::Path;

use serde::Serialize;

use super::resume_unit::UNIT_DIRECTORIES;
use crate::host::{Fs, FsError};

/// Process names of programs that are, or contain, a kubelet. The kernel cuts them at 15 bytes.
const PROCESS_NAMES: [&str; 7] = ["kubelet", "k3s", "k3s-server", "k3s-agent", "rke2", "kubelite", "k0s"];

/// Unit files of the same.
const UNITS: [&str; 2] = ["kubelet.service", "snap.microk8s.daemon-kubelite.service"];

/// How others begin: `k3s-agent.service`, `rke2-server.service`, `k0sworker.service`.
const UNIT_BEGINNINGS: [&str; 3] = ["k3s", "rke2", "k0s"];

/// Files and directories that a node has, and a host that never was one has not.
const TRACES: [&str; 4] =
    ["/var/lib/kubelet/config.yaml", "/var/lib/rancher/k3s", "/var/lib/rancher/rke2", "/var/lib/k0s"];

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
    found.extend(units(fs).map_err(super::said)?);
    found.extend(
        TRACES.into_iter().filter(|path| fs.exists(Path::new(path))).map(|path| format!("{path} exists")),
    );
    Ok(KubeletFacts { found })
}

/// The running process that is, or contains, a kubelet.
fn process(fs: &dyn Fs) -> Result<Option<String>, String> {
    let names = fs.list(Path::new("/proc")).map_err(super::said)?;
    let processes: Vec<u32> = names.iter().filter_map(|name| name.parse().ok()).collect();
    if processes.is_empty() {
        return Err("/proc shows no process at all".to_owned());
    }
    for pid in processes {
        let name = pid.to_string();
        // A process that has ended since is none.
        let Ok(command) = fs.read(&Path::new("/proc").join(&name).join("comm")) else { continue };
        let command = String::from_utf8_lossy(&command).trim().to_owned();
        if PROCESS_NAMES.contains(&command.as_str()) {
            return Ok(Some(format!("{command} runs (process {pid})")));
        }
    }
    Ok(None)
}

fn pods(fs: &dyn Fs) -> Result<Option<String>, FsError> {
    let pods = fs.list(Path::new(PODS))?.len();
    Ok((pods > 0).then(|| format!("{PODS} has {pods} pods")))
}

fn units(fs: &dyn Fs) -> Result<Vec<String>, FsError> {
    let mut names: Vec<String> = Vec::new();
    let mut masked: Vec<String> = Vec::new();
    for directory in UNIT_DIRECTORIES {
        for name in fs.list(Path::new(directory))?.into_iter().filter(|name| is_of_a_node(name)) {
            let leads_nowhere = fs.resolve(&Path::new(directory).join(&name))? == Path::new("/dev/null");
            let into = if leads_nowhere { &mut masked } else { &mut names };
            into.push(name);
        }
    }
    names.sort();
    names.dedup();
    names.retain(|name| !masked.contains(name));
    Ok(names.into_iter().map(|name| format!("there is a unit {name}")).collect())
}

fn is_of_a_node(name: &str) -> bool {
    UNITS.contains(&name)
        || name.ends_with(".service") && UNIT_BEGINNINGS.iter().any(|beginning| name.starts_with(beginning))
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
