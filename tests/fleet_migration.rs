//! A node waits for its turn in a fleet, keeps it over the reboot, and gives it back; whatever comes in between.
#![allow(
    clippy::panic,
    clippy::wildcard_enum_match_arm,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test that sees another ending has failed"
)]

#[path = "support/http.rs"]
mod http;
#[path = "support/sim.rs"]
mod sim;

use std::sync::{Mutex, Once};
use std::time::Duration;

use cgroup2_migrate::boot::hierarchy::Hierarchy;
use cgroup2_migrate::host::fake::{FakeClock, Fault, Fuse};
use cgroup2_migrate::migration::decide::Ending;
use cgroup2_migrate::migration::journal::Turn;
use cgroup2_migrate::migration::phase::PhaseName;
use cgroup2_migrate::node::NodeApi as _;
use cgroup2_migrate::node::lock::gates::HOLD;
use cgroup2_migrate::node::lock::lease::{Acquired, Holder, LeaseLock, Me, Outcome, PoolStatus, Settings};
use cgroup2_migrate::node::lock::{PHASE, announce};
use serde_json::{Value, json};
use sim::cluster::{Cluster, Script, node as node_object, over_budget, pod};
use sim::{NODE, Sim, Verb};

const PINNED: &str = "GRUB_CMDLINE_LINUX=\"systemd.unified_cgroup_hierarchy=0\"\n";
const ONE_SLOT: &str = "[lock]\nmode = \"lease\"\n";
const OTHER: &str = "n-birch";

/// A node of two, with these settings.
fn node(settings: &str) -> Sim {
    let cluster = Cluster::new(&[NODE, OTHER]);
    cluster.add(pod(NODE, "shop", "a"));
    cluster.booted(OTHER, "boot-of-birch");
    let mut sim = Sim::new(PINNED);
    sim.is_node_of(cluster);
    sim.has_settings(settings);
    sim
}

fn cluster(sim: &Sim) -> &Cluster {
    sim.cluster.as_ref().unwrap()
}

fn cordoned(sim: &Sim) -> bool {
    cluster(sim).cordoned(NODE)
}

fn me(node: &str) -> Me {
    let holder =
        Holder { node_uid: format!("uid-of-{node}"), run: format!("run-of-{node}"), boot: "b".into() };
    Me { node: node.to_owned(), holder }
}

