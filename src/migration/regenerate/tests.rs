//! The generator is made up; what it writes is what Debian's wrote.

use std::cell::Cell;

use super::*;
use crate::host::fake::{FakeClock, FakeInit, FakeRunner};
use crate::host::fake_mounts::FakeMounts;
use crate::host::{Fs, RootedFs};

const MENU: &str = include_str!("../../../tests/fixtures/grub-menu/bookworm-default/grub.cfg");
const LIVE: &str = "/boot/grub/grub.cfg";

/// Where the tool is told to write by this process at the time 0.
fn scratch() -> String {
    format!("{LIVE}.cgroup2-migrate-{}-0", std::process::id())
}

const OF_A_KILLED_RUN: &str = "grub.cfg.cgroup2-migrate-1-0";

struct Node {
    root: tempfile::TempDir,
}

impl Node {
    fn new() -> Self {
        let node = Self { root: tempfile::tempdir().unwrap() };
        node.fs().create_directory(Path::new("/boot/grub"), 0o755).unwrap();
        node.put(LIVE, MENU);
        for file in ["vmlinuz-6.1.0-37-amd64", "initrd.img-6.1.0-37-amd64"] {
            node.put(&format!("/boot/{file}"), "");
        }
        node
    }

    fn fs(&self) -> RootedFs {
        RootedFs::new(self.root.path())
    }

    fn put(&self, path: &str, text: &str) {
        self.fs().replace(Path::new(path), text.as_bytes(), &Expect::Anything, None).unwrap();
    }

