//! What is seen beats what is remembered, and what cannot be seen is neither a yes nor a no.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::wildcard_enum_match_arm,
    reason = "a test that cannot go on has failed"
)]
#![allow(clippy::disallowed_methods, reason = "changes the made-up machine behind the program's back")]

#[path = "support/sim.rs"]
mod sim;

use cgroup2_migrate::boot::hierarchy::Hierarchy;
use cgroup2_migrate::host::Inhibitor;
use cgroup2_migrate::host::fake::{Fault, Fuse};
use cgroup2_migrate::migration::decide::Ending;
use cgroup2_migrate::migration::journal::Options;
use cgroup2_migrate::migration::phase::PhaseName;
use sim::{Sim, Verb};

const PINNED: &str = "GRUB_CMDLINE_LINUX=\"systemd.unified_cgroup_hierarchy=0\"\n";
const MENU: &str = "boot/grub/grub.cfg";

fn staged() -> Sim {
    let sim = Sim::new(PINNED);
    sim.options.replace(Options { until: Some(PhaseName::Staged), ..Options::default() });
    sim.run_well(Verb::Migrate);
    sim.options.replace(Options::default());
    sim
}

fn migrated() -> Sim {
    let sim = Sim::new(PINNED);
    sim.run_well(Verb::Migrate);
    assert_eq!(sim.settle(), Ending::Done);
    sim
}

fn needs_person(ending: Ending) -> String {
    match ending {
        Ending::NeedsPerson(why) => why,
        other => panic!("{other:?}"),
    }
}

fn lock() -> Inhibitor {
    Inhibitor {
        what: "shutdown".to_owned(),
        who: "apt".to_owned(),
        why: "upgrading".to_owned(),
        mode: "block".to_owned(),
        uid: 0,
        pid: 7,
    }
}

#[test]
fn a_second_migrate_is_carried_out_as_it_is_asked_for() {
    let sim = staged();
    sim.options.replace(Options { no_reboot: true, ..Options::default() });
    assert!(matches!(sim.run_well(Verb::Migrate), Ending::Paused(_)));
    assert_eq!(sim.reboots.get(), 0);
}

#[test]
fn a_temporary_file_that_cannot_be_removed_does_not_roll_a_proven_host_back() {
    for fault in [Fault::DiskFull, Fault::ReadOnly] {
        for k in 1..20 {
            let sim = Sim::new(PINNED);
            sim.run_well(Verb::Migrate);
            sim.put("etc/default/.grub.cgroup2-migrate-abcdef", "");
            let fuse = Fuse::at(k, fault);
            let _ = sim.run(Verb::ResumeAtBoot, &fuse);
            if fuse.effects() < k {
                break;
            }
            assert_eq!(sim.settle(), Ending::Done, "{fault:?} at {k}: {:?}", fuse.log());
            assert_eq!((sim.hierarchy(), sim.reboots.get()), (Hierarchy::Unified, 1));
        }
    }
}

#[test]
fn controllers_that_cannot_be_read_are_no_reason_to_go_back() {
    let sim = Sim::new(PINNED);
    sim.run_well(Verb::Migrate);
    std::fs::remove_file(sim.path("sys/fs/cgroup/cgroup.controllers")).unwrap();
    let why = needs_person(sim.run_well(Verb::ResumeAtBoot));
    assert!(why.contains("cgroup.controllers could not be read"), "{why}");
    assert_eq!(sim.reboots.get(), 1);
    sim.put("sys/fs/cgroup/cgroup.controllers", "cpuset cpu io memory pids\n");
    assert_eq!(sim.run_well(Verb::Resume), Ending::Done);
}

#[test]
fn a_v1_mount_that_no_pod_needs_does_no_harm() {
    let sim = Sim::new(PINNED);
    sim.more_mounts.replace("40 24 0:40 / /run/vpn/net_cls rw - cgroup cgroup rw,net_cls\n".to_owned());
    sim.run_well(Verb::Migrate);
    assert_eq!(sim.settle(), Ending::Done);
}

#[test]
fn a_needed_controller_held_by_a_v1_mount_fails_the_proof() {
    let sim = Sim::new(PINNED);
    sim.run_well(Verb::Migrate);
    sim.more_mounts.replace("40 24 0:40 / /mnt/cpu rw - cgroup cgroup rw,cpu\n".to_owned());
    let Ending::GoingDown = sim.run_well(Verb::ResumeAtBoot) else { panic!("no way back") };
    assert!(matches!(sim.settle(), Ending::RolledBack(why) if why.contains("cgroup v1: cpu")));
}

