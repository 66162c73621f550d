use proptest::prelude::*;

use super::*;

fn read(line: &str) -> Vec<(String, Option<String>)> {
    Kargs::parse(line).iter().map(|arg| (arg.key.clone(), arg.value.clone())).collect()
}

fn pair(key: &str, value: &str) -> (String, Option<String>) {
    (key.to_owned(), Some(value.to_owned()))
}

#[test]
fn words_are_read_as_systemd_reads_them() {
    assert_eq!(read("a=\"b c\" d"), [pair("a", "b c"), ("d".into(), None)]);
    assert_eq!(read("\"a=b c\""), [pair("a", "b c")]);
    assert_eq!(read("a\"b\"=c'd e'\"f\""), [pair("ab", "cd ef")]);
    assert_eq!(
        read("initrd=\\boot\\x a\\ b=1"),
        [pair("initrd", "\\boot\\x"), ("a\\".into(), None), pair("b", "1")]
    );
    assert_eq!(read("a=1\t\n b=2\r"), [pair("a", "1"), pair("b", "2")]);
    assert_eq!(read("'open a=1 b"), [pair("open a", "1 b")]);
    assert_eq!(read("# a==b ="), [("#".into(), None), pair("a", "=b"), pair("", "")]);
    assert_eq!(read("'\"'x \"\""), [("\"x".into(), None), (String::new(), None)]);
}

#[test]
fn the_kernels_double_dash_is_known() {
    let after =
        |line: &str| -> Vec<bool> { Kargs::parse(line).iter().map(|arg| arg.after_double_dash).collect() };
    assert_eq!(after("a -- b"), [false, false, true]);
    assert_eq!(after("a \"--\" b"), [false, false, true]);
    assert_eq!(after("a=\"x -- y\" b --c"), [false, false, false]);
}

#[test]
fn pins_in_every_spelling_and_nothing_else() {
    let pinned = |line: &str| Kargs::parse(line).iter().any(is_v1_pin);
    for line in [
        "systemd.unified_cgroup_hierarchy=0",
        "systemd.unified-cgroup-hierarchy=No",
        "\"systemd.unified_cgroup_hierarchy=0\"",
        "'systemd.unified_cgroup_hierarchy=off'",
        "systemd.unified_cgroup_hierarchy=\"0\"",
        "systemd.\"unified\"_cgroup_hierarchy=F",
        "-- systemd.unified_cgroup_hierarchy=false",
        "systemd.legacy_systemd_cgroup_controller",
        "systemd.legacy-systemd-cgroup-controller=yes",
        "systemd.legacy_systemd_cgroup_controller=0",
        "SYSTEMD_CGROUP_ENABLE_LEGACY_FORCE=1",
        "SYSTEMD_CGROUP_ENABLE_LEGACY_FORCE=\"no\"",
    ] {
        assert!(pinned(line), "{line}");
    }
    for line in [
        "systemd.unified_cgroup_hierarchy",
        "systemd.unified_cgroup_hierarchy=1",
        "systemd.unified_cgroup_hierarchy=2",
        "systemd.unified_cgroup_hierarchy=",
        "systemd.unified_cgroup_hierarchy=\"0 \"",
        "Systemd.unified_cgroup_hierarchy=0",
        "rd.systemd.unified_cgroup_hierarchy=0",
        "talos.unified_cgroup_hierarchy=0",
        "systemd_cgroup_enable_legacy_force=1",
        "cgroup_enable=memory swapaccount=1 cgroup.memory=nokmem cgroup_no_v1=all",
        "x='a systemd.unified_cgroup_hierarchy=0 b'",
        "systemd.unified_cgroup_hierarchy=0x",
        "systemd.unified_cgroup_hierarchy =0",
    ] {
        assert!(!pinned(line), "{line}");
    }
}

