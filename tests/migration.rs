//! Whole migrations of a made-up machine: forward, back, and through every crash.
#![allow(
    clippy::panic,
    clippy::wildcard_enum_match_arm,
    reason = "a test that sees another ending has failed"
)]

#[path = "support/sim.rs"]
mod sim;

use cgroup2_migrate::boot::hierarchy::Hierarchy;
use cgroup2_migrate::host::fake::{Fault, Fuse};
use cgroup2_migrate::migration::decide::Ending;
use cgroup2_migrate::migration::journal::Options;
use cgroup2_migrate::migration::phase::PhaseName;
use sim::{Sim, Verb};

const PINNED: &str = "GRUB_DEFAULT=0\nGRUB_CMDLINE_LINUX_DEFAULT=\"quiet systemd.unified_cgroup_hierarchy=0\"\n\
                      GRUB_CMDLINE_LINUX=\"net.ifnames=0\"\n";

/// Nothing can be taken out of such a text: a drop-in has to do it, in a directory that is not there yet.
const COMPUTED: &str =
    "GRUB_DEFAULT=0\nGRUB_CMDLINE_LINUX=\"net.ifnames=0 `printf systemd.unified_cgroup_hierarchy=0`\"\n";

#[test]
fn there_and_proven() {
    let sim = Sim::new(PINNED);
    assert_eq!(sim.hierarchy(), Hierarchy::Hybrid);
    assert_eq!(sim.run_well(Verb::Migrate), Ending::GoingDown);
    assert_eq!(sim.settle(), Ending::Done);
    assert_eq!((sim.hierarchy(), sim.boots(), sim.reboots.get()), (Hierarchy::Unified, 2, 1));
    let expected = PINNED.replace(" systemd.unified_cgroup_hierarchy=0", "");
    assert_eq!(sim.text("etc/default/grub"), expected);
    assert!(!sim.text("boot/grub/grub.cfg").contains("unified_cgroup_hierarchy"));
}

#[test]
fn there_and_back_leaves_every_byte() {
    let sim = Sim::new(PINNED);
    let before = sim.boot_files();
    sim.run_well(Verb::Migrate);
    sim.settle();
    assert_eq!(sim.run_well(Verb::Rollback), Ending::GoingDown);
    assert!(matches!(sim.settle(), Ending::RolledBack(_)));
    assert_eq!(sim.boot_files(), before);
    assert_eq!((sim.hierarchy(), sim.boots(), sim.reboots.get()), (Hierarchy::Hybrid, 3, 2));
}

#[test]
fn a_directory_made_for_a_drop_in_goes_again_with_it() {
    let sim = Sim::new(COMPUTED);
    let before = sim.boot_files();
    sim.run_well(Verb::Migrate);
    assert_eq!(sim.settle(), Ending::Done);
    assert_eq!((sim.hierarchy(), sim.text("etc/default/grub").as_str()), (Hierarchy::Unified, COMPUTED));
    assert!(sim.path("etc/default/grub.d").is_dir());
    sim.run_well(Verb::Rollback);
    assert!(matches!(sim.settle(), Ending::RolledBack(_)));
    assert_eq!(sim.boot_files(), before);
}

#[test]
fn a_directory_that_someone_else_uses_too_stays() {
    let sim = Sim::new(COMPUTED);
    sim.run_well(Verb::Migrate);
    sim.settle();
    sim.put("etc/default/grub.d/timeout.cfg", "GRUB_TIMEOUT=1\n");
    sim.run_well(Verb::Rollback);
    assert!(matches!(sim.settle(), Ending::RolledBack(_)));
    let left: Vec<_> = std::fs::read_dir(sim.path("etc/default/grub.d")).unwrap().collect();
    assert_eq!(left.len(), 1, "{left:?}");
}

#[test]
fn a_second_migration_after_a_rollback_works() {
    let sim = Sim::new(PINNED);
    sim.run_well(Verb::Migrate);
    sim.settle();
    sim.run_well(Verb::Rollback);
    sim.settle();
    sim.run_well(Verb::Migrate);
    assert_eq!(sim.settle(), Ending::Done);
}

