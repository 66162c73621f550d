//! Fifty nodes want one of five slots of a real server, each on a thread of its own with a client of its own.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking, in its helpers too"
)]

mod support;

use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use cgroup2_migrate::host::SystemClock;
use cgroup2_migrate::node::lock::lease::{
    Acquired, Hold, Holder, LeaseLock, Me, Mine, Outcome, Released, Settings,
};
use kube_tests::{TestCluster, objects};
use serde_json::{Value, json};
use support::{Seams, Story, begin, runtime};

const NODES: usize = 50;
const SLOTS: u32 = 5;
/// Between two questions of one node, instead of a quarter of a minute and more.
const PAUSE: Duration = Duration::from_millis(60);
const WORK: Duration = Duration::from_millis(120);

/// A pool of nodes, and the credential that all of them share.
struct Fleet<'a> {
    story: Story<'a>,
    settings: Settings,
    kubeconfig: PathBuf,
}

fn fleet(namespace: &'static str, nodes: usize) -> Option<Fleet<'static>> {
    let story = begin(namespace)?;
    story.runtime.block_on(async {
        for id in 0..nodes {
            objects::create_node(&story.admin, &name(namespace, id)).await;
        }
    });
    // Far shorter than the work: nothing may be freed by it.
    let duration = Duration::from_secs(1);
    let settings =
        Settings { namespace: namespace.to_owned(), slots: SLOTS, duration, ..Settings::default() };
    let kubeconfig = story.cluster.kubeconfig("fleet", "system:masters").unwrap();
    Some(Fleet { story, settings, kubeconfig })
}

fn name(namespace: &str, id: usize) -> String {
    format!("{namespace}-{id}")
}

impl Fleet<'_> {
    fn leases(&self) -> Vec<Value> {
        self.story.runtime.block_on(leases(&self.story.admin, self.story.node))
    }

    fn node_path(&self, id: usize) -> String {
        format!("/api/v1/nodes/{}", name(self.story.node, id))
    }

    /// As the node of this number: its UID is that of its Node object now.
    fn me(&self, id: usize) -> Me {
        let node = self.story.runtime.block_on(self.story.admin.get(&self.node_path(id))).ok();
        let node_uid = node["metadata"]["uid"].as_str().unwrap().to_owned();
        let holder = Holder { node_uid, run: format!("run-{id}"), boot: "boot-A".to_owned() };
        Me { node: name(self.story.node, id), holder }
    }

    fn node_is_deleted(&self, id: usize) {
        self.story.runtime.block_on(self.story.admin.delete(&self.node_path(id), json!({}))).ok();
    }
}

async fn leases(admin: &kube_tests::Caller, namespace: &str) -> Vec<Value> {
    let path = format!("/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases");
    admin.get(&path).await.ok()["items"].as_array().unwrap().clone()
}

fn held(leases: &[Value]) -> Vec<&str> {
    leases.iter().filter_map(|lease| lease["spec"]["holderIdentity"].as_str()).collect()
}