#[test]
fn the_last_value_decides_and_the_bare_form_only_alone() {
    for (line, asks) in [
        (UNIFIED.to_owned(), true),
        (format!("{UNIFIED}=0 {UNIFIED}"), false),
        (format!("{UNIFIED}=0 {UNIFIED}=yes"), true),
        (format!("{UNIFIED}=1 {UNIFIED}=2"), false),
        ("quiet".to_owned(), false),
    ] {
        let meanings: Vec<Meaning> = Kargs::parse(&line).iter().map(Arg::meaning).collect();
        assert_eq!(ask_for_unified(&meanings), asks, "{line}");
        assert_eq!(matches!(Kargs::parse(&line).switch(UNIFIED), Switch::Is(true, _)), asks, "{line}");
    }
}

#[test]
fn removing_takes_one_gap_and_leaves_the_rest() {
    let cases = [
        ("systemd.unified_cgroup_hierarchy=0", ""),
        ("systemd.unified_cgroup_hierarchy=0 quiet", "quiet"),
        ("quiet systemd.unified_cgroup_hierarchy=0", "quiet"),
        ("quiet  systemd.unified_cgroup_hierarchy=0\tsplash ", "quiet\tsplash "),
        ("a=\"x  y\" systemd.unified_cgroup_hierarchy=0   b", "a=\"x  y\"   b"),
        ("systemd.unified_cgroup_hierarchy=0 systemd.legacy_systemd_cgroup_controller q", "q"),
        ("a systemd.unified_cgroup_hierarchy=0 systemd.legacy_systemd_cgroup_controller=1 b", "a b"),
        ("ro systemd.unified_cgroup_hierarchy=0\n", "ro\n"),
        ("a \"systemd.unified_cgroup_hierarchy=0", "a"),
        ("a -- systemd.unified_cgroup_hierarchy=0 b", "a -- b"),
    ];
    for (before, after) in cases {
        assert_eq!(strip_v1_pins(before), after, "{before}");
        assert_eq!(strip_v1_pins(after), after, "{before}");
    }
}

#[test]
fn appending_finds_the_place_that_counts() {
    let cases = [
        ("", "w"),
        ("quiet", "quiet w"),
        ("quiet ", "quiet w "),
        ("ro\n", "ro w\n"),
        ("quiet -- single", "quiet w -- single"),
        ("quiet\t-- single", "quiet w\t-- single"),
        ("-- single", "w -- single"),
        ("a \"open b", "a w \"open b"),
        ("it's -- x", "w it's -- x"),
        ("a '\"' b", "a w '\"' b"),
        ("x=\"a -- b\"", "x=\"a -- b\" w"),
    ];
    for (before, after) in cases {
        assert_eq!(append(before, "w"), after, "{before}");
    }
}

#[test]
fn the_smallest_edit_to_v2() {
    let off = "systemd.unified_cgroup_hierarchy=0";
    let on = UNIFIED_ON;
    let legacy = "systemd.legacy_systemd_cgroup_controller";
    for (line, with_unified_default, with_v1_default) in [
        (format!("a {off} b"), "a b".to_owned(), format!("a {on} b")),
        (format!("{off} {legacy} a {off}"), "a".into(), format!("{on} a")),
        (format!("{legacy} a"), "a".into(), format!("a {on}")),
        ("a".into(), "a".into(), format!("a {on}")),
        (format!("{off} {on}"), on.into(), on.into()),
        (format!("{on} {off}"), on.into(), on.into()),
        (String::new(), String::new(), on.into()),
        (format!("{off} {UNIFIED}=2"), format!("{UNIFIED}=2"), format!("{UNIFIED}=2 {on}")),
        (format!("-- {UNIFIED}=2"), format!("-- {UNIFIED}=2"), format!("-- {UNIFIED}=2 {on}")),
        ("a -- s".into(), "a -- s".into(), format!("a {on} -- s")),
    ] {
        assert_eq!(unify(&line, true), with_unified_default, "{line}");
        assert_eq!(unify(&line, false), with_v1_default, "{line}");
    }
}

