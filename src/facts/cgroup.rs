//! The cgroup hierarchy in use, as systemd itself finds it out (`cg_unified_cached()`, v252
//! src/basic/cgroup-util.c): by the kinds of file systems that are mounted at three places. Neither the kernel
//! command line nor a cgroup2 mount anywhere else counts.

use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::boot::hierarchy::Hierarchy;
use crate::host::mounts::{CGROUP1_MAGIC, CGROUP2_MAGIC, SYSFS_MAGIC, TMPFS_MAGIC, magic_in_table};
use crate::host::{Fs, Mount, Mounts};

const ROOT: &str = "/sys/fs/cgroup";
const UNIFIED: &str = "/sys/fs/cgroup/unified";
const SYSTEMD: &str = "/sys/fs/cgroup/systemd";

/// What the kernel may list in the options of a v1 mount.
const CONTROLLERS: [&str; 14] = [
    "blkio",
    "cpu",
    "cpuacct",
    "cpuset",
    "debug",
    "devices",
    "freezer",
    "hugetlb",
    "memory",
    "misc",
    "net_cls",
    "net_prio",
    "perf_event",
    "pids",
];
/// Controllers that a Kubernetes node cannot do without. Freezer and devices have no controller in v2.
pub const REQUIRED_CONTROLLERS: [&str; 4] = ["cpu", "cpuset", "memory", "pids"];

/// The two hybrid layouts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum HybridLayout {
    /// cgroup2 on `/sys/fs/cgroup/unified`: systemd 233 and later.
    Unified,
    /// cgroup2 on `/sys/fs/cgroup/systemd`: systemd 232.
    Systemd232,
}

/// The hierarchy and its controllers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CgroupFacts {
    /// The hierarchy; unknown is an answer of its own, `why` has the reason.
    pub hierarchy: Hierarchy,
    /// Which of the hybrid layouts, if hybrid.
    pub hybrid_layout: Option<HybridLayout>,
    /// What was found that leads to this answer.
    pub why: String,
    /// Controllers that are mounted as v1; `None` if the mount table could not be read.
    pub v1_controllers: Option<Vec<String>>,
    /// Controllers that the v2 mount has; `None` if there is one and it could not be asked.
    pub v2_controllers: Option<Vec<String>>,
    /// Those of cpu, cpuset, memory and pids that cannot be used; `None` if that could not be found out.
    pub missing_controllers: Option<Vec<String>>,
    /// cgroup2 mounts elsewhere (Cilium, Calico): they say nothing about the hierarchy.
    pub other_cgroup2_mounts: Vec<PathBuf>,
    /// What else was noticed.
    pub notes: Vec<String>,
}

/// An answer and where the v2 mount of this layout is.
struct Found {
    hierarchy: Hierarchy,
    layout: Option<HybridLayout>,
    v2_mount: Option<&'static str>,
    why: String,
}

impl Found {
    fn new(hierarchy: Hierarchy, v2_mount: Option<&'static str>, why: impl Into<String>) -> Self {
        Self { hierarchy, layout: None, v2_mount, why: why.into() }
    }

    fn hybrid(layout: HybridLayout, v2_mount: &'static str, why: &str) -> Self {
        Self { layout: Some(layout), ..Self::new(Hierarchy::Hybrid, Some(v2_mount), why) }
    }
}

impl CgroupFacts {
    /// Controllers that limits work on today: those of v1 on a v1 host, those of the v2 mount on a unified one.
    #[must_use]
    pub fn usable_controllers(&self) -> Vec<String> {
        let usable = match self.hierarchy {
            Hierarchy::Unified => &self.v2_controllers,
            Hierarchy::Legacy | Hierarchy::Hybrid | Hierarchy::Unknown => &self.v1_controllers,
        };
        usable.clone().unwrap_or_default()
    }
}

