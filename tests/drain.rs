//! A drain, from the cordon's point of view: pods leave, or the run says by name what holds them.
#![expect(
    clippy::panic,
    clippy::wildcard_enum_match_arm,
    reason = "a test fails by panicking, in its helpers too"
)]

#[path = "support/cluster.rs"]
mod cluster;

use std::time::Duration;

use cgroup2_migrate::node::drain::{Listener, OnBlocked, Outcome, Policy, Progress, Selector, run};
use cgroup2_migrate::node::{NodeApi as _, NodePod, Owner, PodKey};
use cluster::{Budget, Cluster, Script, over_budget, pod, refusal};
use proptest::prelude::*;

const NODE: &str = "n-alder";

#[derive(Default)]
struct Heard(Vec<Progress>);

impl Listener for Heard {
    fn progress(&mut self, progress: &Progress) {
        self.0.push(progress.clone());
    }
}

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn drained(cluster: &Cluster, change: impl FnOnce(&mut Policy)) -> (Outcome, Vec<Progress>) {
    let mut policy = Policy::new(NODE);
    change(&mut policy);
    let mut heard = Heard::default();
    let outcome = run(policy, cluster.drain_port(NODE).as_mut(), &mut heard);
    (outcome, heard.0)
}

fn left(outcome: &Outcome) -> Vec<String> {
    match outcome {
        Outcome::Blocked(left) => left.iter().map(|left| format!("{}: {}", left.pod, left.why)).collect(),
        other => panic!("not blocked but {other:?}"),
    }
}

fn with_pods(names: &[&str]) -> Cluster {
    let cluster = Cluster::new(&[NODE]);
    names.iter().for_each(|name| cluster.add(pod(NODE, "shop", name)));
    cluster
}

fn scripted(
    cluster: &Cluster,
    name: &str,
    answers: Vec<Result<(), cgroup2_migrate::node::ApiError>>,
    gone: Option<u64>,
) {
    let script = Script { answers: answers.into(), gone_after: gone.map(seconds) };
    cluster.with(|world| world.scripts.insert(name.to_owned(), script));
}

#[test]
fn every_pod_is_asked_once_and_the_drain_ends_with_the_last_one() {
    let cluster = with_pods(&["a", "b", "c"]);
    cluster.with(|world| world.stops_in.insert("shop/b".into(), seconds(20)));
    let (outcome, _) = drained(&cluster, |_| {});
    assert_eq!(outcome, Outcome::Drained(Vec::new()));
    assert_eq!(cluster.count("POST"), 3);
    assert!(cluster.elapsed() >= seconds(20) && cluster.elapsed() < seconds(21), "{:?}", cluster.elapsed());
}

#[test]
fn an_accepted_eviction_is_not_a_pod_that_is_gone() {
    let cluster = with_pods(&[]);
    cluster.add(NodePod { grace: seconds(300), ..pod(NODE, "db", "pg-0") });
    cluster.with(|world| world.stops_in.insert("db/pg-0".into(), seconds(240)));
    assert_eq!(drained(&cluster, |_| {}).0, Outcome::Drained(Vec::new()));
    assert!(cluster.elapsed() >= seconds(240));
}

#[test]
fn daemon_set_and_mirror_pods_stay_and_finished_ones_go() {
    let cluster = with_pods(&[]);
    let owner =
        |kind: &str| Some(Owner { api_version: "apps/v1".into(), kind: kind.into(), name: "x".into() });
    cluster.add(NodePod { owner: owner("DaemonSet"), ..pod(NODE, "kube-system", "cni") });
    cluster.add(NodePod { mirror: true, owner: owner("Node"), ..pod(NODE, "kube-system", "etcd-n-alder") });
    cluster.add(NodePod {
        finished: true,
        owner: None,
        empty_dirs: vec!["d".into()],
        ..pod(NODE, "ci", "done")
    });
    assert_eq!(drained(&cluster, |_| {}).0, Outcome::Drained(Vec::new()));
    assert_eq!(cluster.requests(), ["LIST pods of n-alder", "POST pods/ci/done/eviction"]);
}

#[test]
fn a_budget_that_never_gives_way_is_named_and_ends_the_drain_in_time() {
    let cluster = with_pods(&["api-7d"]);
    scripted(&cluster, "shop/api-7d", vec![Err(over_budget("api-pdb"))], None);
    let (outcome, heard) = drained(&cluster, |policy| policy.time_limit = seconds(30));
    let left = left(&outcome);
    assert!(left[0].contains("shop/api-7d") && left[0].contains("api-pdb"), "{left:?}");
    assert!(cluster.elapsed() < seconds(31));
    assert!(cluster.count("POST") < 10, "{}", cluster.count("POST"));
    let lines: Vec<String> = heard.iter().map(ToString::to_string).collect();
    assert!(lines.iter().any(|line| line.contains("api-pdb") && line.contains("shop/api-7d")), "{lines:?}");
}

