//! A node of a cluster leaves service, is migrated, and comes back; or comes back as it was.
#![allow(
    clippy::panic,
    clippy::wildcard_enum_match_arm,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test that sees another ending has failed"
)]

#[path = "support/sim.rs"]
mod sim;

use std::time::Duration;

use cgroup2_migrate::boot::hierarchy::Hierarchy;
use cgroup2_migrate::host::fake::{Fault, Fuse};
use cgroup2_migrate::migration::decide::Ending;
use cgroup2_migrate::migration::journal::Options;
use cgroup2_migrate::migration::phase::PhaseName;
use cgroup2_migrate::migration::status::status;
use cgroup2_migrate::node::NodeApi as _;
use serde_json::json;
use sim::cluster::{Cluster, Script, over_budget, pod};
use sim::{NODE, Sim, Verb};

const PINNED: &str = "GRUB_CMDLINE_LINUX=\"systemd.unified_cgroup_hierarchy=0\"\n";

fn node(pods: &[&str]) -> Sim {
    let cluster = Cluster::new(&[NODE]);
    pods.iter().for_each(|name| cluster.add(pod(NODE, "shop", name)));
    let mut sim = Sim::new(PINNED);
    sim.is_node_of(cluster);
    sim
}

fn cluster(sim: &Sim) -> &Cluster {
    sim.cluster.as_ref().unwrap()
}

fn cordoned(sim: &Sim) -> bool {
    cluster(sim).cordoned(NODE)
}

fn phases(sim: &Sim) -> Vec<PhaseName> {
    sim.journal().history.iter().map(|entry| entry.phase).collect()
}

#[test]
fn out_of_service_there_and_back_into_service() {
    let sim = node(&["a", "b"]);
    assert_eq!(sim.run_well(Verb::Migrate), Ending::GoingDown);
    assert!(cordoned(&sim));
    assert_eq!(cluster(&sim).count("POST"), 2);
    assert_eq!(sim.settle(), Ending::Done);
    assert!(!cordoned(&sim));
    assert_eq!(sim.hierarchy(), Hierarchy::Unified);
    use PhaseName as P;
    let expected = [
        P::Planned,
        P::Cordoned,
        P::Drained,
        P::Staged,
        P::Rebooting,
        P::Booted,
        P::Verified,
        P::Uncordoned,
        P::Done,
    ];
    assert_eq!(phases(&sim), expected);
    let reasons: Vec<String> =
        cluster(&sim).with(|world| world.events.iter().map(|event| event.reason.clone().unwrap()).collect());
    assert_eq!(reasons, ["CgroupMigrationCordoned", "CgroupMigrationDrained", "CgroupMigrationUncordoned"]);
}

#[test]
fn a_drain_that_is_blocked_leaves_everything_as_it_was() {
    let sim = node(&["api-7d"]);
    let before = sim.boot_files();
    let script = Script { answers: [Err(over_budget("api-pdb"))].into(), gone_after: None };
    cluster(&sim).with(|world| world.scripts.insert("shop/api-7d".into(), script));
    let Ending::RolledBack(why) = sim.run_well(Verb::Migrate) else { panic!("not rolled back") };
    assert!(why.contains("shop/api-7d") && why.contains("api-pdb"), "{why}");
    assert!(!cordoned(&sim));
    assert_eq!((sim.boot_files(), sim.reboots.get()), (before, 0));
}

#[test]
fn objections_are_told_before_the_cordon() {
    let sim = node(&[]);
    cluster(&sim).add(cgroup2_migrate::node::NodePod { owner: None, ..pod(NODE, "dev", "naked") });
    let error = sim.run(Verb::Migrate, &Fuse::counting()).unwrap_err().to_string();
    assert!(error.contains("dev/naked"), "{error}");
    assert_eq!(cluster(&sim).count("PATCH"), 0);
}

#[test]
fn a_persons_cordon_stays() {
    let sim = node(&["a"]);
    cluster(&sim)
        .patch_node(NODE, &json!([{"op": "add", "path": "/spec/unschedulable", "value": true}]))
        .unwrap();
    sim.run_well(Verb::Migrate);
    assert_eq!(sim.settle(), Ending::Done);
    assert!(cordoned(&sim));
    let notes = status(Some(&sim.journal()), sim.hierarchy()).notes;
    assert!(
        notes.iter().any(|note| note.contains("stays cordoned") && note.contains("before the run")),
        "{notes:?}"
    );
}

