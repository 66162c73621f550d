//! Facts that are hard to bring about on a machine, judged: what could not be found out, full and read-only file
//! systems, the firmware, the way back.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test stops at the first surprise"
)]

#[path = "support/private_mounts.rs"]
mod private_mounts;
#[path = "support/sim.rs"]
mod sim;

use std::path::PathBuf;

use cgroup2_migrate::boot::hierarchy::Hierarchy;
use cgroup2_migrate::cli::{Exit, verdict};
use cgroup2_migrate::config::{LONGEST_REBOOT_WAIT, Settings};
use cgroup2_migrate::facts::Facts;
use cgroup2_migrate::facts::firmware::SystemOptions;
use cgroup2_migrate::plan::{self, Plan, Possible};
use cgroup2_migrate::report::{Finding, Severity};
use private_mounts::{in_private_namespace, make_read_only, mount_tmpfs};
use sim::Sim;

const PINNED: &str = "GRUB_CMDLINE_LINUX=\"systemd.unified_cgroup_hierarchy=0\"\n";

fn plan_with(settings: &str, change: impl FnOnce(&mut Facts)) -> Plan {
    let (mut facts, _) = Sim::new(settings).plan();
    change(&mut facts);
    plan::make(&facts, &Settings::default())
}

/// The one finding, and the exit code.
#[track_caller]
fn judged(change: impl FnOnce(&mut Facts)) -> (Finding, Exit) {
    let plan = plan_with(PINNED, change);
    let exit = verdict(&plan.blockers(&[]));
    let [finding] = plan.findings.as_slice() else { panic!("{:?}", plan.findings) };
    (finding.clone(), exit)
}

#[track_caller]
fn is_blocker(id: &str, change: impl FnOnce(&mut Facts)) -> Finding {
    let (finding, exit) = judged(change);
    assert_eq!((finding.id.as_str(), exit), (id, Exit::Blocked), "{finding:?}");
    assert!(finding.remedy.is_some(), "{finding:?}");
    finding
}

#[track_caller]
fn is_told(id: &str, severity: Severity, change: impl FnOnce(&mut Facts)) {
    let (finding, exit) = judged(change);
    assert_eq!((finding.id.as_str(), finding.severity, exit), (id, severity, Exit::Done), "{finding:?}");
}

fn why<T>() -> Result<T, String> {
    Err("the disk is broken".to_owned())
}

#[test]
fn what_is_dangerous_not_to_know() {
    is_blocker("reboot-target-unknown", |facts| facts.reboot.as_mut().unwrap().target_state = why());
    is_blocker("reboot-locks-unknown", |facts| facts.reboot.as_mut().unwrap().inhibitors = why());
    is_blocker("kubelet-unknown", |facts| facts.kubelet = Some(why()));
    is_blocker("os-unknown", |facts| facts.os = why());
    is_blocker("boot-mounts-unknown", |facts| facts.storage.as_mut().unwrap().unmounted = why());
    is_blocker("resume-unit-unknown", |facts| facts.resume_unit.as_mut().unwrap().state = why());
    is_blocker("resume-unit-unknown", |facts| facts.resume_unit.as_mut().unwrap().link = why());
    is_blocker("resume-unit-unknown", |facts| facts.resume_unit.as_mut().unwrap().program = why());
    is_blocker("mount-namespace-unknown", |facts| facts.storage.as_mut().unwrap().elsewhere = why());
    is_blocker("storage-unknown", |facts| place(facts).read_only = why());
}

#[test]
fn what_does_no_harm_not_to_know() {
    is_told("shutdown-schedule-unknown", Severity::Warning, |facts| {
        facts.reboot.as_mut().unwrap().scheduled = why();
    });
    is_told("kexec-unknown", Severity::Note, |facts| facts.reboot.as_mut().unwrap().kexec_loaded = why());
    is_told("efi-system-options-unknown", Severity::Warning, |facts| facts.efi_system_options = why());
}

fn place(facts: &mut Facts) -> &mut cgroup2_migrate::facts::storage::Place {
    facts.storage.as_mut().unwrap().places.first_mut().unwrap()
}

