//! What programs read: `--json` of every reading verb against `tests/golden/`, in the words of `docs/json.md`. A
//! change here is a change of the contract. `C2M_UPDATE_GOLDEN=1` writes the files anew.
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "runs the program, and writes its golden files where it is told to"
)]

use std::path::{Path, PathBuf};
use std::process::Command;

use cgroup2_migrate::facts::cgroup::REQUIRED_CONTROLLERS;
use cgroup2_migrate::host::RootedFs;
use cgroup2_migrate::host::fake::{FakeClock, FakeInit, FakeRunner};
use cgroup2_migrate::host::fake_mounts::FakeMounts;
use cgroup2_migrate::host::{Host, Mounts as _};
use cgroup2_migrate::migration::phase::PhaseName;
use cgroup2_migrate::migration::store::Store;
use cgroup2_migrate::verify::prove;
use serde_json::Value;

const PHASES: [PhaseName; 11] = [
    PhaseName::Planned,
    PhaseName::Locked,
    PhaseName::Staged,
    PhaseName::Rebooting,
    PhaseName::Booted,
    PhaseName::Verified,
    PhaseName::KubeletFinal,
    PhaseName::Done,
    PhaseName::RollingBack,
    PhaseName::RolledBack,
    PhaseName::NeedsPerson,
];

fn here(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(path)
}

/// Compares with the golden file, and gives what was parsed.
fn golden(name: &str, text: &str) -> Value {
    let path = here("golden").join(format!("{name}.json"));
    if std::env::var_os("C2M_UPDATE_GOLDEN").is_some() {
        std::fs::create_dir_all(here("golden")).unwrap();
        std::fs::write(&path, text).unwrap();
    }
    let right = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(text, right, "{}: write it anew with C2M_UPDATE_GOLDEN=1", path.display());
    let value: Value = serde_json::from_str(text).unwrap();
    assert_eq!(value["schema"], 1, "{name}");
    value
}

fn run(arguments: &[&str]) -> (i32, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_cgroup2-migrate"));
    let output = command.args(arguments).env_remove("RUST_BACKTRACE").output().unwrap();
    (output.status.code().unwrap(), String::from_utf8(output.stdout).unwrap())
}

/// Runs a verb over a fixture; its exit code and what it printed must be right.
fn over(name: &str, code: i32, fixture: &str, arguments: &[&str]) -> Value {
    let root = here("fixtures").join(fixture);
    let (found, text) = run(&[arguments, &["--json", "--root", root.to_str().unwrap()]].concat());
    assert_eq!(found, code, "{name}: {text}");
    assert!(!text.contains(env!("CARGO_MANIFEST_DIR")), "{name} tells where the tree lies");
    golden(name, &text)
}

#[track_caller]
fn has_keys(value: &Value, keys: &[&str]) {
    let found: Vec<&str> = value.as_object().unwrap().keys().map(String::as_str).collect();
    let mut keys = keys.to_vec();
    keys.sort_unstable();
    assert_eq!(found, keys);
}

const ASSUMED: [&str; 4] = ["--assume-hierarchy", "hybrid", "--assume-loader", "grub"];

#[test]
fn detect() {
    let found = over("detect", 10, "json/bookworm", &["detect", "--exit-code"]);
    assert!(found["hierarchy"] == "hybrid" && found["why"].is_array());
    over("detect-container", 6, "detection/049-agent-in-container-ns", &["detect"]);
}

#[test]
fn detect_line() {
    let line = "ro systemd.unified_cgroup_hierarchy=0 quiet";
    let (code, text) = run(&["detect", "--json", "--exit-code", "--systemd", "252", "--line", line]);
    assert_eq!(code, 10);
    golden("detect-line", &text);
}

#[test]
fn plan() {
    let plan = over("plan", 0, "json/bookworm", &["plan"]);
    let keys =
        ["schema", "hierarchy", "nothing_to_do", "steps", "findings", "way_back", "effective", "files"];
    has_keys(&plan, &[&keys[..], &["generated", "later_files", "down_time"]].concat());
    has_keys(&plan["effective"], &["before", "after"]);
    has_keys(&plan["files"][0], &["path", "before_sha256", "after", "diff"]);
}

#[test]
fn plan_with_a_drop_in() {
    let verb = [&["plan"][..], &ASSUMED].concat();
    let plan = over("plan-drop-in", 0, "grub-defaults/207-dollar-parenthesis", &verb);
    assert_eq!(plan["files"][0]["before_sha256"], Value::Null);
}

#[test]
fn plan_with_a_blocker() {
    let verb = [&["plan"][..], &ASSUMED].concat();
    let plan = over("plan-blocked", 3, "grub-defaults/204-crlf", &verb);
    assert_eq!((&plan["files"], &plan["steps"]), (&Value::Array(vec![]), &Value::Array(vec![])));
    assert_eq!(plan["findings"][0]["severity"], "blocker");
}

#[test]
fn plan_of_a_file_that_is_no_utf_8() {
    let verb = [&["plan"][..], &ASSUMED].concat();
    let plan = over("plan-base64", 0, "grub-defaults/251-latin-1", &verb);
    has_keys(&plan["files"][0], &["path", "before_sha256", "after_base64", "diff"]);
}