#[test]
fn many_pods_behind_one_budget_are_told_at_once_and_then_each_ten_seconds() {
    let names: Vec<String> = (0..12).map(|number| format!("api-{number}")).collect();
    let cluster = with_pods(&names.iter().map(String::as_str).collect::<Vec<_>>());
    for name in &names {
        scripted(&cluster, &format!("shop/{name}"), vec![Err(over_budget("api-pdb"))], None);
    }
    let (_, heard) = drained(&cluster, |policy| policy.time_limit = seconds(30));
    let times: Vec<u64> = heard.iter().map(|progress| progress.seconds).collect();
    assert!(heard.len() <= 7, "{times:?}");
    assert_eq!(
        heard.iter().flat_map(|progress| &progress.blocked).map(|blocked| blocked.pods.len()).max(),
        Some(12)
    );
}

#[test]
fn many_pods_behind_one_budget_are_one_question() {
    let cluster = Cluster::new(&[NODE]);
    (0..30).for_each(|number| cluster.add(pod(NODE, "shop", &format!("api-{number}"))));
    let budget = Budget {
        namespace: "shop".into(),
        name: "api-pdb".into(),
        prefix: "api-".into(),
        allowed: 1,
        heals_in: seconds(5),
    };
    cluster.with(|world| world.budgets.push(budget));
    assert_eq!(drained(&cluster, |_| {}).0, Outcome::Drained(Vec::new()));
    // Each of the thirty is refused at most once when all are asked together; later it is one at a time.
    assert!(cluster.count("POST") < 30 + 30 * 6, "{}", cluster.count("POST"));
}

#[test]
fn the_no_of_a_budget_is_the_answer_for_all_pods_with_the_same_labels() {
    let cluster = Cluster::new(&[NODE]);
    for number in 0..50 {
        let name = format!("api-{number}");
        cluster.add(pod(NODE, "shop", &name));
        scripted(&cluster, &format!("shop/{name}"), vec![Err(over_budget("api-pdb"))], None);
    }
    cluster.add(NodePod { pending: true, ..pod(NODE, "shop", "api-new") });
    cluster.add(pod(NODE, "shop", "web-1"));
    let (outcome, _) = drained(&cluster, |policy| policy.time_limit = Duration::from_millis(900));
    // Those that were on their way already when it came; a budget holds no pod that never ran, nor others.
    let in_flight = Policy::new(NODE).in_flight;
    assert_eq!(cluster.count("POST"), in_flight + 2, "{:?}", cluster.requests());
    assert_eq!(left(&outcome).iter().filter(|line| line.contains("api-pdb")).count(), 50);
}

#[test]
fn a_pod_that_is_gone_wakes_the_others_of_its_budget() {
    let cluster = with_pods(&["api-1", "api-2"]);
    let budget = Budget {
        namespace: "shop".into(),
        name: "api-pdb".into(),
        prefix: "api-".into(),
        allowed: 1,
        heals_in: Duration::ZERO,
    };
    cluster.with(|world| world.budgets.push(budget));
    cluster.with(|world| world.stops_in.insert("shop/api-1".into(), seconds(60)));
    cluster.with(|world| world.stops_in.insert("shop/api-2".into(), seconds(60)));
    assert_eq!(drained(&cluster, |_| {}).0, Outcome::Drained(Vec::new()));
    assert!(cluster.elapsed() < seconds(122), "{:?}", cluster.elapsed());
}

#[test]
fn two_budgets_end_the_drain_early_and_any_other_500_does_not() {
    let cluster = with_pods(&["a"]);
    let words =
        "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.";
    scripted(&cluster, "shop/a", vec![Err(refusal(500, words, None))], None);
    assert!(left(&drained(&cluster, |_| {}).0)[0].contains("more than one disruption budget"));
    assert!(cluster.elapsed() < seconds(1));

    let cluster = with_pods(&["a"]);
    let hiccup = Err(refusal(500, "etcdserver: leader changed", None));
    scripted(&cluster, "shop/a", vec![hiccup.clone(), hiccup, Ok(())], None);
    assert_eq!(drained(&cluster, |_| {}).0, Outcome::Drained(Vec::new()));
}

#[test]
fn a_webhook_may_say_no_for_a_while_and_the_pod_may_go_by_itself() {
    let cluster = with_pods(&[]);
    cluster.add(pod(NODE, "kafka", "k-1"));
    let no = |code| {
        Err(refusal(code, "admission webhook \"drain.guard.example\" denied the request: later", None))
    };
    scripted(&cluster, "kafka/k-1", vec![no(403), no(400)], Some(20));
    let (outcome, heard) = drained(&cluster, |policy| policy.time_limit = seconds(120));
    assert_eq!(outcome, Outcome::Drained(Vec::new()));
    assert!(heard.iter().any(|progress| progress.to_string().contains("drain.guard.example")));
}

