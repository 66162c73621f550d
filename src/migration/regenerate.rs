//! Lets `grub-mkconfig` write a new menu beside the real one, and hands out its bytes if they are fit to boot.
//!
//! The tool itself would first empty the live `grub.cfg` and then fill it (`cat new > grub.cfg`): a power cut
//! in between leaves a node without a menu. So it gets another name to write to, and the caller puts the
//! checked bytes in place in one step, with the old file's mode and owner (the tool gives new files 0600).

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::boot::grub::generated::{GeneratedError, Surroundings, check_next_boot, check_whole, next_entry};
use crate::boot::grub::menu::NextEntry;
use crate::facts::bootloader::{self, ToolPrefix, files};
use crate::host::{Expect, Finished, Fs, FsError, Host, Invocation, RunError};

/// os-prober on a host with many disks is slow; a hanging one must still end.
const MKCONFIG_LIMIT: Duration = Duration::from_secs(600);
const SCRIPT_CHECK_LIMIT: Duration = Duration::from_secs(60);
/// More of a tool's output tells nobody more.
const SHOWN_OUTPUT: usize = 2000;

/// Judges kernel arguments.
type Holds<'a> = &'a dyn Fn(&str) -> bool;

/// What the entry that will boot must be like.
#[derive(Clone, Copy)]
pub struct Wanted<'a> {
    arguments: Option<(&'a str, Holds<'a>)>,
    accepted: &'a [String],
}

impl<'a> Wanted<'a> {
    /// Its kernel arguments satisfy `holds`; `words` says in an error what they had to do ("leads to …").
    #[must_use]
    pub fn new(words: &'a str, holds: Holds<'a>) -> Self {
        Self { arguments: Some((words, holds)), accepted: &[] }
    }

    /// Any whole menu will do whose kernel is there: on the way back nothing else may be in the way.
    #[must_use]
    pub fn anything() -> Self {
        Self { arguments: None, accepted: &[] }
    }

    /// Blockers that a person has accepted by id, which then are none here either.
    #[must_use]
    pub fn accepting(self, accepted: &'a [String]) -> Self {
        Self { accepted, ..self }
    }

    fn accepts(&self, id: &str) -> bool {
        self.accepted.iter().any(|accepted| accepted == id)
    }
}