#[test]
fn what_the_holder_of_a_lock_did_meanwhile_is_looked_at() {
    let sim = staged();
    sim.locks.replace(vec![lock()]);
    let pinned =
        sim.text(MENU).replace("root=UUID=1 ro", "root=UUID=1 ro systemd.unified_cgroup_hierarchy=0");
    sim.while_waiting.replace(Some((MENU.to_owned(), pinned)));
    assert!(
        matches!(sim.run_well(Verb::Resume), Ending::RolledBack(why) if why.contains("right before the reboot"))
    );
    assert_eq!(sim.reboots.get(), 0);
}

#[test]
fn a_lock_that_goes_in_time_is_waited_for() {
    let sim = staged();
    sim.locks.replace(vec![lock()]);
    sim.while_waiting.replace(Some(("tmp/nothing".to_owned(), String::new())));
    assert_eq!(sim.run_well(Verb::Resume), Ending::GoingDown);
}

#[test]
fn it_is_not_done_while_the_next_boot_leads_elsewhere() {
    let sim = Sim::new(PINNED);
    sim.run_well(Verb::Migrate);
    let pinned =
        sim.text(MENU).replace("root=UUID=1 ro", "root=UUID=1 ro systemd.unified_cgroup_hierarchy=0");
    sim.put(MENU, &pinned);
    let why = needs_person(sim.run_well(Verb::ResumeAtBoot));
    assert!(why.contains("this boot runs cgroup v2, proven, but a later one"), "{why}");
}

#[test]
fn a_menu_that_someone_generated_from_our_settings_is_made_anew_on_the_way_back() {
    let sim = Sim::new(PINNED);
    // The settings are ours, the menu was never touched by us; then a kernel update generates it.
    let fuse = Fuse::at(11, Fault::PowerLostBefore);
    let _ = sim.run(Verb::Migrate, &fuse);
    assert_ne!(sim.text("etc/default/grub"), PINNED, "{:?}", fuse.log());
    assert!(!sim.journal().files[1].touched);
    let unified = sim.text(MENU).replace(" systemd.unified_cgroup_hierarchy=0", "").replace("6.1", "6.2");
    sim.put(MENU, &unified);
    assert!(matches!(sim.run_well(Verb::Rollback), Ending::RolledBack(_)));
    assert_eq!(sim.text("etc/default/grub"), PINNED);
    assert!(sim.text(MENU).contains("systemd.unified_cgroup_hierarchy=0"));
}

#[test]
fn a_stop_before_the_reboot_is_over_when_the_host_went_down_all_the_same() {
    let sim = staged();
    sim.boot();
    assert_eq!(sim.settle(), Ending::Done);
}

#[test]
fn the_unit_never_begins_the_reboot_into_v2() {
    let sim = staged();
    sim.run_well(Verb::Resume);
    let sim = staged();
    sim.options.replace(Options { no_reboot: false, ..Options::default() });
    let mut journal = sim.journal();
    journal.options.until = None;
    sim.put("var/lib/cgroup2-migrate/journal.json", &serde_json::to_string(&journal).unwrap());
    assert!(matches!(sim.run_well(Verb::ResumeAtBoot), Ending::Paused(_)));
    assert_eq!(sim.reboots.get(), 0);
}

#[test]
fn a_systemd_that_would_refuse_the_old_line_is_not_rebooted_into() {
    let sim = migrated();
    std::fs::remove_file(sim.path("usr/lib/systemd/libsystemd-shared-252.so")).unwrap();
    sim.put("usr/lib/systemd/libsystemd-shared-256.so", "");
    let ours = sim.boot_files();
    let why = needs_person(sim.run_well(Verb::Rollback));
    assert!(why.contains("there is no way back to hybrid") && why.contains("nothing was put back"), "{why}");
    assert_eq!((sim.boot_files(), sim.reboots.get()), (ours, 1));
}

#[test]
fn a_damaged_original_is_not_put_back() {
    let sim = migrated();
    let original = sim.journal().saved_path(0, "original");
    sim.put(&original.display().to_string(), "rubbish");
    let ours = sim.text("etc/default/grub");
    let why = needs_person(sim.run_well(Verb::Rollback));
    assert!(why.contains("its content is damaged"), "{why}");
    assert_eq!(sim.text("etc/default/grub"), ours);
}

#[test]
fn a_refused_way_back_leaves_no_request_behind() {
    let sim = migrated();
    sim.init_refuses.replace(Some("AccessDenied".to_owned()));
    for verb in [Verb::Rollback, Verb::Resume, Verb::ResumeAtBoot] {
        assert!(matches!(sim.run_well(verb), Ending::TryLater(_)), "{verb:?}");
        assert_eq!(sim.journal().reboots.len(), 1, "only the migration's own");
    }
    sim.init_refuses.replace(None);
    assert_eq!(sim.run_well(Verb::ResumeAtBoot), Ending::GoingDown);
    assert!(matches!(sim.settle(), Ending::RolledBack(_)));
}
