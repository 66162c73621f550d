//! Generated GRUB defaults, sourced by the real dash and bash before and after the edit: what the parser
//! calls known must be what the shell says, and an edit may change nothing but the words it is about.
//!
//! `C2M_ORACLE_CASES=N` runs more cases than the usual few.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "a test stops at the first surprise"
)]
#![allow(clippy::disallowed_methods, reason = "the oracle is a real shell, and its files are scratch files")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use cgroup2_migrate::boot::grub::defaults::{DefaultMode, Defaults, EditError, Value, unify};
use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

type Files = Vec<(PathBuf, Vec<u8>)>;
type Variables = BTreeMap<String, Option<Vec<u8>>>;

const NAMES: [&str; 7] = [
    "GRUB_CMDLINE_LINUX",
    "GRUB_CMDLINE_LINUX_DEFAULT",
    "GRUB_CMDLINE_LINUX_RECOVERY",
    "GRUB_TIMEOUT",
    "GRUB_DISTRIBUTOR",
    "GRUB_CMDLINE_XEN",
    "EXTRA",
];
const ARGUMENTS: [&str; 3] =
    ["GRUB_CMDLINE_LINUX", "GRUB_CMDLINE_LINUX_DEFAULT", "GRUB_CMDLINE_LINUX_RECOVERY"];
const PINS: [&str; 7] = [
    "systemd.unified_cgroup_hierarchy=0",
    "systemd.unified-cgroup-hierarchy=OFF",
    "systemd.legacy_systemd_cgroup_controller",
    "systemd.legacy_systemd_cgroup_controller=1",
    "SYSTEMD_CGROUP_ENABLE_LEGACY_FORCE=1",
    "\"systemd.unified_cgroup_hierarchy=0\"",
    "systemd.unified_cgroup_hierarchy=\"no\"",
];
const WORDS: [&str; 20] = [
    "quiet",
    "splash",
    "console=ttyS0,115200n8",
    "a&b=1",
    "color=#ff0000",
    "#tag",
    "root=/dev/mapper/vg-root",
    "dyndbg=\"file drivers/pci/* +p; file net/* +p\"",
    "name=\"a systemd.unified_cgroup_hierarchy=0 b\"",
    "bücher=grün",
    "price=$5",
    "path=C:\\dir",
    "key='two words'",
    "xsystemd.unified_cgroup_hierarchy=0",
    "systemd.unified_cgroup_hierarchy=2",
    "systemd.unified_cgroup_hierarchy=1",
    "systemd.unified_cgroup_hierarchy",
    "cgroup_no_v1=all",
    "a=`b`|c;d",
    "~/x",
];

/// How a piece of a value is written.
#[derive(Debug, Clone, Copy)]
enum Style {
    Single,
    Double,
    Continued,
    Bare,
}

fn style() -> impl Strategy<Value = Style> {
    prop_oneof![3 => Just(Style::Double), 2 => Just(Style::Single), 1 => Just(Style::Continued), 1 => Just(Style::Bare)]
}

fn written(text: &str, style: Style) -> String {
    let escaped = |special: &str| -> String {
        text.chars().flat_map(|c| special.contains(c).then_some('\\').into_iter().chain([c])).collect()
    };
    match style {
        Style::Single => format!("'{}'", text.replace('\'', "'\\''")),
        Style::Double => format!("\"{}\"", escaped("\"\\$`")),
        Style::Continued => format!("\"{}\"", escaped("\"\\$`").replace(' ', " \\\n")),
        Style::Bare if text.is_empty() => String::new(),
        Style::Bare => escaped(" \t\"\\$`'|&;<>()*?[]#~{}!"),
    }
}

fn text() -> impl Strategy<Value = String> {
    let word = prop_oneof![
        6 => prop::sample::select(WORDS.to_vec()),
        2 => prop::sample::select(PINS.to_vec()),
    ];
    let gap = prop_oneof![8 => Just(" "), 1 => Just("  "), 1 => Just("\t")];
    let edge = prop_oneof![6 => Just(""), 1 => Just(" ")];
    (prop::collection::vec((word, gap), 0..6), edge.clone(), edge).prop_map(|(words, before, after)| {
        let mut text = before.to_owned();
        for (index, (word, gap)) in words.iter().enumerate() {
            text.push_str(if index > 0 { gap } else { "" });
            text.push_str(word);
        }
        text + after
    })
}

