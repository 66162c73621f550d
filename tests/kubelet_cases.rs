//! The `kubelet` sections of the fixtures and of the cases from elsewhere: which values count and where they come from,
//! what would be changed, what is found.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test stops at the first surprise")]

#[path = "support/cases.rs"]
mod cases;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use cases::{Case, Kubelet};
use cgroup2_migrate::checks;
use cgroup2_migrate::config::Settings;
use cgroup2_migrate::facts::{self, Facts, Scan};
use cgroup2_migrate::host::fake::{FakeClock, FakeInit, FakeRunner};
use cgroup2_migrate::host::fake_mounts::FakeMounts;
use cgroup2_migrate::host::{Host, RootedFs};
use cgroup2_migrate::kubelet::{Change, Effective, Goal, Owner, Refusal, flip};
use cgroup2_migrate::report::Finding;

/// Findings that a section has to name; the tree lacks what others are about.
const AREA: [&str; 20] = [
    "cgroup-driver-mismatch",
    "cgroup-driver-overridden",
    "cgroup-driver-unknown",
    "fail-cgroup-v1-not-editable",
    "fail-cgroup-v1-set-twice",
    "feature-gate-removed",
    "kernel-below-documented-minimum",
    "kernel-panics-on-v2",
    "kernel-too-old",
    "kubeadm-patches",
    "kubelet-config-map",
    "kubelet-files-unreadable",
    "kubelet-flag-removed",
    "kubelet-key-misspelt",
    "kubelet-needs-v2",
    "reserved-cgroup-not-enforced",
    "reserved-cgroup-set",
    "v1-paths-in-use",
    "v2-controllers-incomplete",
    "v2-controllers-missing",
];

const ON_V1: &str = "/sys/fs/cgroup tmpfs 0x01021994\n/sys/fs/cgroup/systemd cgroup 0x0027e0eb\n";

fn scanned(case: &Path, version: Option<&str>) -> Facts {
    let statfs = std::fs::read_to_string(case.join("statfs.txt")).unwrap_or_else(|_| ON_V1.to_owned());
    let (fs, mounts) = (RootedFs::new(case), FakeMounts::from_text(&statfs, "").unwrap());
    let told = |program: &str| format!("{program} v{}\n", version.unwrap_or_default());
    let runner = ["kubelet", "/usr/bin/kubelet", "k3s", "rke2"]
        .iter()
        .fold(FakeRunner::new(), |runner, program| runner.ends(program, 0, &told(program), ""));
    let (clock, init) = (FakeClock::default(), FakeInit::new());
    let host = Host { fs: &fs, runner: &runner, clock: &clock, mounts: &mounts, init: &init };
    let mut facts = facts::scan(host, &Scan::running());
    let given = version.map(|version| cgroup2_migrate::kubelet::Version::parse(version).unwrap());
    if facts.kubelet_setup.has_a_kubelet() && facts.kubelet_setup.owner != Owner::K0s {
        assert_eq!(facts.kubelet_setup.version, given);
    }
    facts.kubelet_setup.version = given;
    facts
}

fn check(case: &Case) -> Result<(), String> {
    let Some(expect) = case.kubelet() else {
        let facts = scanned(&case.path, None);
        if !facts.kubelet_setup.has_a_kubelet() {
            return Err(case.lacks("kubelet"));
        }
        for goal in [Goal::RefuseV1, Goal::AllowV1] {
            all_differ(&flip(&facts.kubelet_setup, goal).unwrap_or_default());
        }
        return Ok(());
    };
    let facts = scanned(&case.path, expect.version.as_deref());
    check_effective(&facts, expect);
    check_findings(&facts, expect);
    if let Some(goal) = expect.goal {
        let goal = if goal == cases::Goal::RefuseV1 { Goal::RefuseV1 } else { Goal::AllowV1 };
        check_changes(flip(&facts.kubelet_setup, goal), expect);
    }
    Ok(())
}

fn check_effective(facts: &Facts, expect: &Kubelet) {
    let effective = Effective::of(&facts.kubelet_setup);
    for (key, expected) in &expect.effective {
        let found = effective.get(key).map(|setting| (setting.value.clone(), setting.origin.to_string()));
        assert_eq!(found, *expected, "{key}");
    }
}