#[test]
fn check() {
    over("check", 0, "json/bookworm", &["check"]);
    over("check-blocked", 3, "grub-defaults/204-crlf", &[&["check"][..], &ASSUMED].concat());
}

fn frozen(phase: PhaseName) -> PathBuf {
    here("fixtures/journals").join(format!("{phase}.json"))
}

/// A tree with this journal, seen on a host with v2.
const HYBRID: &str = "30 24 0:26 / /sys/fs/cgroup ro - tmpfs tmpfs ro\n31 30 0:27 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";
const LEGACY: &str = "30 24 0:26 / /sys/fs/cgroup ro - tmpfs tmpfs ro\n31 30 0:27 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,name=systemd\n";
const UNIFIED: &str = "30 24 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n";

/// The mount table that goes with a frozen journal.
fn mounts_in(phase: &str) -> &'static str {
    match phase {
        "none" | "planned" | "staged" | "rebooting" | "rolled-back" | "gone-back" => HYBRID,
        "needs-person" => LEGACY,
        _ => UNIFIED,
    }
}

fn tree_with(journal: Option<&Path>, table: &str) -> tempfile::TempDir {
    let tree = tempfile::tempdir().unwrap();
    let state = tree.path().join("var/lib/cgroup2-migrate");
    std::fs::create_dir_all(&state).unwrap();
    std::fs::create_dir_all(tree.path().join("proc/1")).unwrap();
    std::fs::write(tree.path().join("proc/1/mountinfo"), table).unwrap();
    if let Some(journal) = journal {
        std::fs::copy(journal, state.join("journal.json")).unwrap();
    }
    tree
}

fn status(name: &str, journal: Option<&Path>) -> Value {
    let tree = tree_with(journal, mounts_in(name));
    let (code, text) = run(&["status", "--json", "--root", tree.path().to_str().unwrap()]);
    assert_eq!(code, 0, "{name}");
    golden(&format!("status-{name}"), &text)
}

#[test]
fn status_of_every_phase() {
    assert_eq!(status("none", None)["phase"], "none");
    for phase in PHASES {
        assert_eq!(status(phase.as_str(), Some(&frozen(phase)))["phase"], phase.as_str());
    }
}

/// What is seen beats what is remembered.
#[test]
fn status_of_a_host_that_went_back_by_itself() {
    let status = status("gone-back", Some(&frozen(PhaseName::Done)));
    assert_eq!((&status["phase"], &status["hierarchy"]), (&"needs-person".into(), &"hybrid".into()));
    assert!(status["next"].as_str().unwrap().contains("`migrate`"));
}

/// Whatever later versions write, they read what this one wrote, and lose nothing of it.
#[test]
fn frozen_journals_stay_readable() {
    for phase in PHASES {
        let tree = tree_with(Some(&frozen(phase)), UNIFIED);
        let fs = RootedFs::new(tree.path());
        let journal = Store::new(&fs).load().unwrap().unwrap();
        assert_eq!(journal.state.name(), phase);
        let frozen: Value = serde_json::from_slice(&std::fs::read(frozen(phase)).unwrap()).unwrap();
        assert!(holds(&serde_json::to_value(&journal).unwrap(), &frozen), "{phase}");
    }
}

/// True if every key of `old` is in `new` with the same value; `new` may have more.
fn holds(new: &Value, old: &Value) -> bool {
    match (new, old) {
        (Value::Object(new), Value::Object(old)) => {
            old.iter().all(|(key, old)| new.get(key).is_some_and(|new| holds(new, old)))
        }
        (Value::Array(new), Value::Array(old)) => {
            new.len() == old.len() && new.iter().zip(old).all(|(new, old)| holds(new, old))
        }
        _ => new == old,
    }
}

/// The running host's own answer differs from machine to machine: its keys are compared, and the proofs of a made-up
/// host as a whole.
#[test]
fn verify() {
    let (code, text) = run(&["verify", "--json"]);
    let told: Value = serde_json::from_str(&text).unwrap();
    has_keys(&told, &["schema", "passed", "proofs"]);
    assert_eq!((told["passed"] == true, &told["schema"]), (code == 0, &Value::from(1)));
    for proof in told["proofs"].as_array().unwrap() {
        has_keys(proof, &["id", "answer", "detail"]);
    }
    golden("verify", &proofs_of_a_hybrid_host());
}

fn proofs_of_a_hybrid_host() -> String {
    let root = here("fixtures/json/bookworm");
    let table = std::fs::read_to_string(root.join("proc/1/mountinfo")).unwrap();
    let (fs, mounts) = (RootedFs::new(&root), FakeMounts::from_text("", &table).unwrap());
    assert!(!mounts.table().unwrap().is_empty());
    let (runner, clock, init) = (FakeRunner::new(), FakeClock::default(), FakeInit::new());
    let host = Host { fs: &fs, runner: &runner, clock: &clock, mounts: &mounts, init: &init };
    let proofs = prove(host, &REQUIRED_CONTROLLERS.map(str::to_owned));
    let answer = serde_json::json!({"schema": 1, "passed": false, "proofs": proofs});
    format!("{}\n", serde_json::to_string_pretty(&answer).unwrap())
}
