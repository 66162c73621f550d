//! What a scenario expects against what came of it. A key that nobody knows, or a value of another form, is a failure.

use std::time::Duration;

use cgroup2_migrate::boot::hierarchy::Hierarchy;
use cgroup2_migrate::cli::Exit;
use cgroup2_migrate::migration::decide::Ending;
use cgroup2_migrate::node::lock::lease::Acquired;
use serde_json::{Map, Value};

use super::order;
use super::play::{End, Played};
use crate::sim::cluster::{Cluster, Uncordon};

/// Everything that is not as it should be.
pub(crate) fn failures(expect: &Map<String, Value>, played: &Played) -> Vec<String> {
    if expect.is_empty() {
        return vec!["`expect` says nothing".to_owned()];
    }
    expect.iter().filter_map(|(key, wanted)| judge(key, wanted, played).err()).collect()
}

fn judge(key: &str, wanted: &Value, played: &Played) -> Result<(), String> {
    let cluster = played.sim.cluster.as_ref().unwrap();
    let reboots = played.sim.reboots.get();
    let is = |found: bool| equal(key, wanted, found);
    let counts = |found: usize| counts(key, wanted, found);
    match key {
        "exit" => exit(wanted, played),
        "names" | "says" | "told" => all_in(key, wanted, &played.told, true),
        "not_names" => all_in(key, wanted, &played.told, false),
        "logged" => all_in(key, wanted, &played.logged, true),
        "unschedulable" | "cordoned" => is(is_cordoned(cluster, &played.node)),
        "uncordoned" => is(!is_cordoned(cluster, &played.node)),
        "uncordon" => uncordon(wanted, cluster),
        "rebooted" => is(reboots > 0),
        "reboots" => counts(reboots),
        "patches" => counts(cluster.count("PATCH nodes/")),
        "patched" => patched(wanted, cluster),
        "evictions_sent" | "evictions" => counts(evictions(cluster).len()),
        "evicted" => same_set(key, wanted, evictions(cluster)),
        "deletes_sent" | "deletes" => counts(cluster.count("DELETE ")),
        "max_wait_s" => time(key, wanted, |limit| played.took <= limit, played.took),
        "min_wait_s" => time(key, wanted, |limit| played.took >= limit, played.took),
        "reboot_not_before_s" => reboot_not_before(key, wanted, played),
        "boot_files" | "boot_files_restored" | "boot_files_unchanged" => boot_files(key, wanted, played),
        "hierarchy" => hierarchy(key, wanted, played),
        "acquired" => acquired(key, wanted, played),
        "overwritten" => is(played.holders.0 != played.holders.1),
        "holder" => all_in(key, wanted, played.holders.1.as_deref().unwrap_or_default(), true),
        "order" => order::judge(wanted, &played.sim.all_effects.borrow()),
        _ => Err(format!("`expect.{key}` is not known")),
    }
}

fn wrong(key: &str, wanted: &Value, found: impl std::fmt::Display) -> String {
    format!("`{key}`: {wanted} is expected, and found was: {found}")
}

fn equal(key: &str, wanted: &Value, found: bool) -> Result<(), String> {
    if *wanted == Value::Bool(found) { Ok(()) } else { Err(wrong(key, wanted, found)) }
}

/// A number, or `{"min": 1, "max": 5}`.
fn counts(key: &str, wanted: &Value, found: usize) -> Result<(), String> {
    let found = u64::try_from(found).unwrap();
    let is_right = match wanted {
        Value::Number(number) => number.as_u64() == Some(found),
        Value::Object(bounds) if !bounds.is_empty() => {
            bounds.iter().all(|(bound, number)| match bound.as_str() {
                "min" => number.as_u64().is_some_and(|number| found >= number),
                "max" => number.as_u64().is_some_and(|number| found <= number),
                _ => false,
            })
        }
        _ => false,
    };
    if is_right { Ok(()) } else { Err(wrong(key, wanted, found)) }
}

/// Words that must occur, or must not.
fn all_in(key: &str, wanted: &Value, text: &str, occurs: bool) -> Result<(), String> {
    let words = strings(wanted).filter(|words| !words.is_empty());
    let words = words.ok_or_else(|| wrong(key, wanted, "it is neither words nor a list of them"))?;
    match words.iter().find(|word| word.is_empty() || text.contains(word.as_str()) != occurs) {
        None => Ok(()),
        Some(word) => Err(wrong(key, wanted, format!("`{word}` in: {text}"))),
    }
}

fn strings(value: &Value) -> Option<Vec<String>> {
    match value {
        Value::String(text) => Some(vec![text.clone()]),
        Value::Array(all) => all.iter().map(|one| one.as_str().map(str::to_owned)).collect(),
        Value::Null => Some(Vec::new()),
        _ => None,
    }
}