/// Finds out the hierarchy. `table` is [`Mounts::table`], which is long on a node with many pods: whoever has read it
/// hands it in.
#[must_use]
pub fn scan(fs: &dyn Fs, mounts: &dyn Mounts, table: &io::Result<Vec<Mount>>) -> CgroupFacts {
    let found = find(mounts).unwrap_or_else(|error| {
        Found::new(
            Hierarchy::Unknown,
            None,
            format!("what is mounted on {ROOT} could not be found out: {error}"),
        )
    });
    let mut notes = Vec::new();
    let read = table
        .as_deref()
        .inspect_err(|error| notes.push(format!("the mount table could not be read: {error}")))
        .ok();
    let v1_controllers = read.map(v1_controllers);
    let table = read.unwrap_or_default();
    notes.extend(disagreement(mounts, table));
    let v2 = v2_controllers(fs, found.v2_mount);
    CgroupFacts {
        hierarchy: found.hierarchy,
        hybrid_layout: found.layout,
        why: found.why,
        missing_controllers: missing(found.hierarchy, v1_controllers.as_deref(), v2.as_deref()),
        v1_controllers,
        v2_controllers: v2,
        other_cgroup2_mounts: other_cgroup2_mounts(table, found.v2_mount),
        notes,
    }
}

fn find(mounts: &dyn Mounts) -> io::Result<Found> {
    let root = mounts.magic(Path::new(ROOT))?;
    Ok(match root {
        Some(CGROUP2_MAGIC) => Found::new(Hierarchy::Unified, Some(ROOT), format!("{ROOT} is cgroup2")),
        Some(TMPFS_MAGIC) => return below_tmpfs(mounts),
        Some(SYSFS_MAGIC) => unknown(format!("{ROOT} is sysfs: no hierarchy is mounted there")),
        Some(other) => unknown(format!("{ROOT} is neither cgroup2 nor tmpfs (file system 0x{other:x})")),
        None => unknown(format!("nothing is known to be mounted on {ROOT}")),
    })
}

fn unknown(why: String) -> Found {
    Found::new(Hierarchy::Unknown, None, why)
}

fn below_tmpfs(mounts: &dyn Mounts) -> io::Result<Found> {
    if mounts.magic(Path::new(UNIFIED))? == Some(CGROUP2_MAGIC) {
        let why = "/sys/fs/cgroup is tmpfs with v1 hierarchies, and cgroup2 is beside them on /sys/fs/cgroup/unified";
        return Ok(Found::hybrid(HybridLayout::Unified, UNIFIED, why));
    }
    Ok(match mounts.magic(Path::new(SYSTEMD))? {
        Some(CGROUP2_MAGIC) => {
            let why = "/sys/fs/cgroup is tmpfs with v1 hierarchies, and cgroup2 is on /sys/fs/cgroup/systemd (systemd 232)";
            Found::hybrid(HybridLayout::Systemd232, SYSTEMD, why)
        }
        Some(CGROUP1_MAGIC) => {
            let why = "/sys/fs/cgroup is tmpfs and /sys/fs/cgroup/systemd is cgroup v1";
            Found::new(Hierarchy::Legacy, None, why)
        }
        // systemd 239 and later say legacy here as well, whatever it is.
        Some(_) => {
            Found::new(Hierarchy::Legacy, None, "/sys/fs/cgroup is tmpfs without any cgroup2 for systemd")
        }
        None => unknown(format!(
            "{ROOT} is tmpfs, but has neither unified nor systemd in it: not systemd's layout"
        )),
    })
}

/// The mount table is only the second witness: statfs says what a program will really meet.
fn disagreement(mounts: &dyn Mounts, table: &[Mount]) -> Option<String> {
    let root = Path::new(ROOT);
    let asked = mounts.magic(root).ok().flatten()?;
    let listed = magic_in_table(table, root)?;
    (asked != listed).then(|| {
        format!("statfs of {ROOT} says 0x{asked:x}, the mount table 0x{listed:x}: statfs is believed")
    })
}

fn v1_controllers(table: &[Mount]) -> Vec<String> {
    let options = table.iter().filter(|mount| mount.fs_type == "cgroup").flat_map(|mount| &mount.options);
    let mut names: Vec<String> =
        options.filter(|name| CONTROLLERS.contains(&name.as_str())).cloned().collect();
    names.sort();
    names.dedup();
    names
}

/// Controllers of the v2 mount; `None` if there is one and it could not be read.
fn v2_controllers(fs: &dyn Fs, v2_mount: Option<&str>) -> Option<Vec<String>> {
    let Some(mount) = v2_mount else { return Some(Vec::new()) };
    let text = super::text(fs, &format!("{mount}/cgroup.controllers"))?;
    Some(text.split_whitespace().map(str::to_owned).collect())
}

