//! Files that can hold flags of the kubelet, and the flags in them.

use super::document::{Document, Item, Node};
use super::flags::{self, Flag};
use super::source::Source;
use super::traced::Traced;
use super::{environment, unit};

/// How the flags stand in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// systemd's environment file.
    Environment,
    /// A unit file of the kubelet, or a drop-in.
    Unit,
    /// A unit file of a program that hands flags on (`--kubelet-arg`).
    EmbeddingUnit,
    /// The configuration of k3s or RKE2: a list `kubelet-arg`.
    Rancher,
    /// One flag a line: MicroK8s.
    Lines,
}

/// A file that can hold flags.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holder {
    /// How.
    pub form: Form,
    /// The file.
    pub source: Source,
}

impl Holder {
    /// All flags in it, in order.
    ///
    /// # Errors
    /// Where it is no YAML, though it should be.
    pub fn flags(&self) -> Result<Vec<Flag>, String> {
        flags_in(self.form, &self.source)
    }
}

/// The flags in a file of this form.
///
/// # Errors
/// As [`Holder::flags`].
pub fn flags_in(form: Form, source: &Source) -> Result<Vec<Flag>, String> {
    match form {
        Form::Environment => Ok(environment::assignments(&source.text)
            .iter()
            .flat_map(|found| flags::among(&found.value.words(), source))
            .collect()),
        Form::Unit => Ok(of_a_unit(source, flags::among)),
        Form::EmbeddingUnit => Ok(of_a_unit(source, flags::handed_on)),
        Form::Rancher => of_rancher(source),
        Form::Lines => Ok(of_lines(source)),
    }
}

fn of_a_unit(source: &Source, find: fn(&[Traced], &Source) -> Vec<Flag>) -> Vec<Flag> {
    let service = unit::directives(&source.text).into_iter().filter(|found| found.section == "Service");
    service
        .flat_map(|directive| match directive.key.as_str() {
            "ExecStart" => find(&directive.value.words(), source),
            "Environment" => {
                let values = directive.value.words().into_iter().filter_map(|word| word.split_once('='));
                values.flat_map(|(_, value)| find(&value.words(), source)).collect()
            }
            _ => Vec::new(),
        })
        .collect()
}

/// `kubelet-arg`, or `kubelet-arg+`, which adds to the list of an earlier file.
fn of_rancher(source: &Source) -> Result<Vec<Flag>, String> {
    let document = Document::parse(&source.text)?;
    let lists = document.entries.iter().filter(|entry| entry.key.trim_end_matches('+') == "kubelet-arg");
    let items = lists.flat_map(|entry| match &entry.value.node {
        Node::List(items) => items.iter().collect(),
        Node::Scalar(_) => vec![&entry.value],
        Node::Map(_) => Vec::new(),
    });
    Ok(items.filter_map(|item| of_an_item(item, source)).collect())
}

fn of_an_item(item: &Item, source: &Source) -> Option<Flag> {
    let Node::Scalar(serde_json::Value::String(text)) = &item.node else { return None };
    let raw = source.text.get(item.range.clone())?;
    let quotes = usize::from(raw.starts_with(['"', '\'']));
    let is_as_written = !item.is_alias && raw.get(quotes..raw.len().saturating_sub(quotes)) == Some(text);
    let start = item.range.start + quotes;
    let mut flag = flags::flag(&Traced::literal(text, start), source);
    flag.place.line = item.line;
    flag.spot = flag.spot.filter(|_| is_as_written);
    Some(flag)
}

fn of_lines(source: &Source) -> Vec<Flag> {
    let mut start = 0;
    let mut found = Vec::new();
    for line in source.text.split_inclusive('\n') {
        if !line.trim_start().starts_with('#') {
            found.extend(flags::among(&Traced::literal(line, start).words(), source));
        }
        start += line.len();
    }
    found
}