/// Nothing is written there, so nothing can be written to the wrong place.
#[test]
fn on_v2_another_mount_namespace_does_no_harm() {
    let plan = |elsewhere: Result<Vec<PathBuf>, String>| {
        plan_with(PINNED, |facts| {
            facts.cgroup.hierarchy = Hierarchy::Unified;
            facts.storage.as_mut().unwrap().elsewhere = elsewhere;
        })
    };
    let told = |plan: &Plan| plan.findings.iter().find(|finding| finding.id.starts_with("mount-")).cloned();
    assert_eq!(told(&plan(why())).unwrap().severity, Severity::Note);
    assert!(plan(Ok(vec!["/boot".into()])).blockers(&[]).is_empty());
}

#[test]
fn places_that_cannot_be_written() {
    is_blocker("read-only-file-system", |facts| place(facts).read_only = Ok(true));
    is_blocker("no-space", |facts| place(facts).available_bytes = 1 << 20);
    let finding = is_blocker("no-space", |facts| place(facts).available_files = Some(3));
    assert!(finding.detail.contains("3 inodes"), "{finding:?}");
    assert!(plan_with(PINNED, |facts| place(facts).available_files = None).findings.is_empty());
}

#[test]
fn the_room_that_is_needed_goes_by_the_menu() {
    let findings = |menu: u64| {
        let change = |facts: &mut Facts| {
            facts.storage.as_mut().unwrap().menu_bytes = Some(menu);
            place(facts).available_bytes = 3 << 20;
        };
        plan_with(PINNED, change).findings
    };
    assert!(findings(1 << 20).is_empty());
    assert!(
        findings((1 << 20) + 1).first().unwrap().detail.contains("3072 KiB are free, 3072 KiB are needed")
    );
}

#[test]
fn a_full_and_a_read_only_file_system() {
    in_private_namespace("a_full_and_a_read_only_file_system", || {
        for (options, words) in [("size=64k", "KiB are free"), ("nr_inodes=4", "inodes are free")] {
            let sim = Sim::new(PINNED);
            let state = sim.path("var/lib/cgroup2-migrate");
            std::fs::create_dir_all(&state).unwrap();
            mount_tmpfs(&state, options);
            let (_, plan) = sim.plan();
            let [finding] = plan.findings.as_slice() else { panic!("{:?}", plan.findings) };
            assert!(finding.id == "no-space" && finding.detail.contains(words), "{finding:?}");
        }
        let sim = Sim::new(PINNED);
        make_read_only(&sim.path("boot/grub"));
        let (_, plan) = sim.plan();
        let [finding] = plan.findings.as_slice() else { panic!("{:?}", plan.findings) };
        assert_eq!(finding.id, "read-only-file-system");
        assert_eq!(verdict(&plan.blockers(&[])), Exit::Blocked);
    });
}

fn firmware(text: &str) -> impl FnOnce(&mut Facts) {
    let options = SystemOptions { path: "/sys/firmware/efi/efivars/x".into(), text: text.to_owned() };
    move |facts| facts.efi_system_options = Ok(Some(options))
}

#[test]
fn a_pin_in_the_firmware() {
    for pin in ["systemd.unified_cgroup_hierarchy=0", "quiet systemd.unified-cgroup-hierarchy='no'"] {
        let finding = is_blocker("efi-system-options", firmware(pin));
        assert_eq!(finding.remedy.unwrap().argv.unwrap(), ["bootctl", "systemd-efi-options", ""]);
    }
    is_told("efi-system-options", Severity::Note, firmware("quiet systemd.log_level=debug"));
    let on_v2 = plan_with("GRUB_CMDLINE_LINUX=\"\"\n", firmware("systemd.unified_cgroup_hierarchy=0"));
    assert!(on_v2.nothing_to_do && on_v2.blockers(&[]).is_empty(), "{:?}", on_v2.findings);
}

fn way_back(settings: &str, change: impl FnOnce(&mut Facts)) -> (Possible, String) {
    let way_back = plan_with(settings, change).way_back;
    (way_back.possible, way_back.why)
}

