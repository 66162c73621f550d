//! The real [`Mounts`]: of the running host, or what a mounted tree says about its own.

use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::sys::statfs::statfs;
use procfs::process::MountInfo;

use super::{Mount, Mounts};

/// A cgroup v2 mount.
pub const CGROUP2_MAGIC: u32 = 0x6367_7270;
/// A cgroup v1 mount.
pub const CGROUP1_MAGIC: u32 = 0x0027_e0eb;
/// tmpfs: what v1 hierarchies are mounted in.
pub const TMPFS_MAGIC: u32 = 0x0102_1994;
/// sysfs: what shows on `/sys/fs/cgroup` when nothing is mounted there.
pub const SYSFS_MAGIC: u32 = 0x6265_6572;

/// Of the running host, in PID 1's mount namespace where that can be looked into; else in our own.
#[derive(Debug)]
pub struct LiveMounts {
    /// Put in front of a path to get to PID 1's view.
    view: PathBuf,
}

impl LiveMounts {
    /// Looks whether PID 1's view is open to us.
    #[must_use]
    pub fn new() -> Self {
        let pid1 = Path::new("/proc/1/root/proc");
        Self { view: PathBuf::from(if pid1.exists() { "/proc/1/root" } else { "/" }) }
    }

    /// True if answers are about PID 1's mounts, false if about our own.
    #[must_use]
    pub fn sees_pid1(&self) -> bool {
        self.view != Path::new("/")
    }
}

impl Default for LiveMounts {
    fn default() -> Self {
        Self::new()
    }
}

impl Mounts for LiveMounts {
    fn magic(&self, path: &Path) -> io::Result<Option<u32>> {
        magic_of(&below(&self.view, path))
    }

    fn table(&self) -> io::Result<Vec<Mount>> {
        let process = if self.sees_pid1() { "/proc/1/mountinfo" } else { "/proc/self/mountinfo" };
        parse_mountinfo(&std::fs::read_to_string(process)?)
    }

    /// By device and inode, not by the mount: services have mounts of their own of the same directories.
    fn same_for_pid1(&self, path: &Path) -> io::Result<bool> {
        if !self.sees_pid1() {
            let why = "/proc/1/root is closed to this process";
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
        }
        for place in path.ancestors() {
            let both = (identity(place)?, identity(&below(&self.view, place))?);
            if both != (None, None) {
                return Ok(both.0 == both.1);
            }
        }
        Ok(true)
    }
}

/// Device and inode; `None` if there is nothing.
fn identity(path: &Path) -> io::Result<Option<(u64, u64)>> {
    match path.metadata() {
        Ok(found) => Ok(Some((found.dev(), found.ino()))),
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// Of a tree given by name. A mounted host root has the host's `/proc` in it, and with it PID 1's mount table; an
/// image has none, and then the answer is that it is not known.
#[derive(Debug)]
pub struct TreeMounts {
    root: PathBuf,
}

impl TreeMounts {
    /// Mounts of the host whose root is mounted at `root`.
    #[must_use]
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }
}

impl Mounts for TreeMounts {
    fn magic(&self, path: &Path) -> io::Result<Option<u32>> {
        match self.table() {
            Ok(table) => Ok(magic_in_table(&table, path)),
            Err(_) => mounted_magic(&below(&self.root, path)),
        }
    }

    fn table(&self) -> io::Result<Vec<Mount>> {
        let text = ["proc/1/mountinfo", "proc/self/mountinfo"]
            .into_iter()
            .find_map(|name| std::fs::read_to_string(self.root.join(name)).ok())
            .ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "no mount table in this tree"))?;
        parse_mountinfo(&text)
    }

    /// Of a tree there is no other view than the one that was given.
    fn same_for_pid1(&self, _: &Path) -> io::Result<bool> {
        Ok(true)
    }
}

fn below(root: &Path, path: &Path) -> PathBuf {
    root.join(path.strip_prefix("/").unwrap_or(path))
}

fn magic_of(path: &Path) -> io::Result<Option<u32>> {
    match statfs(path) {
        // The type of the number differs between architectures (signed, unsigned, 32 and 64 bit); the low 32 bits
        // are the number everywhere.
        Ok(answer) => Ok(Some(answer.filesystem_type().0 as u32)),
        Err(Errno::ENOENT | Errno::ENOTDIR) => Ok(None),
        Err(errno) => Err(errno.into()),
    }
}

/// Only what is really a mount in the tree: a plain directory there says something about the file system that the
/// tree is kept on, nothing about the host.
fn mounted_magic(path: &Path) -> io::Result<Option<u32>> {
    let is_mount = path.parent().is_some_and(|parent| match (path.metadata(), parent.metadata()) {
        (Ok(here), Ok(above)) => here.dev() != above.dev(),
        _ => false,
    });
    if is_mount { magic_of(path) } else { Ok(None) }
}