#[test]
fn a_namespace_that_is_going_takes_its_pods_along() {
    let cluster = with_pods(&[]);
    cluster.add(pod(NODE, "ci-591", "build-2"));
    let going =
        refusal(403, "forbidden", Some(("NamespaceTerminating", "namespace ci-591 is being terminated")));
    scripted(&cluster, "ci-591/build-2", vec![Err(going)], Some(3));
    assert_eq!(drained(&cluster, |_| {}).0, Outcome::Drained(Vec::new()));
}

#[test]
fn a_right_that_is_missing_is_told_at_once() {
    let cluster = with_pods(&["a"]);
    let words = "pods \"a\" is forbidden: User \"system:node:x\" cannot create resource \"pods/eviction\"";
    scripted(&cluster, "shop/a", vec![Err(refusal(403, words, None))], None);
    assert!(left(&drained(&cluster, |_| {}).0)[0].contains("cannot create resource"));
}

#[test]
fn another_pod_of_the_same_name_is_another_pod() {
    let cluster = with_pods(&["web-0"]);
    let key = PodKey { uid: "u9".into(), ..pod(NODE, "shop", "web-0").key };
    cluster.appears(
        Duration::from_millis(1005),
        NodePod { key, node: "n-birch".into(), ..pod(NODE, "shop", "web-0") },
    );
    assert_eq!(drained(&cluster, |_| {}).0, Outcome::Drained(Vec::new()));
    assert!(cluster.elapsed() < seconds(10));
}

#[test]
fn a_pod_that_always_comes_back_to_this_node_ends_the_drain() {
    let cluster = with_pods(&["stubborn"]);
    for round in 1..6 {
        let key = PodKey { uid: format!("u{round}"), ..pod(NODE, "shop", "stubborn").key };
        cluster.appears(
            seconds(round * 2) - Duration::from_millis(500),
            NodePod { key, ..pod(NODE, "shop", "stubborn") },
        );
    }
    cluster.add(NodePod { grace: seconds(120), ..pod(NODE, "shop", "slow") });
    cluster.with(|world| world.stops_in.insert("shop/slow".into(), seconds(100)));
    assert!(left(&drained(&cluster, |_| {}).0).iter().any(|line| line.contains("came back")));
}

#[test]
fn the_api_may_be_away_for_minutes() {
    let cluster = with_pods(&["a", "b"]);
    cluster.with(|world| world.stops_in.insert("shop/a".into(), seconds(30)));
    cluster.with(|world| world.stops_in.insert("shop/b".into(), seconds(400)));
    cluster.with(|world| world.pods.values_mut().for_each(|pod| pod.grace = seconds(500)));
    cluster.is_away(seconds(10), seconds(310));
    let (outcome, heard) = drained(&cluster, |_| {});
    assert_eq!(outcome, Outcome::Drained(Vec::new()));
    assert!(heard.iter().any(|progress| progress.lost.is_some()));

    let cluster = with_pods(&["a"]);
    cluster.is_away(Duration::ZERO, seconds(10_000));
    assert!(matches!(drained(&cluster, |policy| policy.time_limit = seconds(100)).0, Outcome::Lost(_)));
}

#[test]
fn what_is_overdue_is_told_with_what_holds_it() {
    let cluster = with_pods(&[]);
    cluster.add(NodePod { finalizers: vec!["example.com/backup".into()], ..pod(NODE, "db", "held") });
    cluster.with(|world| world.stops_in.insert("db/held".into(), Duration::MAX));
    let left = left(&drained(&cluster, |_| {}).0);
    assert!(left[0].contains("example.com/backup"), "{left:?}");
    assert!(cluster.elapsed() >= seconds(90) && cluster.elapsed() < seconds(92), "{:?}", cluster.elapsed());
}

#[test]
fn an_object_that_only_a_finalizer_holds_is_no_pod_that_runs() {
    let cluster = with_pods(&[]);
    let held = NodePod { finalizers: vec!["example.com/backup".into()], ..pod(NODE, "db", "held") };
    cluster.add(held.clone());
    cluster.with(|world| world.stops_in.insert("db/held".into(), Duration::MAX));
    let ended = NodePod {
        containers_gone: true,
        deletion: Some(cgroup2_migrate::node::Deletion {
            deadline: jiff::Timestamp::UNIX_EPOCH,
            grace: seconds(30),
        }),
        ..held
    };
    cluster.appears(seconds(7), ended.clone());
    assert_eq!(drained(&cluster, |_| {}).0, Outcome::Drained(vec![ended.key]));
}