fn as_other<T>(sim: &Sim, act: impl FnOnce(&LeaseLock<'_>) -> T) -> T {
    let settings = Settings::default();
    act(&LeaseLock { api: cluster(sim), clock: &FakeClock::default(), settings: &settings, me: &me(OTHER) })
}

fn status(sim: &Sim) -> PoolStatus {
    as_other(sim, |lock| lock.status().unwrap())
}

fn holder(sim: &Sim) -> Option<String> {
    status(sim).slots[0].holder.clone()
}

fn is_held_by(sim: &Sim, node: &str) -> bool {
    holder(sim).is_some_and(|holder| holder.starts_with(&format!("uid-of-{node}/")))
}

/// Somebody writes to a Node object, past the fuse of the run.
fn change(sim: &Sim, name: &'static str, path: &str, value: Value) {
    let operations = json!([{"op": "add", "path": path, "value": value}]);
    cluster(sim).patch_node(name, &operations).unwrap();
}

fn phases(sim: &Sim) -> Vec<PhaseName> {
    sim.journal().history.iter().map(|entry| entry.phase).collect()
}

fn said(sim: &Sim) -> String {
    cluster(sim).node(NODE).unwrap().metadata.annotations.unwrap()[PHASE].clone()
}

#[test]
fn a_turn_is_taken_before_the_cordon_kept_over_the_reboot_and_given_back() {
    let sim = node(ONE_SLOT);
    assert_eq!(sim.run_well(Verb::Migrate), Ending::GoingDown);
    assert!(is_held_by(&sim, NODE) && cordoned(&sim));
    assert_eq!(said(&sim), "rebooting");
    assert!(status(&sim).slots[0].words.contains("rebooting, expected back by 2026-"), "{}", status(&sim));
    assert!(matches!(as_other(&sim, |lock| lock.acquire().unwrap()), Acquired::Busy(_)));
    assert_eq!(sim.settle(), Ending::Done);
    assert_eq!((holder(&sim), cordoned(&sim), said(&sim)), (None, false, "done".to_owned()));
    use PhaseName as P;
    assert_eq!(phases(&sim)[..3], [P::Planned, P::Locked, P::Cordoned]);
    assert_eq!(sim.journal().fleet.unwrap().turn, Turn::Over);
    assert!(matches!(as_other(&sim, |lock| lock.acquire().unwrap()), Acquired::Yes { .. }));
}

#[test]
fn the_second_of_two_nodes_waits_and_then_is_told_to_try_later() {
    let sim = node(ONE_SLOT);
    let before = sim.boot_files();
    assert!(matches!(as_other(&sim, |lock| lock.acquire().unwrap()), Acquired::Yes { .. }));
    let Ending::TryLater(why) = sim.run_well(Verb::Migrate) else { panic!("did not wait") };
    assert!(why.contains("held by n-birch"), "{why}");
    assert_eq!(sim.journal().waiting, Some(why));
    assert!(sim.passed.get() > Duration::from_secs(1500), "{:?}", sim.passed.get());
    assert_eq!((sim.journal().state.name(), cordoned(&sim)), (PhaseName::Planned, false));
    assert_eq!(sim.boot_files(), before);
    as_other(&sim, |lock| lock.release(&Outcome::Done).unwrap());
    assert_eq!(sim.run_well(Verb::Resume), Ending::GoingDown);
}

#[test]
fn a_slot_that_comes_free_in_time_is_taken_in_the_same_run() {
    let sim = node(ONE_SLOT);
    as_other(&sim, |lock| lock.acquire().unwrap());
    cluster(&sim).at(Duration::from_secs(300), |world| {
        let lease = world.leases.values_mut().next().unwrap();
        lease.spec.as_mut().unwrap().holder_identity = None;
    });
    assert_eq!(sim.run_well(Verb::Migrate), Ending::GoingDown);
    assert!(is_held_by(&sim, NODE));
}

#[test]
fn a_signal_ends_the_wait() {
    let sim = node(ONE_SLOT);
    as_other(&sim, |lock| lock.acquire().unwrap());
    sim.signal_in_sleep.set(true);
    assert_eq!(sim.run_well(Verb::Migrate), Ending::by_signal());
    assert!(sim.passed.get() < Duration::from_secs(10));
    assert!(is_held_by(&sim, OTHER));
}

#[test]
fn nobody_starts_in_a_halted_fleet() {
    let sim = node(ONE_SLOT);
    as_other(&sim, |lock| {
        lock.acquire().unwrap();
        lock.release(&Outcome::RolledBack("a driver".into())).unwrap();
    });
    let Ending::NeedsPerson(why) = sim.run_well(Verb::Migrate) else { panic!("went on") };
    assert!(why.contains("n-birch: rolled back: a driver") && why.contains("lock resume"), "{why}");
    assert_eq!((sim.journal().state.name(), cordoned(&sim)), (PhaseName::Planned, false));
    // Giving up asks nothing of a lock that gave nothing, and counts as nothing.
    cluster(&sim).is_away(Duration::ZERO, Duration::MAX);
    assert!(matches!(sim.run_well(Verb::Rollback), Ending::RolledBack(_)));
}

#[test]
fn settings_that_differ_from_those_of_the_pool_are_refused() {
    let sim = node(ONE_SLOT);
    as_other(&sim, |lock| lock.acquire().unwrap());
    sim.has_settings("[lock]\nmode = \"lease\"\nslots = 3\n");
    let Ending::Blocked(why) = sim.run_well(Verb::Migrate) else { panic!("went on") };
    assert!(why.contains("lock.slots is 3"), "{why}");
}

#[test]
fn a_slot_that_was_lost_is_no_slot_to_reboot_with() {
    let sim = staged();
    // A person frees the slot and another node takes it.
    as_other(&sim, |lock| {
        let seen = lock.status().unwrap().slots[0].holder.clone().unwrap();
        lock.force(0, &seen, "a person", "thought it was dead").unwrap();
        lock.acquire().unwrap();
    });
    let Ending::NeedsPerson(why) = sim.run_well(Verb::Resume) else { panic!("rebooted") };
    assert!(why.contains("the slot is not ours any more") && why.contains("n-birch"), "{why}");
    assert_eq!((sim.reboots.get(), sim.journal().state.name()), (0, PhaseName::Staged));
    // Its turn comes again.
    as_other(&sim, |lock| lock.release(&Outcome::Done).unwrap());
    assert_eq!(sim.run_well(Verb::Resume), Ending::GoingDown);
    assert_eq!(sim.settle(), Ending::Done);
    assert_eq!(holder(&sim), None);
}

/// Pods leave only under a slot: another node's may be leaving under it by now.
#[test]
fn a_slot_that_was_lost_is_no_slot_to_drain_with() {
    let sim = node(ONE_SLOT);
    sim.options.borrow_mut().until = Some(PhaseName::Cordoned);
    assert!(matches!(sim.run_well(Verb::Migrate), Ending::Paused(_)));
    as_other(&sim, |lock| {
        let seen = lock.status().unwrap().slots[0].holder.clone().unwrap();
        lock.force(0, &seen, "a person", "thought it was dead").unwrap();
        lock.acquire().unwrap();
    });
    let Ending::NeedsPerson(why) = sim.run_well(Verb::Resume) else { panic!("drained") };
    assert!(why.contains("the slot is not ours any more") && why.contains("n-birch"), "{why}");
    assert!(matches!(sim.run_well(Verb::Resume), Ending::TryLater(_)));
    let state = sim.journal().state.name();
    assert_eq!((cluster(&sim).count("POST pods"), state), (0, PhaseName::Cordoned));
    as_other(&sim, |lock| lock.release(&Outcome::Done).unwrap());
    assert_eq!(sim.run_well(Verb::Resume), Ending::GoingDown);
    assert_eq!(sim.settle(), Ending::Done);
    assert_eq!((holder(&sim), cordoned(&sim)), (None, false));
}

/// Cordoned, drained and written, and not rebooted yet.
fn staged() -> Sim {
    let sim = node(ONE_SLOT);
    sim.options.borrow_mut().until = Some(PhaseName::Staged);
    assert!(matches!(sim.run_well(Verb::Migrate), Ending::Paused(_)));
    assert!(cordoned(&sim) && is_held_by(&sim, NODE));
    sim
}

#[test]
fn a_fleet_that_halts_before_the_reboot_is_not_rebooted_into() {
    let sim = staged();
    as_other(&sim, |lock| lock.release(&Outcome::RolledBack("a driver".into())).unwrap());
    assert!(matches!(sim.run_well(Verb::Resume), Ending::NeedsPerson(why) if why.contains("halted")));
    assert_eq!(sim.reboots.get(), 0);
    as_other(&sim, |lock| lock.resume("a person").unwrap());
    assert_eq!(sim.run_well(Verb::Resume), Ending::GoingDown);
}

#[test]
fn a_node_that_was_rolled_back_counts_and_halts() {
    let sim = node(ONE_SLOT);
    sim.stuck_at.set(Some(Hierarchy::Hybrid));
    sim.run_well(Verb::Migrate);
    assert!(matches!(sim.settle(), Ending::RolledBack(_)));
    assert_eq!((holder(&sim), cordoned(&sim), said(&sim)), (None, false, "rolled-back".to_owned()));
    let failures = status(&sim).failures;
    assert_eq!((failures.len(), failures[0].node.as_str()), (1, NODE));
    assert!(matches!(as_other(&sim, |lock| lock.acquire().unwrap()), Acquired::Halted(_)));
}

/// Nobody answers from the reboot on: the network is what cgroup v2 broke.
#[test]
fn the_way_back_reboots_under_the_slot_that_it_has_even_where_the_api_is_away() {
    let sim = node(ONE_SLOT);
    sim.run_well(Verb::Migrate);
    let now = cluster(&sim).elapsed();
    cluster(&sim).is_away(now, now + Duration::from_secs(5000));
    assert!(matches!(sim.settle(), Ending::TryLater(_)));
    assert_eq!(sim.run_well(Verb::Rollback), Ending::GoingDown);
    let mut ending = sim.settle();
    assert!(matches!(ending, Ending::TryLater(_)), "{ending:?}");
    for _ in 0..3 {
        ending = sim.settle();
    }
    assert!(matches!(ending, Ending::RolledBack(_)), "{ending:?}");
    assert_eq!((sim.hierarchy(), sim.reboots.get()), (Hierarchy::Hybrid, 2));
    assert_eq!((holder(&sim), cordoned(&sim), status(&sim).failures.len()), (None, false, 1));
}

/// A migration that is long done has no slot: its way back by reboot needs one.
#[test]
fn the_way_back_of_a_migration_that_was_done_waits_for_its_turn() {
    let sim = node(ONE_SLOT);
    sim.run_well(Verb::Migrate);
    assert_eq!(sim.settle(), Ending::Done);
    as_other(&sim, |lock| lock.acquire().unwrap());
    assert!(matches!(sim.run_well(Verb::Rollback), Ending::TryLater(why) if why.contains("n-birch")));
    assert_eq!(sim.reboots.get(), 1);
    let now = cluster(&sim).elapsed();
    cluster(&sim).is_away(now, now + Duration::from_secs(3600));
    assert!(matches!(sim.run_well(Verb::Rollback), Ending::TryLater(why) if why.contains("refused")));
    assert_eq!(sim.reboots.get(), 1, "no slot, and nobody answers");
    cluster(&sim).passes(Duration::from_secs(3600));
    as_other(&sim, |lock| lock.release(&Outcome::Done).unwrap());
    assert_eq!(sim.run_well(Verb::Rollback), Ending::GoingDown);
    assert!(is_held_by(&sim, NODE));
    assert!(matches!(sim.settle(), Ending::RolledBack(_)));
    assert_eq!((sim.hierarchy(), holder(&sim)), (Hierarchy::Hybrid, None));
}

/// A server that refuses at first.
#[test]
fn a_fleetlock_server_is_asked_before_the_cordon_and_before_the_reboot_and_told_at_the_end() {
    use std::sync::atomic::{AtomicUsize, Ordering};
    let refusals = AtomicUsize::new(2);
    let server = http::Server::start(move |_| {
        let left = refusals.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1));
        match left {
            Ok(_) => http::Reply::new(409, json!({"kind": "full", "value": "all slots are taken"})),
            Err(_) => http::Reply::new(200, ""),
        }
    });
    let sim = node(&format!("[lock]\nmode = \"fleetlock\"\nurl = \"http://{}\"\n", server.address));
    sim.put("etc/machine-id", "0123456789abcdef0123456789abcdef\n");
    assert_eq!(sim.run_well(Verb::Migrate), Ending::GoingDown);
    let (yes, end) = ("POST /v1/pre-reboot", "POST /v1/steady-state");
    assert_eq!(server.lines(), [yes, yes, yes, yes]);
    assert!(sim.passed.get() > Duration::from_secs(20), "{:?}", sim.passed.get());
    assert_eq!(sim.settle(), Ending::Done);
    assert_eq!(server.lines(), [yes, yes, yes, yes, end]);
}