#[test]
fn no_effect_brings_the_node_back_into_service_as_it_was() {
    let sim = node(&["a"]);
    sim.stuck_at.set(Some(Hierarchy::Hybrid));
    sim.run_well(Verb::Migrate);
    assert!(matches!(sim.settle(), Ending::RolledBack(_)));
    assert!(!cordoned(&sim));
}

#[test]
fn a_node_in_service_is_not_rebooted_by_a_way_back_that_nobody_drained_it_for() {
    let sim = node(&["a"]);
    sim.run_well(Verb::Migrate);
    assert_eq!(sim.hindrance().unwrap(), None, "it is drained");
    assert_eq!(sim.settle(), Ending::Done);
    let found = sim.hindrance().unwrap();
    assert!(
        matches!(&found, Some(Ending::Blocked(why)) if why.contains(NODE) && why.contains("drain")),
        "{found:?}"
    );
    let mut journal = sim.journal();
    journal.options.no_drain = true;
    sim.keep(&journal);
    assert_eq!(sim.hindrance().unwrap(), None);
}

#[test]
fn the_api_may_be_away_over_the_reboot() {
    let sim = node(&["a"]);
    sim.run_well(Verb::Migrate);
    let now = cluster(&sim).elapsed();
    cluster(&sim).is_away(now, now + Duration::from_secs(4000));
    assert!(matches!(sim.settle(), Ending::TryLater(why) if why.contains("still cordoned")));
    assert_eq!(sim.journal().state.name(), PhaseName::Verified);
    let mut ending = sim.settle();
    for _ in 0..3 {
        ending = sim.settle();
    }
    assert_eq!(ending, Ending::Done);
    assert!(!cordoned(&sim));
}

/// Taken up with other options: whoever says now that no drain is wanted gets none, and our cordon still comes off.
#[test]
fn a_run_that_is_taken_up_without_a_drain_evicts_nothing() {
    for until in [PhaseName::Planned, PhaseName::Cordoned] {
        let mut sim = node(&["a"]);
        sim.options.get_mut().until = Some(until);
        assert!(matches!(sim.run_well(Verb::Migrate), Ending::Paused(_)));
        let options = sim.options.get_mut();
        *options = Options { until: None, no_drain: true, ..options.clone() };
        assert_eq!(sim.run_well(Verb::Migrate), Ending::GoingDown, "{until:?}");
        assert_eq!(cluster(&sim).count("POST pods"), 0, "{until:?}");
        assert_eq!(cordoned(&sim), until == PhaseName::Cordoned);
        assert_eq!(sim.settle(), Ending::Done);
        assert!(!cordoned(&sim));
    }
}

/// That it was drained is remembered; that it is in service again is seen.
#[test]
fn a_node_that_a_person_put_back_into_service_is_not_rebooted() {
    let mut sim = node(&["a"]);
    sim.options.get_mut().until = Some(PhaseName::Staged);
    assert!(matches!(sim.run_well(Verb::Migrate), Ending::Paused(_)));
    let person = |operations| cluster(&sim).patch_node(NODE, &operations).unwrap();
    person(json!([{"op": "remove", "path": "/spec/unschedulable"}]));
    assert!(matches!(sim.run_well(Verb::Resume), Ending::Blocked(why) if why.contains("not cordoned")));
    cluster(&sim).add(pod(NODE, "shop", "new"));
    person(json!([{"op": "add", "path": "/spec/unschedulable", "value": true}]));
    assert!(matches!(sim.run_well(Verb::Resume), Ending::Blocked(why) if why.contains("shop/new")));
    assert_eq!((sim.reboots.get(), sim.journal().state.name()), (0, PhaseName::Staged));
    cluster(&sim).with(|world| world.pods.clear());
    assert_eq!(sim.run_well(Verb::Resume), Ending::GoingDown);
    assert_eq!(sim.settle(), Ending::Done);
}

