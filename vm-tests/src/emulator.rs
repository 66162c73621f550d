//! Which QEMU: the host's, or a newer one unpacked from another suite's packages.

use std::ffi::OsString;
use std::path::Path;
use std::process::Command;

use anyhow::{Result, anyhow};

use crate::command::{command, run};
use crate::image::{Cache, hash};
use crate::progress::watched;

/// A command that starts QEMU and is killed by the kernel when this program ends, however it ends.
///
/// `VM_QEMU_SUITE=trixie` takes Debian's QEMU of that suite: from 7.2 to 10.0, emulation became about a third quicker.
pub(crate) fn emulator() -> Result<Command> {
    let mut wrapped = command("setpriv");
    wrapped.args(["--pdeathsig", "KILL"]);
    match std::env::var("VM_QEMU_SUITE") {
        Ok(suite) => wrapped.args(of_suite(&suite)?),
        Err(_) => wrapped.arg("qemu-system-x86_64"),
    };
    Ok(wrapped)
}

/// The beginning of a command line: the suite's QEMU, started by the suite's own loader with its own libraries.
fn of_suite(suite: &str) -> Result<Vec<OsString>> {
    if suite.is_empty() || !suite.bytes().all(|byte| byte.is_ascii_lowercase()) {
        return Err(anyhow!("VM_QEMU_SUITE is no name of a Debian suite: {suite:?}"));
    }
    let key = hash(&[suite.as_bytes(), PACKAGES.as_bytes()]);
    let tree = Cache::open()?.directory(&format!("qemu-{suite}"), &key, |tree| {
        watched(&format!("installing QEMU of Debian {suite} into a directory"), || unpack(suite, tree))
    })?;
    let inside = |path: &str| tree.join(path).into_os_string();
    Ok(vec![
        inside("lib64/ld-linux-x86-64.so.2"),
        "--library-path".into(),
        inside("usr/lib/x86_64-linux-gnu"),
        inside("usr/bin/qemu-system-x86_64"),
        "-L".into(),
        inside("usr/share/qemu"),
        "-L".into(),
        inside("usr/share/seabios"),
    ])
}

const PACKAGES: &str = "qemu-system-x86,seabios";

fn unpack(suite: &str, tree: &Path) -> Result<()> {
    let tar = tree.join("tree.tar");
    run(command("mmdebstrap")
        .args([
            "--variant=minbase",
            "--quiet",
            "--skip=output/dev",
            "--aptopt=APT::Install-Recommends \"false\"",
        ])
        .args(["--dpkgopt=force-unsafe-io", "--dpkgopt=path-exclude=/usr/share/doc/*"])
        .arg(format!("--include={PACKAGES}"))
        .arg(suite)
        .arg(&tar))?;
    run(command("tar").args(["--no-same-owner", "-C"]).arg(tree).arg("-xf").arg(&tar))?;
    std::fs::remove_file(&tar)?;
    Ok(())
}