fn systemd(version: u32) -> impl FnOnce(&mut Facts) {
    move |facts| {
        facts.systemd.version = Some(version);
        facts.systemd.default_hierarchy = Hierarchy::Unified;
    }
}

#[test]
fn a_systemd_that_was_replaced_and_would_not_boot_v1() {
    const FORCED: &str = "GRUB_CMDLINE_LINUX=\"systemd.unified_cgroup_hierarchy=0 \
                          SYSTEMD_CGROUP_ENABLE_LEGACY_FORCE=1\"\n";
    assert_eq!(way_back(PINNED, systemd(252)).0, Possible::Yes);
    for version in [256, 257, 258] {
        assert_eq!(way_back(PINNED, systemd(version)).0, Possible::No, "{version}");
    }
    assert_eq!(way_back(FORCED, systemd(257)).0, Possible::Yes);
    assert_eq!(way_back(FORCED, systemd(258)).0, Possible::No);
}

/// What nobody read is no fact: neither the systemd of an image nor the hierarchy that somebody says it runs.
#[test]
fn what_is_assumed_of_an_image_is_not_said_as_a_fact() {
    let image = |version, read, hierarchy| {
        move |facts: &mut Facts| {
            facts.scan.running = false;
            facts.scan.assumed_hierarchy = Some(hierarchy);
            facts.systemd.version = version;
            facts.systemd.version_read = read;
        }
    };
    for (version, read, hierarchy, possible, words) in [
        (Some(252), true, Hierarchy::Hybrid, Possible::Yes, "runs it now is assumed"),
        (
            Some(252),
            false,
            Hierarchy::Hybrid,
            Possible::Unknown,
            "systemd 252 (assumed by os-release, not read)",
        ),
        (None, false, Hierarchy::Hybrid, Possible::Unknown, "no systemd was found"),
        (Some(258), true, Hierarchy::Hybrid, Possible::No, "systemd 258 has no cgroup v1"),
        (
            Some(258),
            false,
            Hierarchy::Hybrid,
            Possible::Unknown,
            "systemd 258 (assumed by os-release, not read) has no",
        ),
        (Some(252), true, Hierarchy::Unified, Possible::Yes, "systemd 252 still knows"),
        (Some(252), false, Hierarchy::Unified, Possible::Unknown, "not read) still knows"),
        (None, false, Hierarchy::Unified, Possible::Unknown, "is not known"),
    ] {
        let (found, why) = way_back(PINNED, image(version, read, hierarchy));
        assert!(found == possible && why.contains(words), "{version:?} {read} {hierarchy}: {found:?}: {why}");
        assert!(!why.contains("run cgroup v1 now"), "{why}");
    }
}

#[test]
fn a_kernel_without_v1_code() {
    const ON_V2: &str = "GRUB_CMDLINE_LINUX=\"\"\n";
    let without = |facts: &mut Facts| facts.kernel.has_v1_memory = Some(false);
    assert_eq!(way_back(ON_V2, |_| ()).0, Possible::Yes);
    let (possible, why) = way_back(ON_V2, without);
    assert!(possible == Possible::Unknown && why.contains("memory"), "{why}");
    assert_eq!(way_back(PINNED, without).0, Possible::Yes);
}

#[test]
fn the_change_is_permanent_and_the_plan_says_so() {
    assert!(plan_with(PINNED, |_| ()).down_time.contains("person at the console"));
}

/// The limits of the program itself: menus (`migration::regenerate`), the wait for a lock, the reboot to begin.
#[test]
fn the_unit_waits_longer_than_the_program() {
    let unit = include_str!("../systemd/cgroup2-migrate-resume.service");
    let hours = unit.lines().find_map(|line| line.strip_prefix("RuntimeMaxSec=")?.strip_suffix('h')).unwrap();
    let limit = hours.parse::<u64>().unwrap() * 3600;
    assert!(limit >= 2 * (600 + 60) + LONGEST_REBOOT_WAIT.as_secs() + 60);
    assert!(10 * (limit + 60) < 24 * 3600 && unit.contains("StartLimitBurst=10\n"));
    assert!(!unit.contains("Type=oneshot") && !unit.contains("Documentation="));
}
