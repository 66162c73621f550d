//! What gets in the way of a drain, on a real server: names that come back, a server that is away, two budgets, the end
//! of a namespace, a budget that never lets go.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test fails by panicking, in its helpers too"
)]

mod support;

use std::time::Duration;

use cgroup2_migrate::checks;
use cgroup2_migrate::node::NodeApi as _;
use cgroup2_migrate::node::cordon::{self, Uncordoned};
use cgroup2_migrate::node::drain::{ObstacleKind, OnBlocked, Outcome, Policy};
use cgroup2_migrate::node::preflight::look;
use cgroup2_migrate::node::select::Allowed;
use kube_tests::{Caller, FakeKubelet, Programs, Request, TestCluster, objects, tally, until};
use serde_json::{Value, json};
use support::{Story, begin, drained, heard, pods, runtime};

/// A pod that a ReplicaSet would make anew.
fn owned(node: &str, name: &str, app: &str, stops_after: &str) -> Value {
    let mut pod = objects::pod(node, name, app);
    let owner =
        json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": app, "uid": app, "controller": true});
    pod["metadata"]["ownerReferences"] = json!([owner]);
    pod["metadata"]["annotations"] = json!({objects::STOPS_AFTER: stops_after});
    pod
}

impl Story<'_> {
    fn of_pod(&self, name: &str) -> String {
        format!("/api/v1/namespaces/{}/pods/{name}", self.node)
    }

    fn budget(&self, name: &str, healthy: u32, desired: u32) {
        self.runtime.block_on(async {
            objects::create_budget(&self.admin, self.node, name, "a").await;
            objects::set_budget(&self.admin, self.node, name, healthy, desired).await;
        });
    }

    fn requests(&self) -> Vec<Request> {
        self.cluster.requests(&format!("system:node:{}", self.node)).unwrap()
    }

    /// Does something to the cluster beside the drain.
    fn beside<T: Send>(&self, work: impl AsyncFnOnce(Caller) + Send, then: impl FnOnce() -> T) -> T {
        std::thread::scope(|scope| {
            let beside = scope.spawn(|| {
                runtime().block_on(async { work(self.cluster.admin().await).await });
            });
            let outcome = then();
            beside.join().unwrap();
            outcome
        })
    }
}

/// A pod of the same name is another one: on this node it has to go, too; elsewhere it is nobody's business.
#[test]
fn a_pod_that_comes_back_under_its_name_is_another_one() {
    let Some(story) = begin("returns") else { return };
    let _kubelet = FakeKubelet::start(story.cluster, "returns").unwrap();
    let first = story.runs(owned("returns", "db-0", "a", "0"))["metadata"]["uid"].clone();
    story.runs(owned("returns", "slow", "b", "3000"));
    let client = story.open();
    pods(&client, "returns", 2);
    let path = story.of_pod("db-0");
    let stateful_set = async |admin: Caller| {
        let mut uid = first;
        for node in ["returns", "somewhere"] {
            until(async || admin.get(&path).await.json()["metadata"]["uid"] != uid).await;
            uid = objects::create_pod(&admin, "returns", owned(node, "db-0", "a", "0")).await["metadata"]["uid"].clone();
        }
    };
    let outcome = story.beside(stateful_set, || drained(&client, Policy::new("returns")));
    assert_eq!(outcome, Outcome::Drained(vec![]));
    let pod = story.runtime.block_on(story.admin.get(&story.of_pod("db-0"))).ok();
    assert_eq!(
        (&pod["spec"]["nodeName"], &pod["metadata"]["deletionTimestamp"]),
        (&json!("somewhere"), &Value::Null)
    );
    let of_name = |request: &&Request| {
        request.name == "db-0" && request.resource == "pods/eviction" && request.code == 201
    };
    // One more was a question of this test, not of the drain.
    assert_eq!(story.requests().iter().filter(of_name).count(), 2 + 1, "{:?}", tally(&story.requests()));
}

#[test]
fn a_server_that_is_away_for_some_seconds_does_not_end_a_drain() {
    let Some(programs) = Programs::or_skip() else { return };
    let runtime = support::runtime();
    let cluster = runtime.block_on(TestCluster::start(programs)).unwrap();
    let story = Story::new(runtime, &cluster, "outage");
    let _kubelet = FakeKubelet::start(&cluster, "outage").unwrap();
    for number in 0..40 {
        story.runs(owned("outage", &format!("p-{number}"), "a", "200"));
    }
    story.budget("b", 40, 30);
    let client = story.open();
    let before = cordon::before(&client.node("outage").unwrap());
    pods(&client, "outage", 40);
    cordon::cordon(&client, &before, "run-1").unwrap();
    let outage = async |admin: Caller| {
        // The budget has let ten go; those behind it wait.
        until(async || objects::disruptions_allowed(&admin, "outage", "b").await == 0).await;
        cluster.stop_api();
        tokio::time::sleep(Duration::from_secs(4)).await;
        cluster.start_api().await.unwrap();
        objects::set_budget(&admin, "outage", "b", 100, 10).await;
    };
    let (outcome, told) = story.beside(outage, || heard(&client, Policy::new("outage")));
    assert_eq!(outcome, Outcome::Drained(vec![]));
    let words: Vec<String> = told.iter().map(ToString::to_string).collect();
    assert!(words.iter().any(|words| words.contains("the API server cannot be reached")), "{words:#?}");
    assert_eq!(told.last().unwrap().gone, 40);
    assert_eq!(client.pods("outage").unwrap(), []);
    assert_eq!(cordon::uncordon(&client, &before, "run-1").unwrap(), Uncordoned::Done);
}

