//! Which pods go: ours against `kubectl drain`, over generated pods. Where the two differ on purpose it is said here.
#![expect(
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking, in its helpers too"
)]

mod support;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;

use cgroup2_migrate::host::{Invocation, Runner as _, SystemRunner};
use cgroup2_migrate::node::NodePod;
use cgroup2_migrate::node::select::{Allowed, Choice, Objection, choose};
use futures::StreamExt as _;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::List;
use k8s_openapi::api::core::v1::Pod;
use kube_tests::{Caller, Programs, TestCluster, objects};
use proptest::prelude::{Just, Strategy, any};
use proptest::sample::select;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::TestRunner;
use serde_json::{Value, json};

const SETS: usize = 512;
const NAMESPACE: &str = "differential";
/// Nodes that one kubectl drains: it asks at most ten things at once and five a second after that.
const NODES_AT_ONCE: usize = 8;
/// Enough for a server on two cores.
const REQUESTS_AT_ONCE: usize = 16;

/// A place where the two differ, and that is right.
struct Difference {
    name: &'static str,
    why: &'static str,
    is_it: fn(&Judged) -> bool,
}

const DIFFERENCES: [Difference; 5] = [
    Difference {
        name: "all objections at once",
        why: "kubectl names the first one of a pod only, and people fix one flag at a time",
        is_it: |pod| match (&pod.ours, &pod.theirs) {
            (Verdict::Objects(ours), Verdict::Objects(theirs)) => {
                ours.len() > theirs.len() && ours.is_superset(theirs)
            }
            _ => false,
        },
    },
    Difference {
        name: "on its way out already",
        why: "whatever it loses, it loses without us: nobody's word is needed to wait for its end",
        is_it: |pod| {
            let lacks_word = [Said::EmptyDir, Said::Unmanaged].map(|said| Verdict::Objects([said].into()));
            pod.pod.deletion.is_some() && pod.ours == Verdict::Goes && lacks_word.contains(&pod.theirs)
        },
    },
    Difference {
        name: "stuck on its way out",
        why: "kubectl waits for ever for a pod that should have ended long ago; we say so before the cordon",
        is_it: |pod| pod.ours == Verdict::Objects([Said::Stuck].into()),
    },
    Difference {
        name: "a DaemonSet that is gone",
        why: "a kubelet may not read DaemonSets, so its pods stay as those of any other; the reboot stops them",
        is_it: |pod| {
            // With --force it is a pod like others to kubectl, without it the missing DaemonSet is an error.
            let is_told = pod.theirs == Verdict::Objects([Said::NoDaemonSet].into());
            pod.is_of("apps/v1", GONE) && pod.ours == Verdict::Stays && pod.flags.force != is_told
        },
    },
    Difference {
        name: "a DaemonSet of another group",
        why: "an OpenKruise DaemonSet puts its pod back on a cordoned node at once, as one of apps/v1 does",
        is_it: |pod| {
            pod.is_of(OTHER_GROUP, HERE) && pod.ours == Verdict::Stays && pod.theirs != Verdict::Stays
        },
    },
];

const OTHER_GROUP: &str = "apps.kruise.io/v1alpha1";
const HERE: &str = "here";
const GONE: &str = "gone";
const OWNERS: [(&str, &str, &str); 8] = [
    ("apps/v1", "ReplicaSet", "r"),
    ("apps/v1", "StatefulSet", "s"),
    ("batch/v1", "Job", "j"),
    ("apps/v1", "DaemonSet", HERE),
    ("apps/v1", "DaemonSet", GONE),
    (OTHER_GROUP, "DaemonSet", HERE),
    ("v1", "Node", "n"),
    ("example.com/v1", "Database", "d"),
];
const PHASES: [&str; 7] = ["Pending", "Running", "Running", "Running", "Succeeded", "Failed", "Unknown"];

