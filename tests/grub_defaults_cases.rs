//! The `plan` sections of the fixtures and of the cases from elsewhere, through the library and through the real
//! shells.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "a test stops at the first surprise"
)]
#![allow(clippy::disallowed_methods, reason = "reads fixtures, and asks a real shell what it makes of them")]

#[path = "support/cases.rs"]
mod cases;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use cases::{Assumed, Case, Plan};
use cgroup2_migrate::boot::grub::defaults::{
    DefaultMode, Defaults, EditError, ReadError, Unification, Value, unify,
};
use cgroup2_migrate::boot::hierarchy::Hierarchy;

type Files = BTreeMap<PathBuf, Vec<u8>>;

fn mode(assumed: &Assumed) -> DefaultMode {
    match assumed.default {
        Hierarchy::Unified => DefaultMode::Unified,
        Hierarchy::Unknown => DefaultMode::Unknown,
        Hierarchy::Hybrid | Hierarchy::Legacy => DefaultMode::NotUnified,
    }
}

fn tree(case: &Path) -> Files {
    let mut files = Files::new();
    let mut pending = vec![case.join("etc")];
    while let Some(directory) = pending.pop() {
        let Ok(entries) = std::fs::read_dir(&directory) else { continue };
        for entry in entries {
            let path = entry.unwrap().path();
            if path.is_dir() {
                pending.push(path);
            } else {
                let host = Path::new("/").join(path.strip_prefix(case).unwrap());
                files.insert(host, std::fs::read(&path).unwrap());
            }
        }
    }
    files
}

fn parse(files: &Files) -> Result<Defaults, ReadError> {
    Defaults::parse(files.clone().into_iter().collect())
}

fn id_of(error: &EditError) -> &'static str {
    match error {
        EditError::CarriageReturn { .. } => "carriage-return",
        EditError::ReadOnly { .. } => "read-only",
        EditError::NoName { .. } => "no-name",
        EditError::Unproven { .. } => "unproven",
    }
}

fn run(files: &Files, mode: DefaultMode) -> Result<Unification, &'static str> {
    let defaults = parse(files).map_err(|error| match error {
        ReadError::Nul { .. } => "nul",
        ReadError::ByteOrderMark { .. } => "byte-order-mark",
        ReadError::Syntax { .. } => "syntax",
    })?;
    unify(&defaults, mode).map_err(|error| id_of(&error))
}

/// `@drop-in:force` and `@drop-in:strip` stand for our own file: what it does is checked by sourcing it.
fn same_text(after: &[u8], expected: &str, path: &Path) {
    let text = String::from_utf8_lossy(after);
    match expected.strip_prefix("@drop-in:") {
        Some(kind) => assert_eq!(text.contains("hierarchy=1\"\n"), kind == "force", "{}", path.display()),
        None => assert_eq!(text, expected, "{}", path.display()),
    }
}

fn normal(text: &[u8]) -> String {
    String::from_utf8_lossy(text)
        .split([' ', '\n', '\t'])
        .filter(|word| !word.is_empty())
        .collect::<Vec<_>>()
        .join(" ")
}

/// The joined line under a real shell that stops at the first error, as grub-mkconfig does.
fn sourced(shell: &str, files: &Files) -> Option<String> {
    let scratch = tempfile::tempdir().unwrap();
    let mut script = String::new();
    for (path, text) in files {
        let place = scratch.path().join(path.strip_prefix("/").unwrap());
        std::fs::create_dir_all(place.parent().unwrap()).unwrap();
        std::fs::write(&place, text).unwrap();
        let name = path.file_name().unwrap().to_str().unwrap();
        if path == Path::new("/etc/default/grub") || (name.ends_with(".cfg") && !name.starts_with('.')) {
            script.push_str(&format!(". '{}'\n", place.display()));
        }
    }
    script.push_str("printf '%s' \"$GRUB_CMDLINE_LINUX $GRUB_CMDLINE_LINUX_DEFAULT\"");
    let output = Command::new("env")
        .args(["-i", "PATH=/usr/bin:/bin", shell, "-c", &script])
        .current_dir(scratch.path())
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output()
        .ok()?;
    output.status.success().then(|| normal(&output.stdout))
}

fn check(case: &Case) -> Result<(), String> {
    let expected = case.plan().ok_or_else(|| case.lacks("plan"))?;
    check_plan(&case.path, expected);
    Ok(())
}

fn check_plan(case: &Path, expected: &Plan) {
    let mut files = tree(case);
    let mode = mode(&expected.assume);
    let result = match run(&files, mode) {
        Err(error) => return assert_eq!(Some(error), expected.error.as_deref(), "{}", case.display()),
        Ok(result) => result,
    };
    assert_eq!(None, expected.error, "{}: edited", case.display());
    let changed: BTreeSet<&PathBuf> = result.edits.iter().map(|edit| &edit.path).collect();
    assert_eq!(changed, expected.files.keys().collect(), "{}", case.display());
    for edit in &result.edits {
        assert_eq!(edit.before.as_ref(), files.get(&edit.path), "{}", case.display());
        same_text(&edit.after, &expected.files[&edit.path], case);
        files.insert(edit.path.clone(), edit.after.clone());
    }
    let found: BTreeSet<String> = result.notices.iter().map(|notice| notice.id.to_owned()).collect();
    assert_eq!(found, expected.findings, "{}", case.display());
    check_result(case, expected, &files, mode);
}

fn check_result(case: &Path, expected: &Plan, files: &Files, mode: DefaultMode) {
    assert_eq!(run(files, mode).unwrap().edits, vec![], "{}: edited twice", case.display());
    let known = match parse(files).unwrap().effective_arguments() {
        Value::Known { text, .. } => Some(normal(&text)),
        Value::Unset => Some(String::new()),
        Value::Opaque { .. } => None,
    };
    let Some(effective) = expected.effective_after.as_ref().map(|text| normal(text.as_bytes())) else {
        return;
    };
    assert_eq!(known, (!expected.opaque).then(|| effective.clone()), "{}", case.display());
    for shell in ["dash", "bash"] {
        if let Some(line) = sourced(shell, files) {
            assert_eq!(line, effective, "{} under {shell}", case.display());
        }
    }
}

#[test]
fn every_fixture_comes_out_as_expected() {
    let own = cases::own("grub-defaults");
    assert!(own.len() > 50, "fixtures are missing");
    assert_eq!(cases::judge_all(&own, check), own.len());
}

#[test]
fn cases_of_elsewhere_too() {
    cases::judge_all(&cases::elsewhere(), check);
}