/// While the API is away the kubelet cannot say that it is up: that time is none of its own.
#[test]
fn a_kubelet_has_its_time_to_report_after_the_api_is_back() {
    let sim = node(&["a"]);
    sim.run_well(Verb::Migrate);
    cluster(&sim).booted(NODE, "an earlier boot");
    let now = cluster(&sim).elapsed();
    cluster(&sim).is_away(now, now + Duration::from_secs(1200));
    let node = cluster(&sim).with(|world| world.nodes[NODE].clone());
    let mut node = serde_json::to_value(node).unwrap();
    node["status"]["nodeInfo"]["bootID"] = json!("boot-2");
    cluster(&sim).at(now + Duration::from_secs(1240), move |world| {
        let said = serde_json::from_value(node["status"].clone()).unwrap();
        world.nodes.get_mut(NODE).unwrap().status = Some(said);
    });
    assert_eq!(sim.settle(), Ending::Done);
    assert!(!cordoned(&sim));
    assert_eq!(sim.reboots.get(), 1);
}

/// A Node object without a status is one that no kubelet has said a word of.
#[test]
fn a_node_that_nothing_is_said_of_is_not_ready() {
    let sim = node(&["a"]);
    sim.run_well(Verb::Migrate);
    cluster(&sim).with(|world| world.nodes.get_mut(NODE).unwrap().status = None);
    assert!(matches!(sim.settle(), Ending::RolledBack(why) if why.contains("not reported this boot")));
}

#[test]
fn a_kubelet_that_does_not_come_up_on_v2_is_a_reason_to_go_back() {
    let sim = node(&["a"]);
    sim.run_well(Verb::Migrate);
    cluster(&sim).booted(NODE, "an earlier boot");
    assert!(matches!(sim.settle(), Ending::RolledBack(why) if why.contains("not reported this boot")));
    assert_eq!(sim.hierarchy(), Hierarchy::Hybrid);
    assert!(!cordoned(&sim));
}

/// For each effect on the machine and at the API server: die there, come up again, and end on v2 in service, or as it
/// was in service; never with our own cordon left.
#[test]
fn death_at_any_effect_never_leaves_our_cordon() {
    let sim = node(&["a", "b"]);
    let fuse = Fuse::counting();
    sim.run(Verb::Migrate, &fuse).unwrap();
    let there = fuse.effects();
    assert!(there > 20, "{there}");
    for fault in [Fault::PowerLostBefore, Fault::PowerLostAfter] {
        for k in 1..=there {
            let sim = node(&["a", "b"]);
            let before = sim.boot_files();
            let _ = sim.run(Verb::Migrate, &Fuse::at(k, fault));
            if sim.boots() == 1 {
                sim.boot();
            }
            if !sim.path("var/lib/cgroup2-migrate/journal.json").exists() {
                assert!(!cordoned(&sim), "{fault:?} at {k}: cordoned without a journal");
                continue;
            }
            match sim.settle() {
                Ending::Done => assert_eq!(sim.hierarchy(), Hierarchy::Unified, "{fault:?} at {k}"),
                Ending::RolledBack(_) => assert_eq!(sim.boot_files(), before, "{fault:?} at {k}"),
                other => panic!("{fault:?} at {k}: {other:?}"),
            }
            assert!(!cordoned(&sim), "{fault:?} at {k} ({:?})", phases(&sim));
            assert!(sim.reboots.get() <= 1, "{fault:?} at {k}");
        }
    }
}

/// The same on the way back into service after the reboot.
#[test]
fn death_at_any_effect_after_the_reboot_never_leaves_our_cordon() {
    let sim = node(&["a"]);
    sim.run_well(Verb::Migrate);
    let fuse = Fuse::counting();
    sim.run(Verb::ResumeAtBoot, &fuse).unwrap();
    for fault in [Fault::PowerLostBefore, Fault::PowerLostAfter] {
        for k in 1..=fuse.effects() {
            let sim = node(&["a"]);
            sim.run_well(Verb::Migrate);
            let _ = sim.run(Verb::ResumeAtBoot, &Fuse::at(k, fault));
            sim.boot();
            assert_eq!(sim.settle(), Ending::Done, "{fault:?} at {k}");
            assert!(!cordoned(&sim), "{fault:?} at {k}");
        }
    }
}
