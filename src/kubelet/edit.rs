//! The smallest edit: one range of bytes replaced, or one line added, then read again. Nothing else may differ.

use std::ops::Range;

use super::FAIL_CGROUP_V1;
use super::document::{Document, Entry, Node};
use super::flags::{self, Flag};
use super::holders::{Form, flags_in};
use super::source::Source;

/// The text with `failCgroupV1` set to this where it stands; as it is where it stands so already.
///
/// # Errors
/// Why it cannot be done, in words that name no file.
pub fn set(text: &str, to: bool) -> Result<String, String> {
    let document = Document::parse(text)?;
    let entry = document.get(FAIL_CGROUP_V1).ok_or("the key is not there")?;
    match entry.value.node {
        Node::Scalar(serde_json::Value::Bool(is)) if is == to => Ok(text.to_owned()),
        Node::Scalar(serde_json::Value::Bool(_)) if !entry.value.is_alias => {
            proven(text, &document, replaced(text, &entry.value.range, &to.to_string())?, to)
        }
        Node::Scalar(_) | Node::List(_) | Node::Map(_) => {
            Err(format!("its value in line {} is not plainly true or false", entry.line))
        }
    }
}

/// The text with one line more, which sets `failCgroupV1` to this.
///
/// # Errors
/// As [`set`].
pub fn add(text: &str, to: bool) -> Result<String, String> {
    let document = Document::parse(text)?;
    if document.get(FAIL_CGROUP_V1).is_some() {
        return Err("the key is there already".to_owned());
    }
    let neighbour = neighbour(&document).ok_or("it has no kind")?;
    let before = neighbour.key_range.start;
    let indentation = indentation(text, before);
    let added = match (document.in_braces, indentation) {
        (true, Some(blanks)) => format!("\"{FAIL_CGROUP_V1}\": {to},{}{blanks}", line_end(text)),
        (true, None) => format!("\"{FAIL_CGROUP_V1}\": {to}, "),
        (false, Some(blanks)) => format!("{FAIL_CGROUP_V1}: {to}{}{blanks}", line_end(text)),
        (false, None) => return Err("its first key does not begin a line".to_owned()),
    };
    proven(text, &document, replaced(text, &(before..before), &added)?, to)
}

/// The key before which ours goes: with keys in order (as Go writes them) the first one behind it, else `kind`.
fn neighbour(document: &Document) -> Option<&Entry> {
    document.get("kind")?;
    let is_sorted = document.entries.is_sorted_by(|one, next| one.key <= next.key);
    let behind = document.entries.iter().find(|entry| entry.key.as_str() > FAIL_CGROUP_V1);
    if is_sorted { behind } else { document.get("kind") }
}

/// The blanks between the beginning of a line and this byte; `None` if there is anything else.
fn indentation(text: &str, at: usize) -> Option<&str> {
    let before = text.get(..at)?;
    let line = before.get(before.rfind('\n').map_or(0, |end| end + 1)..)?;
    line.trim().is_empty().then_some(line)
}

/// As in its first line.
fn line_end(text: &str) -> &'static str {
    let first = text.split_inclusive('\n').next();
    if first.is_some_and(|line| line.ends_with("\r\n")) { "\r\n" } else { "\n" }
}

fn replaced(text: &str, range: &Range<usize>, by: &str) -> Result<String, String> {
    let pieces = text.get(..range.start).zip(text.get(range.end..));
    let (before, after) = pieces.ok_or("its place in the file was not found")?;
    Ok(format!("{before}{by}{after}"))
}

/// Reads the new text: our key must say what it should, and all others what they said, in the same order.
fn proven(old: &str, before: &Document, new: String, to: bool) -> Result<String, String> {
    let unproven =
        || format!("a change of {} bytes does not read back as meant", new.len().abs_diff(old.len()));
    let after = Document::parse(&new).map_err(|_| unproven())?;
    let says = after.get(FAIL_CGROUP_V1).map(|entry| entry.value.node.to_json());
    let others_stay = before.without(FAIL_CGROUP_V1) == after.without(FAIL_CGROUP_V1);
    if says == Some(to.into()) && others_stay { Ok(new) } else { Err(unproven()) }
}

/// The text with every `fail-cgroupv1` among its flags set to this.
///
/// # Errors
/// As [`set`].
pub fn set_flags(form: Form, source: &Source, to: bool) -> Result<String, String> {
    let before = flags_in(form, source)?;
    let ours = |flag: &&Flag| flag.name == flags::FAIL_CGROUP_V1 && flag.boolean() != Some(to);
    let mut text = source.text.clone();
    // From the end, so that the places of those before stay right.
    for flag in before.iter().filter(ours).rev() {
        let spot = flag.spot.as_ref().ok_or_else(|| {
            format!("the flag in line {} is written in a way that cannot be changed", flag.place.line)
        })?;
        text = replaced(&text, &spot.range, &format!("{}{to}", spot.before))?;
    }
    let after = flags_in(form, &Source::new(&source.path, &text))?;
    let is_as_meant =
        before.len() == after.len() && before.iter().zip(&after).all(|(old, new)| stays(old, new, to));
    if is_as_meant { Ok(text) } else { Err("the change of its flags does not read back as meant".to_owned()) }
}