#[test]
fn a_fleetlock_server_that_does_not_take_the_lock_back_keeps_the_run_from_its_end() {
    let server = http::Server::start(|asked| match asked.path.as_str() {
        "/v1/steady-state" => http::Reply::new(500, json!({"kind": "db", "value": "the store is away"})),
        _ => http::Reply::new(200, ""),
    });
    let sim = node(&format!("[lock]\nmode = \"fleetlock\"\nurl = \"http://{}\"\n", server.address));
    sim.put("etc/machine-id", "0123456789abcdef0123456789abcdef\n");
    sim.run_well(Verb::Migrate);
    assert!(matches!(sim.settle(), Ending::TryLater(why) if why.contains("the store is away")));
    assert_eq!((sim.journal().state.name(), cordoned(&sim)), (PhaseName::Uncordoned, false));
}

#[test]
fn a_fleetlock_server_that_is_away_is_no_yes() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let sim = node(&format!("[lock]\nmode = \"fleetlock\"\nurl = \"http://{address}\"\n"));
    sim.put("etc/machine-id", "0123456789abcdef0123456789abcdef\n");
    assert!(matches!(sim.run_well(Verb::Migrate), Ending::TryLater(why) if why.contains("FleetLock server")));
    assert!(!cordoned(&sim));
}

