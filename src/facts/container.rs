//! Whether this is the host at all. In a container everything can be read and nothing of it is about the host.

use std::path::Path;

use serde::{Deserialize, Serialize};

use super::kernel;
use crate::host::{Fs, Mount, Mounts};

/// Where the program stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Surroundings {
    /// On the host.
    Host,
    /// In a container: Docker, a pod, LXC, systemd-nspawn.
    Container,
    /// In the Windows Subsystem for Linux: the kernel command line is Windows' own.
    Wsl,
}

/// Where the program stands, and how that was found out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContainerFacts {
    /// Where.
    pub surroundings: Surroundings,
    /// What speaks for it.
    pub evidence: Vec<String>,
    /// Signs of a container that were found and not believed.
    pub notes: Vec<String>,
}

impl ContainerFacts {
    /// A tree that was given by name: where the program itself stands says nothing about it.
    #[must_use]
    pub fn of_a_tree() -> Self {
        facts(Surroundings::Host, Vec::new(), Vec::new())
    }
}

/// Looks for the marks that container managers leave.
#[must_use]
pub fn scan(fs: &dyn Fs, mounts: &dyn Mounts, table: &[Mount]) -> ContainerFacts {
    if let Some(release) = wsl_release(fs) {
        return facts(Surroundings::Wsl, vec![format!("the kernel is {release}")], Vec::new());
    }
    let mut evidence: Vec<String> =
        [named_by_manager(fs), foreign_pid2(fs), foreign_root(fs, mounts)].into_iter().flatten().collect();
    evidence.extend(cgroup_marks(fs, table));
    let marks = image_marks(fs);
    // A machine image made from a container image keeps the mark of its origin.
    if evidence.is_empty() && is_plain_host(fs, table) {
        let disbelieved = |mark| {
            format!("{mark}, but kernel threads are visible and / is a disk of its own: not a container")
        };
        return facts(Surroundings::Host, Vec::new(), marks.into_iter().map(disbelieved).collect());
    }
    evidence.extend(marks);
    let surroundings = if evidence.is_empty() { Surroundings::Host } else { Surroundings::Container };
    facts(surroundings, evidence, Vec::new())
}

fn facts(surroundings: Surroundings, evidence: Vec<String>, notes: Vec<String>) -> ContainerFacts {
    ContainerFacts { surroundings, evidence, notes }
}

fn wsl_release(fs: &dyn Fs) -> Option<String> {
    super::text(fs, kernel::RELEASE).filter(|release| kernel::is_of_wsl(release))
}

/// systemd's interface for containers: the manager sets `container=` for PID 1, which writes it down.
fn named_by_manager(fs: &dyn Fs) -> Option<String> {
    if let Some(name) = super::text(fs, "/run/systemd/container").filter(|name| !name.is_empty()) {
        return Some(format!("/run/systemd/container says {name}"));
    }
    let environment = super::text(fs, "/proc/1/environ")?;
    let name = environment
        .split('\0')
        .find_map(|entry| entry.strip_prefix("container="))
        .filter(|name| !name.is_empty())?;
    Some(format!("PID 1 was started with container={name}"))
}

/// PID 2 of a host is kthreadd; a PID namespace has no kernel threads.
fn foreign_pid2(fs: &dyn Fs) -> Option<String> {
    match super::text(fs, "/proc/2/comm") {
        Some(name) => {
            (name != "kthreadd").then(|| format!("PID 2 is {name} and not kthreadd: a PID namespace"))
        }
        // A /proc that hides others' processes hides PID 1 as well; a test tree need not have a PID 2.
        None if fs.root() == Path::new("/") => super::text(fs, "/proc/1/comm")
            .map(|_| "there is a PID 1 but no kthreadd: a PID namespace".to_owned()),
        None => None,
    }
}

/// With the host's PIDs in view, PID 1 can have another root directory than we do.
fn foreign_root(fs: &dyn Fs, mounts: &dyn Mounts) -> Option<String> {
    let is_same = mounts.same_for_pid1(Path::new("/")).ok().or_else(|| same_root_device(fs))?;
    (!is_same).then(|| "/ is another directory than PID 1's".to_owned())
}

/// What the mount tables say: they are open to everybody. Only the second choice, as they are long on a node with
/// many pods.
fn same_root_device(fs: &dyn Fs) -> Option<bool> {
    let own = root_device(&super::text(fs, "/proc/self/mountinfo")?)?;
    let pid1 = root_device(&super::text(fs, "/proc/1/mountinfo")?)?;
    Some(own == pid1)
}

/// Device number and directory of what is mounted on `/`. Not the mount's own number: services have private mount
/// namespaces on the host as well.
fn root_device(mountinfo: &str) -> Option<(String, String)> {
    let fields = |line: &str| line.split(' ').map(str::to_owned).collect::<Vec<_>>();
    let is_root = |fields: &Vec<String>| fields.get(4).is_some_and(|point| point == "/");
    let root = mountinfo.lines().map(fields).rfind(is_root)?;
    Some((root.get(2)?.clone(), root.get(3)?.clone()))
}

fn cgroup_marks(fs: &dyn Fs, table: &[Mount]) -> Vec<String> {
    let mut marks: Vec<String> = table.iter().filter_map(cgroup_mark).collect();
    marks.truncate(1);
    // The root of the real hierarchy has no such file.
    let files = ["/sys/fs/cgroup/cgroup.type", "/sys/fs/cgroup/unified/cgroup.type"];
    let typed = files.into_iter().find(|path| fs.exists(Path::new(path)));
    marks.extend(typed.map(|path| format!("{path} exists: /sys/fs/cgroup is not the root of the hierarchy")));
    marks
}

