//! Fifty nodes, five slots, every order of requests: each request of each node waits for its turn, nodes die before
//! and after requests, and dead ones are cleared away at any time.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking, in its helpers too"
)]

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, Sender, channel};

use cgroup2_migrate::host::fake::FakeClock;
use cgroup2_migrate::node::drain::Port;
use cgroup2_migrate::node::lock::lease::{
    Acquired, FAILURES, Hold, Holder, LeaseLock, Me, Mine, Outcome, Settings,
};
use cgroup2_migrate::node::lock::{PHASE, RUN};
use cgroup2_migrate::node::{Access, ApiError, ApiStatus, EvictionRequest, NodeApi, NodePod};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Event, Node};
use proptest::prelude::*;
use serde_json::{Value, json};

const NODES: usize = 50;
const SLOTS: u32 = 5;
const TRIES: usize = 4;

/// What the server has, and what is watched over at each write.
#[derive(Default)]
struct World {
    leases: BTreeMap<String, Lease>,
    nodes: BTreeMap<String, Node>,
    /// Who had a slot under which fencing number.
    fenced: BTreeMap<(String, i32), String>,
    /// Who believes to have which slot: the living, and the dead until they are cleared away.
    holding: BTreeMap<usize, Hold>,
    /// Runs that have said that they failed, and heard that it counts.
    failed: BTreeSet<String>,
    acquired: usize,
}

fn name(id: usize) -> String {
    format!("n-{id}")
}

fn me(id: usize) -> Me {
    let holder = Holder { node_uid: format!("uid-{id}"), run: format!("run-{id}"), boot: "boot".into() };
    Me { node: name(id), holder }
}

fn refused(code: u16) -> ApiError {
    ApiError::Refused(ApiStatus { code, ..ApiStatus::default() })
}

fn holder(lease: &Lease) -> Option<Holder> {
    Holder::parse(lease.spec.as_ref()?.holder_identity.as_deref()?)
}

impl World {
    fn put(&mut self, lease: &Lease) -> Result<Lease, ApiError> {
        let name = lease.metadata.name.clone().unwrap();
        let stored = self.leases.get(&name);
        let version = stored.and_then(|lease| lease.metadata.resource_version.clone());
        if version != lease.metadata.resource_version {
            return Err(refused(409));
        }
        if let (Some(old), Some(new)) = (stored.and_then(holder), holder(lease)) {
            assert!(old.node_uid == new.node_uid || self.may_go(&old), "{name} of {old} was taken by {new}");
        }
        if let Some(holder) = holder(lease) {
            let fencing = lease.spec.as_ref().unwrap().lease_transitions.unwrap();
            let who = self.fenced.entry((name.clone(), fencing)).or_insert_with(|| holder.to_string());
            assert_eq!(*who, holder.to_string(), "two holders of {name} with fencing number {fencing}");
        }
        let mut lease = lease.clone();
        let next = version.map_or(1, |version| version.parse::<u64>().unwrap() + 1);
        lease.metadata.resource_version = Some(next.to_string());
        self.leases.insert(name, lease.clone());
        Ok(lease)
    }

    /// The rule, in other words than the product's.
    fn may_go(&self, holder: &Holder) -> bool {
        let id: usize = holder.run.trim_start_matches("run-").parse().unwrap();
        let Some(node) = self.nodes.get(&name(id)) else { return true };
        let annotations = node.metadata.annotations.clone().unwrap_or_default();
        node.metadata.uid.as_deref() != Some(&holder.node_uid) || annotations.contains_key(PHASE)
    }

    fn believes(&mut self, id: usize, hold: Hold) {
        let others = self.holding.iter().filter(|(other, _)| **other != id);
        assert!(others.clone().all(|(_, other)| other.slot != hold.slot), "slot {} twice", hold.slot);
        assert!(others.count() < SLOTS as usize);
        self.holding.insert(id, hold);
        self.acquired += 1;
    }

