//! Where the binaries are.

use std::io::Write as _;
use std::path::PathBuf;
use std::sync::Once;

/// A folder with `etcd` and `kube-apiserver`.
#[derive(Clone, Debug)]
pub struct Programs(PathBuf);

impl Programs {
    /// `None`, with the reason on standard error, where there are none.
    pub fn or_skip() -> Option<Self> {
        let Some(folder) = std::env::var_os("KUBE_BIN_DIR") else {
            skip("KUBE_BIN_DIR is not set; `make test-kubernetes` builds Kubernetes once and sets it");
            return None;
        };
        Some(Self::at(folder.into()))
    }

    /// Those in this folder; panics if they are not there.
    pub fn at(folder: PathBuf) -> Self {
        let programs = Self(folder);
        for needed in ["etcd", "kube-apiserver"] {
            let path = programs.path(needed);
            assert!(path.is_file(), "there is no program {} (see KUBE_BIN_DIR)", path.display());
        }
        programs
    }

    /// One more program, which only some tests need. `None`, with the reason on standard error, where it is not there.
    pub fn further_or_skip(&self, program: &str) -> Option<PathBuf> {
        let path = self.path(program);
        if !path.is_file() {
            skip(&format!("there is no program {} (see KUBE_BIN_DIR)", path.display()));
            return None;
        }
        Some(path)
    }

    /// The full path of one of them.
    pub fn path(&self, program: &str) -> PathBuf {
        self.0.join(program)
    }
}

/// Once for all tests of a file. Past the capturing of their output, which would hide it, as they pass.
fn skip(why: &str) {
    static SAID: Once = Once::new();
    SAID.call_once(|| {
        let line = format!("SKIP: what needs Kubernetes: {why}\n");
        let _ = std::io::stderr().write_all(line.as_bytes());
    });
}
