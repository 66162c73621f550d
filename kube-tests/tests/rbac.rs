//! The ServiceAccounts of packaging/kubernetes: what they are granted is what the program names and uses, no less and no
//! more.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking, in its helpers too"
)]

mod support;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use cgroup2_migrate::host::SystemClock;
use cgroup2_migrate::node::client::{Client, Doings, accesses, missing, node_of_host};
use cgroup2_migrate::node::cordon::{self, Uncordoned};
use cgroup2_migrate::node::drain::{ObstacleKind, OnBlocked, Outcome, Policy};
use cgroup2_migrate::node::lock::lease::{Acquired, Holder, LeaseLock, Me, Mine, Outcome as End, Settings};
use cgroup2_migrate::node::preflight::look;
use cgroup2_migrate::node::select::Allowed;
use cgroup2_migrate::node::story::{self, Chapter};
use cgroup2_migrate::node::{EvictionRequest, NodeApi as _};
use kube_tests::{FakeKubelet, objects};
use serde_json::{Value, json};
use support::{Story, begin, drained, pods};

const NAMESPACE: &str = "cgroup2-migrate";
const FULL: &str = "cgroup2-migrate";
const LOCK: &str = "cgroup2-migrate-lock";

/// Namespace (empty for all), verb, group, resource with its subresource.
type Right = (String, String, String, String);

fn right(namespace: &str, verb: &str, group: &str, resource: &str) -> Right {
    (namespace.to_owned(), verb.to_owned(), group.to_owned(), resource.to_owned())
}

/// What code uses beside the accesses it names: reads it does well without.
fn besides_of_full() -> BTreeSet<Right> {
    BTreeSet::from([
        // `node_of_host`: a kubelet's credential says which node it is, this one does not; the gates count nodes.
        right("", "list", "", "nodes"),
        // `preflight::look`: the names of two budgets.
        right("", "list", "policy", "poddisruptionbudgets"),
    ])
}

/// `lease::judge` and the gates look at nodes.
fn besides_of_lock() -> BTreeSet<Right> {
    ["get", "list"].into_iter().map(|verb| right("", verb, "", "nodes")).collect()
}

fn documents(file: &str) -> Vec<Value> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../packaging/kubernetes").join(file);
    serde_saphyr::from_multiple(&std::fs::read_to_string(path).unwrap()).unwrap()
}

fn word(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// What a file grants; each role is bound, once, and to accounts of ours.
fn granted(file: &str) -> BTreeSet<Right> {
    let all = documents(file);
    let roles = all.iter().filter(|object| word(&object["kind"]).ends_with("Role"));
    roles.flat_map(|role| {
        let reference = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": role["kind"], "name": role["metadata"]["name"]});
        assert_eq!(all.iter().filter(|object| object["roleRef"] == reference).count(), 1, "{reference}");
        role["rules"].as_array().unwrap().iter().flat_map(|rule| of_rule(word(&role["metadata"]["namespace"]), rule))
    }).collect()
}

fn of_rule(namespace: &str, rule: &Value) -> Vec<Right> {
    let words = |key: &str| -> Vec<String> {
        rule[key].as_array().unwrap().iter().map(|value| word(value).to_owned()).collect()
    };
    let mut rights = Vec::new();
    for group in words("apiGroups") {
        for resource in words("resources") {
            rights.extend(words("verbs").iter().map(|verb| right(namespace, verb, &group, &resource)));
        }
    }
    rights
}

/// As the code names them; a name does not limit an account that is for every node.
fn named(doings: &Doings<'_>) -> BTreeSet<Right> {
    let of_access = |access: &cgroup2_migrate::node::Access| {
        let resource = [access.resource, access.subresource].join("/");
        right(&access.namespace, access.verb, access.group, resource.trim_end_matches('/'))
    };
    accesses(doings).iter().map(of_access).collect()
}

fn doings(node: &str) -> Doings<'_> {
    Doings { node, drains: true, deletes: false, locks_in: Some(NAMESPACE) }
}

