//! One YAML or JSON document with the place of every value. What the kubelet would trip over or read in two ways is
//! refused: a key twice, several documents, merge keys.

use std::ops::Range;

use serde::de::{self, Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};
use serde_saphyr::{MergeKeyPolicy, Spanned};

/// A mapping at the top of a file.
#[derive(Debug, Clone, PartialEq)]
pub struct Document {
    /// Its entries, in order.
    pub entries: Vec<Entry>,
    /// True for `{…}`: JSON, or YAML that looks like it.
    pub in_braces: bool,
}

/// A key and its value.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    /// The key.
    pub key: String,
    /// The bytes of the key, quotes among them.
    pub key_range: Range<usize>,
    /// The line of the key, from 1.
    pub line: usize,
    /// The value.
    pub value: Item,
}

/// A value and where it stands.
#[derive(Debug, Clone, PartialEq)]
pub struct Item {
    /// The value.
    pub node: Node,
    /// The bytes of a scalar, quotes among them.
    pub range: Range<usize>,
    /// Its line, from 1.
    pub line: usize,
    /// It stands elsewhere, and here is only a reference to it.
    pub is_alias: bool,
}

/// A value.
#[derive(Debug, Clone, PartialEq)]
pub enum Node {
    /// Text, number, boolean, nothing.
    Scalar(Value),
    /// A list.
    List(Vec<Item>),
    /// A mapping.
    Map(Vec<Entry>),
}

impl Document {
    /// Reads a document. A file without any content is an empty one.
    ///
    /// # Errors
    /// What is wrong, with line and column.
    pub fn parse(text: &str) -> Result<Self, String> {
        let options = serde_saphyr::options! { merge_keys: MergeKeyPolicy::Error, with_snippet: false };
        let root: Spanned<Read> =
            serde_saphyr::from_str_with_options(text, options).map_err(|error| told(&error))?;
        let root = item(root);
        let in_braces = text.get(root.range.clone()).is_some_and(|begin| begin.starts_with('{'));
        match root.node {
            Node::Map(entries) => Ok(Self { entries, in_braces }),
            Node::Scalar(Value::Null) => Ok(Self { entries: Vec::new(), in_braces }),
            Node::Scalar(_) | Node::List(_) => Err("it is no mapping".to_owned()),
        }
    }

    /// The entry of this very key.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.key == key)
    }

    /// All of it but one key, to compare.
    #[must_use]
    pub fn without(&self, key: &str) -> Vec<(&str, Value)> {
        let others = self.entries.iter().filter(|entry| entry.key != key);
        others.map(|entry| (entry.key.as_str(), entry.value.node.to_json())).collect()
    }
}

/// The library's words without its advice to programmers.
fn told(error: &serde_saphyr::Error) -> String {
    let text = error.without_snippet().to_string();
    let first = text.lines().next().unwrap_or_default();
    let place = first.rfind(" at line ").and_then(|at| first.get(at..)).unwrap_or_default();
    let end = [", set ", "; use ", " at line "].iter().filter_map(|sign| first.find(sign)).min();
    format!("{}{place}", first.get(..end.unwrap_or(first.len())).unwrap_or_default())
}

impl Node {
    /// The same without places.
    #[must_use]
    pub fn to_json(&self) -> Value {
        match self {
            Self::Scalar(value) => value.clone(),
            Self::List(items) => items.iter().map(|item| item.node.to_json()).collect(),
            Self::Map(entries) => {
                let pairs = entries.iter().map(|entry| (entry.key.clone(), entry.value.node.to_json()));
                Value::Object(pairs.collect::<Map<String, Value>>())
            }
        }
    }
}

/// As it comes from the parser, which gives places to [`Spanned`] alone.
enum Read {
    Scalar(Value),
    List(Vec<Spanned<Read>>),
    Map(Vec<(Spanned<String>, Spanned<Read>)>),
}

fn item(read: Spanned<Read>) -> Item {
    Item {
        range: range(&read),
        line: line(&read),
        is_alias: read.referenced != read.defined,
        node: match read.value {
            Read::Scalar(value) => Node::Scalar(value),
            Read::List(items) => Node::List(items.into_iter().map(item).collect()),
            Read::Map(entries) => Node::Map(entries.into_iter().map(entry).collect()),
        },
    }
}

