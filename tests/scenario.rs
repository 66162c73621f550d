//! The scenarios of the fixtures and from elsewhere: kubelet, cordon, drain, reboot, lock.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::indexing_slicing,
    reason = "a test stops at the first surprise, and tells what it left out"
)]

#[path = "support/cases.rs"]
mod cases;
#[path = "support/scenario.rs"]
mod scenarios;
#[path = "support/sim.rs"]
mod sim;

use std::path::{Path, PathBuf};

use scenarios::{Judged, folders, judge, judge_all};
use serde_json::{Value, json};

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/scenarios")
}

#[test]
fn scenario() {
    let own = folders(&fixtures());
    assert!(own.len() >= 30, "fixtures are missing");
    assert!(judge_all(&own) >= own.len() - 1);
    match std::env::var_os(cases::ELSEWHERE) {
        None => println!("SKIP: {} names no directory with more scenarios", cases::ELSEWHERE),
        Some(directory) => drop(judge_all(&folders(Path::new(&directory)))),
    }
}

/// A scenario of the fixtures with one value changed.
fn changed(pointer: &str, value: Value) -> Judged {
    let text = std::fs::read_to_string(fixtures().join("065-pdb-blocks-forever/scenario.json")).unwrap();
    let mut scenario: Value = serde_json::from_str(&text).unwrap();
    let (place, key) = pointer.rsplit_once('/').unwrap();
    scenario.pointer_mut(place).unwrap().as_object_mut().unwrap().insert(key.to_owned(), value);
    let folder = tempfile::tempdir().unwrap();
    #[expect(clippy::disallowed_methods, reason = "the test's own tree")]
    std::fs::write(folder.path().join("scenario.json"), scenario.to_string()).unwrap();
    judge(folder.path())
}

#[test]
fn what_is_not_so_is_wrong() {
    assert_eq!(changed("/expect/exit", json!("drain-blocked")), Judged::Right);
    for (key, value) in [
        ("exit", json!("ok")),
        ("exit", json!("drain-refused")),
        ("exit", json!(0)),
        ("names", json!(["shop/other"])),
        ("names", json!([])),
        ("logged", json!("stale lock")),
        ("unschedulable", json!(true)),
        ("uncordoned", json!(false)),
        ("uncordon", json!("never")),
        ("uncordon", json!("only after bootID boot-2 is posted")),
        ("rebooted", json!(true)),
        ("reboots", json!(1)),
        ("patches", json!(0)),
        ("patched", json!("n-birch")),
        ("evictions_sent", json!(0)),
        ("evictions_sent", json!({"min": 20})),
        ("evicted", json!(["shop/other"])),
        ("deletes_sent", json!(1)),
        ("max_wait_s", json!(10)),
        ("min_wait_s", json!(60)),
        ("reboot_not_before_s", json!(0)),
        ("boot_files", json!("changed")),
        ("hierarchy", json!("unified")),
        ("acquired", json!(true)),
        ("overwritten", json!(true)),
        ("holder", json!("somebody")),
        ("order", json!(["drain", "flip config"])),
    ] {
        let judged = changed(&format!("/expect/{key}"), value.clone());
        assert!(
            matches!(&judged, Judged::Wrong(why) if why.len() == 1 && why[0].contains(key)),
            "{key} {value}: {judged:?}"
        );
    }
}

#[test]
fn what_is_not_understood_is_wrong_and_named() {
    for (pointer, value, named) in [
        ("/expect", json!({}), "`expect`"),
        ("/expect/mood", json!("good"), "`expect.mood`"),
        ("/expect/exit", json!("sideways"), "sideways"),
        ("/expect/rebooted", json!("no"), "rebooted"),
        ("/expect/uncordon", json!("at noon"), "at noon"),
        ("/expect/order", json!(["dance"]), "dance"),
        ("/on/0/then", json!("pod dances"), "pod dances"),
        ("/on/0/then", json!(["repeat", "pod gone after lunch"]), "lunch"),
        ("/on/0/req", json!("POST things/x"), "POST things/x"),
        ("/on/0/req", json!("wait for rain"), "wait for rain"),
        ("/on/0/reply", json!([{"event": "rain"}]), "rain"),
        ("/on/0/until", json!("noon"), "until"),
        ("/on/0/reply", json!([{"kode": 429}]), "kode"),
        ("/options/drain_timeout_s", json!("soon"), "soon"),
        ("/node", json!(null), "scenario.json"),
    ] {
        let judged = changed(pointer, value);
        assert!(matches!(&judged, Judged::Wrong(why) if why[0].contains(named)), "{named}: {judged:?}");
    }
}
