//! PID 1 and systemd: its version and the hierarchy it was built to prefer, found without running anything. A
//! program from a tree given with `--root` may not even run here.

use std::io::{self, Read};
use std::path::Path;

use memchr::memmem;
use serde::{Deserialize, Serialize};

use super::os;
use crate::boot::hierarchy::{Decision, Hierarchy, decide, upstream_default};
use crate::host::Fs;

mod distribution;

/// What is known of the init system.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SystemdFacts {
    /// Name of PID 1, if it can be read.
    pub pid1: Option<String>,
    /// Version of the systemd that is installed.
    pub version: Option<u32>,
    /// The version was read off the host; otherwise it is what the distribution ships, an assumption.
    pub version_read: bool,
    /// The hierarchy it makes when nothing asks for another.
    pub default_hierarchy: Hierarchy,
    /// Where both were found, in words.
    pub origin: String,
}

impl SystemdFacts {
    /// True if PID 1 is known to be something else.
    #[must_use]
    pub fn is_another_init(&self) -> bool {
        self.pid1.as_deref().is_some_and(|name| name != "systemd")
    }

    /// What this systemd makes of a kernel command line.
    #[must_use]
    pub fn decide(&self, line: &str) -> Decision {
        decide(line, self.version.unwrap_or(ASSUMED_SYSTEMD), self.default_hierarchy)
    }
}

/// The version by which a line is judged where none is known: the rules are the same from 240 to 255.
pub const ASSUMED_SYSTEMD: u32 = 252;

/// Finds systemd.
#[must_use]
pub fn scan(fs: &dyn Fs) -> SystemdFacts {
    let library = newest_library(fs);
    let (version, default_hierarchy, origin) = library
        .as_ref()
        .and_then(|(version, path)| looked_into(fs, *version, path))
        .or_else(|| as_shipped(fs, library.as_ref().map(|(version, _)| *version)))
        .or_else(|| library.as_ref().map(|(version, _)| as_published(*version)))
        .unwrap_or((None, Hierarchy::Unknown, "no systemd was found".to_owned()));
    SystemdFacts { pid1: pid1(fs), version, version_read: library.is_some(), default_hierarchy, origin }
}

/// Version, default, and where they were found.
type Found = (Option<u32>, Hierarchy, String);

/// The text in the library or the program. From 256 on there is none, as there is only one default.
fn looked_into(fs: &dyn Fs, version: u32, library: &str) -> Option<Found> {
    if version >= 256 {
        let origin = format!("systemd {version} has no other default than unified");
        return Some((Some(version), Hierarchy::Unified, origin));
    }
    let files = [library, "/usr/lib/systemd/systemd", "/lib/systemd/systemd"];
    let (default, path) = files.into_iter().find_map(|path| Some((built_in(fs, path)?, path)))?;
    let origin = format!("systemd {version}, default-hierarchy={} in {path}", default.as_str());
    Some((Some(version), default, origin))
}

/// What the distribution ships, unless the version found is another than its own.
fn as_shipped(fs: &dyn Fs, version: Option<u32>) -> Option<Found> {
    let known = distribution::find(&os::release(fs).ok()?)?;
    if version.is_some() && known.systemd.is_some() && version != known.systemd {
        return None;
    }
    let version = version.or(known.systemd);
    let systemd = version.map_or_else(|| "systemd".to_owned(), |version| format!("systemd {version}"));
    Some((version, known.default, format!("{systemd}, default as {} ships it, by os-release", known.name)))
}

fn as_published(version: u32) -> Found {
    let origin = format!("systemd {version}, taken to have its authors' default");
    (Some(version), upstream_default(version), origin)
}

/// systemd makes this directory where it is PID 1 and nowhere else, whatever name it was started by (`init`).
fn pid1(fs: &dyn Fs) -> Option<String> {
    let name = super::text(fs, "/proc/1/comm")?;
    Some(if fs.exists(Path::new("/run/systemd/system")) { "systemd".to_owned() } else { name })
}

/// systemd carries its version in the name of its library: `libsystemd-shared-252.so`,
/// `libsystemd-shared-257.7-1.so`. During an upgrade there can be two.
fn newest_library(fs: &dyn Fs) -> Option<(u32, String)> {
    let in_directory = |directory: String| {
        let names = fs.list(Path::new(&directory)).unwrap_or_default();
        names
            .into_iter()
            .filter_map(move |name| Some((library_version(&name)?, format!("{directory}/{name}"))))
    };
    library_directories(fs).into_iter().flat_map(in_directory).max_by_key(|(version, _)| *version)
}

fn library_version(name: &str) -> Option<u32> {
    let rest = name.strip_prefix("libsystemd-shared-").filter(|rest| rest.ends_with(".so"))?;
    rest.split(|letter: char| !letter.is_ascii_digit()).next()?.parse().ok()
}

fn library_directories(fs: &dyn Fs) -> Vec<String> {
    let is_triplet = |name: &String| name.contains("-linux-");
    let triplets = ["/usr/lib", "/lib"].into_iter().flat_map(|base| {
        let names = fs.list(Path::new(base)).unwrap_or_default().into_iter().filter(is_triplet);
        names.map(move |name| format!("{base}/{name}/systemd"))
    });
    let plain = ["/usr/lib/systemd", "/lib/systemd", "/usr/lib64/systemd"].map(str::to_owned);
    plain.into_iter().chain(triplets).collect()
}