/// Pods of one node, and how it is drained.
#[derive(Debug, Clone)]
struct Set {
    pods: Vec<Value>,
    flags: Flags,
    /// Ours is asked an hour after what goes was told to; kubectl does not care.
    is_late: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Flags {
    force: bool,
    delete_emptydir_data: bool,
}

fn sets() -> impl Strategy<Value = Vec<Set>> {
    let flags = (any::<bool>(), any::<bool>())
        .prop_map(|(force, delete_emptydir_data)| Flags { force, delete_emptydir_data });
    let set = (proptest::collection::vec(pod(), 1..7), flags, any::<bool>())
        .prop_map(|(pods, flags, is_late)| Set { pods, flags, is_late });
    proptest::collection::vec(set, SETS)
}

/// `phase` and `ends` stand beside what is created. Two thirds are plain enough for sets without any objection.
fn pod() -> impl Strategy<Value = Value> {
    let controller = select(vec![json!(true), json!(true), json!(true), json!(false), Value::Null]);
    let owner = proptest::option::weighted(0.85, (select(&OWNERS[..]), controller));
    let volumes = proptest::option::weighted(0.2, (any::<bool>(), any::<bool>()));
    let is_mirror = proptest::bool::weighted(0.1);
    let class =
        proptest::option::weighted(0.2, select(vec!["system-node-critical", "system-cluster-critical"]));
    let ends = proptest::option::weighted(0.2, Just(()));
    (owner, volumes, is_mirror, class, select(&PHASES[..]), ends).prop_map(
        |(owner, volumes, is_mirror, class, phase, ends)| {
            let annotations =
                if is_mirror { json!({"kubernetes.io/config.mirror": "hash"}) } else { json!({}) };
            json!({
                "metadata": {
                    "annotations": annotations, "ownerReferences": owner.map(owner_reference),
                    "finalizers": ends.map(|()| ["example.com/stays"]),
                },
                "spec": {
                    "priorityClassName": class, "volumes": volumes.map(volumes_of),
                    "containers": [{"name": "main", "image": "none"}],
                },
                "phase": phase, "ends": ends.is_some(),
            })
        },
    )
}

fn owner_reference(((api_version, kind, name), controller): ((&str, &str, &str), Value)) -> Value {
    json!([{"apiVersion": api_version, "kind": kind, "name": name, "uid": name, "controller": controller}])
}

fn volumes_of((in_memory, with_another): (bool, bool)) -> Value {
    let scratch =
        json!({"name": "a", "emptyDir": if in_memory { json!({"medium": "Memory"}) } else { json!({}) }});
    let another = json!({"name": "b", "hostPath": {"path": "/srv"}});
    if with_another { json!([another, scratch]) } else { json!([scratch]) }
}

/// What becomes of a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Verdict {
    Goes,
    Stays,
    Objects(BTreeSet<Said>),
    /// kubectl does not say which pods would go where it objects to another one.
    NotSaid,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Said {
    EmptyDir,
    Unmanaged,
    Stuck,
    NoDaemonSet,
}

/// A pod, and what becomes of it.
#[derive(Debug)]
struct Judged {
    pod: NodePod,
    flags: Flags,
    ours: Verdict,
    theirs: Verdict,
}

impl Judged {
    fn is_same(&self) -> bool {
        let is_open = self.theirs == Verdict::NotSaid && !matches!(self.ours, Verdict::Objects(_));
        self.ours == self.theirs || is_open
    }