#[test]
fn without_effect_the_files_go_back_and_nothing_reboots_again() {
    let sim = Sim::new(PINNED);
    let before = sim.boot_files();
    sim.stuck_at.set(Some(Hierarchy::Hybrid));
    sim.run_well(Verb::Migrate);
    let Ending::RolledBack(why) = sim.settle() else { panic!("not rolled back") };
    assert!(why.contains("were active") && why.contains("initramfs"), "{why}");
    assert_eq!(sim.boot_files(), before);
    assert_eq!((sim.boots(), sim.reboots.get()), (2, 1));
    sim.boot();
    assert!(matches!(sim.settle(), Ending::RolledBack(_)));
    assert_eq!((sim.boots(), sim.reboots.get()), (3, 1), "the unit begins nothing by itself");
}

#[test]
fn another_v1_layout_than_before_is_not_as_it_was() {
    let sim = Sim::new(PINNED);
    sim.stuck_at.set(Some(Hierarchy::Legacy));
    sim.run_well(Verb::Migrate);
    sim.stuck_at.set(None);
    assert!(matches!(sim.settle(), Ending::RolledBack(_)));
    assert_eq!((sim.hierarchy(), sim.reboots.get()), (Hierarchy::Hybrid, 2));
}

#[test]
fn a_way_back_that_does_not_lead_back_ends_with_a_person_not_in_a_loop() {
    let sim = Sim::new(PINNED);
    sim.stuck_at.set(Some(Hierarchy::Legacy));
    sim.run_well(Verb::Migrate);
    assert!(matches!(sim.settle(), Ending::NeedsPerson(_)));
    assert_eq!(sim.reboots.get(), 2);
    sim.boot();
    assert!(matches!(sim.settle(), Ending::NeedsPerson(_)));
    assert_eq!(sim.reboots.get(), 2);
}

#[test]
fn a_generator_that_writes_rubbish_changes_nothing() {
    for rubbish in ["", "menuentry 'x' {\n", "menuentry 'memtest' { linux16 /memtest }", "set timeout=1\n"] {
        let sim = Sim::new(PINNED);
        let before = sim.boot_files();
        sim.mkconfig_writes.replace(Some(rubbish.to_owned()));
        let Ending::RolledBack(why) = sim.run_well(Verb::Migrate) else { panic!("{rubbish:?}") };
        assert!(why.contains("grub.cfg"), "{why}");
        assert_eq!(sim.boot_files(), before, "{rubbish:?}");
        assert_eq!(sim.reboots.get(), 0);
    }
}

#[test]
fn a_refused_reboot_keeps_the_state_and_goes_on_later() {
    let sim = Sim::new(PINNED);
    sim.init_refuses.replace(Some("AccessDenied".to_owned()));
    assert!(matches!(sim.run_well(Verb::Migrate), Ending::TryLater(why) if why.contains("AccessDenied")));
    assert_eq!(sim.journal().state.name(), PhaseName::Staged);
    assert!(sim.journal().reboots.is_empty());
    sim.init_refuses.replace(None);
    assert_eq!(sim.run_well(Verb::Resume), Ending::GoingDown);
    assert_eq!(sim.settle(), Ending::Done);
}

#[test]
fn no_reboot_leaves_it_to_the_person_and_proves_it_afterwards() {
    let sim = Sim::new(PINNED);
    sim.options.replace(Options { no_reboot: true, ..Options::default() });
    assert!(matches!(sim.run_well(Verb::Migrate), Ending::Paused(_)));
    assert!(matches!(sim.run_well(Verb::Resume), Ending::Paused(_)));
    sim.boot();
    assert_eq!(sim.settle(), Ending::Done);
    assert_eq!(sim.reboots.get(), 0);
}

#[test]
fn a_second_migrate_can_hold_the_reboot_back() {
    let sim = Sim::new(PINNED);
    sim.init_refuses.replace(Some("AccessDenied".to_owned()));
    sim.run_well(Verb::Migrate);
    sim.init_refuses.replace(None);
    sim.options.replace(Options { no_reboot: true, ..Options::default() });
    assert!(matches!(sim.run_well(Verb::Migrate), Ending::Paused(_)));
    assert!(matches!(sim.run_well(Verb::Resume), Ending::Paused(_)));
    assert_eq!(sim.reboots.get(), 0);
}

