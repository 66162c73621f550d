//! Programs of the host: named when missing, with the package that brings them; their output kept when they fail.

use std::ffi::OsStr;
use std::process::{Command, Output, Stdio};

use anyhow::{Context, Result, bail};

/// A command found also in the directories of administrators' tools, which an ordinary user's PATH may lack.
pub(crate) fn command(program: &str) -> Command {
    let mut command = Command::new(program);
    command.env("PATH", search_path()).stdin(Stdio::null());
    command
}

/// Runs to the end; a failure carries what the program said.
pub(crate) fn run(command: &mut Command) -> Result<Output> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.output().with_context(|| format!("cannot start {name}"))?;
    if !output.status.success() {
        bail!("{name} failed ({}): {}", output.status, last_lines(&output.stderr, 12));
    }
    Ok(output)
}

/// What a program said last, for an error message.
pub(crate) fn last_lines(text: &[u8], count: usize) -> String {
    let text = String::from_utf8_lossy(text);
    let lines: Vec<&str> = text.trim_end().lines().collect();
    lines.get(lines.len().saturating_sub(count)..).unwrap_or_default().join("\n")
}

/// Fails with one command that installs everything that is missing.
pub(crate) fn require_tools() -> Result<()> {
    let mut packages: Vec<&str> =
        TOOLS.iter().filter(|(probe, _)| !present(probe)).map(|(_, package)| *package).collect();
    packages.dedup();
    if packages.is_empty() {
        return Ok(());
    }
    bail!("these packages are missing; install them with:\n    apt-get install {}", packages.join(" "));
}

/// What must be there (a program, or a file by its full path), and the Debian package it comes from.
const TOOLS: &[(&str, &str)] = &[
    ("mmdebstrap", "mmdebstrap"),
    ("/usr/share/keyrings/debian-archive-keyring.gpg", "debian-archive-keyring"),
    ("mke2fs", "e2fsprogs"),
    ("sfdisk", "fdisk"),
    ("qemu-system-x86_64", "qemu-system-x86"),
    ("qemu-img", "qemu-utils"),
    ("ssh", "openssh-client"),
    ("ssh-keygen", "openssh-client"),
    ("setpriv", "util-linux"),
    // What mmdebstrap works with when it is not root.
    ("newuidmap", "uidmap"),
];

fn present(probe: &str) -> bool {
    if probe.starts_with('/') {
        return std::path::Path::new(probe).exists();
    }
    std::env::split_paths(&search_path()).any(|directory| directory.join(probe).exists())
}

fn search_path() -> std::ffi::OsString {
    let mut path = std::env::var_os("PATH").unwrap_or_default();
    path.push(OsStr::new(":/usr/local/sbin:/usr/sbin:/sbin"));
    path
}