    fn is_of(&self, api_version: &str, daemon_set: &str) -> bool {
        let owner = self.pod.owner.as_ref();
        owner.is_some_and(|owner| {
            owner.api_version == api_version && owner.kind == "DaemonSet" && owner.name == daemon_set
        })
    }
}

fn ours(pod: &NodePod, set: &Set) -> Verdict {
    let Flags { force, delete_emptydir_data } = set.flags;
    let allowed = Allowed { empty_dir_data: delete_emptydir_data, unmanaged: force };
    let hours = i64::from(set.is_late);
    match choose(pod, &pod.node, allowed, Timestamp::now() + SignedDuration::from_hours(hours)) {
        Choice::Evict => Verdict::Goes,
        Choice::Leave(_) => Verdict::Stays,
        Choice::Object(objections) => Verdict::Objects(objections.iter().map(said).collect()),
    }
}

fn said(objection: &Objection) -> Said {
    match objection {
        Objection::EmptyDir(_) => Said::EmptyDir,
        Objection::Unmanaged => Said::Unmanaged,
        Objection::StuckTerminating(_) => Said::Stuck,
    }
}

/// What kubectl says of the pods of one node.
#[derive(Debug, Default)]
struct Theirs {
    goes: BTreeSet<String>,
    objects: BTreeMap<String, Said>,
}

impl Theirs {
    fn of(&self, pod: &str) -> Verdict {
        match self.objects.get(pod) {
            Some(said) => Verdict::Objects([*said].into()),
            None if !self.objects.is_empty() => Verdict::NotSaid,
            None if self.goes.contains(pod) => Verdict::Goes,
            None => Verdict::Stays,
        }
    }
}

#[test]
fn kubectl_and_we_choose_the_same_pods_but_where_it_is_wanted() {
    let Some(programs) = Programs::or_skip() else { return };
    let Some(kubectl) = programs.further_or_skip("kubectl") else { return };
    let runtime = support::runtime();
    let Some(cluster) = runtime.block_on(kube_tests::shared()) else { return };
    let sets = sets().new_tree(&mut TestRunner::deterministic()).expect("sets").current();
    let pods = runtime.block_on(created(cluster, &sets));
    let theirs = drained(&kubectl, cluster, &sets);
    let judged: Vec<Judged> = pods.into_iter().map(|pod| judge(pod, &sets, &theirs)).collect();
    tells_enough(&judged);
    let differing: Vec<&Judged> = judged.iter().filter(|pod| !pod.is_same()).collect();
    for Difference { name, why, is_it } in &DIFFERENCES {
        assert!(differing.iter().any(|pod| is_it(pod)), "{name} ({why}): this difference never occurs");
    }
    let is_wanted = |pod: &Judged| DIFFERENCES.iter().any(|difference| (difference.is_it)(pod));
    let unwanted: Vec<&Judged> = differing.into_iter().filter(|pod| !is_wanted(pod)).collect();
    assert!(unwanted.is_empty(), "{} pods of {}: {unwanted:#?}", unwanted.len(), judged.len());
}

/// Each verdict both agree about occurs often.
fn tells_enough(judged: &[Judged]) {
    let agreed = |is_it: fn(&Verdict) -> bool| {
        judged.iter().filter(|pod| pod.ours == pod.theirs && is_it(&pod.ours)).count()
    };
    let goes = agreed(|verdict| *verdict == Verdict::Goes);
    let stays = agreed(|verdict| *verdict == Verdict::Stays);
    let objects = agreed(|verdict| matches!(verdict, Verdict::Objects(_)));
    assert!(goes > 100 && stays > 100 && objects > 100, "{goes} go, {stays} stay, {objects} are objected to");
}

fn judge(pod: NodePod, sets: &[Set], theirs: &BTreeMap<String, Theirs>) -> Judged {
    let number: usize = pod.node.trim_start_matches("set-").parse().expect("a number");
    let ours = ours(&pod, &sets[number]);
    let theirs = theirs[&pod.node].of(&pod.key.to_string());
    Judged { flags: sets[number].flags, ours, theirs, pod }
}

/// All pods, each on the node of its set.
async fn created(cluster: &TestCluster, sets: &[Set]) -> Vec<NodePod> {
    let admin = cluster.admin().await;
    objects::create_namespace(&admin, NAMESPACE).await;
    admin.post(&format!("/apis/apps/v1/namespaces/{NAMESPACE}/daemonsets"), daemon_set()).await.ok();
    let all = sets.iter().enumerate();
    futures::stream::iter(all)
        .for_each_concurrent(REQUESTS_AT_ONCE, |(number, set)| create(&admin, number, set))
        .await;
    let listed = admin.get(&format!("/api/v1/namespaces/{NAMESPACE}/pods")).await.ok();
    let pods: List<Pod> = serde_json::from_value(listed).expect("pods");
    assert_eq!(pods.items.len(), sets.iter().map(|set| set.pods.len()).sum::<usize>());
    pods.items.iter().map(NodePod::from).collect()
}

async fn create(admin: &Caller, number: usize, set: &Set) {
    let node = format!("set-{number}");
    admin.post("/api/v1/nodes", json!({"metadata": {"name": node}})).await.ok();
    for (place, pod) in set.pods.iter().enumerate() {
        let mut wanted = pod.clone();
        wanted["spec"]["nodeName"] = json!(node);
        wanted["metadata"]["name"] = json!(format!("{node}-{place}"));
        objects::create_pod(admin, NAMESPACE, wanted).await;
        let path = format!("/api/v1/namespaces/{NAMESPACE}/pods/{node}-{place}");
        if pod["phase"] != "Pending" {
            admin.patch(&format!("{path}/status"), json!({"status": {"phase": pod["phase"]}})).await.ok();
        }
        if pod["ends"] == true {
            admin.delete(&path, json!({})).await.ok();
        }
    }
}

fn daemon_set() -> Value {
    let labels = json!({"app": "d"});
    let containers = json!([{"name": "main", "image": "none"}]);
    json!({"metadata": {"name": HERE}, "spec": {
        "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": {"containers": containers}},
    }})
}