#[test]
fn until_stops_where_it_should_and_resume_goes_on() {
    let sim = Sim::new(PINNED);
    sim.options.replace(Options { until: Some(PhaseName::Staged), ..Options::default() });
    assert!(matches!(sim.run_well(Verb::Migrate), Ending::Paused(_)));
    assert!(matches!(sim.run_well(Verb::ResumeAtBoot), Ending::Paused(_)), "the unit is no person");
    assert_eq!(sim.run_well(Verb::Resume), Ending::GoingDown);
    assert_eq!(sim.settle(), Ending::Done);
}

#[test]
fn a_file_that_someone_else_changes_afterwards_is_not_put_back_over() {
    let sim = Sim::new(PINNED);
    sim.run_well(Verb::Migrate);
    sim.settle();
    sim.put("etc/default/grub", "GRUB_CMDLINE_LINUX=\"by hand\"\n");
    let Ending::NeedsPerson(why) = sim.run_well(Verb::Rollback) else { panic!("not a person") };
    assert!(why.contains("/etc/default/grub"), "{why}");
    assert_eq!(sim.text("etc/default/grub"), "GRUB_CMDLINE_LINUX=\"by hand\"\n");
    assert_eq!(sim.reboots.get(), 1);
}

#[test]
fn a_menu_that_a_kernel_update_wrote_anew_is_made_from_the_restored_settings() {
    let sim = Sim::new(PINNED);
    sim.run_well(Verb::Migrate);
    sim.settle();
    sim.install_kernel("6.2.0-1-amd64");
    sim.put("boot/grub/grub.cfg", &sim.menu());
    sim.run_well(Verb::Rollback);
    assert!(matches!(sim.settle(), Ending::RolledBack(_)));
    assert_eq!(sim.hierarchy(), Hierarchy::Hybrid);
    assert_eq!(sim.text("etc/default/grub"), PINNED);
}

/// A kernel is installed while the menu is generated: neither on the way there nor on the way back may it get lost.
#[test]
fn a_kernel_update_while_the_menu_is_generated_is_in_it_and_in_the_one_of_the_way_back() {
    let sim = Sim::new(PINNED);
    sim.kernel_updates.set(1);
    assert_eq!(sim.run_well(Verb::Migrate), Ending::GoingDown);
    assert_eq!(sim.settle(), Ending::Done);
    let menu = sim.text("boot/grub/grub.cfg");
    assert!(menu.contains("vmlinuz-6.9.0-1-amd64") && !menu.contains("unified_cgroup_hierarchy"), "{menu}");
    sim.run_well(Verb::Rollback);
    assert!(matches!(sim.settle(), Ending::RolledBack(_)));
    let menu = sim.text("boot/grub/grub.cfg");
    assert!(menu.contains("vmlinuz-6.9.0-1-amd64") && menu.contains("unified_cgroup_hierarchy=0"), "{menu}");
    assert_eq!((sim.hierarchy(), sim.text("etc/default/grub").as_str()), (Hierarchy::Hybrid, PINNED));
}

#[test]
fn someone_who_writes_the_menu_each_time_wins() {
    let sim = Sim::new(PINNED);
    sim.kernel_updates.set(3);
    let Ending::RolledBack(why) = sim.run_well(Verb::Migrate) else { panic!("not rolled back") };
    assert!(why.contains("each of 3 times"), "{why}");
    let menu = sim.text("boot/grub/grub.cfg");
    assert!(menu.contains("vmlinuz-6.9.0-1-amd64") && menu.contains("unified_cgroup_hierarchy=0"), "{menu}");
    assert_eq!((sim.text("etc/default/grub").as_str(), sim.reboots.get()), (PINNED, 0));
}

