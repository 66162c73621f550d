//! A scenario, played: the real migration over the made-up machine and cluster.

use std::cell::RefCell;
use std::path::Path;
use std::time::Duration;

use cgroup2_migrate::boot::hierarchy::Hierarchy;
use cgroup2_migrate::host::Clock as _;
use cgroup2_migrate::host::RootedFs;
use cgroup2_migrate::host::fake::{FakeClock, Fuse};
use cgroup2_migrate::migration::decide::Ending;
use cgroup2_migrate::migration::journal::{DrainOptions, Options};
use cgroup2_migrate::migration::phase::PhaseName;
use cgroup2_migrate::node::client::{Credentials, Machine, Names, kubeconfig, node_of};
use cgroup2_migrate::node::drain::OnBlocked;
use cgroup2_migrate::node::lock::lease::{Acquired, Holder, LeaseLock, Me, Settings};
use cgroup2_migrate::node::{NodeApi as _, Running};
use serde_json::{Map, Value, json};

use super::form::{LockForm, Scenario};
use super::log::logged;
use super::words::Happens;
use super::world::{self, Stage};
use crate::sim::{Sim, Verb};

const BOOT_ID: &str = "proc/sys/kernel/random/boot_id";

/// How long a kubelet takes that is slow to report.
const LATE: Duration = Duration::from_secs(120);

/// How often the unit that resumes comes again while it is told to try later.
const COMES_AGAIN: usize = 4;

/// What came of a scenario.
pub(crate) struct Played {
    pub(crate) sim: Sim,
    /// The Node object that the program takes for this machine.
    pub(crate) node: String,
    pub(crate) end: End,
    pub(crate) lock: Option<Acquired>,
    /// The lock's holder, before and after.
    pub(crate) holders: (Option<String>, Option<String>),
    /// Everything that was told to anybody.
    pub(crate) told: String,
    /// In the log alone.
    pub(crate) logged: String,
    /// How long it took up to the reboot, or to the end.
    pub(crate) took: Duration,
    pub(crate) boot_files_as_before: bool,
}

/// How the run ended.
#[derive(Debug)]
pub(crate) enum End {
    /// Before anything was written; ids of the findings.
    Refused(Vec<String>),
    Ended(Ending),
    Failed(String),
    /// There was only a lock to take.
    OnlyLock,
}

pub(crate) fn play(folder: &Path, scenario: &Scenario) -> Result<Played, String> {
    let options = options(&scenario.options)?;
    let stage = world::build(scenario)?;
    if let Some(lock) = &scenario.lock {
        put_lock(&stage, lock);
    }
    let sim = machine(folder, scenario, stage);
    sim.options.replace(options);
    let before = sim.boot_files();
    logged();
    let cluster = || sim.cluster.as_ref().unwrap();
    let held = || {
        cluster().with(|world| {
            world.leases.values().next().and_then(|lease| lease.spec.as_ref()?.holder_identity.clone())
        })
    };
    let held_before = held();
    let lock = scenario.lock.is_some().then(|| acquire(&sim, scenario));
    let lock = lock.transpose()?;
    let has_lock = matches!(lock, None | Some(Acquired::Yes { .. }));
    let end = if has_lock && wants_migration(scenario) {
        migrate(&sim)
    } else {
        (End::OnlyLock, cluster().elapsed())
    };
    let (end, took) = end;
    let holders = (held_before, held());
    let log = logged();
    let told = told(&sim, &end, lock.as_ref(), &log);
    let boot_files_as_before = sim.boot_files() == before;
    let node = sim.node.borrow().clone().unwrap_or_default();
    Ok(Played { node, end, lock, holders, told, logged: log, took, boot_files_as_before, sim })
}

/// A scenario of a lock may be about nothing else.
fn wants_migration(scenario: &Scenario) -> bool {
    const OF_LOCK: [&str; 8] =
        ["acquired", "logged", "names", "told", "says", "holder", "overwritten", "patches"];
    scenario.lock.is_none() || scenario.expect.keys().any(|key| !OF_LOCK.contains(&key.as_str()))
}