#[test]
fn a_node_that_needs_a_person_counts_and_keeps_its_slot() {
    let sim = node(ONE_SLOT);
    sim.run_well(Verb::Migrate);
    sim.put("etc/default/grub", PINNED);
    assert!(matches!(sim.settle(), Ending::NeedsPerson(_)));
    assert!(!cordoned(&sim) && is_held_by(&sim, NODE));
    assert!(status(&sim).halted.unwrap().contains("needs a person"));
    assert_eq!(said(&sim), "needs-person");
    // Set right by hand.
    sim.put("etc/default/grub", "GRUB_CMDLINE_LINUX=\"\"\n");
    assert_eq!(sim.run_well(Verb::Resume), Ending::Done);
    assert_eq!((holder(&sim), status(&sim).failures.len()), (None, 1));
}

#[test]
fn a_closed_window_is_waited_for_only_if_it_opens_soon() {
    let now = FakeClock::default();
    let now = cgroup2_migrate::host::Clock::now(&now);
    let window = |hours: i64, length| {
        let start = now.checked_add(jiff::SignedDuration::from_hours(hours)).unwrap();
        format!("[window]\nstart = \"{}\"\nlength_seconds = {length}\n", start.strftime("%H:%M"))
    };
    let sim = node(&format!("{ONE_SLOT}{}", window(6, 7200)));
    let Ending::TryLater(why) = sim.run_well(Verb::Migrate) else { panic!("went on") };
    assert!(why.contains("window: the next maintenance window"), "{why}");
    assert_eq!((sim.passed.get(), holder(&sim)), (Duration::ZERO, None));
    // Drain and reboot together take longer than the window is.
    let sim = node(&format!("{ONE_SLOT}{}", window(0, 600)));
    assert!(matches!(sim.run_well(Verb::Migrate), Ending::Blocked(why) if why.contains("10 min long")));
    let sim = node(&format!("{ONE_SLOT}{}", window(0, 7200)));
    assert_eq!(sim.run_well(Verb::Migrate), Ending::GoingDown);
}