fn value() -> impl Strategy<Value = String> {
    let pieces =
        (text(), style(), style(), any::<prop::sample::Index>()).prop_map(|(text, one, other, cut)| {
            let places: Vec<usize> = (0..=text.len()).filter(|at| text.is_char_boundary(*at)).collect();
            let (first, second) = text.split_at(places[cut.index(places.len())]);
            written(first, one) + &written(second, other)
        });
    let variable = prop::sample::select(NAMES.to_vec());
    let expanded = (text(), variable, 0..8_u8).prop_map(|(text, name, form)| {
        let text = written(&text, Style::Double);
        let inner = &text[1..text.len() - 1];
        match form {
            0..=2 => format!("\"${{{name}}} {inner}\""),
            3 => format!("\"{inner} ${name}\""),
            4 => format!("\"{inner}\"${name}"),
            5 => format!("\"${{{name}:-quiet splash}} {inner}\""),
            6 => format!("\"${{{name}+x}} \\\n{inner} \\\n\""),
            _ => format!("${name}"),
        }
    });
    let computed = (text(), 0..4_u8).prop_map(|(text, form)| {
        let inner = written(&text, Style::Single);
        match form {
            0 => format!("\"$(printf '%s' {inner}) x\""),
            1 => format!("$(printf '%s' {inner})"),
            2 => "\"`echo systemd.unified_cgroup_hierarchy=0` a\"".to_owned(),
            _ => "\"${GRUB_TIMEOUT%x}$((1+1)) quiet\"".to_owned(),
        }
    });
    prop_oneof![
        6 => (text(), style()).prop_map(|(text, style)| written(&text, style)),
        2 => pieces,
        2 => expanded,
        1 => computed,
    ]
}

fn name() -> impl Strategy<Value = &'static str> {
    prop_oneof![3 => Just(NAMES[0]), 3 => Just(NAMES[1]), 2 => prop::sample::select(NAMES.to_vec())]
}

fn statement() -> impl Strategy<Value = String> {
    let assigned = (name(), value()).boxed();
    let plain = assigned.clone().prop_map(|(name, value)| format!("{name}={value}"));
    let formed = (assigned, any::<prop::sample::Index>()).prop_map(|((name, value), form)| {
        let forms = [
            format!("export {name}={value}"),
            format!("  {name}={value} # a comment with systemd.unified_cgroup_hierarchy=0"),
            format!("{name}+={value}"),
            format!("{name}={value} GRUB_TIMEOUT=7"),
            format!("GRUB_TIMEOUT=$GRUB_TIMEOUT; {name}={value};"),
            format!("{name}={value} true"),
            format!("{name}={value} && GRUB_TIMEOUT=8"),
            format!("{name}={value} || GRUB_TIMEOUT=9"),
            format!("if [ -n \"$GRUB_TIMEOUT\" ]; then\n\t{name}={value}\nfi"),
            format!("[ -z \"$EXTRA\" ] && {name}={value}"),
            format!("[ -z \"$EXTRA\" ] || {{ {name}={value}; }}"),
            format!("case $GRUB_TIMEOUT in 5|6) {name}={value} ;; *) : ;; esac"),
            format!("for EXTRA in a b; do {name}={value}; done"),
            format!("({name}={value})"),
            format!("{name}={value} | true"),
            format!("f() {{ {name}={value}; }}\nf"),
            format!("#{name}={}", value.replace('\n', " ")),
        ];
        forms[form.index(forms.len())].clone()
    });
    let other = prop::sample::select(vec![
        "GRUB_TIMEOUT=5",
        "GRUB_DISTRIBUTOR=`echo Debian`",
        "GRUB_DISTRIBUTOR=\"$( (echo x) 2>/dev/null || echo 'y)')\"",
        "export GRUB_CMDLINE_LINUX GRUB_TIMEOUT",
        "unset GRUB_CMDLINE_LINUX_DEFAULT",
        ": \"${GRUB_TIMEOUT:=3}\"",
        "cat >/dev/null <<'EOF'\nGRUB_CMDLINE_LINUX=\"it's\nEOF",
        "",
        "   ",
        "# GRUB_CMDLINE_LINUX=\"x systemd.unified_cgroup_hierarchy=0\" \\",
        "set -f",
        ". /dev/null",
        "eval 'GRUB_CMDLINE_LINUX=\"e systemd.unified_cgroup_hierarchy=0\"'",
        "echo hello >/dev/null",
        "GRUB_CMDLINE_LINUX=quiet nosuchcommand 2>/dev/null",
        "[ -n \"$EXTRA\" ] && return 0",
        "readonly GRUB_TIMEOUT",
        "declare GRUB_CMDLINE_XEN=x",
        "read GRUB_CMDLINE_XEN </dev/null",
        "while false; do GRUB_CMDLINE_LINUX=x; done",
        "GRUB_CMDLINE_LINUX=a b=0",
    ]);
    prop_oneof![8 => plain, 3 => formed, 2 => other.prop_map(str::to_owned)]
}

