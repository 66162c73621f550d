//! The program under test: built so that it runs in any guest, and installed as its package would.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

use crate::command::{command, run};
use crate::progress::watched;
use crate::vm::Vm;

/// Which build.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Build {
    /// As shipped, but linked statically.
    Plain,
    /// With the points at which a test can stop it.
    Failpoints,
}

impl Build {
    /// Its name, and its directory below `target/`.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Plain => "guest",
            Self::Failpoints => "guest-failpoints",
        }
    }
}

/// Builds the program, or names the one `C2M_BIN` gives.
pub(crate) fn build(build: Build) -> Result<PathBuf> {
    if let Some(ready) = std::env::var_os("C2M_BIN") {
        return Ok(PathBuf::from(ready));
    }
    watched(&format!("building the program for guests ({})", build.name()), || cargo_build(build))
}

/// Copies the program and its units to where its package puts them, and does what the package does then.
pub(crate) fn install(vm: &mut Vm, program: &Path) -> Result<()> {
    let ssh = vm.ssh()?;
    ssh.put(program, "/usr/bin/cgroup2-migrate", "755")?;
    for unit in units()? {
        let name = unit.file_name().context("a unit without a name")?.to_string_lossy().into_owned();
        ssh.put(&unit, &format!("/usr/lib/systemd/system/{name}"), "644")?;
    }
    vm.must(&format!(
        "mkdir -p {WANTS} && ln -sfn ../cgroup2-migrate-resume.service {WANTS}/ && systemctl daemon-reload && sync"
    ))?;
    Ok(())
}

const WANTS: &str = "/usr/lib/systemd/system/multi-user.target.wants";
const TARGET: &str = "x86_64-unknown-linux-gnu";

/// Static against glibc: a guest may have an older glibc than the host.
fn cargo_build(build: Build) -> Result<PathBuf> {
    let repository = repository();
    let target = repository.join("target").join(build.name());
    let mut cargo = command("cargo");
    cargo.current_dir(&repository).env("RUSTFLAGS", "-C target-feature=+crt-static");
    cargo.args([
        "build",
        "--quiet",
        "--package",
        "cgroup2-migrate",
        "--profile",
        "ci",
        "--target",
        TARGET,
        "--target-dir",
    ]);
    cargo.arg(&target);
    if build == Build::Failpoints {
        cargo.args(["--features", "failpoints"]);
    }
    run(&mut cargo)?;
    let program = target.join(TARGET).join("ci/cgroup2-migrate");
    ensure!(program.exists(), "cargo made no {}", program.display());
    Ok(program)
}

fn units() -> Result<Vec<PathBuf>> {
    let directory = repository().join("systemd");
    let entries =
        std::fs::read_dir(&directory).with_context(|| format!("cannot read {}", directory.display()))?;
    let units = entries.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>>>()?;
    Ok(units
        .into_iter()
        .filter(|unit| unit.extension().is_some_and(|extension| extension == "service"))
        .collect())
}

/// Where the sources lie.
pub(crate) fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap_or(Path::new(".")).to_owned()
}
