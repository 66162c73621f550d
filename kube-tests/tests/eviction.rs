//! What a server answers to evictions by a kubelet. Each assertion was seen, not read somewhere.
#![expect(clippy::indexing_slicing, reason = "a test fails by panicking")]

use kube_tests::{Answer, Caller, objects, until};
use serde_json::{Value, json};

/// A namespace with one running pod `p` on a node of the same name.
struct Story {
    name: &'static str,
    kubelet: Caller,
    admin: Caller,
    uid: Value,
}

impl Story {
    async fn begin(name: &'static str) -> Option<Self> {
        let cluster = kube_tests::shared().await?;
        let (kubelet, admin) = (cluster.kubelet(name).await, cluster.admin().await);
        objects::create_node(&admin, name).await;
        objects::create_namespace(&admin, name).await;
        let pod = objects::create_pod(&admin, name, objects::pod(name, "p", "a")).await;
        objects::set_running(&admin, name, "p", true).await;
        let story = Self { name, kubelet, admin, uid: pod["metadata"]["uid"].clone() };
        // Before the server's admission has heard of the pod, it says that there is none.
        until(async || story.kubelet.get(&story.pod()).await.code == 200).await;
        Some(story)
    }

    async fn budget(&self, name: &str, healthy: u32, desired: u32) {
        objects::create_budget(&self.admin, self.name, name, "a").await;
        self.set_budget(name, healthy, desired).await;
    }

    async fn set_budget(&self, name: &str, healthy: u32, desired: u32) {
        objects::set_budget(&self.admin, self.name, name, healthy, desired).await;
    }

    async fn allowed(&self, budget: &str) -> i64 {
        objects::disruptions_allowed(&self.admin, self.name, budget).await
    }

    fn pod(&self) -> String {
        format!("/api/v1/namespaces/{}/pods/p", self.name)
    }

    async fn evict(&self, options: Value) -> Answer {
        self.post("", json!({"metadata": {"name": "p"}, "deleteOptions": options})).await
    }

    async fn post(&self, query: &str, eviction: Value) -> Answer {
        self.kubelet.post(&format!("{}/eviction{query}", self.pod()), eviction).await
    }

    async fn is_told_to_stop(&self) -> bool {
        self.admin.get(&self.pod()).await.ok()["metadata"]["deletionTimestamp"].is_string()
    }
}

#[tokio::test]
async fn an_eviction_spends_the_budget_and_marks_the_pod() {
    let Some(story) = Story::begin("spends").await else { return };
    story.budget("b", 3, 1).await;
    let answer = story.evict(json!({"gracePeriodSeconds": 7, "preconditions": {"uid": story.uid}})).await;
    assert_eq!((answer.code, &answer.json()["status"]), (201, &json!("Success")));
    let pod = story.admin.get(&story.pod()).await.ok();
    assert_eq!(pod["metadata"]["deletionGracePeriodSeconds"], 7);
    assert_eq!(pod["status"]["conditions"][1]["reason"], "EvictionByEvictionAPI");
    assert_eq!(story.allowed("b").await, 1);
    story.evict(json!({})).await.ok();
    assert_eq!(story.allowed("b").await, 1, "a pod that ends already costs nothing more");
}

#[tokio::test]
async fn a_refusal_names_the_budget_and_its_numbers() {
    let Some(story) = Story::begin("refusal").await else { return };
    story.budget("b", 1, 1).await;
    let answer = story.evict(json!({})).await;
    let causes = answer.json()["details"]["causes"].clone();
    let cause = "The disruption budget b needs 1 healthy pods and has 1 currently";
    assert_eq!(causes, json!([{"reason": "DisruptionBudget", "message": cause}]));
    assert_eq!(answer.retry_after, None);
    let why = answer.refused(429);
    assert_eq!(why, "Cannot evict pod as it would violate the pod's disruption budget.");
}

#[tokio::test]
async fn a_budget_that_no_controller_has_looked_at_asks_for_patience() {
    let Some(story) = Story::begin("patience").await else { return };
    objects::create_budget(&story.admin, story.name, "b", "a").await;
    let answer = story.evict(json!({})).await;
    let details = answer.json()["details"].clone();
    let cause = "The disruption budget b is still being processed by the server.";
    assert_eq!(details["causes"], json!([{"reason": "DisruptionBudget", "message": cause}]));
    assert_eq!(details["retryAfterSeconds"], 10);
    assert_eq!(answer.retry_after.as_deref(), Some("10"));
    answer.refused(429);
}