fn cgroup_mark(mount: &Mount) -> Option<String> {
    let point = mount.mount_point.display();
    match mount.fs_type.as_str() {
        // The host itself has it on /var/lib/lxcfs only.
        "fuse.lxcfs" if mount.mount_point.starts_with("/sys") || mount.mount_point.starts_with("/proc") => {
            Some(format!("{point} comes from lxcfs"))
        }
        "cgroup" | "cgroup2" if mount.mount_point.starts_with("/sys/fs/cgroup") && mount.root != "/" => {
            Some(format!("{point} shows {} and not the root of the hierarchy", mount.root))
        }
        _ => None,
    }
}

fn image_marks(fs: &dyn Fs) -> Vec<String> {
    let marks = ["/.dockerenv", "/run/.containerenv"].into_iter().filter(|path| fs.exists(Path::new(path)));
    marks.map(|path| format!("{path} exists")).collect()
}

/// The host's PIDs, and a root file system of the kind that disks have and container managers do not make.
fn is_plain_host(fs: &dyn Fs, table: &[Mount]) -> bool {
    const DISK: [&str; 7] = ["btrfs", "erofs", "ext3", "ext4", "f2fs", "squashfs", "xfs"];
    let has_kernel_threads = super::text(fs, "/proc/2/comm").is_some_and(|name| name == "kthreadd");
    let root = table.iter().rfind(|mount| mount.mount_point == Path::new("/"));
    let is_disk = root.is_some_and(|mount| {
        DISK.contains(&mount.fs_type.as_str())
            && !mount.root.contains("containers/")
            && !mount.root.contains("docker/")
    });
    has_kernel_threads && is_disk
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use crate::host::fake_mounts::FakeMounts;
    use crate::host::fs::RootedFs;

    const DISK: &str = "27 1 254:0 / / rw - ext4 /dev/vda rw\n";

    fn place(files: &[(&str, &str)], mountinfo: &str) -> Surroundings {
        let tree = tempfile::tempdir().unwrap();
        for (path, content) in files {
            let path = tree.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::io::Write::write_all(&mut std::fs::File::create(path).unwrap(), content.as_bytes()).unwrap();
        }
        let mounts = FakeMounts::from_text("", mountinfo).unwrap();
        scan(&RootedFs::new(tree.path()), &mounts, &mounts.table).surroundings
    }

    #[test]
    fn marks_of_containers() {
        use Surroundings::{Container, Host, Wsl};
        let threads = ("proc/2/comm", "kthreadd\n");
        assert_eq!(place(&[], ""), Host);
        assert_eq!(place(&[threads], DISK), Host);
        assert_eq!(place(&[(".dockerenv", "")], DISK), Container);
        assert_eq!(place(&[(".dockerenv", ""), threads], DISK), Host);
        assert_eq!(
            place(&[(".dockerenv", ""), threads], "27 1 0:50 / / rw - overlay overlay rw\n"),
            Container
        );
        assert_eq!(place(&[("run/.containerenv", "")], ""), Container);
        assert_eq!(place(&[("run/systemd/container", "lxc\n")], DISK), Container);
        assert_eq!(place(&[("proc/1/environ", "A=1\0container=podman\0")], DISK), Container);
        assert_eq!(place(&[("proc/1/environ", "A=1\0xcontainer=podman\0container=\0")], DISK), Host);
        assert_eq!(place(&[("proc/2/comm", "sh\n")], DISK), Container);
        assert_eq!(place(&[("sys/fs/cgroup/cgroup.type", "domain\n")], DISK), Container);
        assert_eq!(place(&[], "1 0 0:9 /../.. /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"), Container);
        assert_eq!(
            place(&[], "1 0 0:9 /kubepods /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"),
            Container
        );
        assert_eq!(place(&[("proc/sys/kernel/osrelease", "4.4.0-19041-Microsoft\n")], DISK), Wsl);
        assert_eq!(place(&[("proc/sys/kernel/osrelease", "6.8.0-1021-azure\n")], DISK), Host);
        assert_eq!(place(&[], "1 0 0:9 / /proc/cpuinfo rw - fuse.lxcfs lxcfs rw\n"), Container);
        assert_eq!(place(&[], "1 0 0:9 / /var/lib/lxcfs rw - fuse.lxcfs lxcfs rw\n"), Host);
    }

    #[test]
    fn another_root_than_that_of_pid1() {
        let tree = tempfile::tempdir().unwrap();
        let mounts = FakeMounts { elsewhere: [PathBuf::from("/")].into(), ..FakeMounts::default() };
        let found = scan(&RootedFs::new(tree.path()), &mounts, &[]);
        assert_eq!(found.surroundings, Surroundings::Container);
    }

    #[test]
    fn the_root_file_system_and_not_the_mount_is_compared() {
        let private = DISK.replace("27 ", "99 ");
        assert_eq!(root_device(DISK), root_device(&private));
        assert_ne!(root_device(DISK), root_device("30 1 0:44 / / rw - overlay overlay rw\n"));
        assert_eq!(root_device("1 0 0:1 / /proc rw - proc proc rw\n"), None);
    }
}
