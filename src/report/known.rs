//! The ids of all findings, and words that are nearly another word.

/// The one list that there is, for people and for the program; `tests/findings.rs` holds it to the sources.
const LIST: &str = include_str!("../../docs/findings.md");

/// How alike two words must be to be taken for each other; the nearest one is named whatever it is.
const ALIKE: f64 = 0.85;

/// Says which id may be meant, where no finding has this one.
///
/// # Errors
/// A sentence for people.
pub fn known_id(id: &str) -> Result<(), String> {
    let ids = LIST.lines().filter_map(|line| Some(line.strip_prefix("| `")?.split_once('`')?.0));
    let ids: Vec<&str> = ids.collect();
    if ids.contains(&id) {
        return Ok(());
    }
    Err(format!("no finding has the id `{id}`; nearest: {}", nearest(id, &ids)))
}

/// The words that are most like this one.
#[must_use]
pub fn nearest(word: &str, words: &[&str]) -> String {
    let mut ranked: Vec<(f64, &str)> =
        words.iter().map(|other| (strsim::jaro_winkler(word, other), *other)).collect();
    ranked.sort_by(|(one, _), (other, _)| other.total_cmp(one));
    let named = ranked.iter().enumerate().take(3).filter(|(rank, (alike, _))| *rank == 0 || *alike >= ALIKE);
    named.map(|(_, (_, word))| *word).collect::<Vec<_>>().join(", ")
}