/// Lines made of what hurts: our words, quotes, blanks, dashes, and anything.
fn lines() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        8 => Just(" ".to_owned()),
        2 => prop::sample::select(vec!["\t", "\n", "\"", "'", "\\", "--", "=", "#", "\u{b}", "ü"]).prop_map(String::from),
        4 => prop::sample::select(vec![
            "quiet", "root=/dev/vda1", "a=\"b c\"", "systemd.unified_cgroup_hierarchy=0",
            "systemd.unified-cgroup-hierarchy=off", "systemd.unified_cgroup_hierarchy=1",
            "systemd.unified_cgroup_hierarchy", "\"systemd.unified_cgroup_hierarchy=0\"",
            "systemd.legacy_systemd_cgroup_controller", "SYSTEMD_CGROUP_ENABLE_LEGACY_FORCE=1",
            "cgroup_no_v1=all", "rd.systemd.unified_cgroup_hierarchy=0",
        ]).prop_map(String::from),
        1 => any::<char>().prop_map(String::from),
    ];
    prop::collection::vec(piece, 0..14).prop_map(|pieces| pieces.concat())
}

fn raws(line: &str, kept: impl Fn(&Arg<'_>) -> bool) -> Vec<String> {
    Kargs::parse(line).iter().filter(|arg| kept(arg)).map(|arg| arg.raw.to_owned()).collect()
}

proptest! {
    #[test]
    fn every_byte_belongs_to_a_word_or_a_gap(line in lines()) {
        let kargs = Kargs::parse(&line);
        let mut end = 0;
        for arg in &kargs {
            prop_assert!(line[end..arg.span.start].chars().all(|c| " \t\n\r".contains(c)));
            prop_assert_eq!(&line[arg.span.clone()], arg.raw);
            end = arg.span.end;
        }
        prop_assert!(line[end..].chars().all(|c| " \t\n\r".contains(c)));
    }

    #[test]
    fn any_text_is_read(line in any::<String>()) {
        let _ = unify(&line, false);
        prop_assert_eq!(Kargs::parse(&line).remove(|_| false), line);
    }

    #[test]
    fn adding_and_removing_gives_the_same_bytes(line in lines()) {
        let added = append(&line, "cgroup2_migrate.txn=1");
        prop_assert!(Kargs::parse(&added).value("cgroup2_migrate.txn").is_some());
        let removed = Kargs::parse(&added).remove(|arg| arg.is("cgroup2_migrate.txn"));
        prop_assert_eq!(removed, line);
    }

    #[test]
    fn an_added_word_stays_out_of_the_arguments_of_init(line in lines()) {
        let added = append(&line, "new=1");
        prop_assert!(!Kargs::parse(&added).named("new").any(|arg| arg.after_double_dash));
    }

    #[test]
    fn removing_keeps_all_other_words(line in lines()) {
        let stripped = strip_v1_pins(&line);
        prop_assert_eq!(raws(&stripped, |_| true), raws(&line, |arg| !is_v1_pin(arg)));
        prop_assert_eq!(strip_v1_pins(&stripped), stripped.clone());
        let had_leading_gap = line.starts_with([' ', '\t', '\n', '\r']);
        prop_assert!(had_leading_gap || !stripped.starts_with([' ', '\t', '\n', '\r']));
    }

    #[test]
    fn after_the_edit_v2_is_asked_for(line in lines(), default_is_unified in any::<bool>()) {
        let edited = unify(&line, default_is_unified);
        prop_assert_eq!(unify(&edited, default_is_unified), edited.clone());
        let default = if default_is_unified { Hierarchy::Unified } else { Hierarchy::Legacy };
        let decision = decide(&edited, 252, default);
        let is_readable = !Kargs::parse(&line).named(UNIFIED).any(|arg| arg.value.as_deref().is_some_and(|value| boolean(value).is_none()));
        if is_readable || default_is_unified {
            prop_assert_eq!(decision.hierarchy, Hierarchy::Unified);
        }
        prop_assert!(!Kargs::parse(&edited).iter().any(is_v1_pin));
        let ours = |arg: &Arg<'_>| !is_v1_pin(arg) && !arg.is(UNIFIED);
        prop_assert_eq!(raws(&edited, ours), raws(&line, ours));
    }
}

use crate::boot::hierarchy::{Hierarchy, decide};