#[test]
fn two_budgets_are_found_before_the_cordon_and_named_where_they_can_be_read() {
    let Some(story) = begin("both") else { return };
    story.runs(owned("both", "p", "a", "0"));
    story.budget("b", 9, 1);
    story.budget("c", 9, 1);
    let client = story.open();
    pods_or_two_budgets(&story);
    let admin = story.open_at(&story.cluster.admin_kubeconfig().unwrap());
    for (api, names) in [(&client, vec![]), (&admin, vec!["b", "c"])] {
        let preflight = look(api, "both", vec![], jiff::Timestamp::now()).unwrap();
        let [(pod, obstacle, named)] = preflight.obstacles.as_slice() else { panic!("{preflight:?}") };
        assert_eq!(
            (pod.name.as_str(), &obstacle.kind, named),
            ("p", &ObstacleKind::TwoBudgets, &names.iter().map(|name| (*name).to_owned()).collect())
        );
        let finding = checks::of_node(&preflight).remove(0);
        assert_eq!(finding.id, "pod-two-budgets");
        assert!(names.is_empty() || finding.detail.ends_with("b and c"), "{}", finding.detail);
    }
    // The drain that begins all the same ends at once.
    let outcome = drained(&client, Policy::new("both"));
    let Outcome::Blocked(left) = &outcome else { panic!("{outcome}") };
    assert!(left[0].why.contains("more than one disruption budget selects it"), "{outcome}");
    assert!(left[0].waited < Duration::from_secs(60), "{outcome}");
}

/// The server knows pod and budgets once it says that there are two.
fn pods_or_two_budgets(story: &Story<'_>) {
    let eviction = json!({"metadata": {"name": "p"}, "deleteOptions": {"dryRun": ["All"]}});
    let path = format!("{}/eviction", story.of_pod("p"));
    story.runtime.block_on(async {
        let kubelet = story.cluster.kubelet("both").await;
        until(async || kubelet.post(&path, eviction.clone()).await.code == 500).await;
    });
}

#[test]
fn pods_of_a_namespace_that_ends_are_waited_for_and_not_fought_over() {
    let Some(story) = begin("closing") else { return };
    let _kubelet = FakeKubelet::start(story.cluster, "closing").unwrap();
    story.runs(owned("closing", "p", "a", "0"));
    let client = story.open();
    pods(&client, "closing", 1);
    story.runtime.block_on(story.admin.delete("/api/v1/namespaces/closing", json!({}))).ok();
    // What the controller of namespaces does, when it comes to it.
    let controller = async |admin: Caller| {
        tokio::time::sleep(Duration::from_secs(3)).await;
        admin.delete("/api/v1/namespaces/closing/pods/p", json!({})).await.ok();
    };
    let (outcome, told) = story.beside(controller, || heard(&client, Policy::new("closing")));
    assert_eq!(outcome, Outcome::Drained(vec![]));
    let by: Vec<&str> =
        told.iter().flat_map(|progress| &progress.blocked).map(|blocked| blocked.by.as_str()).collect();
    assert!(by.contains(&"the end of its namespace"), "{told:?}");
}

/// Deleted past its budget only after the time for evictions is over, and only that very pod.
#[test]
fn a_budget_that_never_lets_go_is_passed_by_only_where_that_was_asked_for() {
    let Some(story) = begin("never") else { return };
    let _kubelet = FakeKubelet::start(story.cluster, "never").unwrap();
    story.runs(owned("never", "p", "a", "0"));
    story.pod("bare", "b");
    story.budget("b", 1, 1);
    let client = story.open();
    pods(&client, "never", 2);
    let before = cordon::before(&client.node("never").unwrap());
    cordon::cordon(&client, &before, "run-1").unwrap();
    let allowed = Allowed { unmanaged: true, ..Allowed::default() };
    let policy = Policy { time_limit: Duration::from_secs(3), allowed, ..Policy::new("never") };
    let outcome = drained(&client, policy.clone());
    let Outcome::Blocked(left) = &outcome else { panic!("{outcome}") };
    assert!(left.len() == 1 && left[0].why.contains("held by disruption budget b"), "{outcome}");
    assert!(left[0].why.contains("needs 1 healthy pods and has 1 currently"), "{outcome}");
    let deletes =
        || story.requests().into_iter().filter(|request| request.verb == "delete").collect::<Vec<_>>();
    assert_eq!(deletes(), []);
    let outcome = drained(&client, Policy { on_blocked: OnBlocked::Delete, ..policy });
    assert_eq!(outcome, Outcome::Drained(vec![]));
    let asked: Vec<(String, u16)> =
        deletes().into_iter().map(|request| (request.name, request.code)).collect();
    assert_eq!(asked, [("p".to_owned(), 200)]);
    assert_eq!(cordon::uncordon(&client, &before, "run-1").unwrap(), Uncordoned::Done);
}