fn same_set(key: &str, wanted: &Value, mut found: Vec<String>) -> Result<(), String> {
    let mut words = strings(wanted).ok_or_else(|| wrong(key, wanted, "it is no list"))?;
    words.sort();
    found.sort();
    found.dedup();
    if words == found { Ok(()) } else { Err(wrong(key, wanted, format!("{found:?}"))) }
}

fn is_cordoned(cluster: &Cluster, node: &str) -> bool {
    cluster
        .with(|world| world.nodes.get(node).and_then(|node| node.spec.as_ref()?.unschedulable))
        .unwrap_or_default()
}

/// Whether, or under which condition, the node came back into service by us: a yes or no, `never`, `only after bootID X
/// is posted` (`...` stands for the beginning of an id), `only after Ready`.
fn uncordon(wanted: &Value, cluster: &Cluster) -> Result<(), String> {
    let uncordons = cluster.with(|world| world.uncordons.clone());
    let found = format!("{uncordons:?}");
    let words: Vec<&str> = wanted.as_str().unwrap_or_default().split_whitespace().collect();
    let is_of = |uncordon: &Uncordon, id: &str| match id.strip_prefix("...").or(id.strip_prefix('…')) {
        Some(end) => uncordon.boot_id.ends_with(end),
        None => uncordon.boot_id == id,
    };
    let all = |is_right: &dyn Fn(&Uncordon) -> bool| !uncordons.is_empty() && uncordons.iter().all(is_right);
    let is_right = match (wanted.as_bool(), words.as_slice()) {
        (Some(yes), _) => yes != uncordons.is_empty(),
        (None, ["never"]) => uncordons.is_empty(),
        (
            None,
            ["only", "after", "bootID", id] | ["only", "after", "bootID", id, "is", "posted" | "reported"],
        ) => all(&|uncordon| uncordon.ready && is_of(uncordon, id)),
        (None, ["only", "after", "Ready", ..]) => all(&|uncordon| uncordon.ready),
        _ => return Err(wrong("uncordon", wanted, "that is not understood")),
    };
    if is_right { Ok(()) } else { Err(wrong("uncordon", wanted, found)) }
}

/// Names of the pods whose eviction was asked for, and not only evaluated.
fn evictions(cluster: &Cluster) -> Vec<String> {
    let name =
        |request: &String| Some(request.strip_prefix("POST pods/")?.strip_suffix("/eviction")?.to_owned());
    cluster.requests().iter().filter_map(name).collect()
}

fn patched(wanted: &Value, cluster: &Cluster) -> Result<(), String> {
    let requests = cluster.requests();
    let names = requests.iter().filter_map(|request| request.strip_prefix("PATCH nodes/"));
    same_set("patched", wanted, names.map(str::to_owned).collect())
}

fn time(
    key: &str,
    wanted: &Value,
    is_right: impl Fn(Duration) -> bool,
    found: Duration,
) -> Result<(), String> {
    let limit = wanted.as_f64().filter(|seconds| *seconds >= 0.0).map(Duration::from_secs_f64);
    if limit.is_some_and(is_right) { Ok(()) } else { Err(wrong(key, wanted, format!("{found:?}"))) }
}

fn reboot_not_before(key: &str, wanted: &Value, played: &Played) -> Result<(), String> {
    match played.sim.rebooted_at.borrow().first() {
        None => Err(wrong(key, wanted, "no reboot at all")),
        Some(at) => time(key, wanted, |limit| *at >= limit, *at),
    }
}

fn boot_files(key: &str, wanted: &Value, played: &Played) -> Result<(), String> {
    let as_before = match wanted {
        Value::Bool(as_before) => *as_before,
        Value::String(word) if ["as-before", "restored", "unchanged"].contains(&word.as_str()) => true,
        Value::String(word) if word == "changed" => false,
        _ => return Err(wrong(key, wanted, "that is not understood")),
    };
    if played.boot_files_as_before == as_before { Ok(()) } else { Err(wrong(key, wanted, !as_before)) }
}

fn hierarchy(key: &str, wanted: &Value, played: &Played) -> Result<(), String> {
    let wanted_is: Result<Hierarchy, _> = serde_json::from_value(wanted.clone());
    let found = played.sim.hierarchy();
    if wanted_is.is_ok_and(|wanted| wanted == found) { Ok(()) } else { Err(wrong(key, wanted, found)) }
}

fn acquired(key: &str, wanted: &Value, played: &Played) -> Result<(), String> {
    match &played.lock {
        None => Err(wrong(key, wanted, "there is no `lock` in the scenario")),
        Some(lock) => {
            let is_ours = matches!(lock, Acquired::Yes { .. });
            equal(key, wanted, is_ours).map_err(|why| format!("{why} ({lock})"))
        }
    }
}