#[test]
fn gates_without_a_lock_are_asked_too() {
    let sim = node("[window]\nstart = \"06:00\"\nlength_seconds = 7200\n");
    assert!(matches!(sim.run_well(Verb::Migrate), Ending::TryLater(why) if why.contains("window")));
    let sim = node("[window]\nstart = \"00:00\"\nlength_seconds = 86400\n");
    assert_eq!(sim.run_well(Verb::Migrate), Ending::GoingDown);
    assert_eq!(sim.settle(), Ending::Done);
    assert!(cluster(&sim).with(|world| world.leases.is_empty()));
}

#[test]
fn a_label_that_comes_between_cordon_and_reboot_holds_the_reboot() {
    let sim = staged();
    change(&sim, NODE, "/metadata/labels", json!({HOLD: "restore"}));
    let Ending::TryLater(why) = sim.run_well(Verb::Resume) else { panic!("rebooted") };
    assert!(why.contains("hold=restore"), "{why}");
    assert_eq!((sim.reboots.get(), cordoned(&sim), is_held_by(&sim, NODE)), (0, true, true));
    change(&sim, NODE, "/metadata/labels", json!({}));
    assert_eq!(sim.run_well(Verb::Resume), Ending::GoingDown);
}

#[test]
fn another_node_that_is_away_keeps_this_one_up() {
    let sim = node(ONE_SLOT);
    change(&sim, OTHER, "/spec/unschedulable", json!(true));
    assert!(
        matches!(sim.run_well(Verb::Migrate), Ending::TryLater(why) if why.contains("n-birch is cordoned"))
    );
    assert!(!cordoned(&sim) && holder(&sim).is_none());
}