#[test]
fn waves_go_one_after_another() {
    let cluster = with_pods(&["web"]);
    cluster.add(NodePod { priority: 2_000_001_000, ..pod(NODE, "kube-system", "critical") });
    cluster.add(NodePod {
        labels: vec![("app".into(), "longhorn".into())],
        ..pod(NODE, "longhorn", "instance-manager")
    });
    cluster.with(|world| world.stops_in.insert("shop/web".into(), seconds(30)));
    let last =
        Selector { namespace: Some("longhorn".into()), labels: vec![("app".into(), "longhorn".into())] };
    assert_eq!(drained(&cluster, |policy| policy.waves.last = vec![last]).0, Outcome::Drained(Vec::new()));
    let order: Vec<String> =
        cluster.requests().into_iter().filter(|request| request.starts_with("POST")).collect();
    let expected = ["shop/web", "kube-system/critical", "longhorn/instance-manager"];
    assert_eq!(order, expected.map(|name| format!("POST pods/{name}/eviction")));
}

#[test]
fn only_where_it_is_said_twice_is_anything_deleted_and_never_what_was_objected_to() {
    let cluster = with_pods(&["api-7d"]);
    scripted(&cluster, "shop/api-7d", vec![Err(over_budget("api-pdb"))], None);
    let (outcome, _) = drained(&cluster, |policy| {
        policy.time_limit = seconds(30);
        policy.on_blocked = OnBlocked::Delete;
    });
    assert!(matches!(outcome, Outcome::Blocked(_)), "the script refuses deletes too");
    assert!(cluster.count("DELETE") >= 1);

    let cluster = with_pods(&[]);
    cluster.add(NodePod { empty_dirs: vec!["cache".into()], ..pod(NODE, "shop", "keeps-data") });
    let (outcome, _) = drained(&cluster, |policy| policy.on_blocked = OnBlocked::Delete);
    assert!(left(&outcome)[0].contains("emptyDir"));
    assert_eq!(cluster.count("DELETE") + cluster.count("POST"), 0);
}

#[test]
fn a_drain_that_waits_has_no_end_of_its_own() {
    let cluster = with_pods(&["api-7d"]);
    let no = Err(over_budget("api-pdb"));
    scripted(&cluster, "shop/api-7d", vec![no; 400].into_iter().chain([Ok(())]).collect(), None);
    let (outcome, _) = drained(&cluster, |policy| {
        policy.time_limit = seconds(30);
        policy.on_blocked = OnBlocked::Wait;
    });
    assert_eq!(outcome, Outcome::Drained(Vec::new()));
    assert!(cluster.elapsed() > seconds(3600));
}

proptest! {
    /// Whatever pods and budgets there are: the drain ends, asks no more than so many at a time, and says either that
    /// all are gone, and then they are, or who is left.
    #[test]
    fn a_drain_tells_the_truth(
        pods in prop::collection::vec((0_u8..4, 0_u64..120, 0_u8..3, any::<bool>()), 0..40),
        allowed in 0_usize..3, heals in 0_u64..60, away in 0_u64..300, limit in 10_u64..2000,
    ) {
        let cluster = Cluster::new(&[NODE]);
        for (number, (group, stops, priority, data)) in pods.iter().enumerate() {
            let mut pod = pod(NODE, "shop", &format!("g{group}-{number}"));
            pod.priority = i32::from(*priority) * 1_000_000_000;
            if *data { pod.empty_dirs.push("d".into()); }
            cluster.with(|world| world.stops_in.insert(pod.key.to_string(), seconds(*stops)));
            cluster.add(pod);
        }
        cluster.with(|world| world.budgets.push(Budget {
            namespace: "shop".into(), name: "g1-pdb".into(), prefix: "g1-".into(), allowed, heals_in: seconds(heals),
        }));
        cluster.is_away(seconds(5), seconds(5 + away));
        let (outcome, heard) = drained(&cluster, |policy| {
            policy.allowed.empty_dir_data = true;
            policy.time_limit = seconds(limit);
        });
        let there = cluster.with(|world| world.pods.len());
        match outcome {
            Outcome::Drained(held) => prop_assert_eq!(there, held.len()),
            Outcome::Blocked(left) => prop_assert!(!left.is_empty() && there > 0),
            Outcome::Lost(_) => prop_assert!(away > 0),
            Outcome::Interrupted => prop_assert!(false),
        }
        prop_assert!(heard.iter().all(|progress| progress.gone + progress.stopping <= progress.total));
        prop_assert!(cluster.elapsed() <= seconds(limit.max(5 + away) + 1));
    }
}