/// A word for how it ended, or the exit code.
fn exit(wanted: &Value, played: &Played) -> Result<(), String> {
    let found = format!("{:?}, lock {:?}", played.end, played.lock);
    if let Some(code) = wanted.as_u64() {
        return if code == u64::from(code_of(played)) { Ok(()) } else { Err(wrong("exit", wanted, found)) };
    }
    let word = wanted.as_str().unwrap_or_default();
    let is_right = is_exit(word, played).ok_or_else(|| wrong("exit", wanted, "nobody knows this word"))?;
    if is_right { Ok(()) } else { Err(wrong("exit", wanted, found)) }
}

/// Objections of ours, raised before the cordon.
const REFUSED: [&str; 6] = [
    "pod-emptydir-data",
    "pod-unmanaged",
    "pod-stuck-terminating",
    "pod-eviction-refused",
    "node-rights-missing",
    "pod-two-budgets",
];

/// What no drain would come to an end of: found beforehand, or at its end.
const BLOCKED: [&str; 2] = ["pod-two-budgets", "pod-eviction-refused"];

fn is_exit(word: &str, played: &Played) -> Option<bool> {
    let refused_for = |ids: &[&str]| match &played.end {
        End::Refused(found) => found.iter().any(|id| ids.contains(&id.as_str())),
        End::Ended(_) | End::Failed(_) | End::OnlyLock => false,
    };
    let why = |words: &[&str]| match &played.end {
        End::Ended(Ending::RolledBack(why) | Ending::NeedsPerson(why) | Ending::TryLater(why)) => {
            words.iter().any(|word| why.contains(word))
        }
        End::Ended(_) | End::Refused(_) | End::Failed(_) | End::OnlyLock => false,
    };
    let has_lock = !matches!(
        played.lock,
        Some(Acquired::Busy(_) | Acquired::Contended | Acquired::Halted(_) | Acquired::Refused(_))
    );
    let ended = |wanted: fn(&Ending) -> bool| matches!(&played.end, End::Ended(ending) if wanted(ending));
    Some(match word {
        "ok" | "done" => {
            has_lock
                && (ended(|ending| matches!(ending, Ending::Done | Ending::Paused(_)))
                    || matches!(played.end, End::OnlyLock))
        }
        "drain-blocked" => {
            (ended(|ending| matches!(ending, Ending::RolledBack(_)))
                && why(&["the drain is blocked", "the drain lost sight"]))
                || refused_for(&BLOCKED)
        }
        "drain-refused" => refused_for(&REFUSED),
        "refused" | "blocked" => {
            matches!(played.end, End::Refused(_)) || ended(|ending| matches!(ending, Ending::Blocked(_)))
        }
        "rolled-back" => ended(|ending| matches!(ending, Ending::RolledBack(_))),
        "needs-person" => ended(|ending| matches!(ending, Ending::NeedsPerson(_))),
        "not-ready" | "node-not-ready" => why(&["is not ready", "has not reported", "no condition Ready"]),
        "try-later" | "retry-later" | "later" => {
            !has_lock || ended(|ending| matches!(ending, Ending::TryLater(_)))
        }
        "api-unavailable" | "api-unreachable" | "api-away" => {
            refused_for(&["node-api-unavailable"])
                || (why(&["cannot be reached", "lost sight", "connection refused"])
                    && !ended(|ending| matches!(ending, Ending::NeedsPerson(_))))
        }
        "node-unknown" | "wrong-node" | "node-mismatch" => {
            refused_for(&["node-api-unavailable"]) && played.node.is_empty()
        }
        "lock-held" | "lock-busy" | "locked" => matches!(played.lock, Some(Acquired::Busy(_))),
        "lock-refused" | "lock-foreign" => !has_lock,
        "failed" => matches!(played.end, End::Failed(_)),
        _ => return None,
    })
}

fn code_of(played: &Played) -> u8 {
    let exit = match &played.end {
        End::Refused(_) => Exit::Blocked,
        End::Failed(_) => Exit::Failed,
        End::Ended(ending) => Exit::from(ending),
        End::OnlyLock if matches!(played.lock, Some(Acquired::Yes { .. })) => Exit::Done,
        End::OnlyLock => Exit::TryLater,
    };
    match exit {
        Exit::Done => 0,
        Exit::Failed => 1,
        Exit::Usage => 2,
        Exit::Blocked => 3,
        Exit::NeedsPerson => 4,
        Exit::RolledBack => 5,
        Exit::Unsupported => 6,
        Exit::TryLater => 75,
        Exit::Other(code) => code,
    }
}
