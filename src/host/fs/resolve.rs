//! Paths inside a root, as a process in a chroot would see them.
//!
//! `openat2(RESOLVE_IN_ROOT)` would do this in the kernel, but it needs Linux 5.6, and EL8 has 4.18.

use std::ffi::OsString;
use std::io;
use std::path::{Component, Path, PathBuf};

/// The kernel's own limit (`MAXSYMLINKS`).
const LINK_LIMIT: usize = 40;

/// Where a host path lies on disk. The path must be resolved: links in it would be followed outside the root.
pub(super) fn on_disk(root: &Path, resolved: &Path) -> PathBuf {
    root.join(resolved.strip_prefix("/").unwrap_or(resolved))
}

/// The host path that `path` leads to. What does not exist is kept as it is written, so that the answer for a
/// dangling link names the place it points to.
pub(super) fn resolve(root: &Path, path: &Path) -> io::Result<PathBuf> {
    if !path.is_absolute() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not an absolute path"));
    }
    let mut walk = Walk { root, resolved: PathBuf::from("/"), pending: Vec::new(), links: 0 };
    walk.push(path);
    while let Some(name) = walk.pending.pop() {
        walk.step(name)?;
    }
    Ok(walk.resolved)
}

/// As [`resolve`], but a link at the very end is not followed.
pub(super) fn resolve_parent(root: &Path, path: &Path) -> io::Result<PathBuf> {
    match (path.parent(), path.file_name()) {
        (Some(parent), Some(name)) => Ok(resolve(root, parent)?.join(name)),
        _ => resolve(root, path),
    }
}

struct Walk<'a> {
    root: &'a Path,
    resolved: PathBuf,
    /// Names still to walk, the next one last.
    pending: Vec<OsString>,
    links: usize,
}

impl Walk<'_> {
    fn push(&mut self, path: &Path) {
        let names = path.components().rev().filter_map(|component| match component {
            Component::Normal(name) => Some(name.to_owned()),
            Component::ParentDir => Some("..".into()),
            Component::RootDir | Component::CurDir | Component::Prefix(_) => None,
        });
        self.pending.extend(names);
    }

    fn step(&mut self, name: OsString) -> io::Result<()> {
        if name == ".." {
            // At the root this does nothing: `..` of the root is the root.
            self.resolved.pop();
            return Ok(());
        }
        let next = self.resolved.join(name);
        match self.link_at(&next)? {
            Some(target) => self.follow(&target),
            None => {
                self.resolved = next;
                Ok(())
            }
        }
    }

    fn link_at(&self, path: &Path) -> io::Result<Option<PathBuf>> {
        if self.root == Path::new("/") && is_magic(path) {
            return Ok(None);
        }
        match std::fs::read_link(on_disk(self.root, path)) {
            Ok(target) => Ok(Some(target)),
            // EINVAL: there is something, and it is no link.
            Err(error) if matches!(error.kind(), io::ErrorKind::InvalidInput | io::ErrorKind::NotFound) => {
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    fn follow(&mut self, target: &Path) -> io::Result<()> {
        self.links += 1;
        if self.links > LINK_LIMIT {
            return Err(nix::errno::Errno::ELOOP.into());
        }
        if target.is_absolute() {
            self.resolved = PathBuf::from("/");
        }
        self.push(target);
        Ok(())
    }
}

/// `/proc/PID/root` and its like lead into another mount namespace; the text they show does not.
fn is_magic(path: &Path) -> bool {
    let mut names = path.components().skip(1).map(Component::as_os_str);
    let in_proc = names.next().is_some_and(|name| name == "proc");
    let _pid = names.next();
    let last = names.next().is_some_and(|name| name == "root" || name == "cwd" || name == "exe");
    in_proc && last && names.next().is_none()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn tree() -> tempfile::TempDir {
        let tree = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(tree.path().join("a/b")).unwrap();
        tree
    }

    fn resolved(tree: &tempfile::TempDir, path: &str) -> PathBuf {
        resolve(tree.path(), Path::new(path)).unwrap()
    }

    #[test]
    fn absolute_and_climbing_links_stay_inside() {
        let tree = tree();
        symlink("/etc", tree.path().join("a/absolute")).unwrap();
        symlink("../../../../../etc/passwd", tree.path().join("a/climbing")).unwrap();
        assert_eq!(resolved(&tree, "/a/absolute/x"), Path::new("/etc/x"));
        assert_eq!(resolved(&tree, "/a/climbing"), Path::new("/etc/passwd"));
        assert_eq!(resolved(&tree, "/../../a/./b/../b"), Path::new("/a/b"));
    }

    #[test]
    fn a_dangling_link_names_its_place() {
        let tree = tree();
        symlink("../gone/file", tree.path().join("a/link")).unwrap();
        assert_eq!(resolved(&tree, "/a/link"), Path::new("/gone/file"));
        assert_eq!(resolve_parent(tree.path(), Path::new("/a/link")).unwrap(), Path::new("/a/link"));
    }

    #[test]
    fn a_loop_ends_with_an_error() {
        let tree = tree();
        symlink("two", tree.path().join("one")).unwrap();
        symlink("one", tree.path().join("two")).unwrap();
        let error = resolve(tree.path(), Path::new("/one")).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(nix::errno::Errno::ELOOP as i32));
    }

    #[test]
    fn forty_links_are_followed_and_no_more() {
        let tree = tree();
        for n in 0..41 {
            symlink(format!("l{}", n + 1), tree.path().join(format!("l{n}"))).unwrap();
        }
        assert_eq!(resolved(&tree, "/l1"), Path::new("/l41"));
        assert!(resolve(tree.path(), Path::new("/l0")).is_err());
    }

    #[test]
    fn relative_paths_are_refused() {
        assert!(resolve(Path::new("/"), Path::new("etc")).is_err());
    }

    #[test]
    fn links_into_other_namespaces_are_left_to_the_kernel() {
        assert!(is_magic(Path::new("/proc/1/root")));
        assert!(!is_magic(Path::new("/proc/1/root/etc")));
        assert!(!is_magic(Path::new("/proc/self")));
        let resolved = resolve(Path::new("/"), Path::new("/proc/self/root/x")).unwrap();
        assert!(resolved.starts_with("/proc") && resolved.ends_with("root/x"), "{}", resolved.display());
    }
}