#[test]
fn what_is_granted_is_what_the_code_names() {
    let of_full = named(&doings("n"));
    assert_eq!(granted("full.yaml"), of_full.union(&besides_of_full()).cloned().collect());
    let of_leases = of_full.iter().filter(|right| right.3 == "leases").cloned().collect::<BTreeSet<_>>();
    assert_eq!(granted("lock.yaml"), of_leases.union(&besides_of_lock()).cloned().collect());
    let deleting = named(&Doings { deletes: true, ..doings("n") });
    assert_eq!(granted("delete.yaml"), deleting.difference(&of_full).cloned().collect());
}

impl Story<'_> {
    /// As `kubectl apply` of a file does it, but with an error where a field is not known.
    fn applies(&self, file: &str) {
        for object in documents(file) {
            let kind = word(&object["kind"]).to_lowercase() + "s";
            let group = if word(&object["apiVersion"]) == "v1" {
                "/api/v1".to_owned()
            } else {
                format!("/apis/{}", word(&object["apiVersion"]))
            };
            let within = object["metadata"]["namespace"]
                .as_str()
                .map(|name| format!("/namespaces/{name}"))
                .unwrap_or_default();
            let path = format!("{group}{within}/{kind}?fieldValidation=Strict");
            let answer = self.runtime.block_on(self.admin.post(&path, object));
            assert!(matches!(answer.code, 201 | 409), "{path}: {answer:?}");
        }
    }

    /// A kubeconfig with a token, as the README says.
    fn kubeconfig_of(&self, account: &str) -> PathBuf {
        let path = format!("/api/v1/namespaces/{NAMESPACE}/serviceaccounts/{account}/token");
        let asked = json!({"spec": {"expirationSeconds": 3600}});
        let token = self.runtime.block_on(self.admin.post(&path, asked)).ok()["status"]["token"].clone();
        let folder = self.cluster.folder();
        let (token_file, kubeconfig) = (
            folder.join(format!("{}.token", self.node)),
            folder.join(format!("{}.token.kubeconfig", self.node)),
        );
        write(&token_file, word(&token));
        let (server, authority) = (self.cluster.server().unwrap(), folder.join("ca.pem"));
        write(&kubeconfig, &json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "d",
            "clusters": [{"name": "c", "cluster": {"server": server, "certificate-authority": authority}}],
            "users": [{"name": "u", "user": {"tokenFile": token_file}}],
            "contexts": [{"name": "d", "context": {"cluster": "c", "user": "u"}}],
        }).to_string());
        kubeconfig
    }

    /// Every right that the server lets this account have, here or elsewhere, but those that everybody has.
    fn rules_of(&self, client: &Client<'_>, account: &str) -> BTreeSet<Right> {
        let user = format!("system:serviceaccount:{NAMESPACE}:{account}");
        assert_eq!(client.who_am_i().unwrap().as_deref(), Some(user.as_str()));
        let in_namespace = |namespace: &str, user: &str| -> BTreeSet<Right> {
            let review = json!({"spec": {"namespace": namespace}});
            let path = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews";
            let kubeconfig = self.cluster.admin_kubeconfig().unwrap();
            let answer = self.runtime.block_on(as_user(&kubeconfig, user, path, review));
            answer["status"]["resourceRules"]
                .as_array()
                .unwrap()
                .iter()
                .flat_map(|rule| of_rule("", rule))
                .collect()
        };
        let of = |user: &str| {
            let everywhere = in_namespace("default", user);
            let here =
                in_namespace(NAMESPACE, user).difference(&everywhere).cloned().collect::<BTreeSet<_>>();
            let here =
                here.into_iter().map(|(_, verb, group, resource)| right(NAMESPACE, &verb, &group, &resource));
            everywhere.into_iter().chain(here).collect::<BTreeSet<_>>()
        };
        of(&user).difference(&of("system:serviceaccount:cgroup2-migrate:nobody")).cloned().collect()
    }

    /// What the account did with success, as rights.
    fn used(&self, account: &str) -> BTreeSet<Right> {
        let requests =
            self.cluster.requests(&format!("system:serviceaccount:{NAMESPACE}:{account}")).unwrap();
        let done = requests
            .into_iter()
            .filter(|request| request.code < 300 && !request.resource.starts_with("selfsubject"));
        done.map(|request| {
            let group = request
                .uri
                .strip_prefix("/apis/")
                .and_then(|rest| rest.split('/').next())
                .unwrap_or_default();
            let namespace = if request.resource == "leases" { NAMESPACE } else { "" };
            right(namespace, &request.verb, group, &request.resource)
        })
        .collect()
    }

    fn me(&self, node: &str, run: &str) -> Me {
        let object = self.runtime.block_on(self.admin.get(&format!("/api/v1/nodes/{node}"))).ok();
        let node_uid = word(&object["metadata"]["uid"]).to_owned();
        Me { node: node.to_owned(), holder: Holder { node_uid, run: run.to_owned(), boot: "b".to_owned() } }
    }
}

