//! Our drop-in under real shells that stop at any error: what it keeps, and that it leaves nothing behind.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "a test stops at the first surprise"
)]
#![allow(clippy::disallowed_methods, reason = "the drop-in is shell text, so a shell has to judge it")]

use std::path::PathBuf;
use std::process::Command;

use cgroup2_migrate::boot::grub::defaults::{DefaultMode, Defaults, unify};

const PROBE: &str = r#"set -eu; cd "$1"
GRUB_CMDLINE_LINUX=$2; . ./drop-in; first=$GRUB_CMDLINE_LINUX; . ./drop-in
[ "$first" = "$GRUB_CMDLINE_LINUX" ] || echo 'not the same twice: '; unset first
! set | grep -i -e '^c2m' -e '^cgroup2_migrate' -e '^GRUB_CMDLINE_LINUX_' || echo 'left behind'
! command -v cgroup2_migrate_filter || echo 'left behind'
case $- in *f*) echo 'globbing is off' ;; esac
printf %s "$GRUB_CMDLINE_LINUX""#;

fn drop_in(mode: DefaultMode) -> Vec<u8> {
    let file = (PathBuf::from("/etc/default/grub"), b"GRUB_CMDLINE_LINUX=`cat`\n".to_vec());
    let result = unify(&Defaults::parse(vec![file]).unwrap(), mode).unwrap();
    result.edits.into_iter().next().unwrap().after
}

fn check(mode: DefaultMode, value: &str, expected: &str) {
    let scratch = tempfile::tempdir().unwrap();
    std::fs::write(scratch.path().join("drop-in"), drop_in(mode)).unwrap();
    std::fs::write(scratch.path().join("a.c"), "").unwrap();
    for shell in ["dash", "bash"] {
        let Ok(output) = Command::new("env")
            .args(["-i", "PATH=/usr/bin:/bin", shell, "-c", PROBE, shell])
            .arg(scratch.path())
            .arg(value)
            .output()
        else {
            println!("skipped: no env");
            return;
        };
        if output.status.code() == Some(127) {
            println!("skipped: no {shell}");
            continue;
        }
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(String::from_utf8_lossy(&output.stdout), expected, "{shell}: {value}\n{error}");
        assert!(output.status.success(), "{shell}: {value}\n{error}");
    }
}

#[test]
fn pins_go_and_everything_else_stays() {
    for (value, expected) in [
        ("", ""),
        ("quiet", "quiet"),
        ("a systemd.unified_cgroup_hierarchy=0 b", "a b"),
        ("systemd.unified_cgroup_hierarchy=OFF", ""),
        ("a  \tb systemd.legacy_systemd_cgroup_controller", "a  \tb"),
        ("* [a-z]* ? a.c", "* [a-z]* ? a.c"),
        (
            "x=\"systemd.unified_cgroup_hierarchy=0 b\" 'systemd.unified-cgroup-hierarchy=no'",
            "x=\"systemd.unified_cgroup_hierarchy=0 b\"",
        ),
        ("dyndbg=\"file *.c +p\" a\\ b \\", "dyndbg=\"file *.c +p\" a\\ b \\"),
        ("open=\"a b", "open=\"a b"),
        ("open='a \\", "open='a \\"),
        ("e=\"a\\\"b c\" SYSTEMD_CGROUP_ENABLE_LEGACY_FORCE=1 $HOME `x`", "e=\"a\\\"b c\" $HOME `x`"),
        ("-n -e \\n %s \\\\", "-n -e \\n %s \\\\"),
        ("systemd.unified_cgroup_hierarchy=1 a", "systemd.unified_cgroup_hierarchy=1 a"),
        ("grün=ä systemd.unified_cgroup_hierarchy=f", "grün=ä"),
    ] {
        check(DefaultMode::Unified, value, expected);
    }
}

#[test]
fn v2_is_asked_for_once_where_it_is_not_the_default() {
    let one = "systemd.unified_cgroup_hierarchy=1";
    check(DefaultMode::NotUnified, "", one);
    check(DefaultMode::NotUnified, "a systemd.unified_cgroup_hierarchy=0", &format!("a {one}"));
    check(
        DefaultMode::NotUnified,
        &format!("{one} a {one} systemd.unified_cgroup_hierarchy"),
        &format!("a {one}"),
    );
    check(DefaultMode::Unknown, "a ", &format!("a {one}"));
}

#[test]
fn a_long_line_is_no_trouble() {
    let long = "option=value ".repeat(300);
    check(DefaultMode::Unified, &format!("{long}systemd.unified_cgroup_hierarchy=0"), long.trim_end());
}
