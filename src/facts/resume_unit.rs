//! The unit that goes on after the reboot: without it nobody proves the new hierarchy and nobody leads back.

use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::host::{Fs, FsError, Host, UNIT_DIRECTORIES};

/// Its name.
pub const NAME: &str = "cgroup2-migrate-resume.service";

/// What is there of the unit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ResumeUnit {
    /// `UnitFileState`: empty if systemd does not know the unit.
    pub state: Result<String, String>,
    /// What `multi-user.target.wants` says of it.
    pub link: Result<Link, String>,
    /// The program that it starts.
    pub program: Result<Option<Program>, String>,
}

/// The entry in `multi-user.target.wants`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum Link {
    /// It is there.
    There,
    /// It is there and leads to `/dev/null`.
    Masked,
    /// It is not there.
    Absent,
}

/// The program in `ExecStart=`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Program {
    /// As written.
    pub path: PathBuf,
    /// It is there.
    pub exists: bool,
}

/// Asks systemd and looks at the files.
#[must_use]
pub fn scan(host: Host<'_>) -> ResumeUnit {
    ResumeUnit {
        state: host.init.unit_file_state(NAME).map_err(super::said),
        link: link(host.fs).map_err(super::said),
        program: program(host.fs).map_err(super::said),
    }
}

fn link(fs: &dyn Fs) -> Result<Link, FsError> {
    for directory in UNIT_DIRECTORIES {
        let wants = Path::new(directory).join("multi-user.target.wants");
        if fs.list(&wants)?.iter().any(|name| name == NAME) {
            let leads_nowhere = fs.resolve(&wants.join(NAME))? == Path::new("/dev/null");
            return Ok(if leads_nowhere { Link::Masked } else { Link::There });
        }
    }
    Ok(Link::Absent)
}

fn program(fs: &dyn Fs) -> Result<Option<Program>, FsError> {
    for directory in UNIT_DIRECTORIES {
        if !fs.list(Path::new(directory))?.iter().any(|name| name == NAME) {
            continue;
        }
        let path = Path::new(directory).join(NAME);
        // A mask; systemd's own word for it is in the state.
        if fs.resolve(&path)? == Path::new("/dev/null") {
            return Ok(None);
        }
        let text = String::from_utf8_lossy(&fs.read(&path)?).into_owned();
        return Ok(started(&text).map(|path| Program { exists: fs.exists(&path), path }));
    }
    Ok(None)
}

/// The first word of `ExecStart=`, without the marks that systemd knows before a path.
fn started(unit: &str) -> Option<PathBuf> {
    let value = unit.lines().find_map(|line| line.trim().strip_prefix("ExecStart="))?;
    let word = value.split_whitespace().next()?;
    Some(PathBuf::from(word.trim_start_matches(['-', '@', ':', '+', '!'])))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_of_our_own_unit() {
        let unit = include_str!("../../systemd/cgroup2-migrate-resume.service");
        assert_eq!(started(unit), Some("/usr/bin/cgroup2-migrate".into()));
        assert_eq!(started("ExecStart=-/bin/x y\n"), Some("/bin/x".into()));
        assert_eq!(started("[Unit]\n"), None);
    }
}