/// Why there is no new menu. The old one is untouched.
#[derive(Debug, thiserror::Error)]
pub enum RegenerateError {
    /// No generator or no checker.
    #[error("generate {}: none of {tools} is installed; install the package {package}", path.display())]
    NoTool {
        /// The menu.
        path: PathBuf,
        /// Names looked for.
        tools: String,
        /// Who has it.
        package: &'static str,
    },
    /// The tool could not be run to its end.
    #[error(transparent)]
    Run(#[from] RunError),
    /// The tool said no.
    #[error("generate {}: {tool} ended with {code}: {output}", path.display())]
    Failed {
        /// The menu.
        path: PathBuf,
        /// The tool.
        tool: String,
        /// `code 1` or `a signal`.
        code: String,
        /// The end of what it wrote to standard error.
        output: String,
    },
    /// The tool said yes and wrote nothing.
    #[error("generate {}: {tool} ended well but wrote no file: {output}", path.display())]
    NothingWritten {
        /// The menu.
        path: PathBuf,
        /// The tool.
        tool: String,
        /// The end of what it wrote to standard error.
        output: String,
    },
    /// The file is not fit to boot.
    #[error("generate {}: {source}", path.display())]
    Unfit {
        /// The menu.
        path: PathBuf,
        /// What is wrong.
        source: GeneratedError,
    },
    /// A file could not be read or removed.
    #[error(transparent)]
    Fs(#[from] FsError),
}

/// Generates the menu anew and gives its bytes; the live file is only read. The tools look at the running
/// system, so this is for `/` and for tests with made-up tools, never for a mounted tree.
///
/// # Errors
/// [`RegenerateError`], after the tool's file was removed.
pub fn regenerate(host: Host<'_>, grub_cfg: &Path, wanted: &Wanted<'_>) -> Result<Vec<u8>, RegenerateError> {
    let tools = Tools::find(host, grub_cfg)?;
    let scratch = scratch_files(host, grub_cfg)?;
    let made = make(host, &tools, &scratch, grub_cfg, wanted);
    let removed = remove_all(host, &scratch);
    let bytes = made?;
    removed?;
    Ok(bytes)
}

/// The output, and what the tool writes before it, beside the menu itself where that is behind a link.
fn scratch_files(host: Host<'_>, grub_cfg: &Path) -> Result<[PathBuf; 2], FsError> {
    let menu = host.fs.resolve(grub_cfg)?;
    let name = menu.file_name().unwrap_or_default().to_string_lossy();
    let run = format!("{}-{:x}", std::process::id(), host.clock.now().as_millisecond());
    Ok(scratch_names(&name, &run).map(|name| menu.with_file_name(name)))
}

/// Another name in every run: a tool that outlived its killed run may still write to its own. It appends `.new` to
/// the name it was given. [`super::leftovers`] knows both.
pub(super) fn scratch_names(menu: &str, run: &str) -> [String; 2] {
    ["", ".new"].map(|end| format!("{menu}.cgroup2-migrate-{run}{end}"))
}

fn remove_all(host: Host<'_>, files: &[PathBuf]) -> Result<(), FsError> {
    let mut present = files.iter().filter(|file| host.fs.exists(file));
    present.try_for_each(|file| host.fs.remove(file, &Expect::Anything))
}

struct Tools {
    mkconfig: String,
    script_check: String,
}

impl Tools {
    fn find(host: Host<'_>, grub_cfg: &Path) -> Result<Self, RegenerateError> {
        let find = |name: &str, package| {
            bootloader::find_tool(host.runner, grub_cfg, name).map_err(|names| RegenerateError::NoTool {
                path: grub_cfg.to_owned(),
                tools: names.join(", "),
                package,
            })
        };
        let package = match bootloader::tool_prefix(grub_cfg) {
            ToolPrefix::Grub => ["grub2-common", "grub-common"],
            ToolPrefix::Grub2 => ["grub2-tools", "grub2-tools-minimal"],
        };
        let [mkconfig_package, check_package] = package;
        Ok(Self {
            mkconfig: find("mkconfig", mkconfig_package)?,
            script_check: find("script-check", check_package)?,
        })
    }
}

fn make(
    host: Host<'_>,
    tools: &Tools,
    scratch: &[PathBuf; 2],
    grub_cfg: &Path,
    wanted: &Wanted<'_>,
) -> Result<Vec<u8>, RegenerateError> {
    let [output, _] = scratch;
    let file = output.display().to_string();
    let mkconfig = [tools.mkconfig.clone(), "-o".to_owned(), file.clone()];
    let finished = run(host, grub_cfg, &mkconfig, MKCONFIG_LIMIT, true)?;
    if !host.fs.exists(output) {
        let (path, tool) = (grub_cfg.to_owned(), tools.mkconfig.clone());
        return Err(RegenerateError::NothingWritten { path, tool, output: shown(&finished.stderr) });
    }
    run(host, grub_cfg, &[tools.script_check.clone(), file], SCRIPT_CHECK_LIMIT, false)?;
    let bytes = host.fs.read(output)?;
    check(host, grub_cfg, &bytes, wanted)?;
    Ok(bytes)
}

fn run(
    host: Host<'_>,
    grub_cfg: &Path,
    argv: &[String],
    time_limit: Duration,
    changes_host: bool,
) -> Result<Finished, RegenerateError> {
    let finished = host.runner.run(&Invocation { argv: argv.to_vec(), time_limit, changes_host })?;
    if finished.code == Some(0) {
        return Ok(finished);
    }
    Err(RegenerateError::Failed {
        path: grub_cfg.to_owned(),
        tool: argv.first().cloned().unwrap_or_default(),
        code: finished.code.map_or_else(|| "a signal".to_owned(), |code| format!("code {code}")),
        output: shown(&finished.stderr),
    })
}

/// The end of it, where tools say what went wrong.
fn shown(stderr: &[u8]) -> String {
    let text = String::from_utf8_lossy(stderr);
    let text = text.trim();
    let from = (text.len().saturating_sub(SHOWN_OUTPUT)..=text.len()).find(|at| text.is_char_boundary(*at));
    let end = from.and_then(|from| text.get(from..)).unwrap_or_default();
    if end.is_empty() { "it said nothing".to_owned() } else { end.to_owned() }
}

fn check(host: Host<'_>, grub_cfg: &Path, new: &[u8], wanted: &Wanted<'_>) -> Result<(), RegenerateError> {
    let unfit = |source| RegenerateError::Unfit { path: grub_cfg.to_owned(), source };
    let old = host.fs.exists(grub_cfg).then(|| host.fs.read(grub_cfg)).transpose()?;
    let old = old.map(|old| String::from_utf8_lossy(&old).into_owned());
    let new = String::from_utf8_lossy(new);
    let menu = check_whole(old.as_deref(), &new).map_err(unfit)?;
    let beside = bootloader::beside(host.fs, grub_cfg, &menu)?;
    let surroundings =
        Surroundings { env: &beside.env, beside: &beside.files, build: bootloader::build(grub_cfg) };
    let next = next_boot(old.as_deref(), &new, &surroundings, wanted).map_err(unfit)?;
    let Some(next) = next else { return Ok(()) };
    check_files(host.fs, &next, wanted).map_err(unfit)?;
    let before = old.and_then(|old| next_entry(&old, &surroundings));
    tell_of_another_kernel(before.as_ref(), &next);
    Ok(())
}

/// The entry that will boot, if it is as wanted; without a wish it need not be known.
fn next_boot(
    old: Option<&str>,
    new: &str,
    surroundings: &Surroundings<'_>,
    wanted: &Wanted<'_>,
) -> Result<Option<NextEntry>, GeneratedError> {
    let Some((words, holds)) = wanted.arguments else { return Ok(next_entry(new, surroundings)) };
    let judge = |line: &str| if holds(line) { Ok(()) } else { Err(format!("that is no line that {words}")) };
    let next = check_next_boot(old, new, surroundings, judge)?;
    if next.waits_for_key && !wanted.accepts("boot-menu-waits") {
        return Err(GeneratedError::WaitsForKey);
    }
    if next.asks_password && !wanted.accepts("boot-entry-locked") {
        return Err(GeneratedError::AsksPassword { entry: next.path.join(">") });
    }
    Ok(Some(next))
}

/// A host that boots an entry whose kernel is not there ends at a prompt, whichever way it was going.
fn check_files(fs: &dyn Fs, next: &NextEntry, wanted: &Wanted<'_>) -> Result<(), GeneratedError> {
    let found = files::of_entry(fs, next);
    let missing = found.missing();
    if missing.is_empty() || wanted.accepts("boot-kernel-missing") {
        return Ok(());
    }
    Err(GeneratedError::FilesMissing { entry: next.path.join(">"), files: missing.join(" and ") })
}

/// No fault: a kernel update was installed since the menu was last generated. The way back would boot it, too.
fn tell_of_another_kernel(before: Option<&NextEntry>, next: &NextEntry) {
    let kernel = |entry: &NextEntry| entry.linux.as_ref().map(|linux| linux.kernel.clone());
    let (Some(before), Some(now)) = (before.and_then(kernel), kernel(next)) else { return };
    if before != now {
        log::warn!("the menu boots another kernel than before: {now} instead of {before}");
    }
}

#[cfg(test)]
mod tests;