fn check_findings(facts: &Facts, expect: &Kubelet) {
    let findings: Vec<Finding> = checks::run(facts, &Settings::default());
    let ids: BTreeSet<String> = findings.iter().map(|finding| finding.id.clone()).collect();
    let of_area: BTreeSet<String> = ids.into_iter().filter(|id| AREA.contains(&id.as_str())).collect();
    assert_eq!(of_area, expect.findings, "{findings:#?}");
    let said = format!("{findings:?}");
    for words in &expect.says {
        assert!(said.contains(words), "`{words}` not in {findings:#?}");
    }
}

fn check_changes(flipped: Result<Vec<Change>, Vec<Refusal>>, expect: &Kubelet) {
    match flipped {
        Ok(changes) => {
            all_differ(&changes);
            let texts: BTreeMap<PathBuf, String> = changes
                .iter()
                .map(|change| {
                    (change.edit.path.clone(), String::from_utf8(change.edit.after.clone()).unwrap())
                })
                .collect();
            assert_eq!(texts.len(), changes.len(), "a file twice: {changes:?}");
            assert_eq!(texts, expect.changes);
            assert!(expect.refused.is_empty(), "not refused: {:?}", expect.refused);
        }
        Err(refusals) => {
            let said = format!("{refusals:?}");
            assert!(!expect.refused.is_empty() && expect.changes.is_empty(), "{said}");
            assert!(
                expect.refused.iter().all(|words| said.contains(words)),
                "{:?} not in {said}",
                expect.refused
            );
        }
    }
}

fn all_differ(changes: &[Change]) {
    for change in changes {
        assert_ne!(change.edit.before.as_ref(), Some(&change.edit.after), "{}", change.edit.path.display());
        assert!(!change.why.is_empty());
    }
}

#[test]
fn kubelets_of_all_kinds() {
    let own = cases::own("kubelet");
    assert!(own.len() >= 20 && own.iter().all(|case| case.kubelet().is_some()));
    assert_eq!(cases::judge_all(&own, check), own.len());
}

#[test]
fn cases_of_elsewhere_too() {
    cases::judge_all(&cases::elsewhere(), check);
}

/// There and back again, from every fixture that can be changed at all.
#[test]
fn a_flip_and_its_way_back_are_the_same_bytes() {
    let mut flipped = 0;
    for case in cases::own("kubelet") {
        let version = case.kubelet().and_then(|expect| expect.version.clone());
        let mut facts = scanned(&case.path, version.as_deref());
        let Ok(changes) = flip(&facts.kubelet_setup, Goal::RefuseV1) else { continue };
        let before: Vec<_> =
            changes.iter().map(|change| (change.edit.path.clone(), change.edit.before.clone())).collect();
        for change in &changes {
            put(&mut facts, change);
        }
        let Ok(back) = flip(&facts.kubelet_setup, Goal::AllowV1) else { continue };
        for (path, before) in before.into_iter().filter_map(|(path, before)| Some((path, before?))) {
            let after =
                back.iter().find(|change| change.edit.path == path).map(|change| change.edit.after.clone());
            assert_eq!(after, Some(before), "{}: {}", case.path.display(), path.display());
            flipped += 1;
        }
    }
    assert!(flipped >= 4, "{flipped}");
}

fn put(facts: &mut Facts, change: &Change) {
    let text = String::from_utf8(change.edit.after.clone()).unwrap();
    let setup = &mut facts.kubelet_setup;
    for file in setup.files.iter_mut().filter(|file| file.source.path == change.edit.path) {
        *file = cgroup2_migrate::kubelet::setup::ConfigFile::new(
            cgroup2_migrate::kubelet::Source::new(&change.edit.path, text.clone()),
            file.is_drop_in,
        );
    }
    for holder in setup.holders.iter_mut().filter(|holder| holder.source.path == change.edit.path) {
        holder.source.text.clone_from(&text);
    }
    for flag in setup.flags.iter_mut().filter(|flag| flag.name == "fail-cgroupv1") {
        flag.value = Some("true".to_owned());
    }
}
