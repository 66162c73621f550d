//! One fragment as text: what is wrong in it is said in the words of a person who writes settings.

use super::Fragment;
use crate::report::nearest;

/// What the parser calls the things that a setting can be, and what people call them.
const TYPES: [(&str, &str); 4] = [
    ("expected u64", "expected a whole number of 0 or more"),
    ("expected a sequence", "expected a list ([\"…\", \"…\"])"),
    ("expected a string", "expected a text in quotes"),
    ("expected struct RebootFragment", "expected a table ([reboot])"),
];

/// Reads a fragment.
///
/// # Errors
/// The line, if it is about one, and the key with what is wrong about it.
pub(super) fn fragment(text: &str) -> Result<Fragment, (Option<usize>, String)> {
    let parser = toml::Deserializer::parse(text).map_err(|error| (line(text, &error), said(&error)))?;
    serde_path_to_error::deserialize(parser).map_err(|error| {
        let key = error.path().to_string();
        let error = error.into_inner();
        let key = if key == "." { String::new() } else { format!("{key}: ") };
        (line(text, &error), format!("{key}{}", said(&error)))
    })
}

fn line(text: &str, error: &toml::de::Error) -> Option<usize> {
    let before = text.get(..error.span()?.start)?;
    Some(before.matches('\n').count() + 1)
}

fn said(error: &toml::de::Error) -> String {
    let message = error.message().trim_end().replace('\n', ", ");
    let said = TYPES.iter().fold(message, |text, (word, plain)| text.replace(word, plain));
    with_nearest(&said).unwrap_or(said)
}

/// An unknown key comes with those that are known, in backquotes.
fn with_nearest(message: &str) -> Option<String> {
    let (key, known) = message.strip_prefix("unknown field `")?.split_once('`')?;
    let known: Vec<&str> = known.split('`').skip(1).step_by(2).collect();
    Some(format!("there is no setting `{key}`; nearest: {}", nearest(key, &known)))
}