fn stays(old: &Flag, new: &Flag, to: bool) -> bool {
    let is_ours = old.name == flags::FAIL_CGROUP_V1;
    old.name == new.name && if is_ours { new.boolean() == Some(to) } else { old.value == new.value }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_word_changes_and_nothing_else() {
        for (text, expected) in [
            ("kind: K\nfailCgroupV1: false # keep\n", "kind: K\nfailCgroupV1: true # keep\n"),
            ("---\r\nfailCgroupV1:   False  \r\nkind: K\r\n", "---\r\nfailCgroupV1:   true  \r\nkind: K\r\n"),
            ("'failCgroupV1': no", "'failCgroupV1': true"),
            ("{kind: K, failCgroupV1: false}", "{kind: K, failCgroupV1: true}"),
            (
                "{\n\t\"failCgroupV1\":false,\n\t\"kind\":\"K\"\n}\n",
                "{\n\t\"failCgroupV1\":true,\n\t\"kind\":\"K\"\n}\n",
            ),
            (
                "a:\n  failCgroupV1: false\nfailCgroupV1: false\n",
                "a:\n  failCgroupV1: false\nfailCgroupV1: true\n",
            ),
            ("a: \"é\"\nfailCgroupV1: &x false\n", "a: \"é\"\nfailCgroupV1: &x true\n"),
        ] {
            assert_eq!(set(text, true).as_deref(), Ok(expected), "{text:?}");
            assert_eq!(set(expected, true).as_deref(), Ok(expected), "{text:?}");
        }
    }

    #[test]
    fn what_is_not_plain_is_refused() {
        for text in [
            "failCgroupV1: \"false\"\n",
            "a: &x false\nfailCgroupV1: *x\n",
            "failCgroupV1: &x false\na: *x\n",
            "failCgroupV1: |\n  false\n",
            "failCgroupV1:\n",
            "failCgroupV1: false\n---\na: 1\n",
            "failCgroupV1: false\nfailCgroupV1: false\n",
            "FailCgroupV1: false\n",
            "",
        ] {
            assert!(set(text, true).is_err(), "{text:?}");
        }
    }

    #[test]
    fn a_line_is_added_where_it_belongs() {
        for (text, expected) in [
            (
                "apiVersion: v\ncgroupDriver: systemd\nkind: K\n",
                "apiVersion: v\ncgroupDriver: systemd\nfailCgroupV1: true\nkind: K\n",
            ),
            ("apiVersion: v\r\nkind: K\r\n", "apiVersion: v\r\nfailCgroupV1: true\r\nkind: K\r\n"),
            ("kind: K\napiVersion: v\n", "failCgroupV1: true\nkind: K\napiVersion: v\n"),
            ("kind: K", "failCgroupV1: true\nkind: K"),
            ("{\n  \"kind\": \"K\"\n}", "{\n  \"failCgroupV1\": true,\n  \"kind\": \"K\"\n}"),
            ("{\"kind\":\"K\"}", "{\"failCgroupV1\": true, \"kind\":\"K\"}"),
            ("{kind: K}", "{\"failCgroupV1\": true, kind: K}"),
        ] {
            assert_eq!(add(text, true).as_deref(), Ok(expected), "{text:?}");
        }
        for text in ["a: 1\n", "failCgroupV1: true\nkind: K\n", "? kind\n: K\n", ""] {
            assert!(add(text, true).is_err(), "{text:?}");
        }
    }

    fn flipped(form: Form, text: &str) -> Result<String, String> {
        set_flags(form, &Source::new("/f", text), true)
    }

    #[test]
    fn flags_in_every_kind_of_file() {
        for (form, text, expected) in [
            (Form::Environment, "A=\"--x --fail-cgroupv1=false\"\n", "A=\"--x --fail-cgroupv1=true\"\n"),
            (
                Form::Environment,
                "A=--fail-cgroupv1=0 \\\n --y\nB=--fail_cgroupv1=F",
                "A=--fail-cgroupv1=true \\\n --y\nB=--fail_cgroupv1=true",
            ),
            (
                Form::Unit,
                "[Service]\nExecStart=/k \\\n  --fail-cgroupv1=false\n",
                "[Service]\nExecStart=/k \\\n  --fail-cgroupv1=true\n",
            ),
            (
                Form::EmbeddingUnit,
                "[Service]\nExecStart=/k3s '--kubelet-arg=fail-cgroupv1=false'\n",
                "[Service]\nExecStart=/k3s '--kubelet-arg=fail-cgroupv1=true'\n",
            ),
            (
                Form::Rancher,
                "kubelet-arg:\n  - \"fail-cgroupv1=false\" # c\n",
                "kubelet-arg:\n  - \"fail-cgroupv1=true\" # c\n",
            ),
            (Form::Rancher, "kubelet-arg+: fail-cgroupv1=false\n", "kubelet-arg+: fail-cgroupv1=true\n"),
            (
                Form::Lines,
                "--a=b\n# --fail-cgroupv1=false\n--fail-cgroupv1 false\n--fail-cgroupv1=false\r\n",
                "--a=b\n# --fail-cgroupv1=false\n--fail-cgroupv1 false\n--fail-cgroupv1=true\r\n",
            ),
        ] {
            assert_eq!(flipped(form, text).as_deref(), Ok(expected), "{text:?}");
        }
        assert!(flipped(Form::Rancher, "kubelet-arg: \"fail-cgroupv1=f\\u0061lse\"\n").is_err());
        let bare = Source::new("/f", "A=--fail-cgroupv1 --b\n");
        assert_eq!(
            set_flags(Form::Environment, &bare, false).as_deref(),
            Ok("A=--fail-cgroupv1=false --b\n")
        );
    }
}