fn options(given: &Map<String, Value>) -> Result<Options, String> {
    let mut options = Options::default();
    for (key, value) in given {
        let wrong = || format!("the option {key}: {value} is not understood");
        let yes = || value.as_bool().ok_or_else(wrong);
        let mut accept = |id: &str| options.accepted.push(id.to_owned());
        match key.replace('-', "_").as_str() {
            "drain_timeout_s" | "drain_timeout" | "timeout_s" => {
                options.drain.time_limit_seconds = value.as_u64().ok_or_else(wrong)?;
            }
            "force" if yes()? => accept("pod-unmanaged"),
            "delete_emptydir_data" | "delete_empty_dir_data" | "allow_emptydir" | "delete_local_data"
                if yes()? =>
            {
                accept("pod-emptydir-data");
            }
            "accept" => {
                let ids: Vec<String> = serde_json::from_value(value.clone()).map_err(|_| wrong())?;
                options.accepted.extend(ids);
            }
            "on_blocked" => {
                let on_blocked: OnBlocked = serde_json::from_value(value.clone()).map_err(|_| wrong())?;
                options.drain = DrainOptions { on_blocked, ..options.drain };
            }
            "no_drain" | "skip_drain" => options.no_drain = yes()?,
            "no_reboot" => options.no_reboot = yes()?,
            "until" => {
                let until: PhaseName = serde_json::from_value(value.clone()).map_err(|_| wrong())?;
                options.until = Some(until);
            }
            // As it always is, or not asked for.
            "ignore_daemonsets" | "force" | "delete_emptydir_data" => {}
            _ => println!("option not read: {key}"),
        }
    }
    Ok(options)
}

/// A machine that booted into v1, and whose node the program has to find.
/// A kubelet that was told to run on cgroup v1: there is something to flip, and to restart.
fn takes_v1(sim: &Sim) {
    let config =
        "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nfailCgroupV1: false\n";
    sim.put("var/lib/kubelet/config.yaml", config);
    let unit = "[Service]\nExecStart=/usr/bin/kubelet --config=/var/lib/kubelet/config.yaml\n";
    sim.put("usr/lib/systemd/system/kubelet.service", unit);
    let started = FakeClock::default().now();
    sim.cluster.as_ref().unwrap().with(|world| {
        for pod in world.pods.values_mut() {
            let id = format!("containerd://{}", pod.key.uid);
            pod.running = vec![Running { name: "main".into(), id, started }];
        }
    });
}

fn machine(folder: &Path, scenario: &Scenario, stage: Stage) -> Sim {
    let boot_ids = boot_ids(folder, scenario);
    let boot_id = boot_ids[0].clone();
    let mut boots = stage.boots.clone();
    if recorded_before(folder).is_some() {
        // The cordon of such a tree is ours, from before the reboot.
        let patch = json!({"spec": {"unschedulable": null}});
        stage.cluster.with(|world| world.merge_node(&scenario.node.name, &patch));
        boots.push_front(reports_late(boot_ids[boot_ids.len() - 1].trim()));
    }
    let mut sim = Sim::over(folder, Hierarchy::Hybrid, boot_ids);
    sim.put("var/lib/kubelet/config.yaml", "kind: KubeletConfiguration\n");
    let found = node_of_machine(&sim, &stage);
    *sim.node.borrow_mut() = found.clone();
    let Stage { cluster, last_boot_repeats, kubelet_restart, .. } = stage;
    sim.cluster = Some(cluster);
    if let Some(happens) = kubelet_restart {
        takes_v1(&sim);
        let restarts_pods = happens.iter().any(|what| matches!(what, Happens::Restarted(_)));
        sim.restart_takes_pods_along.set(restarts_pods);
    }
    let boots = RefCell::new(boots);
    let node = found.unwrap_or_default();
    sim.on_boot.replace(Some(Box::new(move |cluster| {
        let mut boots = boots.borrow_mut();
        let is_last = boots.len() == 1;
        let this = if is_last && last_boot_repeats { boots.front().cloned() } else { boots.pop_front() };
        world::boots(cluster, &this.unwrap_or_default(), &node, boot_id.trim());
    })));
    sim
}

/// The id of the first boot; where the tree is that of a second one, both.
fn boot_ids(folder: &Path, scenario: &Scenario) -> Vec<String> {
    let of_node = scenario.node.boot_id.clone().filter(|_| scenario.nodes.is_empty());
    let known = [recorded_before(folder), std::fs::read_to_string(folder.join(BOOT_ID)).ok()];
    let known: Vec<String> = known.into_iter().flatten().collect();
    if known.is_empty() { vec![of_node.unwrap_or("boot-of-this-machine".to_owned())] } else { known }
}

/// A tree that was recorded after the reboot says which boot was the one before.
fn recorded_before(folder: &Path) -> Option<String> {
    std::fs::read_to_string(folder.join("state/boot_id_before")).ok()
}

/// The kubelet is late with its first word of the new boot; the last one of the old boot said that all is well.
fn reports_late(boot_id: &str) -> Vec<Happens> {
    let patch = json!({"status": {"nodeInfo": {"bootID": boot_id}}});
    let posts = Happens::NodeIs { node: None, patch, after: LATE, length: None };
    vec![Happens::SameBoot, posts]
}

fn node_of_machine(sim: &Sim, stage: &Stage) -> Result<String, String> {
    let fs = RootedFs::new(sim.path(""));
    let config = kubeconfig(&fs, &Credentials::Kubelet).ok().flatten();
    let user = config.as_ref().and_then(|path| user_of(&sim.text(path.to_str()?)));
    let user = user.as_deref().zip(config.as_deref());
    let names = Names::on_host(&fs, user);
    let node = node_of(&stage.cluster, &names, &Machine::read(&fs)).map_err(|error| error.to_string())?;
    Ok(node.metadata.name.unwrap())
}

