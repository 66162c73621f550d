//! What a newcomer types wrong, and what the program answers: the right exit code, and a way on.
#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "makes trees, and stops at the first surprise"
)]

use std::path::Path;

use assert_cmd::Command;
use predicates::prelude::PredicateBooleanExt as _;
use predicates::str::contains;

fn program(arguments: &[&str]) -> Command {
    let mut command = Command::cargo_bin("cgroup2-migrate").unwrap();
    command.args(arguments).env("CGROUP2_MIGRATE_TEST_HOST", "1");
    command
}

fn tree(files: &[(&str, &str)]) -> tempfile::TempDir {
    let tree = tempfile::tempdir().unwrap();
    for (path, text) in files {
        let path = tree.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    tree
}

const PINNED: &str = "GRUB_CMDLINE_LINUX=\"systemd.unified_cgroup_hierarchy=0\"\n";
const ON_HYBRID: [&str; 2] = ["--assume-hierarchy", "hybrid"];

fn over(root: &Path, arguments: &[&str]) -> Command {
    let mut command = program(arguments);
    command.arg("--root").arg(root);
    command
}

#[test]
fn an_id_that_no_finding_has_cannot_be_accepted() {
    for verb in ["check", "plan", "migrate"] {
        program(&[verb, "--accept", "boot-entry-mismach"])
            .assert()
            .code(2)
            .stderr(contains("boot-entry-mismach").and(contains("nearest: boot-entry-mismatch")));
    }
}

#[test]
fn an_id_that_was_not_found_here_is_told() {
    let tree = tree(&[("etc/default/grub", PINNED)]);
    over(tree.path(), &[&["check", "--accept", "no-space"], &ON_HYBRID[..]].concat())
        .assert()
        .code(0)
        .stdout(contains("Accepted, but not found here: no-space"));
}

#[test]
fn a_loader_that_this_version_does_not_know() {
    program(&["plan", "--root", "/tmp", "--assume-loader", "lilo"])
        .assert()
        .code(2)
        .stderr(contains("lilo").and(contains("[possible values: grub]")));
}

#[test]
fn a_number_that_is_none_is_told_what_it_should_be() {
    for version in ["abc", "256~rc1", "252.6-1", "-1"] {
        let option = format!("--systemd={version}");
        program(&["detect", "--line", "quiet", &option])
            .assert()
            .code(2)
            .stderr(contains("a whole number, such as 252").and(contains(version)));
    }
    for verb in ["migrate", "resume", "rollback"] {
        for wait in ["5m", "3601", "-1"] {
            program(&[verb, &format!("--reboot-wait={wait}")])
                .assert()
                .code(2)
                .stderr(contains("a whole number of seconds, 3600 at most").and(contains(wait)));
        }
    }
}

#[test]
fn what_is_typed_does_not_reach_the_terminal_as_it_is() {
    let output = program(&["check", "--root", "/no\u{1b}[31msuch"]).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("/no\\u{1b}[31msuch") && !said.contains('\u{1b}'), "{said}");
}

#[test]
fn verbs_about_the_running_host_take_no_root() {
    for verb in ["migrate", "resume", "rollback", "verify"] {
        program(&[verb, "--root", "/mnt"])
            .assert()
            .code(2)
            .stderr(contains("running host").and(contains("plan --root DIR --assume-hierarchy")));
        program(&[verb, "--help"]).assert().code(0).stdout(contains("--root").not());
    }
}

/// Both by `--config` and as a fragment: one reader.
#[track_caller]
fn config_error(text: &str, words: &[&str]) {
    let tree = tree(&[("mine.toml", text)]);
    let file = tree.path().join("mine.toml");
    let output = over(tree.path(), &["check", "--config", file.to_str().unwrap()]).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains(file.to_str().unwrap()), "{said}");
    for word in words {
        assert!(said.contains(word), "no `{word}`: {said}");
    }
}