/// Whom the admin speaks for.
async fn as_user(kubeconfig: &std::path::Path, user: &str, path: &str, body: Value) -> Value {
    use http_body_util::BodyExt as _;
    let client = kube_tests::Caller::new(kubeconfig).await.unwrap().client();
    let request = http::Request::post(path)
        .header("content-type", "application/json")
        .header("impersonate-user", user)
        .header("impersonate-group", "system:serviceaccounts")
        .header("impersonate-group", "system:authenticated");
    let response = client.send(request.body(body.to_string().into_bytes().into()).unwrap()).await.unwrap();
    serde_json::from_slice(&response.into_body().collect().await.unwrap().to_bytes()).unwrap()
}

fn write(path: &std::path::Path, content: &str) {
    let mut file = std::fs::File::create(path).unwrap();
    std::io::Write::write_all(&mut file, content.as_bytes()).unwrap();
}

/// Until the server has heard of the roles.
fn has(client: &Client<'_>, node: &str, drains: bool) {
    let wanted = accesses(&doings(node));
    let wanted: Vec<_> = wanted.into_iter().filter(|access| drains || access.resource == "leases").collect();
    while !missing(client, wanted.clone()).unwrap().is_empty() {
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// A lock is taken, kept and given back, and taken from a node that is gone.
fn locks(story: &Story<'_>, client: &Client<'_>) {
    let ghost = format!("{}-ghost", story.node);
    story.runtime.block_on(objects::create_node(&story.admin, &ghost));
    let settings = Settings { pool: story.node.to_owned(), ..Settings::default() };
    let (dead, me) = (story.me(&ghost, "r-0"), story.me(story.node, "r-1"));
    let lock = |me| LeaseLock { api: client, clock: &SystemClock, settings: &settings, me };
    assert!(matches!(lock(&dead).acquire().unwrap(), Acquired::Yes { stale: None, .. }));
    assert!(matches!(lock(&me).acquire().unwrap(), Acquired::Busy(_)));
    story.runtime.block_on(story.admin.delete(&format!("/api/v1/nodes/{ghost}"), json!({}))).ok();
    let Acquired::Yes { hold, stale: Some(_) } = lock(&me).acquire().unwrap() else { panic!("no slot") };
    assert_eq!(lock(&me).renew(&hold, "held", None).unwrap(), Mine::Yes { halted: None });
    assert!(lock(&me).release(&End::Done).unwrap().freed);
}

/// A node with a pod that two budgets select, as a real machine.
fn node_with_pod(story: &Story<'_>) -> bool {
    let Ok(machine_id) = std::fs::read_to_string("/etc/machine-id") else { return false };
    story.reports(machine_id.trim());
    story.pod("p", "a");
    story.runtime.block_on(async {
        for budget in ["b", "c"] {
            objects::create_budget(&story.admin, story.node, budget, "a").await;
            objects::set_budget(&story.admin, story.node, budget, 9, 1).await;
        }
    });
    true
}

#[test]
fn the_full_account_can_do_a_whole_run_and_uses_every_right_it_has() {
    let Some(story) = begin("rbac-full") else { return };
    let _kubelet = FakeKubelet::start(story.cluster, story.node).unwrap();
    if !node_with_pod(&story) {
        return;
    }
    story.applies("full.yaml");
    let kubeconfig = story.kubeconfig_of(FULL);
    let client = story.open_at(&kubeconfig);
    has(&client, story.node, true);
    assert_eq!(node_of_host(&client).unwrap().metadata.name.as_deref(), Some(story.node));

    let preflight = look(&client, story.node, vec![], jiff::Timestamp::now()).unwrap();
    let [(_, obstacle, names)] = preflight.obstacles.as_slice() else { panic!("{preflight:?}") };
    assert_eq!(
        (&obstacle.kind, names.as_slice()),
        (&ObstacleKind::TwoBudgets, ["b".to_owned(), "c".to_owned()].as_slice())
    );
    let budget = format!("/apis/policy/v1/namespaces/{}/poddisruptionbudgets/c", story.node);
    story.runtime.block_on(story.admin.delete(&budget, json!({}))).ok();
    pods(&client, story.node, 1);

    cordon::cordon(&client, &preflight.before, "r").unwrap();
    let allowed = Allowed { unmanaged: true, ..Allowed::default() };
    let policy = Policy { allowed, ..Policy::new(story.node) };
    assert_eq!(drained(&client, policy.clone()), Outcome::Drained(vec![]));
    let chapter = Chapter { reason: "CgroupMigrationDrained", message: "m", is_warning: false };
    story::event(&client, &preflight.before, chapter, jiff::Timestamp::now());
    assert_eq!(cordon::uncordon(&client, &preflight.before, "r").unwrap(), Uncordoned::Done);
    locks(&story, &client);
    assert_eq!(story.used(FULL), granted("full.yaml"));
    assert_eq!(story.rules_of(&client, FULL), granted("full.yaml"));
    deletes_with_the_file_for_it(&story, &client, policy);
}

fn deletes_with_the_file_for_it(story: &Story<'_>, client: &Client<'_>, policy: Policy) {
    story.pod("p", "a");
    story.runtime.block_on(objects::set_budget(&story.admin, story.node, "b", 1, 1));
    pods(client, story.node, 1);
    let policy = Policy { on_blocked: OnBlocked::Delete, time_limit: Duration::from_secs(1), ..policy };
    let deleting = Doings { deletes: true, ..doings(story.node) };
    let refused = missing(client, accesses(&deleting)).unwrap();
    assert_eq!(refused.iter().map(ToString::to_string).collect::<Vec<_>>(), ["delete pods "]);
    story.applies("delete.yaml");
    while !missing(client, accesses(&deleting)).unwrap().is_empty() {
        std::thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(drained(client, policy), Outcome::Drained(vec![]));
}

#[test]
fn the_account_of_the_lock_can_do_nothing_but_lock() {
    let Some(story) = begin("rbac-lock") else { return };
    story.pod("p", "a");
    story.applies("lock.yaml");
    let kubeconfig = story.kubeconfig_of(LOCK);
    let client = story.open_at(&kubeconfig);
    has(&client, story.node, false);
    locks(&story, &client);
    // Listed by whoever looks for its own node, and by the gates.
    client.nodes().unwrap();
    assert_eq!(story.used(LOCK), granted("lock.yaml"));
    assert_eq!(story.rules_of(&client, LOCK), granted("lock.yaml"));

    let untouched = story.node();
    let own = story.open();
    let pod = pods(&own, story.node, 1).remove(0);
    let before = cordon::before(&client.node(story.node).unwrap());
    let error = cordon::cordon(&client, &before, "r").unwrap_err().to_string();
    assert!(error.contains("cannot patch resource \"nodes\""), "{error}");
    assert_eq!(client.pods(story.node).unwrap_err().code(), Some(403));
    let eviction = EvictionRequest { pod: pod.key, grace_seconds: None, dry_run: false };
    assert_eq!(client.evict(&eviction).unwrap_err().code(), Some(403));
    assert_eq!(client.leases("kube-node-lease").unwrap_err().code(), Some(403));
    assert_eq!((story.node(), own.pods(story.node).unwrap().len()), (untouched, 1));
}
