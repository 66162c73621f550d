//! `detect` on recorded hosts, on kernel lines, and on the machine that the tests run on.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test fails by panicking, in its helpers too")]

#[path = "support/cases.rs"]
mod cases;

use std::path::Path;

use assert_cmd::Command;
use cases::{Case, Detect};
use cgroup2_migrate::boot::hierarchy::{Hierarchy, decide};
use cgroup2_migrate::host::fake_mounts::FakeMounts;
use cgroup2_migrate::host::fs::RootedFs;
use cgroup2_migrate::verify::detection::{Detection, detect};
use serde::Deserialize;

fn program() -> Command {
    Command::cargo_bin("cgroup2-migrate").unwrap()
}

fn read(path: &Path) -> Option<String> {
    std::fs::read_to_string(path).ok()
}

fn mountinfo(case: &Path) -> Option<String> {
    ["proc/1/mountinfo", "proc/self/mountinfo"].iter().find_map(|name| read(&case.join(name)))
}

fn library(case: &Path) -> Detection {
    let statfs = read(&case.join("statfs.txt")).unwrap_or_default();
    let mounts = FakeMounts::from_text(&statfs, &mountinfo(case).unwrap_or_default()).unwrap();
    detect(&RootedFs::new(case), &mounts)
}

fn said(detection: &Detection) -> String {
    serde_json::to_string(detection).unwrap()
}

/// What must be true of every recording, also of those without an `expect.json`.
fn check_against_statfs(case: &Path, detection: &Detection) {
    let Some(statfs) = read(&case.join("statfs.txt")).filter(|_| !detection.is_refused()) else { return };
    let root = statfs.lines().find(|line| line.starts_with("/sys/fs/cgroup ")).unwrap_or_default();
    let is_unified = detection.hierarchy == Hierarchy::Unified;
    assert_eq!(is_unified, root.ends_with("0x63677270"), "{}: {}", case.display(), said(detection));
}

fn check(case: &Case) -> Result<(), String> {
    if case.detect().is_none() && !case.path.join("statfs.txt").exists() && mountinfo(&case.path).is_none() {
        return Err("no statfs.txt and no mount table".to_owned());
    }
    let detection = library(&case.path);
    check_against_statfs(&case.path, &detection);
    if let Some(expect) = case.detect() {
        check_library(&case.path, expect, &detection);
        check_program(&case.path, expect);
    }
    Ok(())
}

fn check_library(case: &Path, expect: &Detect, detection: &Detection) {
    assert_eq!(detection.hierarchy, expect.hierarchy, "{}", case.display());
    let said = said(detection);
    for words in &expect.says {
        assert!(said.contains(words), "{}: `{words}` not in {said}", case.display());
    }
}

fn check_program(case: &Path, expect: &Detect) {
    let mut command = program();
    let run = command.args(["detect", "--json", "--exit-code", "--root"]).arg(case).assert();
    let run = run.code(expect.exit_code);
    let told: Detection = serde_json::from_slice(&run.get_output().stdout).unwrap();
    assert_eq!(told.hierarchy, expect.hierarchy, "{}", case.display());
}

#[test]
fn recorded_hosts() {
    let own = cases::own("detection");
    assert!(own.len() >= 6 && own.iter().all(|case| case.detect().is_some()));
    assert_eq!(cases::judge_all(&own, check), own.len());
}

#[test]
fn cases_of_elsewhere_too() {
    cases::judge_all(&cases::elsewhere(), check);
}

#[test]
fn this_machine_is_what_stat_says() {
    let run = program().args(["detect", "--json"]).output().unwrap();
    let detection: Detection = serde_json::from_slice(&run.stdout).unwrap();
    if detection.is_refused() {
        println!("SKIP: this is no host, and detect says so");
        assert_eq!(run.status.code(), Some(6));
        return;
    }
    assert_eq!(run.status.code(), Some(0));
    assert!(!detection.why.is_empty(), "it says why");
    let expected = match (kind_of("/sys/fs/cgroup").as_str(), kind_of("/sys/fs/cgroup/unified").as_str()) {
        ("cgroup2fs", _) => Hierarchy::Unified,
        ("tmpfs", "cgroup2fs") => Hierarchy::Hybrid,
        ("tmpfs", _) if Path::new("/sys/fs/cgroup/systemd").exists() => Hierarchy::Legacy,
        _ => Hierarchy::Unknown,
    };
    assert_eq!(detection.hierarchy, expected, "{:?}", detection.why);
}

/// The file system's kind as `stat` names it; empty if there is none.
fn kind_of(path: &str) -> String {
    let stat = Command::new("stat").args(["-f", "-c", "%T", path]).output().unwrap();
    String::from_utf8(stat.stdout).unwrap().trim().to_owned()
}

/// Lines made at random of what hurts, each with the answer of Debian's own systemd 252: `cg_is_unified_wanted()` and
/// `cg_is_hybrid_wanted()` of its library were called with the line in `SYSTEMD_PROC_CMDLINE`, in a mount namespace
/// with nothing on `/sys/fs/cgroup` and no v1 controller in `/proc/cgroups`.
#[test]
fn kernel_lines_as_systemd_252_itself_answers() {
    #[derive(Deserialize)]
    struct Row {
        line: String,
        hierarchy: Hierarchy,
    }
    for row in include_str!("fixtures/kernel-lines/systemd-252.jsonl").lines() {
        let row: Row = serde_json::from_str(row).unwrap();
        let decision = decide(&row.line, 252, Hierarchy::Unified);
        assert_eq!(decision.hierarchy, row.hierarchy, "{:?}: {}", row.line, decision.reason);
    }
}

#[test]
fn kernel_lines() {
    for (arguments, code, word) in [
        (vec!["systemd.unified_cgroup_hierarchy=0"], 10, "systemd.unified_cgroup_hierarchy=0"),
        (vec!["-- \"systemd.unified-cgroup-hierarchy=OFF\""], 10, "\"systemd.unified-cgroup-hierarchy=OFF\""),
        (vec!["cgroup_no_v1=all", "--default", "legacy"], 0, "cgroup_no_v1=all"),
        (
            vec!["systemd.unified_cgroup_hierarchy=0", "--systemd", "239", "--default", "legacy"],
            11,
            "systemd.unified_cgroup_hierarchy=0",
        ),
    ] {
        let base = ["detect", "--json", "--exit-code", "--line"];
        let mut command = program();
        command.args(base).args(&arguments);
        if !arguments.contains(&"--systemd") {
            command.arg("--systemd=252");
        }
        let run = command.assert().code(code);
        let answer: serde_json::Value = serde_json::from_slice(&run.get_output().stdout).unwrap();
        assert_eq!(answer["schema"], 1);
        assert_eq!(answer["decided_by"]["word"], word, "{arguments:?}");
    }
}

#[test]
fn wrong_use_is_told_from_failure() {
    program().args(["detect", "--systemd", "252"]).assert().code(2);
    program().args(["detect", "--line", "a", "--default", "v2"]).assert().code(2);
    let failed = program().args(["detect", "--root", "/no/such/tree"]).assert().code(1);
    let told = String::from_utf8(failed.get_output().stderr.clone()).unwrap();
    assert!(told.contains("--root /no/such/tree") && told.lines().count() == 1, "{told}");
}