fn files() -> impl Strategy<Value = Files> {
    let file = || (prop::collection::vec(statement(), 0..6), prop::bool::weighted(0.8));
    let lines = |(statements, newline): (Vec<String>, bool)| {
        let mut text = statements.join("\n");
        text.push_str(if newline && !text.is_empty() { "\n" } else { "" });
        text.into_bytes()
    };
    (file(), prop::collection::vec(file(), 0..3)).prop_map(move |(main, drop_ins)| {
        let mut files = vec![(PathBuf::from("/etc/default/grub"), lines(main))];
        for (index, drop_in) in drop_ins.into_iter().enumerate() {
            files.push((PathBuf::from(format!("/etc/default/grub.d/{index}0-x.cfg")), lines(drop_in)));
        }
        files
    })
}

/// Shell text that sources one tree in a process of its own and prints its variables.
fn sourcing(tree: &Path, files: &Files) -> String {
    let mut names: Vec<&PathBuf> = files.iter().map(|(path, _)| path).collect();
    names.sort();
    let mut script = "(".to_owned();
    for path in names {
        script.push_str(&format!(". '{}{}'; ", tree.display(), path.display()));
    }
    for name in NAMES {
        script.push_str(&format!("printf '%s=%s\\000' '{name}' \"${{{name}+=}}${{{name}-}}\"; "));
    }
    script + "printf 'end\\000') 2>/dev/null; printf 'next\\000'\n"
}

