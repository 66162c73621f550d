//! Whose a cordon is, and what a credential may not touch: with a kubelet's certificate against a real server.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking, in its helpers too")]

mod support;

use std::time::Duration;

use cgroup2_migrate::node::client::{Client, Doings, accesses, missing};
use cgroup2_migrate::node::cordon::{self, Before, CORDONED_BY, CordonError, FIELD_MANAGER, Uncordoned};
use cgroup2_migrate::node::drain::{Outcome, Policy};
use cgroup2_migrate::node::preflight::look;
use cgroup2_migrate::node::{EvictionRequest, NodeApi, NodePod};
use kube_tests::objects;
use serde_json::{Value, json};
use support::{Story, begin, drained, pods};

const RUN: &str = "run-1";

impl Story<'_> {
    fn path(&self) -> String {
        format!("/api/v1/nodes/{}", self.node)
    }

    /// As `kubectl cordon` and `kubectl uncordon` do it.
    fn person_writes(&self, unschedulable: Value) -> Value {
        let path = format!("{}?fieldManager=kubectl-cordon", self.path());
        self.runtime.block_on(self.admin.patch(&path, json!({"spec": {"unschedulable": unschedulable}}))).ok()
    }

    /// Deletes the Node object and registers it anew, as a kubelet does that finds none.
    fn is_registered_anew(&self) {
        self.runtime.block_on(async {
            self.admin.delete(&self.path(), json!({})).await.ok();
            objects::create_node(&self.admin, self.node).await;
        });
    }

    fn before(&self, api: &dyn NodeApi) -> Before {
        cordon::before(&api.node(self.node).unwrap())
    }
}

fn why(uncordoned: Uncordoned) -> String {
    let Uncordoned::NotOurs(why) = uncordoned else { panic!("{uncordoned}") };
    why
}

#[test]
fn the_cordon_of_a_person_before_us_stays_through_drain_and_uncordon() {
    let Some(story) = begin("theirs") else { return };
    story.person_writes(json!(true));
    let client = story.open();
    let preflight = look(&client, "theirs", vec![], jiff::Timestamp::now()).unwrap();
    assert!(preflight.before.was_unschedulable);
    let untouched = story.node();
    cordon::cordon(&client, &preflight.before, RUN).unwrap();
    assert_eq!(drained(&client, Policy::new("theirs")), Outcome::Drained(vec![]));
    let why = why(cordon::uncordon(&client, &preflight.before, RUN).unwrap());
    assert!(why.contains("before the run began"), "{why}");
    assert_eq!(story.node(), untouched);
}

/// The server keeps who wrote a field last: `kubectl cordon` after `kubectl uncordon` makes the field the person's.
#[test]
fn a_cordon_that_a_person_took_off_and_put_on_again_is_the_persons() {
    let Some(story) = begin("between") else { return };
    let client = story.open();
    let before = story.before(&client);
    cordon::cordon(&client, &before, RUN).unwrap();
    assert_eq!(story.node()["metadata"]["annotations"][CORDONED_BY], RUN);
    story.person_writes(Value::Null);
    let cordoned = story.person_writes(json!(true));
    let why = why(cordon::uncordon(&client, &before, RUN).unwrap());
    assert_eq!(why, "kubectl-cordon wants it cordoned, too");
    assert_eq!(story.node(), cordoned);
    // A later run sees it as a person's, too, whatever mark is left.
    assert!(story.before(&client).was_unschedulable);
}

/// `kubectl cordon` of a node that is cordoned changes nothing and leaves the field ours: it cannot be seen.
#[test]
fn a_second_cordon_over_ours_leaves_the_field_ours() {
    let Some(story) = begin("over") else { return };
    let client = story.open();
    let before = story.before(&client);
    cordon::cordon(&client, &before, RUN).unwrap();
    let path = format!("{}?fieldManager=kubectl-edit", story.path());
    let more =
        json!({"spec": {"unschedulable": true}, "metadata": {"annotations": {"example.com/by": "me"}}});
    let node = story.runtime.block_on(story.admin.patch(&path, more)).ok();
    let owners: Vec<&Value> = node["metadata"]["managedFields"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|entry| entry.pointer("/fieldsV1/f:spec/f:unschedulable").is_some())
        .map(|entry| &entry["manager"])
        .collect();
    assert_eq!(owners, [FIELD_MANAGER]);
    assert_eq!(cordon::uncordon(&client, &before, RUN).unwrap(), Uncordoned::Done);
}