    /// A generator that writes `text` and ends with `code`.
    fn generator(&self, text: &'static str, code: i32) -> FakeRunner<'_> {
        let ended = move |code| Finished {
            code: Some(code),
            stdout: Vec::new(),
            stderr: b"Found linux image\nboom\n".to_vec(),
        };
        let write = move |invocation: &Invocation| {
            assert_eq!(invocation.argv, ["grub-mkconfig", "-o", &scratch()]);
            assert!(invocation.changes_host);
            self.put(&format!("{}.new", scratch()), "half");
            if !text.is_empty() {
                self.put(&scratch(), text);
            }
            Ok(ended(code))
        };
        FakeRunner::new().on("grub-mkconfig", write).ends("grub-script-check", 0, "", "")
    }

    fn regenerate(&self, runner: &FakeRunner<'_>, wanted: &Wanted<'_>) -> Result<Vec<u8>, RegenerateError> {
        let (fs, clock, init, mounts) = (self.fs(), FakeClock::at(0), FakeInit::new(), FakeMounts::default());
        let host = Host { fs: &fs, runner, clock: &clock, mounts: &mounts, init: &init };
        let made = regenerate(host, Path::new(LIVE), wanted);
        let left = fs.list(Path::new("/boot/grub")).unwrap();
        assert!(
            left.iter().all(|name| name == "grub.cfg" || name == OF_A_KILLED_RUN),
            "left behind: {left:?}"
        );
        assert_eq!(fs.read(Path::new(LIVE)).unwrap(), MENU.as_bytes(), "the live file was written");
        made
    }
}

fn quiet(line: &str) -> bool {
    line.ends_with(" quiet")
}

#[test]
fn a_fit_menu_is_handed_out_and_nothing_is_left() {
    let node = Node::new();
    let runner = node.generator(MENU, 0);
    assert_eq!(node.regenerate(&runner, &Wanted::new("is quiet", &quiet)).unwrap(), MENU.as_bytes());
    assert_eq!(runner.calls()[1].argv, ["grub-script-check", &scratch()]);
}

#[test]
fn what_a_killed_run_still_writes_is_not_taken_for_ours() {
    let node = Node::new();
    node.put(&format!("/boot/grub/{OF_A_KILLED_RUN}"), MENU);
    let runner = node.generator("", 0);
    let error = node.regenerate(&runner, &Wanted::anything()).unwrap_err();
    assert!(matches!(error, RegenerateError::NothingWritten { .. }), "{error}");
}

#[test]
fn a_generator_that_fails_is_quoted() {
    let node = Node::new();
    let error = node.regenerate(&node.generator(MENU, 1), &Wanted::anything()).unwrap_err();
    let text = "generate /boot/grub/grub.cfg: grub-mkconfig ended with code 1: Found linux image\nboom";
    assert_eq!(error.to_string(), text);
}

#[test]
fn case_041_a_generator_that_lies_is_found_out() {
    let node = Node::new();
    for text in ["#\n", "menuentry 'Linux' {\n linux /vmlinuz ro quiet\n", "menuentry A { linux /k quiet }\n"]
    {
        let error = node.regenerate(&node.generator(text, 0), &Wanted::anything()).unwrap_err();
        assert!(matches!(error, RegenerateError::Unfit { .. }), "{error}");
    }
}

#[test]
fn a_menu_without_our_words_is_refused_but_not_on_the_way_back() {
    let node = Node::new();
    let wanted = Wanted::new("leads to cgroup v2", &|_| false);
    let error = node.regenerate(&node.generator(MENU, 0), &wanted).unwrap_err().to_string();
    assert!(error.contains("Debian GNU/Linux` will boot") && error.contains("leads to cgroup v2"), "{error}");
    assert!(node.regenerate(&node.generator(MENU, 0), &Wanted::anything()).is_ok());
}

#[test]
fn a_menu_whose_kernel_is_not_there_is_refused_on_both_ways() {
    let node = Node::new();
    node.fs().remove(Path::new("/boot/initrd.img-6.1.0-37-amd64"), &Expect::Anything).unwrap();
    for wanted in [Wanted::new("is quiet", &quiet), Wanted::anything()] {
        let error = node.regenerate(&node.generator(MENU, 0), &wanted).unwrap_err().to_string();
        assert!(error.contains("/boot/initrd.img-6.1.0-37-amd64 cannot be found"), "{error}");
    }
    let accepted = ["boot-kernel-missing".to_owned()];
    let wanted = Wanted::new("is quiet", &quiet).accepting(&accepted);
    assert!(node.regenerate(&node.generator(MENU, 0), &wanted).is_ok());
}

#[test]
fn a_menu_that_would_wait_for_somebody_is_refused() {
    let menus = [
        (
            include_str!("../../../tests/fixtures/grub-menu/bookworm-default/grub.cfg"),
            "timeout",
            "boot-menu-waits",
        ),
        (MENU, "password", "boot-entry-locked"),
    ];
    for (menu, word, id) in menus {
        let node = Node::new();
        let waits = menu.replace("set timeout=5", "set timeout=-1");
        let locked = format!("{menu}set superusers=root\n");
        let text: &'static str = Box::leak((if word == "timeout" { waits } else { locked }).into_boxed_str());
        let error = node.regenerate(&node.generator(text, 0), &Wanted::new("is quiet", &quiet)).unwrap_err();
        assert!(error.to_string().contains(word), "{error}");
        let accepted = [id.to_owned()];
        let wanted = Wanted::new("is quiet", &quiet).accepting(&accepted);
        assert!(node.regenerate(&node.generator(text, 0), &wanted).is_ok(), "{word}");
    }
}

#[test]
fn grub_script_check_has_the_last_word() {
    let node = Node::new();
    let runner = node.generator(MENU, 0).ends("grub-script-check", 1, "", "Syntax error at line 7\n");
    let error = node.regenerate(&runner, &Wanted::anything()).unwrap_err().to_string();
    assert!(error.contains("grub-script-check ended with code 1: Syntax error at line 7"), "{error}");
}

#[test]
fn missing_tools_name_their_package_and_hanging_ones_end() {
    let node = Node::new();
    let error = node.regenerate(&FakeRunner::new(), &Wanted::anything()).unwrap_err().to_string();
    assert!(error.contains("grub-mkconfig, grub2-mkconfig") && error.contains("grub2-common"), "{error}");
    let half = FakeRunner::new().ends("grub-mkconfig", 0, "", "");
    let error = node.regenerate(&half, &Wanted::anything()).unwrap_err().to_string();
    assert!(error.contains("grub-script-check") && error.contains("package grub-common"), "{error}");
    let hanging = FakeRunner::new().hangs("grub-mkconfig").ends("grub-script-check", 0, "", "");
    let error = node.regenerate(&hanging, &Wanted::anything()).unwrap_err();
    assert!(matches!(error, RegenerateError::Run(RunError::TimedOut { .. })), "{error}");
}

#[test]
fn the_checker_is_not_asked_about_a_file_that_is_not_there() {
    let node = Node::new();
    let asked = Cell::new(false);
    let runner = node.generator("", 0).on("grub-script-check", |_| {
        asked.set(true);
        Ok(Finished { code: Some(0), stdout: Vec::new(), stderr: Vec::new() })
    });
    assert!(node.regenerate(&runner, &Wanted::anything()).is_err());
    assert!(!asked.get());
}

#[test]
fn only_the_end_of_a_long_output_is_shown() {
    let long = "ü".repeat(3000) + "end";
    let shown = shown(long.as_bytes());
    assert!(shown.len() <= SHOWN_OUTPUT && shown.ends_with("üend"));
    assert_eq!(super::shown(b" \n"), "it said nothing");
}
