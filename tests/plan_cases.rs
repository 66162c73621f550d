//! `plan --root DIR --json` over every folder of `tests/fixtures/grub-defaults`, and over the folders of the
//! directory in `C2M_EXTRA_CASES`: the planned files are put in place and judged by real shells, which must read
//! the same variables as before but for the words that are meant to change.
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "runs the program and the shells on fixtures"
)]

#[path = "support/cases.rs"]
mod cases;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};

use cases::Case;
use cgroup2_migrate::boot::grub::defaults::Defaults;
use cgroup2_migrate::boot::hierarchy::Hierarchy;
use cgroup2_migrate::boot::kargs::{Arg, Kargs, UNIFIED, is_v1_pin};
use cgroup2_migrate::facts::grub;
use cgroup2_migrate::host::{RootedFs, sha256};
use serde_json::Value;

type Variables = BTreeMap<String, String>;

/// The variables that hold kernel arguments.
const ARGUMENTS: [&str; 3] =
    ["GRUB_CMDLINE_LINUX", "GRUB_CMDLINE_LINUX_DEFAULT", "GRUB_CMDLINE_LINUX_RECOVERY"];

/// Cases that do not say what their host runs get `hybrid`: there something has to change.
fn plan(case: &Path, hierarchy: Hierarchy) -> (i32, Value) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_cgroup2-migrate"));
    command
        .args([
            "plan",
            "--json",
            "--assume-hierarchy",
            hierarchy.as_str(),
            "--assume-loader",
            "grub",
            "--root",
        ])
        .arg(case);
    let output = command.env_remove("RUST_BACKTRACE").output().unwrap();
    let code = output.status.code().unwrap();
    let json = serde_json::from_slice(&output.stdout).unwrap_or_else(|error| {
        panic!("{}: {error}: {}", case.display(), String::from_utf8_lossy(&output.stderr))
    });
    (code, json)
}

/// A copy of the case with the planned files in place.
fn applied(case: &Path, plan: &Value) -> tempfile::TempDir {
    let copy = tempfile::tempdir().unwrap();
    let copied = Command::new("cp").arg("-a").arg(case.join(".")).arg(copy.path()).status().unwrap();
    assert!(copied.success());
    for file in plan["files"].as_array().unwrap() {
        let path = copy.path().join(file["path"].as_str().unwrap().trim_start_matches('/'));
        let before = std::fs::read(&path).ok().map(|bytes| sha256(&bytes));
        assert_eq!(before.as_deref(), file["before_sha256"].as_str(), "{}", path.display());
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, content(file)).unwrap();
    }
    copy
}

fn content(file: &Value) -> Vec<u8> {
    use base64::Engine as _;
    match file["after"].as_str() {
        Some(text) => text.as_bytes().to_vec(),
        None => {
            base64::engine::general_purpose::STANDARD.decode(file["after_base64"].as_str().unwrap()).unwrap()
        }
    }
}

/// Every `GRUB_` variable after the files of a tree were sourced, or `None` if the shell does not take them.
fn sourced(shell: &str, tree: &Path) -> Option<Variables> {
    let script = "set -e -a; cd \"$1\"; \
        if [ -f ./etc/default/grub ]; then . ./etc/default/grub; fi; \
        for x in ./etc/default/grub.d/*.cfg; do if [ -e \"$x\" ]; then . \"$x\"; fi; done; \
        exec env -0";
    let output = Command::new("env")
        .args(["-i", "LC_ALL=C", "PATH=/usr/bin:/bin", shell, "-c", script, "sh"])
        .arg(tree)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    output.status.success().then(|| variables(&String::from_utf8_lossy(&output.stdout)))
}

fn variables(text: &str) -> Variables {
    let assignments = text.split('\0').filter_map(|assignment| assignment.split_once('='));
    assignments
        .filter(|(name, _)| name.starts_with("GRUB_"))
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect()
}