/// The script of a kernel package runs between the change of the settings and the first look at the menu, and the
/// generator then fails: the menu with our words must not stay.
#[test]
fn a_menu_that_someone_made_from_our_settings_does_not_survive_the_way_back() {
    let sim = Sim::new(PINNED);
    sim.kernel_updates.set(1);
    sim.mkconfig_writes.replace(Some(String::new()));
    sim.run_well(Verb::Migrate);
    sim.mkconfig_writes.replace(None);
    sim.run_well(Verb::Rollback);
    sim.settle();
    assert!(sim.text("boot/grub/grub.cfg").contains("unified_cgroup_hierarchy=0"));
    assert_eq!(sim.text("etc/default/grub"), PINNED);
}

#[test]
fn a_kernel_update_between_the_change_and_the_reboot_is_noticed() {
    let sim = Sim::new(PINNED);
    sim.options.replace(Options { until: Some(PhaseName::Staged), ..Options::default() });
    sim.run_well(Verb::Migrate);
    let line = sim.text("boot/grub/grub.cfg").replace("quiet", "quiet systemd.unified_cgroup_hierarchy=0");
    sim.put("boot/grub/grub.cfg", &line);
    assert!(
        matches!(sim.run_well(Verb::Resume), Ending::RolledBack(why) if why.contains("right before the reboot"))
    );
    assert_eq!(sim.reboots.get(), 0);
    assert_eq!(sim.text("etc/default/grub"), PINNED);
}

/// The settings as before, and a menu made from them.
fn put_the_pin_back(sim: &Sim) {
    sim.put("etc/default/grub", PINNED);
    let line = sim.text("boot/grub/grub.cfg").replace("quiet", "quiet systemd.unified_cgroup_hierarchy=0");
    sim.put("boot/grub/grub.cfg", &line);
}

#[test]
fn a_proven_boot_is_not_the_end_if_the_next_one_would_be_v1_again() {
    for until in [PhaseName::Booted, PhaseName::Verified] {
        let sim = Sim::new(PINNED);
        sim.options.replace(Options { until: Some(until), ..Options::default() });
        sim.run_well(Verb::Migrate);
        sim.settle();
        put_the_pin_back(&sim);
        let Ending::NeedsPerson(why) = sim.run_well(Verb::Resume) else { panic!("not a person") };
        assert!(why.contains("/etc/default/grub") && why.contains("`rollback`"), "{why}");
        assert_eq!(sim.run_well(Verb::Rollback), Ending::GoingDown);
        assert!(matches!(sim.settle(), Ending::RolledBack(_)));
        assert_eq!((sim.hierarchy(), sim.reboots.get()), (Hierarchy::Hybrid, 2));
    }
}

#[test]
fn a_boot_into_v2_by_hand_before_anything_was_written_is_no_end() {
    let sim = Sim::new(PINNED);
    sim.options.replace(Options { until: Some(PhaseName::Planned), ..Options::default() });
    sim.run_well(Verb::Migrate);
    sim.stuck_at.set(Some(Hierarchy::Unified));
    sim.boot();
    assert!(matches!(sim.run_well(Verb::Resume), Ending::NeedsPerson(why) if why.contains("a later one")));
    assert_eq!((sim.text("etc/default/grub").as_str(), sim.reboots.get()), (PINNED, 0));
}

#[test]
fn a_way_back_that_failed_half_way_is_not_called_done_afterwards() {
    let sim = Sim::new(PINNED);
    sim.run_well(Verb::Migrate);
    sim.settle();
    let saved = format!("var/lib/cgroup2-migrate/{}/01.original", sim.journal().txn);
    std::fs::remove_file(sim.path(&saved)).unwrap();
    let Ending::NeedsPerson(why) = sim.run_well(Verb::Rollback) else { panic!("not a person") };
    assert!(why.contains("01.original") && why.contains("`rollback`"), "{why}");
    assert!(matches!(sim.run_well(Verb::Resume), Ending::NeedsPerson(_)));
    assert_eq!((sim.hierarchy(), sim.reboots.get()), (Hierarchy::Unified, 1));
}