#[test]
fn a_credential_without_rights_is_told_before_anything_is_done() {
    let sim = node(ONE_SLOT);
    cluster(&sim).with(|world| world.refused.push("leases"));
    let error = sim.run(Verb::Migrate, &Fuse::counting()).unwrap_err().to_string();
    assert!(
        error.contains("lock-rights-missing") && error.contains("update leases.coordination.k8s.io"),
        "{error}"
    );
    assert!(!sim.path("var/lib/cgroup2-migrate/journal.json").exists());
}

#[test]
fn the_only_etcd_goes_down_only_by_word() {
    let sim = node(ONE_SLOT);
    change(&sim, NODE, "/metadata/labels", json!({"node-role.kubernetes.io/control-plane": ""}));
    sim.put("etc/kubernetes/manifests/etcd.yaml", "kind: Pod\n");
    let etcd = format!("etcd-{NODE}");
    let mirror =
        cgroup2_migrate::node::NodePod { mirror: true, owner: None, ..pod(NODE, "kube-system", &etcd) };
    cluster(&sim).add(mirror);
    let error = sim.run(Verb::Migrate, &Fuse::counting()).unwrap_err().to_string();
    assert!(error.contains("control-plane-outage") && error.contains("an etcd of 1"), "{error}");
    sim.options.borrow_mut().accepted = vec!["control-plane-outage".to_owned()];
    assert_eq!(sim.run_well(Verb::Migrate), Ending::GoingDown);
    let names: Vec<String> = cluster(&sim).with(|world| world.leases.keys().cloned().collect());
    assert_eq!(names, ["cgroup2-migrate-nodes-control-plane-0"]);
}

#[test]
fn members_of_etcd_whose_health_is_not_known_are_told_so() {
    let sim = node(ONE_SLOT);
    change(&sim, NODE, "/metadata/labels", json!({"node-role.kubernetes.io/control-plane": ""}));
    sim.put(
        "etc/kubernetes/manifests/etcd.yaml",
        "kind: Pod\nspec:\n  containers:\n  - name: etcd\n    command:\n    - etcd\n    - --initial-cluster=a=https://1,b=https://2,c=https://3\n",
    );
    let error = sim.run(Verb::Migrate, &Fuse::counting()).unwrap_err().to_string();
    assert!(
        error.contains("control-plane-outage") && error.contains("cannot be found out: a, b, c"),
        "{error}"
    );
}

#[test]
fn the_turn_ends_when_the_node_has_settled() {
    let sim = node(&format!("{ONE_SLOT}[gates]\nsettle_seconds = 120\n"));
    let mut daemon = pod(NODE, "kube-system", "cni");
    daemon.owner.as_mut().unwrap().kind = "DaemonSet".to_owned();
    daemon.ready = false;
    cluster(&sim).add(daemon.clone());
    sim.run_well(Verb::Migrate);
    let Ending::TryLater(why) = sim.settle() else { panic!("did not wait") };
    assert!(why.contains("kube-system/cni") && why.contains("keeps its turn"), "{why}");
    assert!(!cordoned(&sim) && is_held_by(&sim, NODE));
    daemon.ready = true;
    cluster(&sim).add(daemon);
    assert_eq!(sim.settle(), Ending::Done);
    assert_eq!(holder(&sim), None);
}

#[test]
fn the_settings_time_to_settle_is_waited_for() {
    let sim = node(&format!("{ONE_SLOT}[gates]\nsettle_seconds = 120\n"));
    sim.run_well(Verb::Migrate);
    let before = sim.passed.get();
    assert_eq!(sim.settle(), Ending::Done);
    assert!(sim.passed.get() - before >= Duration::from_secs(120), "{:?}", sim.passed.get() - before);
}