#[tokio::test]
async fn a_dry_run_asks_the_budget_and_spends_nothing() {
    let Some(story) = Story::begin("dry").await else { return };
    story.budget("b", 1, 1).await;
    story.evict(json!({"dryRun": ["All"]})).await.refused(429);
    story.set_budget("b", 2, 1).await;
    story.evict(json!({"dryRun": ["All"]})).await.ok();
    story.post("?dryRun=All", json!({"metadata": {"name": "p"}})).await.ok();
    assert_eq!(story.allowed("b").await, 1);
    assert!(!story.is_told_to_stop().await);
}

#[tokio::test]
async fn another_uid_is_a_conflict_found_only_after_the_budget_was_asked_and_spent() {
    let Some(story) = Story::begin("conflict").await else { return };
    let other = json!({"preconditions": {"uid": "other"}});
    let why = story.evict(other.clone()).await.refused(409);
    assert!(why.contains("the UID in the precondition (other) does not match"), "{why}");
    story.evict(json!({"preconditions": {"resourceVersion": "1"}})).await.refused(409);
    story.budget("b", 1, 1).await;
    story.evict(other.clone()).await.refused(429);
    story.set_budget("b", 2, 1).await;
    story.evict(other).await.refused(409);
    assert_eq!(story.allowed("b").await, 0);
    assert!(!story.is_told_to_stop().await);
}

#[tokio::test]
async fn two_budgets_are_an_error_of_the_server_in_a_dry_run_too() {
    let Some(story) = Story::begin("two").await else { return };
    story.budget("b", 9, 1).await;
    story.budget("c", 9, 1).await;
    for options in [json!({}), json!({"dryRun": ["All"]})] {
        let answer = story.evict(options).await;
        assert_eq!(answer.json()["reason"], Value::Null);
        let why = answer.refused(500);
        let expected = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.";
        assert_eq!(why, expected);
    }
}

#[tokio::test]
async fn budgets_do_not_hold_a_pending_pod() {
    let Some(story) = Story::begin("pending").await else { return };
    story.budget("b", 1, 1).await;
    story.admin.patch(&format!("{}/status", story.pod()), json!({"status": {"phase": "Pending"}})).await.ok();
    story.evict(json!({})).await.ok();
    assert!(story.is_told_to_stop().await);
}

#[tokio::test]
async fn a_pod_that_is_not_ready_may_go_only_while_its_budget_is_healthy() {
    let Some(story) = Story::begin("unready").await else { return };
    story.budget("b", 0, 1).await;
    objects::set_running(&story.admin, story.name, "p", false).await;
    story.evict(json!({})).await.refused(429);
    story.set_budget("b", 1, 1).await;
    story.evict(json!({})).await.ok();
}

/// What a client that writes `delete_options` gets: no error, and none of its options.
#[tokio::test]
async fn options_under_a_wrong_name_are_dropped_unless_the_server_is_told_to_be_strict() {
    let Some(story) = Story::begin("strict").await else { return };
    let wrong = json!({"metadata": {"name": "p"}, "delete_options": {"preconditions": {"uid": "other"}}});
    story.post("?dryRun=All", wrong.clone()).await.ok();
    let why = story.post("?dryRun=All&fieldValidation=Strict", wrong).await.refused(400);
    assert!(why.ends_with(r#"unknown field "delete_options""#), "{why}");
}

#[tokio::test]
async fn a_namespace_that_ends_forbids_evictions_and_says_so_by_its_cause() {
    let Some(story) = Story::begin("ending").await else { return };
    story.admin.delete("/api/v1/namespaces/ending", json!({})).await.ok();
    let answer = story.evict(json!({})).await;
    assert_eq!(answer.json()["details"]["causes"][0]["reason"], "NamespaceTerminating");
    answer.refused(403);
    story.kubelet.delete(&story.pod(), json!({})).await.ok();
}