#[test]
fn a_person_who_asks_again_gets_another_reboot_back() {
    let sim = Sim::new(PINNED);
    sim.run_well(Verb::Migrate);
    sim.settle();
    sim.stuck_at.set(Some(Hierarchy::Unified));
    sim.run_well(Verb::Rollback);
    assert!(matches!(sim.settle(), Ending::NeedsPerson(why) if why.contains("`rollback` reboots once more")));
    assert_eq!(sim.reboots.get(), 2);
    sim.stuck_at.set(None);
    assert_eq!(sim.run_well(Verb::Rollback), Ending::GoingDown);
    assert!(matches!(sim.settle(), Ending::RolledBack(_)));
    assert_eq!((sim.hierarchy(), sim.reboots.get()), (Hierarchy::Hybrid, 3));
}

/// Dies at effect `k`, then the machine loses power, or only the program is started anew.
fn die_and_go_on(settings: &str, k: usize, fault: Fault, power_cut: bool) -> Option<Sim> {
    let sim = Sim::new(settings);
    let before = sim.boot_files();
    let fuse = Fuse::at(k, fault);
    let _ = sim.run(Verb::Migrate, &fuse);
    if fuse.effects() < k {
        return None;
    }
    let done = host_effects(&sim, (fault != Fault::PowerLostAfter).then_some(k));
    if sim.reboots.get() == 0 {
        if power_cut {
            sim.boot();
        } else if sim.path("var/lib/cgroup2-migrate/journal.json").exists() {
            let ending = sim.run_well(Verb::Resume);
            nothing_twice(&done, &sim, &ending);
        }
    }
    if sim.path("var/lib/cgroup2-migrate/journal.json").exists() {
        check_end(
            &sim,
            &before,
            &format!("{fault:?} at {k}, power cut {power_cut}: {:?}", sim.effects.borrow()),
        );
    } else {
        assert_eq!(sim.boot_files(), before);
    }
    Some(sim)
}

/// Effects on the host itself that happened in the last run: on its files, and the reboot. The effect with the number
/// `failed` was tried and did not happen.
fn host_effects(sim: &Sim, failed: Option<usize>) -> Vec<String> {
    let mut effects = sim.effects.borrow().clone();
    if let Some(k) = failed {
        effects.remove(k - 1);
    }
    let is_the_hosts = |effect: &String| {
        effect == "reboot" || effect.starts_with("replace /etc") || effect.starts_with("replace /boot")
    };
    effects.into_iter().filter(is_the_hosts).collect()
}

/// On the way on no effect happens a second time; the way back undoes them, which is another thing.
fn nothing_twice(done: &[String], sim: &Sim, ending: &Ending) {
    if *ending == Ending::GoingDown {
        let again: Vec<String> =
            host_effects(sim, None).into_iter().filter(|effect| done.contains(effect)).collect();
        assert_eq!(again, Vec::<String>::new());
    }
}

fn check_end(sim: &Sim, before: &[(String, String)], what: &str) {
    match sim.settle() {
        Ending::Done => assert_eq!(sim.hierarchy(), Hierarchy::Unified, "{what}"),
        Ending::RolledBack(_) => {
            assert_eq!(sim.hierarchy(), Hierarchy::Hybrid, "{what}");
            assert_eq!(sim.boot_files(), before, "{what}");
        }
        other => panic!("{what}: {other:?}"),
    }
    assert!(sim.reboots.get() <= 1, "{what}: {} reboots", sim.reboots.get());
    let (boots, files) = (sim.boots(), sim.boot_files());
    sim.settle();
    assert_eq!((sim.boots(), sim.boot_files()), (boots, files), "{what}: the end is no end");
}

fn every_crash_of_the_way_there_converges(settings: &str) {
    for fault in [Fault::PowerLostBefore, Fault::PowerLostAfter, Fault::DiskFull, Fault::ReadOnly] {
        for power_cut in [false, true] {
            let dies = |k: &usize| die_and_go_on(settings, *k, fault, power_cut).is_some();
            let reached = (1..200).take_while(dies).count();
            assert!(reached > 10, "only {reached} effects");
        }
    }
}

#[test]
fn every_crash_converges() {
    every_crash_of_the_way_there_converges(PINNED);
}

#[test]
fn every_crash_with_a_drop_in_converges() {
    every_crash_of_the_way_there_converges(COMPUTED);
}