#[test]
fn an_api_that_is_away_at_the_end_keeps_the_run_from_its_end_and_not_the_node_from_service() {
    let sim = node(&format!("{ONE_SLOT}[gates]\nsettle_seconds = 60\n"));
    sim.run_well(Verb::Migrate);
    let now = cluster(&sim).elapsed();
    cluster(&sim).is_away(now + Duration::from_secs(30), now + Duration::from_secs(4000));
    let Ending::TryLater(why) = sim.settle() else { panic!("came to an end") };
    assert!(why.contains("keeps its turn") || why.contains("still holds its turn"), "{why}");
    assert_eq!((sim.journal().state.name(), cordoned(&sim)), (PhaseName::Uncordoned, false));
    let mut ending = sim.settle();
    for _ in 0..5 {
        ending = sim.settle();
    }
    assert_eq!((ending, holder(&sim)), (Ending::Done, None));
}

#[test]
fn a_way_back_that_cannot_end_its_turn_has_the_node_in_service_already() {
    let sim = node(ONE_SLOT);
    let script = Script { answers: [Err(over_budget("api-pdb"))].into(), gone_after: None };
    cluster(&sim).with(|world| world.scripts.insert("shop/a".into(), script));
    assert!(matches!(sim.run_well(Verb::Migrate), Ending::RolledBack(why) if why.contains("api-pdb")));
    assert_eq!((holder(&sim), cordoned(&sim), status(&sim).failures.len()), (None, false, 1));
    // The uncordon came before the last write to a lease.
    let log = sim.effects.borrow().clone();
    let last = |words: &str| log.iter().rposition(|effect| effect.contains(words)).unwrap();
    let events = log.iter().rposition(|effect| effect.contains("Event")).unwrap();
    assert!(events < last("write a lease"), "{log:?}");
}

#[test]
fn a_node_that_somebody_else_drains_takes_its_turn_all_the_same() {
    let sim = node(ONE_SLOT);
    sim.options.borrow_mut().no_drain = true;
    assert_eq!(sim.run_well(Verb::Migrate), Ending::GoingDown);
    assert!(is_held_by(&sim, NODE) && !cordoned(&sim));
    assert_eq!(sim.settle(), Ending::Done);
    assert_eq!(holder(&sim), None);
}

/// For each effect before the reboot: die there, let another node ask, come up again.
#[test]
fn death_at_any_effect_leaves_no_slot_to_a_run_that_is_over_and_never_two_holders() {
    let sim = node(ONE_SLOT);
    let fuse = Fuse::counting();
    sim.run(Verb::Migrate, &fuse).unwrap();
    for fault in [Fault::PowerLostBefore, Fault::PowerLostAfter] {
        for k in 1..=fuse.effects() {
            die_and_end(k, fault, Verb::Migrate);
        }
    }
}

/// The same after the reboot.
#[test]
fn death_at_any_effect_after_the_reboot_leaves_no_slot_either() {
    let sim = node(ONE_SLOT);
    sim.run_well(Verb::Migrate);
    let fuse = Fuse::counting();
    sim.run(Verb::ResumeAtBoot, &fuse).unwrap();
    for fault in [Fault::PowerLostBefore, Fault::PowerLostAfter] {
        for k in 1..=fuse.effects() {
            die_and_end(k, fault, Verb::ResumeAtBoot);
        }
    }
}

/// The same on the way back.
#[test]
fn death_at_any_effect_of_the_way_back_leaves_no_slot_either() {
    let stuck = || {
        let sim = node(ONE_SLOT);
        sim.stuck_at.set(Some(Hierarchy::Hybrid));
        sim.run_well(Verb::Migrate);
        sim
    };
    let fuse = Fuse::counting();
    stuck().run(Verb::ResumeAtBoot, &fuse).unwrap();
    for fault in [Fault::PowerLostBefore, Fault::PowerLostAfter] {
        for k in 1..=fuse.effects() {
            let sim = stuck();
            let _ = sim.run(Verb::ResumeAtBoot, &Fuse::at(k, fault));
            sim.boot();
            assert!(matches!(sim.settle(), Ending::RolledBack(_)), "{fault:?} at {k}");
            assert_eq!((holder(&sim), cordoned(&sim)), (None, false), "{fault:?} at {k}");
            assert_eq!(status(&sim).failures.len(), 1, "{fault:?} at {k}: counted once");
        }
    }
}