fn user_of(text: &str) -> Option<String> {
    kube::config::Kubeconfig::from_yaml(text).ok()?.auth_infos.first().map(|user| user.name.clone())
}

/// Migrates, and lets the unit that resumes settle it.
fn migrate(sim: &Sim) -> (End, Duration) {
    let cluster = sim.cluster.as_ref().unwrap();
    let first = sim.run(Verb::Migrate, &Fuse::counting());
    let took = sim.rebooted_at.borrow().first().copied().unwrap_or_else(|| cluster.elapsed());
    let ending = match first {
        Err(_) if !sim.blockers.borrow().is_empty() => {
            return (
                End::Refused(sim.blockers.borrow().iter().map(|finding| finding.id.clone()).collect()),
                took,
            );
        }
        Err(error) => return (End::Failed(format!("{error:#}")), took),
        Ok(Ending::GoingDown) => settle(sim),
        Ok(other) => other,
    };
    (End::Ended(ending), took)
}

fn settle(sim: &Sim) -> Ending {
    let mut ending = sim.settle();
    for _ in 0..COMES_AGAIN {
        if !matches!(ending, Ending::TryLater(_)) {
            break;
        }
        ending = sim.settle();
    }
    ending
}

fn told(sim: &Sim, end: &End, lock: Option<&Acquired>, log: &str) -> String {
    let mut all = sim.told.borrow().clone();
    all.extend(sim.blockers.borrow().iter().map(|finding| format!("{finding:?}")));
    all.extend(lock.map(ToString::to_string));
    all.push(log.to_owned());
    match end {
        End::Ended(
            Ending::RolledBack(why)
            | Ending::NeedsPerson(why)
            | Ending::Paused(why)
            | Ending::TryLater(why)
            | Ending::Blocked(why),
        )
        | End::Failed(why) => all.push(why.clone()),
        End::Ended(Ending::Done | Ending::GoingDown) | End::Refused(_) | End::OnlyLock => {}
    }
    if sim.path("var/lib/cgroup2-migrate/journal.json").exists() {
        let journal = sim.journal();
        all.extend(journal.node.and_then(|node| node.left_cordoned));
        all.extend(journal.waiting);
    }
    let events = sim.cluster.iter().flat_map(|cluster| cluster.with(|world| world.events.clone()));
    all.extend(events.filter_map(|event| event.message));
    all.join("\n")
}

/// The slot of the pool, as a node with this name left it.
fn put_lock(stage: &Stage, lock: &LockForm) {
    let settings = Settings::default();
    let lease_name = settings.lease_name(0);
    let holder = lock.holder.clone().unwrap_or_default();
    let is_name =
        |text: &str| text.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || "-.".contains(c));
    let identity = match &lock.text {
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
        None if holder.is_empty() || !is_name(&holder) => holder.clone(),
        None => format!(
            "{}/an-earlier-run/boot-of-{holder}",
            lock.uid.clone().unwrap_or(format!("uid-of-{holder}"))
        ),
    };
    let created = lock.created.clone().unwrap_or("2026-01-01T00:00:00Z".to_owned());
    let created = created.trim_end_matches('Z').split('.').next().unwrap_or_default().to_owned() + ".000000Z";
    let lease = json!({
        "metadata": {
            "name": lease_name, "namespace": settings.namespace, "resourceVersion": "7",
            "annotations": {
                "cgroup2-migrate.io/slots": "1", "cgroup2-migrate.io/node": holder,
                "cgroup2-migrate.io/phase": "held",
            },
        },
        "spec": {
            "holderIdentity": identity, "acquireTime": created, "renewTime": created, "leaseTransitions": 3,
            "leaseDurationSeconds": lock.ttl_s.filter(|seconds| *seconds > 0),
        },
    });
    let lease = serde_json::from_value(lease).unwrap();
    stage.cluster.with(|world| world.leases.insert(lease_name, lease));
}

fn acquire(sim: &Sim, scenario: &Scenario) -> Result<Acquired, String> {
    let cluster = sim.cluster.as_ref().unwrap();
    let node = sim.node.borrow().clone()?;
    let uid = cluster.node(&node).map_err(|error| error.to_string())?.metadata.uid.unwrap_or_default();
    let boot = scenario.node.boot_id.clone().unwrap_or("boot-A".to_owned());
    let me = Me { node, holder: Holder { node_uid: uid, run: "this-run".to_owned(), boot } };
    let (settings, clock) = (Settings::default(), FakeClock::default());
    let lock = LeaseLock { api: cluster, clock: &clock, settings: &settings, me: &me };
    lock.acquire().map_err(|error| error.to_string())
}
