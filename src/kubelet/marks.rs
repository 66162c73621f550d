//! What shows that this host is, or was, a node: processes, units, files.

use std::path::Path;

use super::flags::{self, Flag};
use super::source::{Place, Source, told};
use super::traced::Traced;
use crate::host::{Fs, FsError, UNIT_DIRECTORIES};

/// Process names of programs that are, or contain, a kubelet. The kernel cuts them at 15 bytes.
const PROCESS_NAMES: [&str; 7] = ["kubelet", "k3s", "k3s-server", "k3s-agent", "rke2", "kubelite", "k0s"];

/// Unit files of the same.
const UNITS: [&str; 2] = ["kubelet.service", "snap.microk8s.daemon-kubelite.service"];

/// How others begin: `k3s-agent.service`, `rke2-server.service`, `k0sworker.service`.
const UNIT_BEGINNINGS: [&str; 3] = ["k3s", "rke2", "k0s"];

/// Files and directories that a node has, and a host that never was one has not.
const TRACES: [&str; 4] =
    ["/var/lib/kubelet/config.yaml", "/var/lib/rancher/k3s", "/var/lib/rancher/rke2", "/var/lib/k0s"];

/// A process that is, or contains, a kubelet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Process {
    /// Its number.
    pub pid: u32,
    /// Its name.
    pub name: String,
}

/// All of them.
///
/// # Errors
/// Where `/proc` cannot be read, or shows nobody at all.
pub fn processes(fs: &dyn Fs) -> Result<Vec<Process>, String> {
    let names = fs.list(Path::new("/proc")).map_err(told)?;
    let pids: Vec<u32> = names.iter().filter_map(|name| name.parse().ok()).collect();
    if pids.is_empty() {
        return Err("/proc shows no process at all".to_owned());
    }
    // A process that has ended since is none.
    let named = pids
        .into_iter()
        .filter_map(|pid| Some(Process { name: read(fs, pid, "comm")?.trim().to_owned(), pid }));
    Ok(named.filter(|process| PROCESS_NAMES.contains(&process.name.as_str())).collect())
}

fn read(fs: &dyn Fs, pid: u32, file: &str) -> Option<String> {
    let bytes = fs.read(&Path::new("/proc").join(pid.to_string()).join(file)).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

/// The flags of the kubelet that runs; `None` if none does, or only one within another program. Anybody can give his
/// process this name, and a container may have a kubelet of its own: it counts if it is root's, in the host's own
/// process namespace.
#[must_use]
pub fn running_flags(fs: &dyn Fs) -> Option<Vec<Flag>> {
    let found = processes(fs).ok()?;
    let own = found.iter().find(|process| process.name == "kubelet" && is_the_hosts_own(fs, process.pid))?;
    let words: Vec<String> = read(fs, own.pid, "cmdline")?.split('\0').map(str::to_owned).collect();
    let words: Vec<Traced> = words.iter().map(|word| Traced::literal(word, 0)).collect();
    let source = Source::new(format!("/proc/{}/cmdline", own.pid), "");
    let mut flags = flags::among(&words, &source);
    for flag in &mut flags {
        flag.spot = None;
        flag.place = Place { path: source.path.clone(), line: 1 };
    }
    Some(flags)
}

fn is_the_hosts_own(fs: &dyn Fs, pid: u32) -> bool {
    let Some(status) = read(fs, pid, "status") else { return false };
    let values = |name: &str| -> Vec<String> {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        line.unwrap_or_default().split_whitespace().map(str::to_owned).collect()
    };
    values("Uid:").iter().all(|uid| uid == "0") && !values("Uid:").is_empty() && values("NSpid:").len() <= 1
}

/// Names of the unit files, sorted, without masked ones.
///
/// # Errors
/// Where a directory cannot be read.
pub fn units(fs: &dyn Fs) -> Result<Vec<String>, FsError> {
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
    Ok(names)
}

fn is_of_a_node(name: &str) -> bool {
    UNITS.contains(&name)
        || name.ends_with(".service") && UNIT_BEGINNINGS.iter().any(|beginning| name.starts_with(beginning))
}

/// Files and directories of a node that are there.
pub fn traces(fs: &dyn Fs) -> impl Iterator<Item = &'static str> {
    TRACES.into_iter().filter(|path| fs.exists(Path::new(path)))
}
