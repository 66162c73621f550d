//! What happens to the host between two runs of one migration: the next run looks again.
#![allow(
    clippy::panic,
    clippy::unwrap_used,
    clippy::wildcard_enum_match_arm,
    reason = "a test that sees another ending has failed"
)]

#[path = "support/sim.rs"]
mod sim;

use cgroup2_migrate::boot::hierarchy::Hierarchy;
use cgroup2_migrate::migration::decide::Ending;
use cgroup2_migrate::migration::journal::Options;
use cgroup2_migrate::migration::phase::PhaseName;
use sim::{Sim, Verb};

const PINNED: &str = "GRUB_CMDLINE_LINUX=\"quiet systemd.unified_cgroup_hierarchy=0\"\n";

/// Everything is in place but the reboot, as it was asked for.
fn staged(options: Options) -> Sim {
    let sim = Sim::new(PINNED);
    stage(&sim, options);
    sim
}

fn stage(sim: &Sim, options: Options) {
    sim.options.replace(Options { until: Some(PhaseName::Staged), ..options });
    assert!(matches!(sim.run_well(Verb::Migrate), Ending::Paused(_)));
    sim.options.replace(Options::default());
}

/// The run is blocked by this finding; nothing was lost by it.
#[track_caller]
fn is_blocked(sim: &Sim, verb: Verb, id: &str) {
    let Ending::Blocked(why) = sim.run_well(verb) else { panic!("not blocked by {id}") };
    assert!(why.contains(&format!("[{id}]")), "{why}");
    assert_eq!((sim.journal().state.name(), sim.reboots.get()), (PhaseName::Staged, 0));
    assert_eq!(sim.journal().waiting, Some(why));
}

fn start_a_kubelet(sim: &Sim) {
    sim.put("proc/7/comm", "kubelet\n");
}

#[test]
fn a_kubelet_that_came_after_staging_is_not_rebooted_away() {
    let sim = staged(Options::default());
    start_a_kubelet(&sim);
    is_blocked(&sim, Verb::Resume, "node-not-drained");
    is_blocked(&sim, Verb::Migrate, "node-not-drained");
    sim.options.replace(Options { no_drain: true, ..Options::default() });
    assert_eq!(sim.run_well(Verb::Migrate), Ending::GoingDown);
    assert_eq!(sim.settle(), Ending::Done);
}

#[test]
fn what_was_accepted_in_the_beginning_stays_accepted() {
    let by_id = Options { accepted: vec!["node-not-drained".to_owned()], ..Options::default() };
    let by_word = Options { no_drain: true, ..Options::default() };
    for verb in [Verb::Resume, Verb::Migrate] {
        for options in [&by_id, &by_word] {
            let sim = Sim::new(PINNED);
            start_a_kubelet(&sim);
            stage(&sim, options.clone());
            assert_eq!(sim.run_well(verb), Ending::GoingDown, "{options:?}");
        }
    }
}

#[test]
fn nobody_who_would_go_on_after_the_boot_is_no_reboot() {
    let sim = staged(Options::default());
    sim.resume_unit_state.replace("masked".to_owned());
    is_blocked(&sim, Verb::Resume, "resume-unit-missing");
    sim.resume_unit_state.replace("static".to_owned());
    assert_eq!(sim.run_well(Verb::Resume), Ending::GoingDown);
}

#[test]
fn a_menu_that_would_wait_for_a_key_by_now_is_not_booted() {
    let sim = staged(Options::default());
    let menu = sim.text("boot/grub/grub.cfg").replace("set timeout=5", "set timeout=-1");
    sim.put("boot/grub/grub.cfg", &menu);
    is_blocked(&sim, Verb::Resume, "boot-menu-waits");
}

#[test]
fn a_reboot_target_that_was_masked_meanwhile_needs_a_person() {
    let sim = staged(Options::default());
    sim.reboot_target_state.replace("masked".to_owned());
    assert!(matches!(sim.run_well(Verb::Resume), Ending::NeedsPerson(why) if why.contains("unmask")));
    assert_eq!((sim.journal().state.name(), sim.reboots.get()), (PhaseName::Staged, 0));
    assert_eq!(sim.hierarchy(), Hierarchy::Hybrid);
}

/// Migrated and proven; then somebody put the pin back and rebooted.
fn gone_back() -> Sim {
    let sim = Sim::new(PINNED);
    sim.run_well(Verb::Migrate);
    assert_eq!(sim.settle(), Ending::Done);
    sim.put("etc/default/grub", PINNED);
    sim.put("boot/grub/grub.cfg", &sim.menu());
    sim.boot();
    assert_eq!(sim.hierarchy(), Hierarchy::Hybrid);
    sim
}

#[test]
fn a_host_that_went_back_to_v1_without_us_is_not_called_done() {
    let sim = gone_back();
    for verb in [Verb::Resume, Verb::ResumeAtBoot] {
        let Ending::NeedsPerson(why) = sim.run_well(verb) else { panic!("called done") };
        assert!(why.contains("hybrid again") && why.contains("`migrate`"), "{why}");
    }
    assert!(sim.effects.borrow().is_empty(), "every boot would write: {:?}", sim.effects.borrow());
    assert_eq!((sim.journal().state.name(), sim.reboots.get()), (PhaseName::Done, 1));
}

#[test]
fn a_host_that_went_back_to_v1_can_be_migrated_anew() {
    let sim = gone_back();
    let first = sim.journal().txn;
    assert_eq!(sim.run_well(Verb::Migrate), Ending::GoingDown);
    assert_eq!(sim.settle(), Ending::Done);
    assert_ne!(sim.journal().txn, first);
    assert_eq!((sim.hierarchy(), sim.reboots.get()), (Hierarchy::Unified, 2));
}

#[test]
fn what_is_not_known_of_a_finished_migration_is_not_called_done() {
    let sim = Sim::new(PINNED);
    sim.run_well(Verb::Migrate);
    sim.settle();
    sim.unmount_cgroup();
    assert!(matches!(sim.run_well(Verb::Resume), Ending::NeedsPerson(why) if why.contains("/sys/fs/cgroup")));
}
