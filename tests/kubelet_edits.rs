//! The edit of `failCgroupV1` over generated files: there and back again is the same bytes, only this key differs, and
//! no bytes at all make it panic.
#![allow(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use cgroup2_migrate::kubelet::document::Document;
use cgroup2_migrate::kubelet::holders::{Form, flags_in};
use cgroup2_migrate::kubelet::{FAIL_CGROUP_V1, Source, edit, environment, unit};
use proptest::prelude::*;
use proptest::sample::select;

const FORMS: [Form; 5] = [Form::Environment, Form::Unit, Form::EmbeddingUnit, Form::Rancher, Form::Lines];

fn word() -> impl Strategy<Value = String> {
    "[a-z][a-zA-Z]{2,8}".prop_filter("a word of YAML's own", |word| {
        !["null", "true", "false", "yes", "no", "on", "off"].contains(&word.to_lowercase().as_str())
    })
}

/// A value as it stands in a block mapping, after the colon.
fn block_value() -> impl Strategy<Value = String> {
    prop_oneof![
        word(),
        word().prop_map(|word| format!("\"{word} # é\\n\"")),
        word().prop_map(|word| format!("'{word}: {{'")),
        Just("true".to_owned()),
        Just("10s".to_owned()),
        Just("[pods, 'a: b']".to_owned()),
        Just("{failCgroupV1: false, x: [1]}".to_owned()),
        word().prop_map(|word| format!("\n  failCgroupV1: false\n  {word}: 1")),
        word().prop_map(|word| format!("\n- {word}\n- failCgroupV1: false")),
        word().prop_map(|word| format!("|\n  # no comment\n  failCgroupV1: false\n  {word}")),
        Just(">-\n  folded\n\n  text".to_owned()),
        Just(String::new()),
    ]
}

fn tail() -> impl Strategy<Value = &'static str> {
    select(vec!["", "  ", " # failCgroupV1: true", "\n# a comment", "\n", "\n\n  # far in"])
}

/// Entries, ours among them, with what stands behind each.
fn block() -> impl Strategy<Value = String> {
    let ours =
        (select(vec!["failCgroupV1", "'failCgroupV1'", "\"failCgroupV1\""]), select(vec![" ", "   ", "\t"]));
    let ours = ours.prop_flat_map(|(key, blank)| {
        select(vec!["true", "false"]).prop_map(move |value| format!("{key}:{blank}{value}"))
    });
    let others = proptest::collection::btree_map(word(), (block_value(), tail()), 0..6);
    (
        others,
        ours,
        any::<prop::sample::Index>(),
        select(vec!["", "---\n", "# c\n---\n"]),
        any::<bool>(),
        any::<bool>(),
    )
        .prop_map(|(others, ours, at, head, crlf, ends)| {
            let mut lines: Vec<String> = others
                .into_iter()
                .map(|(key, (value, tail))| {
                    // A comment right behind a block scalar would be of its text.
                    let tail = if value.contains('\n') || value.is_empty() { "" } else { tail };
                    format!("k{key}: {value}{tail}")
                })
                .collect();
            lines.push("kind: KubeletConfiguration".to_owned());
            lines.insert(at.index(lines.len() + 1), ours);
            let text = format!("{head}{}{}", lines.join("\n"), if ends { "\n" } else { "" });
            if crlf { text.replace('\n', "\r\n") } else { text }
        })
}

fn json() -> impl Strategy<Value = String> {
    let others = proptest::collection::btree_map(
        word(),
        select(vec!["1", "\"x: {\"", "[true, {}]", "{\"failCgroupV1\": false}", "null"]),
        0..5,
    );
    (others, any::<bool>(), any::<prop::sample::Index>(), select(vec!["", " ", "\n  ", "\n\t", "\r\n  "]))
        .prop_map(|(others, value, at, blank)| {
            let mut pairs: Vec<String> =
                others.into_iter().map(|(key, value)| format!("\"k{key}\": {value}")).collect();
            pairs.push("\"kind\":\"KubeletConfiguration\"".to_owned());
            pairs.insert(at.index(pairs.len() + 1), format!("\"failCgroupV1\":{blank}{value}"));
            format!("{{{blank}{}\n}}\n", pairs.join(&format!(",{blank}")))
        })
}

fn value_in(text: &str) -> Option<bool> {
    Document::parse(text).unwrap().get(FAIL_CGROUP_V1).and_then(|entry| entry.value.node.to_json().as_bool())
}

fn there_and_back(text: &str) {
    let before = Document::parse(text).unwrap();
    let is = value_in(text).unwrap();
    assert_eq!(edit::set(text, is).as_deref(), Ok(text));
    let there = edit::set(text, !is).unwrap();
    assert_eq!(value_in(&there), Some(!is));
    assert_eq!(Document::parse(&there).unwrap().without(FAIL_CGROUP_V1), before.without(FAIL_CGROUP_V1));
    assert_eq!(there.len().abs_diff(text.len()), 1, "more than one word changed");
    assert_eq!(edit::set(&there, is).as_deref(), Ok(text));
}

