//! Scenarios: a cluster and what happens in it, played by the real migration. Their form is described in
//! `tests/fixtures/README.md`.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::wildcard_enum_match_arm,
    clippy::print_stdout,
    reason = "a scenario that cannot be read has failed, and what was judged is told"
)]

#[path = "scenario/form.rs"]
mod form;
#[path = "scenario/judge.rs"]
mod judge;
#[path = "scenario/log.rs"]
mod log;
#[path = "scenario/order.rs"]
mod order;
#[path = "scenario/play.rs"]
mod play;
#[path = "scenario/words.rs"]
mod words;
#[path = "scenario/world.rs"]
mod world;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use form::Scenario;
use serde_json::{Value, json};

/// What no migration says yet: scenarios that ask for it are left out, and told. Take a row away with the feature.
const NOT_BUILT: [(&str, &str); 3] = [
    ("/expect/verdict", "what `verify --probe` says of a node that runs v2 (resize, memory, devices)"),
    ("/expect/exit=skipped", "a label by which nodes are left out"),
    ("/on/req=probe", "live probes on v2"),
];

/// What came of one folder.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Judged {
    Right,
    Skipped(String),
    Wrong(Vec<String>),
}

/// Plays a folder and judges what came of it.
pub(crate) fn judge(folder: &Path) -> Judged {
    let judged =
        catch_unwind(AssertUnwindSafe(|| judged(folder).unwrap_or_else(|why| Judged::Wrong(vec![why]))));
    judged.unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
        Judged::Wrong(vec![format!("panicked: {}", text.unwrap_or_default())])
    })
}

fn judged(folder: &Path) -> Result<Judged, String> {
    if let Some(what) = not_built(&form::text(folder)?) {
        return Ok(Judged::Skipped(format!("not built yet: {what}")));
    }
    let scenario = Scenario::read(folder)?;
    let not_read = scenario.not_read();
    if !not_read.is_empty() {
        println!("{}: not read: {}", folder.display(), not_read.join(", "));
    }
    let played = play::play(folder, &scenario)?;
    let wrong = judge::failures(&scenario.expect, &played);
    Ok(if wrong.is_empty() { Judged::Right } else { Judged::Wrong(wrong) })
}

fn not_built(scenario: &Value) -> Option<&'static str> {
    let requests = scenario.pointer("/on").and_then(Value::as_array).into_iter().flatten();
    let asks = |text: &Value| text.as_str().is_some_and(|text| text.starts_with("probe "));
    let is_there = |mark: &str| match mark {
        "/expect/exit=skipped" => scenario.pointer("/expect/exit") == Some(&json!("skipped")),
        "/on/req=probe" => requests.clone().filter_map(|on| on.get("req")).any(asks),
        pointer => scenario.pointer(pointer).is_some(),
    };
    NOT_BUILT.iter().find(|(mark, _)| is_there(mark)).map(|(_, what)| *what)
}

/// Every folder below that holds a scenario.
pub(crate) fn folders(directory: &Path) -> Vec<PathBuf> {
    let entries =
        std::fs::read_dir(directory).unwrap_or_else(|error| panic!("{}: {error}", directory.display()));
    let mut all = Vec::new();
    for path in entries.map(|entry| entry.unwrap().path()).filter(|path| path.is_dir() && !path.is_symlink())
    {
        if path.join("scenario.json").exists() { all.push(path) } else { all.extend(folders(&path)) }
    }
    all.sort();
    all
}

/// Judges them all and tells how many there were. All that fail are named.
pub(crate) fn judge_all(folders: &[PathBuf]) -> usize {
    let (mut right, mut skipped, mut wrong) = (0, 0, Vec::new());
    for folder in folders {
        match judge(folder) {
            Judged::Right => right += 1,
            Judged::Skipped(why) => {
                skipped += 1;
                println!("SKIP: {}: {why}", folder.display());
            }
            Judged::Wrong(why) => wrong.push(format!("{}: {}", folder.display(), why.join("\n  "))),
        }
    }
    println!("{right} scenarios judged, {skipped} skipped, {} failed", wrong.len());
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    right
}
