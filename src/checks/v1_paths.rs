//! Paths that are there on cgroup v1 alone, in what starts the kubelet and the runtime.

use crate::config::Settings;
use crate::facts::Facts;
use crate::kubelet::{Place, Source};
use crate::report::{Finding, Severity};

const ROOT: &str = "/sys/fs/cgroup/";

/// Directories of a v1 or hybrid tree; controllers mounted together have a name of both.
const ONLY_ON_V1: [&str; 15] = [
    "blkio",
    "cpu",
    "cpuacct",
    "cpuset",
    "devices",
    "freezer",
    "hugetlb",
    "memory",
    "net_cls",
    "net_prio",
    "perf_event",
    "pids",
    "rdma",
    "systemd",
    "unified",
];

pub(super) fn check(facts: &Facts, _: &Settings) -> Vec<Finding> {
    let sources = facts.kubelet_setup.sources().chain(&facts.runtime.sources);
    let mut found: Vec<(Place, String)> = sources.flat_map(mentions).collect();
    found.sort();
    found.dedup();
    if found.is_empty() { Vec::new() } else { vec![told(&found)] }
}

fn told(found: &[(Place, String)]) -> Finding {
    let lines: Vec<String> = found.iter().map(|(place, path)| format!("{place}: {path}")).collect();
    let finding = Finding::new(
        Severity::Blocker,
        "v1-paths-in-use",
        "the kubelet or the container runtime is started with paths of cgroup v1",
        format!("these are not there on cgroup v2: {}", lines.join("; ")),
    );
    let mut paths: Vec<_> = found.iter().map(|(place, _)| place.path.clone()).collect();
    paths.dedup();
    paths
        .into_iter()
        .fold(finding, Finding::about)
        .acceptable()
        .remedy("take these lines out or make them right for cgroup v2 (one tree, no directory a controller)")
}

/// Each path in lines that are no comment.
fn mentions(source: &Source) -> Vec<(Place, String)> {
    let mut found = Vec::new();
    let mut start = 0;
    for line in source.text.split_inclusive('\n') {
        if !line.trim_start().starts_with(['#', ';']) {
            found.extend(paths_in(line).map(|path| (source.place(start), path)));
        }
        start += line.len();
    }
    found
}

fn paths_in(line: &str) -> impl Iterator<Item = String> {
    line.split(ROOT).skip(1).filter_map(|rest| {
        let path: String = rest
            .chars()
            .take_while(|letter| !letter.is_whitespace() && !"\"'`;)".contains(*letter))
            .collect();
        let first = path.split('/').next().unwrap_or_default();
        first.split(',').all(|name| ONLY_ON_V1.contains(&name)).then(|| format!("{ROOT}{path}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_of_v1_and_none_of_v2() {
        let of = |line: &str| paths_in(line).collect::<Vec<_>>();
        assert_eq!(
            of("ExecStartPre=mkdir -p /sys/fs/cgroup/cpu,cpuacct/a \"/sys/fs/cgroup/pids\""),
            ["/sys/fs/cgroup/cpu,cpuacct/a", "/sys/fs/cgroup/pids"]
        );
        assert!(
            of("mkdir /sys/fs/cgroup/system.slice/x /sys/fs/cgroup/memory.max /sys/fs/cgroup/").is_empty()
        );
        assert!(mentions(&Source::new("/u", "# /sys/fs/cgroup/cpu/x\n")).is_empty());
    }
}