/// Reads the text of a `mountinfo` file.
///
/// # Errors
/// [`io::ErrorKind::InvalidData`], with the line.
pub fn parse_mountinfo(text: &str) -> io::Result<Vec<Mount>> {
    text.lines().filter(|line| !line.trim().is_empty()).map(parse_mount).collect()
}

fn parse_mount(line: &str) -> io::Result<Mount> {
    let info = MountInfo::from_line(line).map_err(|error| {
        io::Error::new(
            io::ErrorKind::InvalidData,
            format!("read the mount table: cannot understand `{line}`: {error}"),
        )
    })?;
    let mut options: Vec<String> =
        info.mount_options.into_iter().chain(info.super_options).map(option).collect();
    options.sort();
    options.dedup();
    let mount_point = PathBuf::from(unescape(&info.mount_point.to_string_lossy()));
    Ok(Mount { root: unescape(&info.root), mount_point, fs_type: info.fs_type, options })
}

fn option((name, value): (String, Option<String>)) -> String {
    value.map_or_else(|| name.clone(), |value| format!("{name}={value}"))
}

/// The kernel writes blanks, newlines and backslashes in paths as `\040`.
fn unescape(text: &str) -> String {
    [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")]
        .into_iter()
        .fold(text.to_owned(), |text, (escaped, plain)| text.replace(escaped, plain))
}

/// Magic number of what a mount table says is mounted exactly at `path`, or `None` if that is nothing: what was
/// mounted on a directory above later on covers it.
#[must_use]
pub fn magic_in_table(table: &[Mount], path: &Path) -> Option<u32> {
    let last = table.iter().rfind(|mount| path.starts_with(&mount.mount_point))?;
    if last.mount_point == path { magic_of_type(&last.fs_type) } else { None }
}

fn magic_of_type(fs_type: &str) -> Option<u32> {
    match fs_type {
        "cgroup2" => Some(CGROUP2_MAGIC),
        "cgroup" => Some(CGROUP1_MAGIC),
        "tmpfs" => Some(TMPFS_MAGIC),
        "sysfs" => Some(SYSFS_MAGIC),
        // Something is there; which number it has does not matter here.
        _ => Some(0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_later_mount_covers_an_earlier_one() {
        let table = parse_mountinfo(
            "1 0 0:1 / /sys rw - sysfs sysfs rw\n\
             2 1 0:2 / /sys/fs/cgroup rw shared:9 - tmpfs tmpfs rw,mode=755\n\
             3 2 0:3 / /sys/fs/cgroup/unified rw - cgroup2 none rw,nsdelegate\n\
             4 1 0:4 /a\\040b /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n",
        )
        .unwrap();
        let magic = |path: &str| magic_in_table(&table, Path::new(path));
        assert_eq!(magic("/sys/fs/cgroup"), Some(CGROUP2_MAGIC));
        assert_eq!(magic("/sys/fs/cgroup/unified"), None);
        assert_eq!(magic("/sys"), Some(SYSFS_MAGIC));
        assert_eq!(table[3].root, "/a b");
        assert!(table[1].options.contains(&"mode=755".to_owned()));
    }

    #[test]
    fn the_same_file_and_not_the_same_name() {
        let (own, pid1) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let mounts = LiveMounts { view: pid1.path().to_owned() };
        let seen_by_pid1 = below(pid1.path(), own.path());
        std::fs::create_dir_all(&seen_by_pid1).unwrap();
        for name in ["same", "other", "ours"] {
            std::fs::File::create(own.path().join(name)).unwrap();
        }
        std::fs::hard_link(own.path().join("same"), seen_by_pid1.join("same")).unwrap();
        std::fs::File::create(seen_by_pid1.join("other")).unwrap();
        std::fs::File::create(seen_by_pid1.join("theirs")).unwrap();
        let is_same = |name: &str| mounts.same_for_pid1(&own.path().join(name)).unwrap();
        let same = ["same", "other", "ours", "theirs", "neither"].map(is_same);
        assert_eq!(same, [true, false, false, false, false], "where neither has it, the directory counts");
        assert!(LiveMounts { view: "/".into() }.same_for_pid1(own.path()).is_err(), "that view is our own");
    }

    #[test]
    fn a_broken_table_is_an_error_that_shows_the_line() {
        let error = parse_mountinfo("what is this").unwrap_err().to_string();
        assert!(error.contains("what is this"), "{error}");
    }

    #[test]
    fn a_plain_directory_in_a_tree_says_nothing() {
        let tree = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(tree.path().join("sys/fs/cgroup")).unwrap();
        let mounts = TreeMounts::new(tree.path());
        assert_eq!(mounts.magic(Path::new("/sys/fs/cgroup")).unwrap(), None);
        assert!(mounts.table().is_err());
    }
}