/// What kubectl would do, by node: two at a time.
fn drained(kubectl: &Path, cluster: &TestCluster, sets: &[Set]) -> BTreeMap<String, Theirs> {
    let mut by_flags: BTreeMap<Flags, Vec<String>> = BTreeMap::new();
    for (number, set) in sets.iter().enumerate() {
        by_flags.entry(set.flags).or_default().push(format!("set-{number}"));
    }
    let batches: Vec<(Flags, &[String])> = by_flags
        .iter()
        .flat_map(|(flags, nodes)| nodes.chunks(NODES_AT_ONCE).map(|batch| (*flags, batch)))
        .collect();
    let run = |batches: &[(Flags, &[String])]| -> BTreeMap<String, Theirs> {
        batches.iter().flat_map(|(flags, nodes)| dry_run(kubectl, cluster, *flags, nodes)).collect()
    };
    let (first, second) = batches.split_at(batches.len() / 2);
    std::thread::scope(|scope| {
        let beside = scope.spawn(|| run(first));
        let mut all = run(second);
        all.extend(beside.join().expect("kubectl"));
        all
    })
}

fn dry_run(
    kubectl: &Path,
    cluster: &TestCluster,
    flags: Flags,
    nodes: &[String],
) -> BTreeMap<String, Theirs> {
    let kubeconfig = cluster.admin_kubeconfig().expect("a kubeconfig");
    let home = cluster.folder().display();
    let mut argv = vec![
        kubectl.display().to_string(),
        format!("--kubeconfig={}", kubeconfig.display()),
        format!("--cache-dir={home}/kubectl"),
        "drain".to_owned(),
        "--dry-run=client".to_owned(),
        "--ignore-daemonsets".to_owned(),
        format!("--force={}", flags.force),
        format!("--delete-emptydir-data={}", flags.delete_emptydir_data),
    ];
    argv.extend(nodes.iter().cloned());
    let invocation = Invocation { argv, time_limit: Duration::from_secs(60), changes_host: false };
    let environment = [("HOME".to_owned(), home.to_string())];
    let finished = SystemRunner::new().run_with(&invocation, &environment).expect("kubectl");
    let (out, err) = (String::from_utf8_lossy(&finished.stdout), String::from_utf8_lossy(&finished.stderr));
    nodes.iter().map(|node| (node.clone(), heard(node, &out, &err))).collect()
}

fn heard(node: &str, out: &str, err: &str) -> Theirs {
    let mut theirs = Theirs::default();
    let refusal =
        err.lines().find(|line| line.starts_with(&format!("error: unable to drain node {node:?} ")));
    match refusal {
        Some(refusal) => theirs.objects.extend(refusal.split("cannot delete ").skip(1).flat_map(objected)),
        None => assert!(out.contains(&format!("node/{node} drained (dry run)")), "{node}: {out}{err}"),
    }
    let of_node = format!("evicting pod {NAMESPACE}/{node}-");
    let going = out.lines().filter(|line| line.starts_with(&of_node));
    theirs.goes = going.filter_map(|line| line.split(' ').nth(2)).map(str::to_owned).collect();
    theirs
}

/// `Pods that declare no controller (use --force to override): ns/a, ns/b, `
fn objected(part: &str) -> Vec<(String, Said)> {
    let said = [
        ("with local storage", Said::EmptyDir),
        ("declare no controller", Said::Unmanaged),
        ("daemonsets.apps \"gone\" not found", Said::NoDaemonSet),
    ];
    let said = said.into_iter().find(|(words, _)| part.contains(words)).unwrap_or_else(|| panic!("{part}")).1;
    let words = part.split([' ', ',', ']']).filter(|word| word.starts_with(&format!("{NAMESPACE}/")));
    words.map(|word| (word.to_owned(), said)).collect()
}
