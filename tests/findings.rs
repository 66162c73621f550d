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

/// Functions of a file, one a text.
fn functions(text: &str) -> Vec<&str> {
    let mut starts: Vec<usize> = ["\nfn ", "\npub(super) fn ", "\npub fn "]
        .iter()
        .flat_map(|mark| text.match_indices(mark))
        .map(|(at, _)| at)
        .collect();
    starts.sort_unstable();
    let ends = starts.iter().skip(1).copied().chain([text.len()]);
    starts.iter().zip(ends).filter_map(|(start, end)| text.get(*start..end)).collect()
}

/// Ids of findings that are made acceptable: in the function that makes them, or in the one it calls for that.
fn accepted(text: &str) -> Vec<String> {
    let functions = functions(text);
    let by_call =
        functions.iter().any(|one| one.starts_with("\nfn blocker(") && one.contains(".acceptable()"));
    let ids = |one: &&str| -> Vec<String> {
        let direct = one.contains(".acceptable()");
        let calls = CALLS.iter().filter(|call| direct || (by_call && **call == "blocker("));
        calls.flat_map(|call| one.split(call).skip(1).filter_map(id_in)).collect()
    };
    functions.iter().flat_map(ids).collect()
}

#[test]
fn what_can_be_accepted_is_documented_as_it_is() {
    let mut texts = Vec::new();
    sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut texts);
    // What tests make up is no finding of the program.
    let code = texts.iter().filter_map(|text| text.split("#[cfg(test)]").next());
    let accepted: BTreeSet<String> = code.flat_map(accepted).collect();
    assert!(accepted.len() > 5, "{accepted:?}");
    for row in rows() {
        let [id, severity, acceptable, ..] = row.as_slice() else { continue };
        let right = match (accepted.contains(id.trim_matches('`')), severity.starts_with("blocker")) {
            (true, _) => "yes",
            (false, true) => "no",
            (false, false) => "-",
        };
        assert_eq!(acceptable, right, "{id}");
    }
}

#[test]
fn every_row_says_severity_meaning_and_remedy() {
    for row in rows() {
        assert!(row.len() == 5 && row.iter().all(|cell| !cell.is_empty()), "{row:?}");
        let severity = row.get(1).unwrap();
        assert!(["blocker", "warning", "note"].iter().any(|word| severity.starts_with(word)), "{row:?}");
    }
}