/// The way back dies at effect `k`; false if it has fewer.
fn die_on_the_way_back(settings: &str, k: usize, fault: Fault) -> bool {
    let sim = Sim::new(settings);
    let before = sim.boot_files();
    sim.run_well(Verb::Migrate);
    sim.settle();
    let fuse = Fuse::at(k, fault);
    let _ = sim.run(Verb::Rollback, &fuse);
    if fuse.effects() < k {
        return false;
    }
    if sim.reboots.get() == 1 {
        sim.boot();
    }
    match sim.settle() {
        Ending::Done => assert_eq!(k, 1, "before the first word of it was written"),
        Ending::RolledBack(_) => assert_eq!(sim.boot_files(), before, "{fault:?} at {k}"),
        other => panic!("{fault:?} at {k}: {other:?}"),
    }
    assert!(sim.reboots.get() <= 2);
    true
}

#[test]
fn every_crash_of_the_way_back_converges() {
    for settings in [PINNED, COMPUTED] {
        for fault in [Fault::PowerLostBefore, Fault::PowerLostAfter] {
            let reached = (1..200).take_while(|k| die_on_the_way_back(settings, *k, fault)).count();
            assert!(reached > 5, "only {reached} effects");
        }
    }
}

#[test]
fn every_crash_after_the_boot_converges() {
    for fault in [Fault::PowerLostBefore, Fault::PowerLostAfter] {
        for k in 1..50 {
            let sim = Sim::new(PINNED);
            sim.run_well(Verb::Migrate);
            let fuse = Fuse::at(k, fault);
            let _ = sim.run(Verb::ResumeAtBoot, &fuse);
            if fuse.effects() < k {
                break;
            }
            sim.boot();
            assert_eq!(sim.settle(), Ending::Done, "{fault:?} at {k}");
            assert_eq!(sim.reboots.get(), 1);
        }
    }
}

/// On v2, proven, with the files as they were before it.
fn migrated() -> (Sim, Vec<(String, String)>) {
    let sim = Sim::new(PINNED);
    let before = sim.boot_files();
    sim.run_well(Verb::Migrate);
    sim.settle();
    (sim, before)
}

#[test]
fn a_full_disk_on_the_way_back_keeps_every_file_whole_and_room_ends_it() {
    for fault in [Fault::DiskFull, Fault::ReadOnly] {
        for k in 1..200 {
            let (sim, before) = migrated();
            let after = sim.boot_files();
            let fuse = Fuse::at(k, fault);
            let ending = sim.run(Verb::Rollback, &fuse);
            if fuse.effects() < k {
                break;
            }
            for file in sim.boot_files() {
                assert!(before.contains(&file) || after.contains(&file), "{fault:?} at {k}: {file:?}");
            }
            if sim.reboots.get() == 1 && !matches!(ending, Ok(Ending::RolledBack(_))) {
                sim.run_well(Verb::Rollback);
            }
            assert!(matches!(sim.settle(), Ending::RolledBack(_)), "{fault:?} at {k}: {ending:?}");
            assert_eq!((sim.boot_files(), sim.hierarchy()), (before, Hierarchy::Hybrid), "{fault:?} at {k}");
            assert!(sim.reboots.get() <= 2, "{fault:?} at {k}");
        }
    }
}

#[test]
fn power_lost_again_on_the_way_back_converges() {
    for first in 2..40 {
        for second in (1..40).step_by(5) {
            let (sim, before) = migrated();
            let fuse = Fuse::at(first, Fault::PowerLostAfter);
            let _ = sim.run(Verb::Rollback, &fuse);
            if fuse.effects() < first {
                return;
            }
            sim.boot();
            let _ = sim.run(Verb::ResumeAtBoot, &Fuse::at(second, Fault::PowerLostBefore));
            sim.boot();
            assert!(matches!(sim.settle(), Ending::RolledBack(_)), "{first}, then {second}");
            assert_eq!((sim.boot_files(), sim.hierarchy()), (before, Hierarchy::Hybrid));
            assert!(sim.reboots.get() <= 2, "{first}, then {second}");
        }
    }
}