    /// A dead node is cleared away: deleted, replaced, or it has come back and its run is over.
    fn clear_away(&mut self, id: usize, how: u64) {
        self.holding.remove(&id);
        match how % 3 {
            0 => drop(self.nodes.remove(&name(id))),
            1 => drop(self.nodes.insert(name(id), node(id, "uid-of-another", false))),
            _ => drop(self.nodes.insert(name(id), node(id, &format!("uid-{id}"), true))),
        }
    }
}

fn node(id: usize, uid: &str, over: bool) -> Node {
    let annotations = if over {
        json!({PHASE: "done", RUN: format!("run-{id}")})
    } else {
        json!({RUN: format!("run-{id}")})
    };
    serde_json::from_value(json!({
        "metadata": {"name": name(id), "uid": uid, "annotations": annotations},
        "status": {"conditions": [{"type": "Ready", "status": if over { "True" } else { "Unknown" }}]},
    }))
    .unwrap()
}

/// What a node whose turn it is does next.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Turn {
    Go,
    DieBefore,
    DieAfter,
}

/// A node's way to the server: each request waits for its turn, and a dead node sends none.
struct Way<'a> {
    world: &'a Mutex<World>,
    id: usize,
    asks: Sender<(usize, bool)>,
    turns: Receiver<Turn>,
    dead: Cell<bool>,
}

impl Way<'_> {
    fn request<T>(&self, act: impl FnOnce(&mut World) -> Result<T, ApiError>) -> Result<T, ApiError> {
        let died = Err(ApiError::Unusable("dead".into()));
        if self.dead.get() {
            return died;
        }
        self.asks.send((self.id, true)).unwrap();
        let turn = self.turns.recv().unwrap();
        self.dead.set(turn != Turn::Go);
        if turn == Turn::DieBefore {
            return died;
        }
        let answer = act(&mut self.world.lock().unwrap());
        if turn == Turn::DieAfter { Err(ApiError::Unusable("dead".into())) } else { answer }
    }
}

fn not_asked<T>() -> Result<T, ApiError> {
    panic!("a lock asks for leases and nodes only")
}

impl NodeApi for Way<'_> {
    fn node(&self, name: &str) -> Result<Node, ApiError> {
        self.request(|world| world.nodes.get(name).cloned().ok_or_else(|| refused(404)))
    }
    fn leases(&self, _namespace: &str) -> Result<Vec<Lease>, ApiError> {
        self.request(|world| Ok(world.leases.values().cloned().collect()))
    }
    fn put_lease(&self, _namespace: &str, lease: &Lease) -> Result<Lease, ApiError> {
        self.request(|world| world.put(lease))
    }
    fn nodes(&self) -> Result<Vec<Node>, ApiError> {
        not_asked()
    }
    fn patch_node(&self, _: &str, _: &Value) -> Result<Node, ApiError> {
        not_asked()
    }
    fn pods(&self, _: &str) -> Result<Vec<NodePod>, ApiError> {
        not_asked()
    }
    fn evict(&self, _: &EvictionRequest) -> Result<(), ApiError> {
        not_asked()
    }
    fn budgets_of(&self, _: &NodePod) -> Result<Vec<String>, ApiError> {
        not_asked()
    }
    fn configz(&self, _: &str) -> Result<Value, ApiError> {
        not_asked()
    }
    fn drain_port(&self, _: &str) -> Box<dyn Port + '_> {
        panic!("a lock drains nothing")
    }
    fn may(&self, _: &Access) -> Result<bool, ApiError> {
        not_asked()
    }
    fn create_event(&self, _: &Event) -> Result<(), ApiError> {
        not_asked()
    }
}

/// A node's whole life with the lock; ends early if it dies.
fn live(way: &Way<'_>) -> Result<(), ApiError> {
    let (me, clock) = (me(way.id), FakeClock::default());
    let settings = Settings { slots: SLOTS, halt_after: 1000, ..Settings::default() };
    let lock = LeaseLock { api: way, clock: &clock, settings: &settings, me: &me };
    for _ in 0..TRIES {
        match lock.acquire()? {
            Acquired::Yes { hold, .. } => return work(way, &lock, &hold),
            Acquired::Busy(_) | Acquired::Contended => {}
            other @ (Acquired::Halted(_) | Acquired::Refused(_)) => panic!("{other}"),
        }
    }
    Ok(())
}