fn entry((key, value): (Spanned<String>, Spanned<Read>)) -> Entry {
    Entry { key_range: range(&key), line: line(&key), key: key.value, value: item(value) }
}

fn range<T>(spanned: &Spanned<T>) -> Range<usize> {
    let span = spanned.defined.span();
    let number = |number: Option<u64>| number.and_then(|number| usize::try_from(number).ok()).unwrap_or(0);
    let start = number(span.byte_offset());
    start..start.saturating_add(number(span.byte_len()))
}

fn line<T>(spanned: &Spanned<T>) -> usize {
    usize::try_from(spanned.referenced.line()).unwrap_or(0)
}

impl<'de> Deserialize<'de> for Read {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Anything)
    }
}

struct Anything;

impl<'de> Visitor<'de> for Anything {
    type Value = Read;

    fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("a value")
    }

    fn visit_bool<E: de::Error>(self, value: bool) -> Result<Read, E> {
        Ok(Read::Scalar(value.into()))
    }

    fn visit_i64<E: de::Error>(self, value: i64) -> Result<Read, E> {
        Ok(Read::Scalar(value.into()))
    }

    fn visit_u64<E: de::Error>(self, value: u64) -> Result<Read, E> {
        Ok(Read::Scalar(value.into()))
    }

    fn visit_f64<E: de::Error>(self, value: f64) -> Result<Read, E> {
        Ok(Read::Scalar(value.into()))
    }

    fn visit_str<E: de::Error>(self, value: &str) -> Result<Read, E> {
        Ok(Read::Scalar(value.into()))
    }

    fn visit_unit<E: de::Error>(self) -> Result<Read, E> {
        Ok(Read::Scalar(Value::Null))
    }

    fn visit_none<E: de::Error>(self) -> Result<Read, E> {
        self.visit_unit()
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Read, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = access.next_element()? {
            items.push(item);
        }
        Ok(Read::List(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Read, A::Error> {
        let mut entries = Vec::new();
        while let Some(entry) = access.next_entry()? {
            entries.push(entry);
        }
        Ok(Read::Map(entries))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_has_its_place() {
        let text = "---\n# c\r\nkind: K\r\n\"failCgroupV1\": False  # c\r\nl:\n- 'a=b'\n";
        let document = Document::parse(text).unwrap();
        let entry = document.get("failCgroupV1").unwrap();
        assert_eq!((entry.line, text.get(entry.key_range.clone())), (4, Some("\"failCgroupV1\"")));
        assert_eq!(text.get(entry.value.range.clone()), Some("False"));
        assert_eq!(entry.value.node, Node::Scalar(false.into()));
        assert!(!document.in_braces && document.get("failcgroupv1").is_none());
        let Node::List(items) = &document.get("l").unwrap().value.node else { panic!() };
        assert_eq!(text.get(items.first().unwrap().range.clone()), Some("'a=b'"));
    }

    #[test]
    fn json_with_tabs() {
        let document = Document::parse("{\n\t\"a\": true,\n\t\"b\": [1, {}]\n}\n").unwrap();
        assert!(document.in_braces);
        assert_eq!(document.without("a"), [("b", serde_json::json!([1, {}]))]);
    }

    #[test]
    fn what_is_refused() {
        for (text, words) in [
            ("a: 1\na: 2\n", "duplicate mapping key: a at line 2, column 1"),
            ("{\"a\": 1, \"a\": 2}", "duplicate"),
            ("a: 1\n---\nb: 2\n", "multiple"),
            ("a: &x {b: 1}\nc: {<<: *x}\n", "merge"),
            ("- a\n", "no mapping"),
            ("a: b: c\n", "line 1"),
        ] {
            let error = Document::parse(text).unwrap_err();
            assert!(error.contains(words) && !error.contains('\n'), "{text:?}: {error}");
        }
        assert!(Document::parse("# nothing\n").unwrap().entries.is_empty());
    }
}
