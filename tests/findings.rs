//! Every id of a finding that the sources use is a row of `docs/findings.md`, and the other way round.
#![allow(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use std::collections::BTreeSet;
use std::path::Path;

/// Calls that an id is given to, as one of the first arguments.
const CALLS: [&str; 5] = ["Finding::new(", "blocker(", "refused(", "self.note(", "Notice { id:"];

fn sources(directory: &Path, texts: &mut Vec<String>) {
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, texts);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            texts.push(std::fs::read_to_string(path).unwrap());
        }
    }
}

fn is_id(word: &str) -> bool {
    let mut characters = word.chars();
    word.contains('-') && characters.all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-')
}

/// The id among the first arguments; `None` where a variable hands it on.
fn id_in(arguments: &str) -> Option<String> {
    let quoted = |argument: &str| Some(argument.trim().strip_prefix('"')?.strip_suffix('"')?.to_owned());
    arguments.split([',', ')']).take(3).filter_map(quoted).find(|word| is_id(word))
}

fn used() -> BTreeSet<String> {
    let mut texts = Vec::new();
    sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut texts);
    let calls = |text: &String| -> Vec<String> {
        CALLS.iter().flat_map(|call| text.split(call).skip(1).filter_map(id_in)).collect()
    };
    texts.iter().flat_map(calls).collect()
}

/// Rows of the table, as cells.
fn rows() -> Vec<Vec<String>> {
    let text = include_str!("../docs/findings.md");
    let rows = text.lines().filter(|line| line.starts_with("| `"));
    rows.map(|row| row.trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect()).collect()
}

#[test]
fn every_id_is_documented_once_and_every_documented_id_is_used() {
    let rows = rows();
    let ids: Vec<String> = rows.iter().map(|row| row.first().unwrap().trim_matches('`').to_owned()).collect();
    assert!(ids.is_sorted_by(|one, next| one < next), "not sorted, or one twice: {ids:?}");
    let (used, documented) = (used(), ids.into_iter().collect::<BTreeSet<_>>());
    assert!(used.len() > 30, "ids were not found: {used:?}");
    let undocumented: Vec<_> = used.difference(&documented).collect();
    let unused: Vec<_> = documented.difference(&used).collect();
    assert!(
        undocumented.is_empty() && unused.is_empty(),
        "not in docs/findings.md: {undocumented:?}; not in src: {unused:?}"
    );
}

#[test]
fn every_row_says_severity_meaning_and_remedy() {
    for row in rows() {
        assert!(row.len() == 4 && row.iter().all(|cell| !cell.is_empty()), "{row:?}");
        let severity = row.get(1).unwrap();
        assert!(["blocker", "warning", "note"].iter().any(|word| severity.starts_with(word)), "{row:?}");
    }
}