fn work(way: &Way<'_>, lock: &LeaseLock<'_>, hold: &Hold) -> Result<(), ApiError> {
    way.world.lock().unwrap().believes(way.id, hold.clone());
    let mine = Mine::Yes { halted: None };
    assert_eq!(lock.still_mine(hold)?, mine);
    assert_eq!(lock.renew(hold, "rebooting", None)?, mine);
    assert_eq!(lock.still_mine(hold)?, mine);
    way.world.lock().unwrap().holding.remove(&way.id);
    if !way.id.is_multiple_of(3) {
        return lock.release(&Outcome::Done).map(drop);
    }
    lock.release(&Outcome::RolledBack("no reason".into()))?;
    way.world.lock().unwrap().failed.insert(lock.me.holder.run.clone());
    Ok(())
}

/// Numbers out of a seed.
struct Dice(u64);

impl Dice {
    fn roll(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn turn(&mut self) -> Turn {
        match self.roll() % 60 {
            0 => Turn::DieBefore,
            1 => Turn::DieAfter,
            _ => Turn::Go,
        }
    }
}

/// One node at a time does one request, in the order of the dice.
fn schedule(world: &Mutex<World>, asked: &Receiver<(usize, bool)>, turns: &[Sender<Turn>], mut dice: Dice) {
    let mut waiting: Vec<usize> = Vec::new();
    let mut dead: Vec<usize> = Vec::new();
    let hear = |waiting: &mut Vec<usize>| {
        let (id, asks) = asked.recv().unwrap();
        if asks {
            waiting.push(id);
        }
    };
    (0..turns.len()).for_each(|_| hear(&mut waiting));
    while !waiting.is_empty() {
        waiting.sort_unstable();
        let id = waiting.swap_remove(dice.roll() as usize % waiting.len());
        let turn = dice.turn();
        turns[id].send(turn).unwrap();
        hear(&mut waiting);
        if turn != Turn::Go {
            dead.push(id);
        }
        if !dead.is_empty() && dice.roll().is_multiple_of(20) {
            let id = dead.swap_remove(dice.roll() as usize % dead.len());
            world.lock().unwrap().clear_away(id, dice.roll());
        }
    }
}

fn played(seed: u64) -> World {
    let world = Mutex::new(World::default());
    world.lock().unwrap().nodes =
        (0..NODES).map(|id| (name(id), node(id, &format!("uid-{id}"), false))).collect();
    let (asks, asked) = channel();
    std::thread::scope(|scope| {
        let start = |id| {
            let (sender, turns) = channel();
            let (asks, world) = (asks.clone(), &world);
            scope.spawn(move || {
                let ended = Ended(asks.clone(), id);
                let way = Way { world, id, asks, turns, dead: Cell::new(false) };
                let died = live(&way).is_err();
                assert_eq!(died, way.dead.get(), "only death ends a life early");
                drop(ended);
            });
            sender
        };
        let turns: Vec<Sender<Turn>> = (0..NODES).map(start).collect();
        schedule(&world, &asked, &turns, Dice(seed | 1));
    });
    world.into_inner().unwrap()
}

/// Says that a node asks no more, however its thread ended.
struct Ended(Sender<(usize, bool)>, usize);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.send((self.1, false));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    /// What must hold at each write and each answer is asserted where it happens.
    #[test]
    fn never_more_holders_than_slots_and_the_dead_keep_theirs(seed in any::<u64>()) {
        let world = played(seed);
        prop_assert!(world.acquired >= SLOTS as usize, "{} acquired", world.acquired);
        let text = world.leases["cgroup2-migrate-nodes-0"].metadata.annotations.as_ref().unwrap().get(FAILURES);
        let counted: Vec<Value> = serde_json::from_str(text.map_or("[]", String::as_str)).unwrap();
        let runs: BTreeSet<String> = counted.iter().map(|one| one["run"].as_str().unwrap().to_owned()).collect();
        prop_assert_eq!(runs.len(), counted.len(), "a run counts once");
        prop_assert!(world.failed.is_subset(&runs), "a failure was lost");
    }
}
