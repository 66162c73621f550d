//! The fleet's lock, story by story: who gets a slot, who keeps it, and what frees one.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking, in its helpers too"
)]

#[path = "support/cluster.rs"]
mod cluster;

use std::time::Duration;

use cgroup2_migrate::host::fake::FakeClock;
use cgroup2_migrate::node::NodeApi as _;
use cgroup2_migrate::node::lock::lease::{
    Acquired, FAILURES, Forced, HALTED, Hold, Holder, LeaseLock, Me, Mine, Outcome, Released, Resumed, SLOTS,
    Settings,
};
use cgroup2_migrate::node::lock::{FENCING, PHASE, RUN, announce};
use cluster::Cluster;
use k8s_openapi::api::coordination::v1::Lease;
use serde_json::json;

/// A fleet of three nodes and their lock.
struct Fleet {
    cluster: Cluster,
    clock: FakeClock,
    settings: Settings,
}

fn fleet(slots: u32) -> Fleet {
    let cluster = Cluster::new(&["n-1", "n-2", "n-3"]);
    ["n-1", "n-2", "n-3"].into_iter().for_each(|name| is_ready(&cluster, name, true));
    Fleet { cluster, clock: FakeClock::default(), settings: Settings { slots, ..Settings::default() } }
}

fn is_ready(cluster: &Cluster, name: &str, ready: bool) {
    let status = if ready { "True" } else { "Unknown" };
    let conditions = serde_json::from_value(json!([{"type": "Ready", "status": status}])).unwrap();
    cluster.with(|world| {
        world.nodes.get_mut(name).unwrap().status.as_mut().unwrap().conditions = Some(conditions)
    });
}

fn me(node: &str, run: &str) -> Me {
    let holder =
        Holder { node_uid: format!("uid-of-{node}"), run: run.to_owned(), boot: "boot-A".to_owned() };
    Me { node: node.to_owned(), holder }
}