fn die_and_end(k: usize, fault: Fault, verb: Verb) {
    let sim = node(ONE_SLOT);
    if verb == Verb::ResumeAtBoot {
        sim.run_well(Verb::Migrate);
    }
    let boots = sim.boots();
    let _ = sim.run(verb, &Fuse::at(k, fault));
    cluster(&sim).fuse.replace(Fuse::counting());
    let reboots = sim.reboots.get();
    let is_others = matches!(as_other(&sim, |lock| lock.acquire().unwrap()), Acquired::Yes { .. });
    if sim.boots() == boots {
        sim.boot();
    }
    if !sim.path("var/lib/cgroup2-migrate/journal.json").exists() {
        assert!(is_others, "{fault:?} at {k}: held without a journal");
        return;
    }
    let ending = sim.settle();
    assert!(matches!(ending, Ending::Done | Ending::RolledBack(_)), "{fault:?} at {k}: {ending:?}");
    assert!(!is_held_by(&sim, NODE) && !cordoned(&sim), "{fault:?} at {k} ({:?})", phases(&sim));
    if is_others {
        assert!(is_held_by(&sim, OTHER), "{fault:?} at {k}: taken from somebody");
        assert_eq!(sim.reboots.get(), reboots, "{fault:?} at {k}: rebooted while somebody else had the slot");
    }
}

static LOGGED: Mutex<Vec<String>> = Mutex::new(Vec::new());

struct Logger;

impl log::Log for Logger {
    fn enabled(&self, _: &log::Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &log::Record<'_>) {
        LOGGED.lock().unwrap().push(record.args().to_string());
    }

    fn flush(&self) {}
}

fn logs() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        log::set_logger(&Logger).unwrap();
        log::set_max_level(log::LevelFilter::Warn);
    });
}

#[test]
fn the_stale_lock_of_a_lost_node_is_taken_over_and_foreign_text_is_not() {
    logs();
    let case: Value =
        serde_json::from_str(include_str!("fixtures/fleet/083-stale-lock-of-lost-node.json")).unwrap();
    assert_eq!(case["node"]["name"], NODE);
    let gone = case["lock"]["holder"].as_str().unwrap().to_owned();
    let sim = node(ONE_SLOT);
    cluster(&sim).with(|world| world.nodes.insert(gone.clone(), node_object(&gone)));
    let (settings, clock, me) = (Settings::default(), FakeClock::default(), me(&gone));
    let lock = LeaseLock { api: cluster(&sim), clock: &clock, settings: &settings, me: &me };
    lock.acquire().unwrap();
    announce(cluster(&sim), &me, "rebooting", None).unwrap();
    cluster(&sim).with(|world| world.nodes.remove(&gone));
    assert_eq!(sim.run_well(Verb::Migrate), Ending::GoingDown);
    assert_eq!(is_held_by(&sim, NODE), case["expect"]["acquired"].as_bool().unwrap());
    let words = case["expect"]["logged"].as_str().unwrap();
    assert!(LOGGED.lock().unwrap().iter().any(|line| line.contains(words)), "not logged: {words}");

    let sim = node(ONE_SLOT);
    as_other(&sim, |lock| lock.acquire().unwrap());
    let foreign = "{\"nodeID\":\"x\"}";
    cluster(&sim).with(|world| {
        let lease = world.leases.values_mut().next().unwrap();
        lease.spec.as_mut().unwrap().holder_identity = Some(foreign.to_owned());
    });
    let Ending::TryLater(why) = sim.run_well(Verb::Migrate) else { panic!("taken over") };
    assert!(why.contains("not one of ours") && why.contains("lock release --slot 0 --reason WHY"), "{why}");
    assert_eq!(holder(&sim).as_deref(), Some(foreign));
}