/// The words of a value, without those that are meant to change.
fn other_words(value: &str) -> Vec<String> {
    // Two lines that GRUB joins.
    let joined = value.replace("\\\n", "");
    let kargs = Kargs::parse(&joined);
    kargs.iter().filter(|arg| !is_v1_pin(arg) && !asks_for_v2(arg)).map(|arg| arg.raw.to_owned()).collect()
}

fn asks_for_v2(arg: &Arg<'_>) -> bool {
    arg.is(UNIFIED) && arg.value.as_deref() == Some("1")
}

fn judge_case(case: &Case) -> Result<(), String> {
    if !case.path.join("etc/default").is_dir() {
        return Err("no etc/default".to_owned());
    }
    judge(&case.path, case.plan().map_or(Hierarchy::Hybrid, |plan| plan.assume.hierarchy));
    Ok(())
}

fn judge(case: &Path, hierarchy: Hierarchy) {
    let (code, plan) = plan(case, hierarchy);
    let blocked = code != 0;
    if blocked {
        assert_eq!(code, 3, "{}", case.display());
        assert_eq!(plan["files"], serde_json::json!([]), "{}: a blocker and files", case.display());
    }
    claims_only_what_ends_the_shells(case);
    let after = applied(case, &plan);
    for shell in ["dash", "bash"] {
        let (Some(old), Some(new)) = (sourced(shell, case), sourced(shell, after.path())) else { continue };
        same_but_for_ours(&old, &new, &format!("{} under {shell}", case.display()));
        if !blocked && hierarchy != Hierarchy::Unified {
            leads_to_v2(&new, &format!("{} under {shell}", case.display()));
        }
    }
    if !blocked {
        let (_, again) = self::plan(after.path(), hierarchy);
        assert_eq!(again["files"], serde_json::json!([]), "{}: a second plan changes files", case.display());
    }
}

/// A command that is said to be missing ends both shells; that no other one does is not claimed.
fn claims_only_what_ends_the_shells(case: &Path) {
    let settings = grub::scan(&RootedFs::new(case)).settings;
    let Ok(defaults) = Defaults::parse(settings) else { return };
    let is_here = |name: &str| ["/usr/bin", "/bin"].iter().any(|path| Path::new(path).join(name).exists());
    if let Some(called) = defaults.called().into_iter().find(|called| !is_here(&called.name)) {
        for shell in ["dash", "bash"] {
            assert_eq!(sourced(shell, case), None, "{} under {shell}: {called:?}", case.display());
        }
    }
}

fn same_but_for_ours(old: &Variables, new: &Variables, what: &str) {
    for name in old.keys().chain(new.keys()) {
        let (old, new) = (old.get(name), new.get(name));
        if ARGUMENTS.contains(&name.as_str()) {
            let words = |value: Option<&String>| value.map(|value| other_words(value)).unwrap_or_default();
            assert_eq!(words(old), words(new), "{what}: {name}");
        } else {
            assert_eq!(old, new, "{what}: {name}");
        }
    }
}

fn leads_to_v2(variables: &Variables, what: &str) {
    let value = |name: &str| variables.get(name).cloned().unwrap_or_default();
    let line = format!("{} {}", value("GRUB_CMDLINE_LINUX"), value("GRUB_CMDLINE_LINUX_DEFAULT"));
    let pins = Kargs::parse(&line).iter().filter(|arg| is_v1_pin(arg)).count();
    let ours = Kargs::parse(&line).iter().filter(|arg| asks_for_v2(arg)).count();
    assert!(pins == 0 && ours <= 1, "{what}: `{line}`");
}

#[test]
fn planned_files_change_nothing_but_the_words_about_the_hierarchy() {
    assert!(cases::judge_all(&cases::own("grub-defaults"), judge_case) > 50);
}

#[test]
fn cases_of_elsewhere_too() {
    cases::judge_all(&cases::elsewhere(), judge_case);
}
