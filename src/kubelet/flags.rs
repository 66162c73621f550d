//! Flags of the kubelet, and the bytes of their values.

use std::ops::Range;

use super::source::{Place, Source};
use super::traced::Traced;

/// Flags that stand alone: the word after them is not their value.
const BOOLEAN: [&str; 2] = [FAIL_CGROUP_V1, "cgroups-per-qos"];

/// The flag of `failCgroupV1`.
pub const FAIL_CGROUP_V1: &str = "fail-cgroupv1";

/// One flag.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Flag {
    /// Without dashes.
    pub name: String,
    /// `None` if it stands alone.
    pub value: Option<String>,
    /// Where it stands.
    pub place: Place,
    /// Where its value stands, or would; `None` if it cannot be changed there.
    pub spot: Option<Spot>,
}

/// What to replace for another value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spot {
    /// Bytes of the file.
    pub range: Range<usize>,
    /// What must come before the new value.
    pub before: &'static str,
}

impl Flag {
    /// True for a flag that is a boolean, whatever stands behind it.
    #[must_use]
    pub fn is_boolean(&self) -> bool {
        BOOLEAN.contains(&self.name.as_str())
    }

    /// What a boolean flag says; `None` if that is no boolean.
    #[must_use]
    pub fn boolean(&self) -> Option<bool> {
        match self.value.as_deref() {
            None | Some("1" | "t" | "T" | "true" | "True" | "TRUE") => Some(true),
            Some("0" | "f" | "F" | "false" | "False" | "FALSE") => Some(false),
            Some(_) => None,
        }
    }
}

/// The flags among words of one file.
#[must_use]
pub fn among(words: &[Traced], source: &Source) -> Vec<Flag> {
    let mut words = words.iter().peekable();
    let mut flags = Vec::new();
    while let Some(word) = words.next() {
        let Some(rest) = word.strip_prefix("--") else { continue };
        let mut flag = flag(&rest, source);
        if flag.value.is_none() && !flag.is_boolean() {
            let value = words.next_if(|next| next.strip_prefix("-").is_none());
            if let Some(value) = value {
                flag.value = Some(value.text());
                flag.spot = Some(Spot { range: value.range(), before: "" });
            }
        }
        flags.push(flag);
    }
    flags
}

/// The flags that k3s and RKE2 hand on to the kubelet in them: `--kubelet-arg=NAME=VALUE`, or in two words.
#[must_use]
pub fn handed_on(words: &[Traced], source: &Source) -> Vec<Flag> {
    let mut words = words.iter().peekable();
    let mut flags = Vec::new();
    while let Some(word) = words.next() {
        let inner = match word.strip_prefix("--kubelet-arg") {
            Some(rest) if rest.is_empty() => words.next().cloned(),
            Some(rest) => rest.strip_prefix("="),
            None => None,
        };
        flags.extend(inner.map(|inner| flag(&inner, source)));
    }
    flags
}

/// A flag, `name=value` or `name`, with dashes or without.
#[must_use]
pub fn flag(word: &Traced, source: &Source) -> Flag {
    let word = &word.strip_prefix("--").unwrap_or_else(|| word.clone());
    let place = source.place(word.range().start);
    match word.split_once('=') {
        Some((name, value)) => Flag {
            name: normal(&name.text()),
            spot: Some(Spot { range: value.range(), before: "" }),
            value: Some(value.text()),
            place,
        },
        None => {
            let end = word.range().end;
            Flag {
                name: normal(&word.text()),
                value: None,
                spot: Some(Spot { range: end..end, before: "=" }),
                place,
            }
        }
    }
}

/// The kubelet takes `_` for `-` in names of flags (not looked up for this release).
fn normal(name: &str) -> String {
    name.replace('_', "-")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Vec<(String, Option<String>, String)> {
        let source = Source::new("/f", text);
        let flags = among(&Traced::literal(text, 0).words(), &source);
        flags
            .into_iter()
            .map(|flag| (flag.name, flag.value, text.get(flag.spot.unwrap().range).unwrap().to_owned()))
            .collect()
    }

    #[test]
    fn every_form_of_a_flag() {
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(
            read("/k --config /c --fail_cgroupv1 x --v=2 --a= --b"),
            [
                ("config".to_owned(), some("/c"), "/c".to_owned()),
                ("fail-cgroupv1".to_owned(), None, String::new()),
                ("v".to_owned(), some("2"), "2".to_owned()),
                ("a".to_owned(), some(""), String::new()),
                ("b".to_owned(), None, String::new())
            ]
        );
    }

    #[test]
    fn flags_that_are_handed_on() {
        let text =
            "/k3s server --config /c '--kubelet-arg=fail-cgroupv1=false' --kubelet-arg v=2 --kubelet-arg";
        let source = Source::new("/f", text);
        let flags = handed_on(&Traced::literal(text, 0).words(), &source);
        let names: Vec<_> = flags.iter().map(|flag| (flag.name.as_str(), flag.value.as_deref())).collect();
        assert_eq!(names, [("fail-cgroupv1", Some("false")), ("v", Some("2"))]);
    }
}
