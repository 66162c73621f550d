//! What happens to the host between two runs of one migration: the next run looks again.
#![allow(
    clippy::panic,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::wildcard_enum_match_arm,
    reason = "a test that sees another ending has failed"
)]

#[path = "support/sim.rs"]
mod sim;

use cgroup2_migrate::boot::hierarchy::Hierarchy;
use cgroup2_migrate::host::{Inhibitor, Space};
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

/// Before systemd 257 logind passes it for root, so nobody but the program itself holds the reboot back.
#[test]
fn a_lock_that_is_taken_while_the_host_is_judged_is_not_passed() {
    let sim = staged(Options::default());
    let [what, who, why, mode] = ["shutdown", "dpkg", "installs", "block"].map(str::to_owned);
    sim.locks_meanwhile.replace(vec![Inhibitor { what, who, why, mode, uid: 0, pid: 7 }]);
    assert!(matches!(sim.run_well(Verb::Resume), Ending::TryLater(why) if why.contains("dpkg")));
    assert_eq!((sim.journal().state.name(), sim.reboots.get()), (PhaseName::Staged, 0));
    assert_eq!(sim.run_well(Verb::Resume), Ending::GoingDown);
    assert_eq!(sim.settle(), Ending::Done);
}

#[test]
fn a_reboot_target_that_was_masked_meanwhile_needs_a_person() {
    let sim = staged(Options::default());
    sim.reboot_target_state.replace("masked".to_owned());
    assert!(matches!(sim.run_well(Verb::Resume), Ending::NeedsPerson(why) if why.contains("unmask")));
    assert_eq!((sim.journal().state.name(), sim.reboots.get()), (PhaseName::Staged, 0));
    assert_eq!(sim.hierarchy(), Hierarchy::Hybrid);
}

const FSTAB: &str = "UUID=2 /boot ext4 defaults 0 2\n";
const BOOT_MOUNT: &str = "40 24 8:2 / /boot rw - ext4 /dev/sda2 rw\n";

/// With a `/boot` of its own.
fn with_boot() -> Sim {
    let sim = Sim::new(PINNED);
    sim.put("etc/fstab", FSTAB);
    mount(&sim);
    sim
}

fn mount(sim: &Sim) {
    sim.more_mounts.replace(BOOT_MOUNT.to_owned());
    let _ = std::fs::rename(sim.path("hidden"), sim.path("boot/grub/grub.cfg"));
}

fn unmount(sim: &Sim) {
    sim.more_mounts.take();
    std::fs::rename(sim.path("boot/grub/grub.cfg"), sim.path("hidden")).unwrap();
}

fn room(available_bytes: u64, read_only: bool) -> Option<Space> {
    Some(Space { available_bytes, read_only, available_files: None })
}

#[test]
fn a_boot_that_is_not_mounted_stops_a_staged_migration_and_no_more() {
    let sim = with_boot();
    stage(&sim, Options::default());
    unmount(&sim);
    is_blocked(&sim, Verb::Resume, "boot-not-mounted");
    mount(&sim);
    assert_eq!(sim.run_well(Verb::Resume), Ending::GoingDown);
    assert_eq!(sim.settle(), Ending::Done);
}

#[test]
fn nothing_is_begun_where_it_cannot_be_written_any_more() {
    let sim = Sim::new(PINNED);
    sim.options.replace(Options { until: Some(PhaseName::Planned), ..Options::default() });
    sim.run_well(Verb::Migrate);
    sim.space.set(room(1 << 30, true));
    assert!(matches!(sim.run_well(Verb::Resume), Ending::Blocked(why) if why.contains("read-only")));
    sim.space.set(None);
    assert_eq!(sim.run_well(Verb::Resume), Ending::GoingDown);
}