/// On v1 only what is mounted as v1 counts: a hybrid host whose kernel lacks the v1 side lists the controller on its v2
/// mount, where neither systemd nor a runtime looks for it (seen on Debian 13 forced to v1: memory and cpuset).
fn missing(hierarchy: Hierarchy, v1: Option<&[String]>, v2: Option<&[String]>) -> Option<Vec<String>> {
    let usable = match hierarchy {
        Hierarchy::Legacy | Hierarchy::Hybrid => v1?,
        Hierarchy::Unified => v2?,
        Hierarchy::Unknown => return None,
    };
    let is_missing = |name: &&str| !usable.iter().any(|have| have == name);
    Some(REQUIRED_CONTROLLERS.into_iter().filter(is_missing).map(str::to_owned).collect())
}

fn other_cgroup2_mounts(table: &[Mount], v2_mount: Option<&str>) -> Vec<PathBuf> {
    let is_other = |mount: &&Mount| {
        mount.fs_type == "cgroup2" && v2_mount.is_none_or(|own| mount.mount_point != Path::new(own))
    };
    table.iter().filter(is_other).map(|mount| mount.mount_point.clone()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::fake_mounts::FakeMounts;
    use crate::host::fs::RootedFs;

    fn facts(statfs: &str, mountinfo: &str) -> CgroupFacts {
        let tree = tempfile::tempdir().unwrap();
        let mounts = FakeMounts::from_text(statfs, mountinfo).unwrap();
        scan(&RootedFs::new(tree.path()), &mounts, &mounts.table())
    }

    #[test]
    fn the_rules_of_systemd() {
        const CG2: &str = "0x63677270";
        const CG1: &str = "0x27e0eb";
        const TMP: &str = "0x01021994";
        for (root, unified, systemd, expected) in [
            (CG2, "", "", Hierarchy::Unified),
            (CG2, CG2, "", Hierarchy::Unified),
            (TMP, CG2, CG1, Hierarchy::Hybrid),
            (TMP, TMP, CG2, Hierarchy::Hybrid),
            (TMP, "", CG2, Hierarchy::Hybrid),
            (TMP, "", CG1, Hierarchy::Legacy),
            (TMP, TMP, TMP, Hierarchy::Legacy),
            (TMP, "", "", Hierarchy::Unknown),
            ("0x62656572", "", "", Hierarchy::Unknown),
            ("0xef53", CG2, "", Hierarchy::Unknown),
            ("", CG2, CG1, Hierarchy::Unknown),
        ] {
            let line = |path: &str, magic: &str| {
                if magic.is_empty() { String::new() } else { format!("{path} x {magic}\n") }
            };
            let statfs = line(ROOT, root) + &line(UNIFIED, unified) + &line(SYSTEMD, systemd);
            let facts = facts(&statfs, "");
            assert_eq!(facts.hierarchy, expected, "{statfs}: {}", facts.why);
        }
    }

    #[test]
    fn controllers_and_foreign_mounts_come_from_the_table() {
        let facts = facts(
            "/sys/fs/cgroup tmpfs 0x01021994",
            "1 0 0:1 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n\
             2 1 0:2 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,name=systemd\n\
             3 1 0:3 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n\
             4 1 0:4 / /run/cilium/cgroupv2 rw - cgroup2 none rw\n",
        );
        assert_eq!(facts.hierarchy, Hierarchy::Legacy);
        assert_eq!(facts.v1_controllers.unwrap(), ["cpu", "cpuacct"]);
        assert_eq!(facts.missing_controllers.unwrap(), ["cpuset", "memory", "pids"]);
        assert_eq!(facts.other_cgroup2_mounts, [PathBuf::from("/run/cilium/cgroupv2")]);
    }

    #[test]
    fn statfs_beats_the_table() {
        let facts =
            facts("/sys/fs/cgroup cgroup2 0x63677270", "1 0 0:1 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n");
        assert_eq!(facts.hierarchy, Hierarchy::Unified);
        assert_eq!(facts.notes.len(), 1);
        assert_eq!(facts.missing_controllers, None);
    }
}