impl Fleet {
    fn lock<T>(&self, me: &Me, act: impl FnOnce(&LeaseLock<'_>) -> T) -> T {
        act(&LeaseLock { api: &self.cluster, clock: &self.clock, settings: &self.settings, me })
    }

    fn acquire(&self, node: &str) -> Acquired {
        self.lock(&me(node, &format!("run-of-{node}")), |lock| lock.acquire().unwrap())
    }

    fn held(&self, node: &str) -> Hold {
        let answer = self.acquire(node);
        let Acquired::Yes { hold, .. } = answer else { panic!("{answer}") };
        hold
    }

    fn release(&self, node: &str, outcome: &Outcome) -> Released {
        self.lock(&me(node, &format!("run-of-{node}")), |lock| lock.release(outcome).unwrap())
    }

    fn mine(&self, node: &str, hold: &Hold) -> Mine {
        self.lock(&me(node, &format!("run-of-{node}")), |lock| lock.still_mine(hold).unwrap())
    }

    fn lease(&self, slot: u32) -> Lease {
        self.cluster.with(|world| world.leases[&self.settings.lease_name(slot)].clone())
    }

    fn annotation(&self, slot: u32, key: &str) -> Option<String> {
        self.lease(slot).metadata.annotations.unwrap_or_default().get(key).cloned()
    }

    /// Somebody else writes into a slot.
    fn scribble(&self, slot: u32, change: impl FnOnce(&mut Lease)) {
        let mut lease = self.lease(slot);
        change(&mut lease);
        self.cluster.put_lease("", &lease).unwrap();
    }

    fn says(&self, node: &str, phase: &str, run: &str) {
        announce(&self.cluster, &me(node, run), phase, None).unwrap();
    }
}

fn busy(answer: &Acquired) -> String {
    assert!(matches!(answer, Acquired::Busy(_)), "not busy but {answer:?}");
    answer.to_string()
}

fn stale(answer: &Acquired) -> &str {
    let Acquired::Yes { stale: Some(words), .. } = answer else {
        panic!("nothing was taken over: {answer:?}")
    };
    words
}

fn yes() -> Mine {
    Mine::Yes { halted: None }
}

#[test]
fn as_many_as_there_are_slots_and_the_next_learns_who_has_them() {
    let fleet = fleet(2);
    assert_ne!(fleet.held("n-1").slot, fleet.held("n-2").slot);
    let words = busy(&fleet.acquire("n-3"));
    assert!(words.contains("held by n-1 since 2026-") && words.contains("held by n-2 since"), "{words}");
    assert_eq!(fleet.release("n-1", &Outcome::Done), Released { freed: true, halted: None });
    fleet.held("n-3");
}

#[test]
fn a_slot_says_what_people_and_dashboards_look_for() {
    let fleet = fleet(1);
    fleet.held("n-1");
    let lease = fleet.lease(0);
    let spec = lease.spec.unwrap();
    assert_eq!(lease.metadata.name.as_deref(), Some("cgroup2-migrate-nodes-0"));
    assert_eq!(spec.holder_identity.as_deref(), Some("uid-of-n-1/run-of-n-1/boot-A"));
    assert_eq!((spec.lease_duration_seconds, spec.lease_transitions), (Some(3600), Some(1)));
    assert_eq!(fleet.annotation(0, SLOTS).as_deref(), Some("1"));
    assert_eq!(fleet.annotation(0, "cgroup2-migrate.io/node").as_deref(), Some("n-1"));
}

#[test]
fn asking_again_is_no_second_slot() {
    let fleet = fleet(2);
    assert_eq!(fleet.held("n-1"), fleet.held("n-1"));
    fleet.held("n-2");
}

#[test]
fn an_earlier_run_of_the_same_node_gives_its_slot_to_the_next() {
    let fleet = fleet(2);
    let old = fleet.held("n-1");
    let answer = fleet.lock(&me("n-1", "later"), |lock| lock.acquire().unwrap());
    assert!(stale(&answer).contains("an earlier run of this node"), "{answer}");
    assert!(matches!(fleet.mine("n-1", &old), Mine::Lost(_)));
    fleet.held("n-2");
}

#[test]
fn the_lock_of_a_lost_node_is_taken_over_and_told() {
    let fleet = fleet(1);
    let gone = fleet.held("n-1");
    fleet.cluster.with(|world| world.nodes.remove("n-1"));
    let answer = fleet.acquire("n-2");
    assert_eq!(stale(&answer), "stale lock of n-1: there is no such node any more");
    assert!(matches!(&answer, Acquired::Yes { hold, .. } if hold.fencing == gone.fencing + 1));
    assert!(matches!(fleet.mine("n-1", &gone), Mine::Lost(how) if how.contains("held by n-2")));
}

#[test]
fn a_node_that_was_registered_anew_is_another_one() {
    let fleet = fleet(1);
    fleet.held("n-1");
    fleet.cluster.with(|world| world.nodes.get_mut("n-1").unwrap().metadata.uid = Some("new".into()));
    assert!(stale(&fleet.acquire("n-2")).starts_with("stale lock of n-1: another node has that name now"));
}

#[test]
fn no_clock_frees_a_slot() {
    let fleet = fleet(1);
    fleet.held("n-1");
    is_ready(&fleet.cluster, "n-1", false);
    fleet.clock.advance(Duration::from_secs(3600 * 24 * 365));
    let words = busy(&fleet.acquire("n-2"));
    assert!(words.contains("that node is not Ready: if it will not come back"), "{words}");
}

#[test]
fn a_run_that_is_over_leaves_its_slot_to_the_next() {
    let fleet = fleet(1);
    fleet.held("n-1");
    fleet.says("n-1", "rebooting", "run-of-n-1");
    busy(&fleet.acquire("n-2"));
    fleet.says("n-1", "done", "run-of-n-1");
    is_ready(&fleet.cluster, "n-1", false);
    busy(&fleet.acquire("n-2"));
    is_ready(&fleet.cluster, "n-1", true);
    assert_eq!(stale(&fleet.acquire("n-2")), "stale lock of n-1: its run is over (done) and left it behind");
}

#[test]
fn the_end_of_an_earlier_run_frees_nothing() {
    let fleet = fleet(1);
    fleet.says("n-1", "done", "run-of-last-month");
    fleet.held("n-1");
    busy(&fleet.acquire("n-2"));
}

#[test]
fn a_roll_back_that_could_not_be_told_to_the_lock_halts_all_the_same() {
    let fleet = fleet(1);
    fleet.held("n-1");
    fleet.says("n-1", "rolled-back", "run-of-n-1");
    assert!(matches!(fleet.acquire("n-2"), Acquired::Halted(why) if why.contains("n-1: rolled-back")));
}

#[test]
fn text_of_somebody_else_is_left_alone_and_told() {
    let fleet = fleet(1);
    fleet.held("n-1");
    fleet.scribble(0, |lease| lease.spec.as_mut().unwrap().holder_identity = Some("kured".into()));
    let words = busy(&fleet.acquire("n-2"));
    assert!(words.contains("not one of ours (\"kured\")") && words.contains("release --slot 0"), "{words}");
    assert_eq!(fleet.lease(0).spec.unwrap().holder_identity.as_deref(), Some("kured"));
}

#[test]
fn a_holder_without_the_name_of_its_node_keeps_its_slot() {
    let fleet = fleet(1);
    fleet.held("n-1");
    fleet.scribble(0, |lease| {
        lease.metadata.annotations.as_mut().unwrap().remove("cgroup2-migrate.io/node");
    });
    assert!(busy(&fleet.acquire("n-2")).contains("has no annotation cgroup2-migrate.io/node"));
}

#[test]
fn nodes_cannot_disagree_about_the_number() {
    let fleet = fleet(1);
    fleet.held("n-1");
    let other = Settings { slots: 5, ..Settings::default() };
    let lock =
        LeaseLock { api: &fleet.cluster, clock: &fleet.clock, settings: &other, me: &me("n-2", "run-2") };
    let Acquired::Refused(why) = lock.acquire().unwrap() else { panic!() };
    assert!(why.contains("lock.slots is 5, and pool nodes has 1"), "{why}");
    fleet.scribble(0, |lease| {
        lease.metadata.annotations.as_mut().unwrap().insert(SLOTS.to_owned(), "many".to_owned());
    });
    assert!(matches!(fleet.acquire("n-2"), Acquired::Refused(why) if why.contains("is no number")));
}

#[test]
fn a_reboot_is_told_before_and_ours_after() {
    let fleet = fleet(1);
    let hold = fleet.held("n-1");
    let back_by = "2026-12-01T01:00:00Z".parse().unwrap();
    let renewed = |me: &Me, phase, back_by| fleet.lock(me, |lock| lock.renew(&hold, phase, back_by).unwrap());
    assert_eq!(renewed(&me("n-1", "run-of-n-1"), "rebooting", Some(back_by)), yes());
    is_ready(&fleet.cluster, "n-1", false);
    let words = busy(&fleet.acquire("n-2"));
    assert!(
        words.contains("rebooting, expected back by 2026-12-01T01:00:00Z; that node is not Ready"),
        "{words}"
    );

    let mut after = me("n-1", "run-of-n-1");
    after.holder.boot = "boot-B".to_owned();
    assert_eq!(fleet.lock(&after, |lock| lock.still_mine(&hold).unwrap()), yes());
    assert_eq!(renewed(&after, "held", None), yes());
    assert!(fleet.lease(0).spec.unwrap().holder_identity.unwrap().ends_with("/boot-B"));
    assert!(!busy(&fleet.acquire("n-2")).contains("expected back"));
}

#[test]
fn after_enough_failures_nobody_starts_until_a_person_says_so() {
    let mut fleet = fleet(3);
    fleet.settings.halt_after = 2;
    let third = fleet.held("n-3");
    fleet.held("n-1");
    let failed = Outcome::RolledBack("the kubelet did not start".into());
    assert_eq!(fleet.release("n-1", &failed).halted, None);
    // It says so twice, and counts once.
    assert_eq!(fleet.release("n-1", &failed), Released { freed: false, halted: None });
    fleet.held("n-2");
    let released = fleet.release("n-2", &Outcome::NeedsPerson("no network".into()));
    let why = "2 nodes failed (n-1: rolled back: the kubelet did not start; n-2: needs a person: no network)";
    assert_eq!(released, Released { freed: false, halted: Some(why.to_owned()) });
    assert_eq!(fleet.acquire("n-1"), Acquired::Halted(why.to_owned()));
    // Who is on its way learns of it too, and its slot stays its own.
    assert_eq!(fleet.mine("n-3", &third), Mine::Yes { halted: Some(why.to_owned()) });

    let resume = |fleet: &Fleet| fleet.lock(&me("n-3", "x"), |lock| lock.resume("ann").unwrap());
    assert!(matches!(resume(&fleet), Resumed::Done(failures) if failures.len() == 2));
    assert_eq!(resume(&fleet), Resumed::WasNotHalted);
    fleet.held("n-1");
}

#[test]
fn a_failures_text_that_is_not_ours_is_told_and_not_overwritten() {
    let fleet = fleet(1);
    fleet.held("n-1");
    fleet.scribble(0, |lease| {
        lease.metadata.annotations.as_mut().unwrap().insert(FAILURES.to_owned(), "{".to_owned());
    });
    assert!(matches!(fleet.acquire("n-2"), Acquired::Refused(why) if why.contains("cannot be read")));
    let failed = Outcome::RolledBack("x".into());
    fleet.lock(&me("n-1", "run-of-n-1"), |lock| lock.release(&failed).unwrap_err());
    assert_eq!(fleet.annotation(0, FAILURES).as_deref(), Some("{"));
    // A person sees it, and can end it.
    let status = fleet.lock(&me("n-3", "x"), |lock| lock.status().unwrap());
    assert!(status.to_string().contains("cannot be read"), "{status}");
    let resumed = fleet.lock(&me("n-3", "x"), |lock| lock.resume("ann").unwrap());
    assert_eq!((resumed, fleet.annotation(0, FAILURES)), (Resumed::Done(Vec::new()), None));
}

#[test]
fn an_object_of_our_name_that_is_somebody_elses_is_not_written_to() {
    let fleet = fleet(2);
    let mut lease = Lease::default();
    lease.metadata.name = Some(fleet.settings.lease_name(0));
    lease.spec.get_or_insert_default().holder_identity = Some("kured".to_owned());
    let before = fleet.cluster.put_lease("", &lease).unwrap();
    let Acquired::Refused(why) = fleet.acquire("n-1") else { panic!() };
    assert!(why.contains("held by \"kured\" without the annotation cgroup2-migrate.io/slots"), "{why}");
    assert_eq!(fleet.lease(0), before);
}

#[test]
fn objects_that_somebody_prepared_for_us_are_used() {
    let fleet = fleet(1);
    let mut lease = Lease::default();
    lease.metadata.name = Some(fleet.settings.lease_name(0));
    fleet.cluster.put_lease("", &lease).unwrap();
    assert_eq!(fleet.held("n-1"), Hold { slot: 0, fencing: 1 });
}

#[test]
fn a_person_frees_what_that_person_saw_and_nothing_else() {
    let fleet = fleet(1);
    let hold = fleet.held("n-1");
    let seen = "uid-of-n-1/run-of-n-1/boot-A";
    let force =
        |slot, seen| fleet.lock(&me("n-2", "x"), |lock| lock.force(slot, seen, "ann", "disk died").unwrap());
    assert_eq!(force(7, seen), Forced::NoSuchSlot { slots: 1 });
    assert!(matches!(force(0, "other/run/boot"), Forced::Changed(now) if now == seen));
    assert_eq!(force(0, seen), Forced::Freed);
    assert_eq!(force(0, seen), Forced::WasFree);
    let Mine::Lost(how) = fleet.mine("n-1", &hold) else { panic!() };
    assert!(how.contains("freed by a person: by ann at 2026-") && how.contains("disk died"), "{how}");
    assert_eq!(fleet.held("n-2").fencing, hold.fencing + 1);
}

#[test]
fn status_says_it_all_without_a_lock() {
    let fleet = fleet(2);
    let status = |fleet: &Fleet| fleet.lock(&me("n-3", "x"), |lock| lock.status().unwrap());
    assert!(status(&fleet).to_string().starts_with("pool nodes: no node has asked for a slot yet"));
    let held = fleet.held("n-1");
    fleet.cluster.with(|world| world.nodes.remove("n-1"));
    let status = status(&fleet);
    let words = status.to_string();
    assert!(words.contains("stale lock of n-1") && words.contains("takes it over"), "{words}");
    let slot = &status.slots[held.slot as usize];
    assert_eq!((slot.holder.as_deref(), slot.fencing), (Some("uid-of-n-1/run-of-n-1/boot-A"), 1));
}

#[test]
fn a_halt_by_hand_counts() {
    let fleet = fleet(1);
    fleet.held("n-1");
    fleet.release("n-1", &Outcome::NothingDone);
    fleet.scribble(0, |lease| {
        lease.metadata.annotations.as_mut().unwrap().insert(HALTED.to_owned(), "freeze".to_owned());
    });
    assert_eq!(fleet.acquire("n-2"), Acquired::Halted("freeze".to_owned()));
}

#[test]
fn control_plane_nodes_have_one_slot_of_their_own() {
    let settings = Settings { slots: 5, ..Settings::default() };
    assert_eq!(settings.for_node(false), settings);
    let own = settings.for_node(true);
    assert_eq!((own.slots, own.lease_name(0).as_str()), (1, "cgroup2-migrate-nodes-control-plane-0"));
}

#[test]
fn a_node_says_where_its_run_is_and_only_on_itself() {
    let fleet = fleet(1);
    let hold = fleet.held("n-1");
    let mine = me("n-1", "run-of-n-1");
    announce(&fleet.cluster, &mine, "drained", Some(&hold)).unwrap();
    let annotations = || fleet.cluster.node("n-1").unwrap().metadata.annotations.unwrap();
    assert_eq!(
        (annotations()[PHASE].as_str(), annotations()[RUN].as_str(), annotations()[FENCING].as_str()),
        ("drained", "run-of-n-1", "0/1")
    );
    announce(&fleet.cluster, &mine, "done", None).unwrap();
    assert!(!annotations().contains_key(FENCING));
    fleet.cluster.with(|world| world.nodes.get_mut("n-1").unwrap().metadata.uid = Some("new".into()));
    assert_eq!(announce(&fleet.cluster, &mine, "done", None).unwrap_err().code(), Some(422));
}