/// What is wrong with the storage, how it is set right, and the word that names it.
type Trouble = (fn(&Sim), fn(&Sim), &'static str);

const TROUBLES: [Trouble; 3] = [
    (unmount, mount, "boot-not-mounted"),
    (|sim| sim.space.set(room(1 << 30, true)), |sim| sim.space.set(None), "read-only-file-system"),
    (|sim| sim.space.set(room(4 << 10, false)), |sim| sim.space.set(None), "no-space"),
];

#[test]
fn storage_that_cannot_be_written_is_found_before_a_person_turns_back() {
    for (breaks, mends, id) in TROUBLES {
        let sim = with_boot();
        let before = sim.boot_files();
        sim.run_well(Verb::Migrate);
        sim.settle();
        breaks(&sim);
        assert!(
            matches!(sim.hindrance().unwrap(), Some(Ending::NeedsPerson(why)) if why.contains(id)),
            "{id}"
        );
        mends(&sim);
        assert_eq!(sim.hindrance().unwrap(), None);
        sim.run_well(Verb::Rollback);
        assert!(matches!(sim.settle(), Ending::RolledBack(_)));
        assert_eq!(sim.boot_files(), before);
    }
}

#[test]
fn storage_that_cannot_be_written_is_found_before_the_way_back_writes() {
    for (breaks, mends, id) in TROUBLES {
        let sim = with_boot();
        let before = sim.boot_files();
        sim.stuck_at.set(Some(Hierarchy::Hybrid));
        sim.run_well(Verb::Migrate);
        breaks(&sim);
        let after = sim.boot_files();
        let Ending::NeedsPerson(why) = sim.run_well(Verb::ResumeAtBoot) else {
            panic!("{id} went unnoticed")
        };
        assert!(why.contains(id) && why.contains("`rollback`") && why.contains("initramfs"), "{why}");
        assert_eq!(sim.boot_files(), after);
        mends(&sim);
        assert!(matches!(sim.run_well(Verb::Rollback), Ending::RolledBack(_)), "{id}");
        assert_eq!((sim.boot_files(), sim.reboots.get()), (before, 1));
    }
}

/// The settings are put back where there is room for them, whatever there is room for elsewhere.
#[test]
fn the_way_back_asks_for_no_more_room_than_it_needs() {
    let sim = staged(Options::default());
    sim.space.set(room(100 << 10, false));
    assert_eq!(sim.hindrance().unwrap(), None);
    assert!(matches!(sim.run_well(Verb::Rollback), Ending::RolledBack(_)));
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

/// A folder of an earlier migration, with what it holds.
fn earlier(sim: &Sim, name: &str, files: &[&str]) {
    for file in files {
        sim.put(&format!("var/lib/cgroup2-migrate/{name}/{file}"), "x");
    }
}

fn folders(sim: &Sim) -> Vec<String> {
    let entries = std::fs::read_dir(sim.path("var/lib/cgroup2-migrate")).unwrap().map(|entry| entry.unwrap());
    let folders = entries.filter(|entry| entry.path().is_dir());
    let mut names: Vec<_> = folders.map(|entry| entry.file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn the_oldest_folders_of_earlier_migrations_go_when_a_new_one_begins() {
    let sim = Sim::new(PINNED);
    let names: Vec<String> = (1..=9).map(|day| format!("2016030{day}T120000Z-1b4e28ba")).collect();
    for name in &names {
        earlier(&sim, name, &["00.original", "00.new", ".01.new.cgroup2-migrate-a1b2c3"]);
    }
    earlier(&sim, &names[1], &["notes of a person"]);
    earlier(&sim, "backup", &["00.original"]);
    sim.run_well(Verb::Migrate);
    let mut expected = names[4..].to_vec();
    expected.extend([names[1].clone(), "backup".to_owned(), sim.journal().txn]);
    expected.sort();
    assert_eq!(folders(&sim), expected);
    assert!(sim.path(&format!("var/lib/cgroup2-migrate/{}/00.original", names[4])).exists());
}

/// The clock of a host may run backwards: then the newest has the oldest name.
#[test]
fn the_folder_that_the_way_back_needs_stays_whatever_its_name() {
    let sim = Sim::new(PINNED);
    for day in 1..=9 {
        earlier(&sim, &format!("2096030{day}T120000Z-1b4e28ba"), &["00.original"]);
    }
    sim.run_well(Verb::Migrate);
    assert_eq!(folders(&sim).len(), 6);
    sim.settle();
    assert_eq!(sim.run_well(Verb::Rollback), Ending::GoingDown);
    assert!(matches!(sim.settle(), Ending::RolledBack(_)));
    assert_eq!(
        (sim.hierarchy(), folders(&sim).len()),
        (Hierarchy::Hybrid, 6),
        "nothing goes but at a beginning"
    );
}