#[test]
fn a_person_who_uncordons_in_between_is_not_overruled() {
    let Some(story) = begin("uncordoned") else { return };
    let client = story.open();
    let before = story.before(&client);
    cordon::cordon(&client, &before, RUN).unwrap();
    story.person_writes(Value::Null);
    assert_eq!(cordon::uncordon(&client, &before, RUN).unwrap(), Uncordoned::Done);
    assert_eq!(story.node()["spec"]["unschedulable"], Value::Null);
}

#[test]
fn a_node_that_was_registered_anew_is_another_one_and_is_left_alone() {
    let Some(story) = begin("anew") else { return };
    let client = story.open();
    let before = story.before(&client);
    cordon::cordon(&client, &before, RUN).unwrap();
    story.is_registered_anew();
    let untouched = story.node();
    for error in [
        cordon::uncordon(&client, &before, RUN).unwrap_err(),
        cordon::cordon(&client, &before, RUN).unwrap_err(),
    ] {
        assert!(error.is_of_another_node() && !error.may_pass(), "{error}");
        assert!(
            matches!(&error, CordonError::OtherNode { expected, .. } if *expected == before.uid),
            "{error}"
        );
    }
    assert_eq!(story.node(), untouched);
    story.runtime.block_on(story.admin.delete(&story.path(), json!({}))).ok();
    let error = cordon::uncordon(&client, &before, RUN).unwrap_err();
    assert!(error.is_of_another_node(), "{error}");
}

/// Every way in, for a credential that may not: an error that says what was refused, and a node as it was.
fn is_refused(story: &Story<'_>, api: &Client<'_>, before: &Before, who: &str) {
    let untouched = story.node();
    let error = look(api, story.node, vec![], jiff::Timestamp::now()).unwrap_err();
    assert!(error.code() == Some(403) && error.to_string().contains(who), "{error}");
    for error in
        [cordon::cordon(api, before, RUN).unwrap_err(), cordon::uncordon(api, before, RUN).unwrap_err()]
    {
        let words = error.to_string();
        assert!(words.contains(&format!("node {}: 403", story.node)) && words.contains(who), "{words}");
        assert!(!error.may_pass() && !error.is_of_another_node(), "{words}");
    }
    let patch =
        api.patch_node(story.node, &json!([{"op": "add", "path": "/spec/unschedulable", "value": true}]));
    assert_eq!(patch.unwrap_err().code(), Some(403));
    let policy = Policy { time_limit: Duration::from_secs(2), ..Policy::new(story.node) };
    let outcome = drained(api, policy);
    let Outcome::Lost(words) = &outcome else { panic!("{outcome}") };
    assert!(words.contains("403") && words.contains(who), "{words}");
    assert_eq!(story.node(), untouched);
}

#[test]
fn the_credential_of_another_node_changes_nothing_here() {
    let Some(story) = begin("victim") else { return };
    story.pod("p", "a");
    let own = story.open();
    let before = story.before(&own);
    let pod = pods(&own, "victim", 1).remove(0);
    let other = story.open_at(&story.cluster.kubelet_kubeconfig("stranger").unwrap());
    is_refused(&story, &other, &before, "system:node:stranger");
    is_not_evicted(&own, &other, &pod);
}

#[test]
fn a_user_without_rights_changes_nothing_and_is_told_every_right_that_is_missing() {
    let Some(story) = begin("rightless") else { return };
    story.pod("p", "a");
    let own = story.open();
    let before = story.before(&own);
    let pod = pods(&own, "rightless", 1).remove(0);
    let nobody = story.open_at(&story.cluster.kubeconfig("nobody", "nobodies").unwrap());
    is_refused(&story, &nobody, &before, "\"nobody\"");
    is_not_evicted(&own, &nobody, &pod);
    let doings = Doings { node: "rightless", drains: true, deletes: true, locks_in: Some("fleet") };
    assert_eq!(missing(&nobody, accesses(&doings)).unwrap(), accesses(&doings));
}

fn is_not_evicted(own: &dyn NodeApi, other: &dyn NodeApi, pod: &NodePod) {
    let request = EvictionRequest { pod: pod.key.clone(), grace_seconds: None, dry_run: false };
    let error = other.evict(&request).unwrap_err();
    assert_eq!(error.code(), Some(403), "{error}");
    assert_eq!(own.pods(&pod.node).unwrap(), std::slice::from_ref(pod));
}