fn put(tree: &Path, files: &Files) {
    for (path, text) in files {
        let path = tree.join(path.strip_prefix("/").unwrap());
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
}

/// What a shell makes of each tree; `None` where it gave up.
fn sourced(shell: &str, trees: &[Files]) -> Vec<Option<Variables>> {
    let scratch = tempfile::tempdir().unwrap();
    let empty = scratch.path().join("empty");
    std::fs::create_dir(&empty).unwrap();
    let mut script = String::new();
    for (index, files) in trees.iter().enumerate() {
        let tree = scratch.path().join(index.to_string());
        put(&tree, files);
        script.push_str(&sourcing(&tree, files));
    }
    let script_path = scratch.path().join("script");
    std::fs::write(&script_path, script).unwrap();
    let output = Command::new("env")
        .args(["-i", "PATH=/usr/bin:/bin", shell])
        .arg(&script_path)
        .current_dir(&empty)
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output()
        .unwrap();
    let mut results = Vec::new();
    let mut variables = Variables::new();
    let mut whole = false;
    for field in output.stdout.split(|byte| *byte == 0) {
        match field {
            b"next" => {
                results.push(whole.then(|| std::mem::take(&mut variables)));
                variables.clear();
                whole = false;
            }
            b"end" => whole = true,
            field => {
                if let Some(equals) = field.iter().position(|byte| *byte == b'=') {
                    let name = String::from_utf8_lossy(&field[..equals]).into_owned();
                    // `=` in front marks a variable that is set.
                    variables.insert(name, field[equals + 1..].strip_prefix(b"=").map(<[u8]>::to_vec));
                }
            }
        }
    }
    assert_eq!(results.len(), trees.len(), "{shell} ended early");
    results
}

/// Words, written down independently of the program's own code.
fn split(value: &[u8]) -> Vec<String> {
    let (mut words, mut word, mut quote) = (Vec::new(), Vec::new(), 0_u8);
    let mut bytes = value.iter().copied().peekable();
    while let Some(byte) = bytes.next() {
        match byte {
            b' ' | b'\t' | b'\n' if quote == 0 => words.push(std::mem::take(&mut word)),
            b'\\' if quote != b'\'' && bytes.peek().is_some() => word.extend([byte, bytes.next().unwrap()]),
            b'"' | b'\'' => {
                quote = if quote == byte {
                    0
                } else if quote == 0 {
                    byte
                } else {
                    quote
                };
                word.push(byte);
            }
            byte => word.push(byte),
        }
    }
    words.push(word);
    words
        .into_iter()
        .filter(|word| !word.is_empty())
        .map(|word| String::from_utf8_lossy(&word).into_owned())
        .collect()
}

fn unquoted(word: &str) -> String {
    word.replace(['"', '\''], "")
}

fn is_pin(word: &str) -> bool {
    let word = unquoted(word);
    let (key, value) = word.split_once('=').unwrap_or((&word, ""));
    match key.replace('-', "_").as_str() {
        "systemd.unified_cgroup_hierarchy" => matches!(value, "0" | "OFF" | "no"),
        "systemd.legacy_systemd_cgroup_controller" | "SYSTEMD_CGROUP_ENABLE_LEGACY_FORCE" => true,
        _ => false,
    }
}

fn is_wanted(word: &str) -> bool {
    matches!(
        unquoted(word).as_str(),
        "systemd.unified_cgroup_hierarchy=1" | "systemd.unified_cgroup_hierarchy"
    )
}

fn others(value: &[u8], forced: bool) -> Vec<String> {
    // Our drop-in replaces every word about the hierarchy, also one with a value systemd cannot read.
    let key = |word: &str| unquoted(word).replace('-', "_");
    let replaced = |word: &str| forced && key(word).starts_with("systemd.unified_cgroup_hierarchy=");
    let goes = |word: &String| is_pin(word) || is_wanted(word) || replaced(word);
    split(value).into_iter().filter(|word| !goes(word)).collect()
}

fn shown(files: &Files) -> String {
    let ours = |path: &Path| path.ends_with("zz-cgroup2-migrate.cfg");
    let brief = |(path, text): &(PathBuf, Vec<u8>)| {
        let text = if ours(path) { "(ours)\n".into() } else { String::from_utf8_lossy(text) };
        format!("--- {}\n{text}<<<\n", path.display())
    };
    files.iter().map(brief).collect()
}

fn check_known(defaults: &Defaults, variables: &Variables, shell: &str, files: &Files) -> usize {
    let mut known = 0;
    for name in NAMES {
        let said = &variables[name];
        match defaults.value(name) {
            Value::Known { text, .. } => {
                assert_eq!(Some(&text), said.as_ref(), "{name} under {shell}\n{}", shown(files));
                known += 1;
            }
            Value::Unset => assert_eq!(None, *said, "{name} under {shell}\n{}", shown(files)),
            Value::Opaque { .. } => {}
        }
    }
    known
}

fn check_edit(before: &Variables, after: &Variables, mode: DefaultMode, context: &str) {
    let empty = Vec::new();
    let forced = context.contains("cgroup2-migrate.cfg");
    for name in NAMES {
        let (old, new) = (before[name].as_ref(), after[name].as_ref());
        if old == new {
            continue;
        }
        let (old, new) = (old.unwrap_or(&empty), new.unwrap_or(&empty));
        assert_eq!(others(old, forced), others(new, forced), "{name}\n{context}");
        let about = |value: &[u8]| split(value).iter().any(|word| is_pin(word) || is_wanted(word));
        assert!(ARGUMENTS.contains(&name) || about(old) || about(new), "{name} changed\n{context}");
    }
    for name in ARGUMENTS {
        let new = after[name].as_ref().unwrap_or(&empty);
        assert!(!split(new).iter().any(|word| is_pin(word)), "{name} keeps a pin\n{context}");
    }
    let joined = |variables: &Variables| {
        ARGUMENTS[..2]
            .iter()
            .flat_map(|name| split(variables[*name].as_ref().unwrap_or(&empty)))
            .collect::<Vec<_>>()
    };
    if mode != DefaultMode::Unified {
        let decides = |word: &&String| unquoted(word).starts_with("systemd.unified_cgroup_hierarchy=");
        let line = joined(after);
        let last = line.iter().rfind(decides);
        let bare = line.iter().any(|word| word == "systemd.unified_cgroup_hierarchy");
        assert!(last.map_or(bare, |word| is_wanted(word)), "no v2 in {line:?}\n{context}");
        let count = |line: &[String]| line.iter().filter(|word| is_wanted(word)).count();
        assert!(count(&line) <= count(&joined(before)).max(1), "twice in {line:?}\n{context}");
    }
}

fn edited(
    files: &Files,
    defaults: &Defaults,
    mode: DefaultMode,
    tally: &mut BTreeMap<String, usize>,
) -> Option<Files> {
    let result = match unify(defaults, mode) {
        Ok(result) => result,
        Err(EditError::ReadOnly { .. }) => {
            *tally.entry("read-only".to_owned()).or_default() += 1;
            return None;
        }
        Err(error) => panic!("{error}\n{}", shown(files)),
    };
    let mut after = files.clone();
    for edit in result.edits {
        let kind = if edit.path.ends_with("zz-cgroup2-migrate.cfg") { "drop-in" } else { "in place" };
        *tally.entry(kind.to_owned()).or_default() += 1;
        after.retain(|(path, _)| *path != edit.path);
        after.push((edit.path, edit.after));
    }
    Some(after)
}

fn check_idempotent(files: &Files, mode: DefaultMode) -> Defaults {
    let again = Defaults::parse(files.clone()).unwrap();
    let result = unify(&again, mode).unwrap_or_else(|error| panic!("{error}\n{}", shown(files)));
    assert_eq!(result.edits, vec![], "edited twice\n{}", shown(files));
    again
}

fn batch(trees: &[Files], tally: &mut BTreeMap<String, usize>) {
    let mut jobs = Vec::new();
    for files in trees {
        match Defaults::parse(files.clone()) {
            Ok(defaults) => {
                ends_where_a_command_is_missing(files, &defaults, tally);
                for mode in [DefaultMode::Unified, DefaultMode::NotUnified] {
                    if let Some(after) = edited(files, &defaults, mode, tally) {
                        jobs.push((
                            files.clone(),
                            defaults.clone(),
                            check_idempotent(&after, mode),
                            after,
                            mode,
                        ));
                    }
                }
            }
            Err(error) => panic!("{error}\n{}", shown(files)),
        }
    }
    let before: Vec<Files> = jobs.iter().map(|job| job.0.clone()).collect();
    let after: Vec<Files> = jobs.iter().map(|job| job.3.clone()).collect();
    for shell in ["dash", "bash"] {
        let results = sourced(shell, &before).into_iter().zip(sourced(shell, &after));
        for ((old, new), (files, defaults, again, after, mode)) in results.zip(&jobs) {
            let context = format!("{shell} {mode:?}\n{}=====>\n{}", shown(files), shown(after));
            // A shell that gives up on a file does so before and after.
            assert_eq!(old.is_some(), new.is_some(), "{context}");
            let (Some(old), Some(new)) = (old, new) else {
                *tally.entry(format!("{shell} gave up")).or_default() += 1;
                continue;
            };
            *tally.entry("known values".to_owned()).or_default() += check_known(defaults, &old, shell, files);
            check_known(again, &new, shell, after);
            check_edit(&old, &new, *mode, &context);
        }
    }
}

/// As grub-mkconfig reads them, under `set -e`: what is called surely run and is not there ends both shells.
fn ends_where_a_command_is_missing(files: &Files, defaults: &Defaults, tally: &mut BTreeMap<String, usize>) {
    let is_here = |name: &str| ["/usr/bin", "/bin"].iter().any(|path| Path::new(path).join(name).exists());
    let Some(called) = defaults.called().into_iter().find(|called| !is_here(&called.name)) else { return };
    *tally.entry("ended by a missing command".to_owned()).or_default() += 1;
    let scratch = tempfile::tempdir().unwrap();
    put(scratch.path(), files);
    let script = "set -e; cd \"$1\"; for x in etc/default/grub etc/default/grub.d/*.cfg; do \
                  if [ -e \"$x\" ]; then . \"./$x\"; fi; done";
    for shell in ["dash", "bash"] {
        let mut command = Command::new("env");
        command.args(["-i", "PATH=/usr/bin:/bin", shell, "-c", script, "sh"]).arg(scratch.path());
        let status = command.stdin(Stdio::null()).stderr(Stdio::null()).status().unwrap();
        assert!(!status.success(), "{shell}: {called:?}\n{}", shown(files));
    }
}

fn has(shell: &str) -> bool {
    Command::new(shell).args(["-c", ":"]).status().is_ok_and(|status| status.success())
}

#[test]
fn the_real_shells_agree() {
    if !has("dash") || !has("bash") {
        println!("skipped: this test needs dash and bash");
        return;
    }
    let cases =
        std::env::var("C2M_ORACLE_CASES").ok().and_then(|text| text.parse().ok()).unwrap_or(150_usize);
    let rng = if cases > 150 {
        TestRng::from_seed(RngAlgorithm::ChaCha, &seed())
    } else {
        TestRng::deterministic_rng(RngAlgorithm::ChaCha)
    };
    let mut runner = TestRunner::new_with_rng(Config::default(), rng);
    let strategy = files();
    let mut tally = BTreeMap::new();
    for _ in 0..cases.div_ceil(50) {
        let trees: Vec<Files> = (0..50).map(|_| strategy.new_tree(&mut runner).unwrap().current()).collect();
        batch(&trees, &mut tally);
    }
    println!("{cases} cases: {tally:?}");
}

/// A new seed each time.
fn seed() -> [u8; 32] {
    use std::hash::{BuildHasher as _, RandomState};
    let mut seed = [0; 32];
    for (index, chunk) in seed.chunks_mut(8).enumerate() {
        chunk.copy_from_slice(&RandomState::new().hash_one(index).to_le_bytes());
    }
    println!("seed {seed:?}");
    seed
}
