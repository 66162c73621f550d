//! Mounts as data, for the tests.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};

use super::mounts::{magic_in_table, parse_mountinfo};
use super::{Mount, Mounts};

/// Answers from two lists instead of the kernel. A path without a number of its own is looked up in the table.
#[derive(Debug, Clone, Default)]
pub struct FakeMounts {
    /// Magic numbers by path.
    pub magics: BTreeMap<PathBuf, u32>,
    /// The mount table.
    pub table: Vec<Mount>,
    /// Paths at which PID 1 finds something else.
    pub elsewhere: BTreeSet<PathBuf>,
}

impl FakeMounts {
    /// From lines `PATH TYPE 0xMAGIC` and the text of a `mountinfo` file.
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidData`], with the line.
    pub fn from_text(statfs: &str, mountinfo: &str) -> io::Result<Self> {
        let lines = statfs.lines().filter(|line| !line.trim().is_empty());
        Ok(Self {
            magics: lines.map(magic_line).collect::<io::Result<_>>()?,
            table: parse_mountinfo(mountinfo)?,
            elsewhere: BTreeSet::new(),
        })
    }
}

fn magic_line(line: &str) -> io::Result<(PathBuf, u32)> {
    let mut words = line.split_whitespace();
    let path = words.next();
    let magic = words.last().and_then(|word| word.strip_prefix("0x"));
    match (path, magic.and_then(|hex| u32::from_str_radix(hex, 16).ok())) {
        (Some(path), Some(magic)) => Ok((PathBuf::from(path), magic)),
        _ => Err(io::Error::new(
            io::ErrorKind::InvalidData,
            format!("read magic numbers: cannot understand `{line}`"),
        )),
    }
}

impl Mounts for FakeMounts {
    fn magic(&self, path: &Path) -> io::Result<Option<u32>> {
        Ok(self.magics.get(path).copied().or_else(|| magic_in_table(&self.table, path)))
    }

    fn table(&self) -> io::Result<Vec<Mount>> {
        Ok(self.table.clone())
    }

    fn same_for_pid1(&self, path: &Path) -> io::Result<bool> {
        Ok(!self.elsewhere.contains(path))
    }
}