/// Adding takes the text as it is apart, and puts one piece in.
fn is_text_with_a_piece_more(text: &str, more: &str) {
    let same = text.bytes().zip(more.bytes()).take_while(|(one, other)| one == other).count();
    assert!(more.as_bytes().ends_with(text.as_bytes().get(same..).unwrap()), "{text:?} {more:?}");
    assert_eq!(value_in(more), Some(false));
}

fn survive(text: &str) {
    let _ = Document::parse(text);
    let _ = edit::set(text, true);
    if let Ok(more) = edit::add(text, false) {
        is_text_with_a_piece_more(text, &more);
    }
    drop((environment::assignments(text), unit::directives(text)));
    let source = Source::new("/f", text);
    for form in FORMS {
        let before = flags_in(form, &source).unwrap_or_default();
        let Ok(after) = edit::set_flags(form, &source, true) else { continue };
        let flags = flags_in(form, &Source::new("/f", &after)).unwrap();
        assert_eq!(flags.len(), before.len());
        assert!(
            flags.iter().filter(|flag| flag.name == "fail-cgroupv1").all(|flag| flag.boolean() == Some(true))
        );
    }
}

/// Pieces that hurt, in any order.
fn hurting() -> impl Strategy<Value = String> {
    let pieces = vec![
        "failCgroupV1",
        ": ",
        ":",
        "false",
        "true",
        "kind",
        "\n",
        "\r\n",
        "\r",
        "  ",
        "\t",
        "- ",
        "---\n",
        "...",
        "&a ",
        "*a",
        "{",
        "}",
        "[",
        "]",
        ",",
        "\"",
        "'",
        "|\n",
        ">",
        "#",
        "%",
        "!",
        "?",
        "\\",
        "=",
        "--fail-cgroupv1",
        "--kubelet-arg",
        "kubelet-arg:\n",
        "[Service]\n",
        "ExecStart=",
        "Environment=",
        "A=",
        "é",
        "\u{feff}",
        "\u{0}",
        "\u{85}",
        "\u{2028}",
        "<<: ",
        "K",
    ];
    proptest::collection::vec(select(pieces), 0..24).prop_map(|pieces| pieces.concat())
}

/// A file with flags, `V` where the value of ours stands.
fn with_flags() -> impl Strategy<Value = (Form, String)> {
    let templates = vec![
        (Form::Environment, "# c\nKUBELET_EXTRA_ARGS=\"--W=1 --fail-cgroupv1=V --W W\"\n"),
        (Form::Environment, "A='--fail-cgroupv1=V'\r\nB=--W \\\n  --fail_cgroupv1=V # no comment"),
        (Form::Environment, "A=\"--W=\\\"é\\\" \\\n --fail-cgroupv1=V\""),
        (Form::Unit, "[Service]\nExecStart=/k --W \\\n  # c\n  --fail-cgroupv1=V \\\n  --W=é\n"),
        (Form::Unit, "[Service]\nEnvironment=\"A=--W --fail-cgroupv1=V\" 'B=--fail-cgroupv1=V'\n"),
        (
            Form::EmbeddingUnit,
            "[Service]\nExecStart=/k3s \\\n\t'--kubelet-arg=W=1' \\\n\t'--kubelet-arg=fail-cgroupv1=V'\n",
        ),
        (Form::EmbeddingUnit, "[Service]\nExecStart=/k3s --kubelet-arg fail-cgroupv1=V --W"),
        (Form::Rancher, "W: 1\nkubelet-arg: # c\n- 'W=1'\n- fail-cgroupv1=V # c\n- \"--fail-cgroupv1=V\"\n"),
        (Form::Rancher, "kubelet-arg+: [W=1, fail-cgroupv1=V]\r\n"),
        (Form::Lines, "--W 1\r\n--fail-cgroupv1=V\r\n# --fail-cgroupv1=x\n"),
    ];
    (select(templates), word())
        .prop_map(|((form, text), word)| (form, text.replace('W', &format!("w{word}"))))
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn yaml_there_and_back(text in block()) {
        there_and_back(&text);
    }

    #[test]
    fn json_there_and_back(text in json()) {
        there_and_back(&text);
    }

    #[test]
    fn flags_there_and_back((form, text) in with_flags()) {
        let with = |value: &str| text.replace("=V", &format!("={value}"));
        let set = |text: String, to| edit::set_flags(form, &Source::new("/f", text), to).unwrap();
        prop_assert_eq!(set(with("false"), true), with("true"));
        prop_assert_eq!(set(with("true"), false), with("false"));
        prop_assert_eq!(set(with("true"), true), with("true"));
    }

    #[test]
    fn a_line_is_added_and_no_byte_changes(text in block(), json in json()) {
        for text in [text, json] {
            let text = text.replace(FAIL_CGROUP_V1, "failCgroupV2");
            is_text_with_a_piece_more(&text, &edit::add(&text, false).unwrap());
        }
    }

    #[test]
    fn no_text_makes_it_panic(text in hurting(), any in any::<String>()) {
        survive(&text);
        survive(&any);
    }

    #[test]
    fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        survive(&String::from_utf8_lossy(&bytes));
    }
}