#[test]
fn a_setting_of_the_wrong_type_is_named_with_its_place() {
    config_error(
        "# ours\n[reboot]\nwait_seconds = \"5m\"\n",
        &["mine.toml:3: reboot.wait_seconds: ", "string \"5m\"", "a whole number"],
    );
    config_error("accept = true\n", &["mine.toml:1: accept: ", "boolean `true`", "a list"]);
    config_error("accept = [\"no-space\",\n 3]\n", &["mine.toml:2: accept[1]: ", "integer `3`", "a text"]);
    config_error("[reboot]\nwait_seconds = -1\n", &["mine.toml:2: reboot.wait_seconds: ", "`-1`"]);
    config_error("reboot = 3\n", &["mine.toml:1: reboot: ", "integer `3`", "a table"]);
}

#[test]
fn a_setting_of_a_wrong_name_is_named_with_the_nearest() {
    config_error("[reboot]\nwait_second = 3\n", &["mine.toml:2: ", "`wait_second`", "nearest: wait_seconds"]);
    config_error("acept = []\n", &["mine.toml:1: ", "`acept`", "nearest: accept"]);
    config_error(
        "accept = [\"no-spaces\"]\n",
        &["mine.toml: accept: no finding has the id `no-spaces`", "nearest: no-space"],
    );
}

#[test]
fn text_that_is_no_toml_is_named_with_its_line() {
    config_error("[reboot\n", &["mine.toml:1: "]);
}

const MENU: &str = "set default=0\nset timeout=1\nmenuentry 'Debian' {\n linux /vmlinuz root=/dev/sda1 ro \
                    systemd.unified_cgroup_hierarchy=0\n}\n";

#[test]
fn verbose_says_what_was_read_and_what_is_run() {
    let tree = tree(&[("etc/default/grub", PINNED), ("boot/grub/grub.cfg", MENU)]);
    let quiet = over(tree.path(), &[&["plan"], &ON_HYBRID[..]].concat()).output().unwrap();
    let loud = over(tree.path(), &[&["plan", "-v"], &ON_HYBRID[..]].concat()).output().unwrap();
    assert_eq!((quiet.status.code(), &quiet.stdout), (Some(0), &loud.stdout), "what is printed is the same");
    assert!(quiet.stderr.is_empty());
    let said = String::from_utf8(loud.stderr).unwrap();
    for words in [
        "hierarchy: hybrid",
        "settings of GRUB: /etc/default/grub",
        "menu of GRUB: /boot/grub/grub.cfg",
        "next entry: Debian (default 0 in grub.cfg): root=/dev/sda1",
        "systemd: ",
    ] {
        assert!(said.contains(words), "no `{words}`: {said}");
    }
    program(&["detect", "-v"]).assert().stderr(contains("read: hierarchy: "));
}

#[test]
fn an_image_is_told_what_its_boot_entry_would_do() {
    let image = tree(&[("etc/default/grub", PINNED), ("boot/grub/grub.cfg", MENU)]);
    let root = image.path().display().to_string();
    over(image.path(), &["detect", "--exit-code"]).assert().code(12).stdout(
        contains("its boot entry `Debian` (default 0 in grub.cfg) would lead to cgroup v1 by")
            .and(contains("as an assumption: no systemd was found"))
            .and(contains(format!("detect --root {root} --line")))
            .and(contains(format!("plan --root {root} --assume-hierarchy"))),
    );
    let library = "usr/lib/systemd/libsystemd-shared-249.so";
    let read = tree(&[("boot/grub/grub.cfg", MENU), (library, "\0default-hierarchy=unified\0")]);
    over(read.path(), &["detect", "--json"])
        .assert()
        .code(0)
        .stdout(contains("would lead to hybrid").and(contains("read as the one in the tree: systemd 249")));
    let empty = tree(&[("etc/hostname", "x\n")]);
    over(empty.path(), &["detect"]).assert().code(0).stdout(
        contains("what its boot entry would do is not known: no generated grub.cfg").and(contains("to do:")),
    );
}

#[test]
fn the_exit_code_of_a_host_that_goes_down_is_in_the_help() {
    program(&["migrate", "--help"])
        .assert()
        .code(0)
        .stdout(contains("0 as soon as the host is going down").and(contains("cgroup2-migrate status")));
}