/// The text that `systemctl --version` prints stands in the library, before version 230 in the program.
fn built_in(fs: &dyn Fs, path: &str) -> Option<Hierarchy> {
    first_named(fs.open(Path::new(path)).ok()?).ok()?
}

const MARK: &[u8] = b"default-hierarchy=";

/// Searched in pieces: the library has megabytes, and memory for all of it would take longer than the search.
const PIECE: usize = 32 << 10;

/// What is kept of the piece before: the text may lie across the edge, all but its last letter.
const KEPT: usize = MARK.len() + "unified".len() - 1;

fn first_named(mut file: impl Read) -> io::Result<Option<Hierarchy>> {
    let mut seen = vec![0; PIECE];
    let mut kept = 0;
    loop {
        let read = file.read(seen.get_mut(kept..).unwrap_or_default())?;
        let end = kept + read;
        let found = seen.get(..end).and_then(named_in);
        if read == 0 || found.is_some() {
            return Ok(found);
        }
        kept = end.min(KEPT);
        seen.copy_within(end - kept..end, 0);
    }
}

fn named_in(bytes: &[u8]) -> Option<Hierarchy> {
    let values = memmem::find_iter(bytes, MARK).filter_map(|at| bytes.get(at + MARK.len()..));
    let named = |value: &[u8]| {
        [Hierarchy::Unified, Hierarchy::Hybrid, Hierarchy::Legacy]
            .into_iter()
            .find(|hierarchy| value.starts_with(hierarchy.as_str().as_bytes()))
    };
    values.filter_map(named).next()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::fs::RootedFs;

    fn scan_tree(files: &[(&str, &[u8])]) -> SystemdFacts {
        let tree = tempfile::tempdir().unwrap();
        for (path, content) in files {
            let path = tree.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::io::Write::write_all(&mut std::fs::File::create(path).unwrap(), content).unwrap();
        }
        scan(&RootedFs::new(tree.path()))
    }

    #[test]
    fn the_library_says_it_all() {
        let facts = scan_tree(&[
            (
                "usr/lib/x86_64-linux-gnu/systemd/libsystemd-shared-249.so",
                b"\0+SYSVINIT default-hierarchy=unified\0",
            ),
            ("usr/lib/systemd/libsystemd-shared-245.so", b"\0default-hierarchy=hybrid\0"),
            ("proc/1/comm", b"systemd\n"),
        ]);
        assert_eq!((facts.version, facts.default_hierarchy), (Some(249), Hierarchy::Unified));
        assert!(!facts.is_another_init());
    }

    #[test]
    fn the_text_is_found_wherever_the_pieces_part_it() {
        for hierarchy in [Hierarchy::Unified, Hierarchy::Hybrid, Hierarchy::Legacy] {
            let text = format!("default-hierarchy={hierarchy}");
            for before in 0..text.len() + 2 {
                let file = [vec![b'd'; PIECE - before], text.clone().into_bytes()].concat();
                assert_eq!(
                    first_named(file.as_slice()).unwrap(),
                    Some(hierarchy),
                    "{before} before the edge"
                );
            }
        }
        let other = [vec![b'd'; PIECE], b"default-hierarchy=default-hierarchy=".to_vec()].concat();
        assert_eq!(first_named(other.as_slice()).unwrap(), None);
    }

    #[test]
    fn without_the_text_the_distribution_is_asked() {
        let el8 = "ID=\"almalinux\"\nID_LIKE=\"rhel centos fedora\"\nVERSION_ID=\"8.9\"\n".as_bytes();
        let facts = scan_tree(&[("etc/os-release", el8), ("usr/lib/systemd/libsystemd-shared-239.so", b"")]);
        assert_eq!((facts.version, facts.default_hierarchy), (Some(239), Hierarchy::Legacy));
        assert!(facts.version_read);
        let facts = scan_tree(&[("etc/os-release", el8)]);
        assert!(!facts.version_read);
        assert_eq!((facts.version, facts.default_hierarchy), (Some(239), Hierarchy::Legacy));
    }

    #[test]
    fn systemd_is_known_by_its_directory_too() {
        let facts = scan_tree(&[("proc/1/comm", b"init\n"), ("run/systemd/system/x", b"")]);
        assert!(!facts.is_another_init());
        assert!(scan_tree(&[("proc/1/comm", b"init\n")]).is_another_init());
    }

    #[test]
    fn nothing_found_is_unknown() {
        let facts = scan_tree(&[("proc/1/comm", b"tini\n")]);
        assert_eq!((facts.version, facts.default_hierarchy), (None, Hierarchy::Unknown));
        assert!(facts.is_another_init());
    }

    #[test]
    fn versions_in_file_names() {
        assert_eq!(library_version("libsystemd-shared-252-55.el9_7.so"), Some(252));
        assert_eq!(library_version("libsystemd-shared-257.9.so"), Some(257));
        assert_eq!(library_version("libsystemd-core-252.so"), None);
        assert_eq!(library_version("libsystemd-shared.so"), None);
    }
}