/// The lock as this node sees it, with a client of its own.
fn with_lock<T>(kubeconfig: &Path, settings: &Settings, me: &Me, act: impl FnOnce(&LeaseLock<'_>) -> T) -> T {
    let seams = Seams::new();
    let api = seams.open(kubeconfig);
    act(&LeaseLock { api: &api, clock: &SystemClock, settings, me })
}

/// Who is at work now, and the most that ever were.
#[derive(Default)]
struct AtWork {
    now: Vec<Hold>,
    most: usize,
    fencing: Vec<(u32, i32)>,
}

fn take_turn(lock: &LeaseLock<'_>, at_work: &Mutex<AtWork>) -> Hold {
    loop {
        match lock.acquire().unwrap() {
            Acquired::Yes { hold, .. } => {
                let mut at_work = at_work.lock().unwrap();
                assert!(
                    at_work.now.iter().all(|other| other.slot != hold.slot),
                    "two have slot {}",
                    hold.slot
                );
                at_work.now.push(hold.clone());
                at_work.fencing.push((hold.slot, hold.fencing));
                at_work.most = at_work.most.max(at_work.now.len());
                return hold;
            }
            Acquired::Busy(_) | Acquired::Contended => std::thread::sleep(PAUSE),
            other @ (Acquired::Halted(_) | Acquired::Refused(_)) => panic!("{other}"),
        }
    }
}

fn works(lock: &LeaseLock<'_>, at_work: &Mutex<AtWork>) {
    let hold = take_turn(lock, at_work);
    std::thread::sleep(WORK);
    assert_eq!(lock.still_mine(&hold).unwrap(), Mine::Yes { halted: None });
    at_work.lock().unwrap().now.retain(|other| *other != hold);
    assert_eq!(lock.release(&Outcome::Done).unwrap(), Released { freed: true, halted: None });
}

/// Looks on, with a list of its own, until all are done: the most holders it ever saw.
fn looks_on(cluster: &TestCluster, namespace: &str, is_over: &AtomicBool) -> usize {
    runtime().block_on(async {
        let admin = cluster.admin().await;
        let mut most = 0;
        while !is_over.load(Ordering::Relaxed) {
            let leases = leases(&admin, namespace).await;
            assert!(leases.len() <= SLOTS as usize, "{leases:?}");
            most = most.max(held(&leases).len());
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        most
    })
}

#[test]
fn of_fifty_that_ask_at_once_never_more_than_five_are_at_work() {
    let Some(fleet) = fleet("fifty", NODES) else { return };
    let everybody: Vec<Me> = (0..NODES).map(|id| fleet.me(id)).collect();
    let (at_work, is_over) = (Mutex::new(AtWork::default()), AtomicBool::new(false));
    let (kubeconfig, settings, cluster) = (&fleet.kubeconfig, &fleet.settings, fleet.story.cluster);
    let seen = std::thread::scope(|scope| {
        let looking = scope.spawn(|| looks_on(cluster, "fifty", &is_over));
        let run = |me| with_lock(kubeconfig, settings, me, |lock| works(lock, &at_work));
        let working: Vec<_> = everybody.iter().map(|me| scope.spawn(move || run(me))).collect();
        let ends: Vec<_> = working.into_iter().map(|thread| thread.join()).collect();
        is_over.store(true, Ordering::Relaxed);
        assert!(ends.iter().all(Result::is_ok));
        looking.join().unwrap()
    });
    let AtWork { now, most, mut fencing } = at_work.into_inner().unwrap();
    assert_eq!((now, most, seen), (vec![], SLOTS as usize, SLOTS as usize), "all slots were in use at once");
    let turns = fencing.len();
    fencing.sort_unstable();
    fencing.dedup();
    assert_eq!((turns, fencing.len()), (NODES, NODES), "no slot has one fencing number twice");
    assert_eq!(held(&fleet.leases()), Vec::<&str>::new());
}

/// No clock frees a slot: its node is gone, or another one has its name.
#[test]
fn the_slot_of_a_dead_node_stays_until_its_node_object_is_gone() {
    let Some(fleet) = fleet("dead", 8) else { return };
    let everybody: Vec<Me> = (0..8).map(|id| fleet.me(id)).collect();
    let acquire = |id: usize| {
        with_lock(&fleet.kubeconfig, &fleet.settings, &everybody[id], |lock| lock.acquire().unwrap())
    };
    let first = |id: usize| {
        let answer = acquire(id);
        let Acquired::Yes { hold, stale: None } = answer else { panic!("{answer}") };
        hold
    };
    let holds: Vec<Hold> = (0..5).map(first).collect();
    let before = fleet.leases();
    // Longer than the leases say they last.
    std::thread::sleep(fleet.settings.duration * 2);
    let Acquired::Busy(held) = acquire(5) else { panic!("a slot was free") };
    assert_eq!(held.len(), 5);
    assert_eq!(fleet.leases(), before, "who asks in vain writes nothing");

    fleet.node_is_deleted(0);
    let Acquired::Yes { hold, stale: Some(stale) } = acquire(5) else { panic!("no slot was freed") };
    assert_eq!(hold, Hold { slot: holds[0].slot, fencing: holds[0].fencing + 1 });
    assert_eq!(stale, "stale lock of dead-0: there is no such node any more");
    let lost = with_lock(&fleet.kubeconfig, &fleet.settings, &everybody[0], |lock| {
        lock.still_mine(&holds[0]).unwrap()
    });
    assert!(matches!(&lost, Mine::Lost(how) if how.contains("held by dead-5")), "{lost}");

    fleet.node_is_deleted(1);
    fleet.story.runtime.block_on(objects::create_node(&fleet.story.admin, "dead-1"));
    let Acquired::Yes { hold, stale: Some(stale) } = acquire(6) else { panic!("no slot was freed") };
    assert_eq!(hold.slot, holds[1].slot);
    assert!(stale.starts_with("stale lock of dead-1: another node has that name now"), "{stale}");
    assert!(matches!(acquire(7), Acquired::Busy(_)));
}
