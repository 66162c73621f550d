//! Bad input of every kind: a clear error, the right exit code, and nothing changed.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on has failed")]
#![allow(clippy::disallowed_methods, reason = "makes trees and starts the program as another user")]

#[path = "support/sim.rs"]
mod sim;

use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Output};

use cgroup2_migrate::cli::Exit;
use cgroup2_migrate::host::RootedFs;
use cgroup2_migrate::host::fake::{Fault, Fuse};
use cgroup2_migrate::migration::decide::Ending;
use cgroup2_migrate::migration::journal::Options;
use cgroup2_migrate::migration::lock::Lock;
use cgroup2_migrate::migration::phase::PhaseName;
use sim::{Sim, Verb};

const PINNED: &str = "GRUB_CMDLINE_LINUX=\"systemd.unified_cgroup_hierarchy=0\"\n";
const JOURNAL: &str = "var/lib/cgroup2-migrate/journal.json";

fn program(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_cgroup2-migrate"));
    command.args(arguments).env_remove("RUST_BACKTRACE").env("CGROUP2_MIGRATE_TEST_HOST", "1");
    command
}

fn said(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// Runs a verb over a tree: its exit code and all it said.
fn over(tree: &Path, arguments: &[&str]) -> (i32, String) {
    let output = program(arguments).arg("--root").arg(tree).output().unwrap();
    (output.status.code().unwrap(), said(&output))
}

fn status_of(journal: &str) -> (i32, String, String) {
    let sim = Sim::new(PINNED);
    sim.put(JOURNAL, journal);
    let (code, said) = over(&sim.path("/"), &["status"]);
    (code, said, sim.text(JOURNAL))
}

fn plan_of(settings: &str) -> (i32, String) {
    let tree = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(tree.path().join("etc/default")).unwrap();
    std::fs::write(tree.path().join("etc/default/grub"), settings).unwrap();
    over(tree.path(), &["plan", "--assume-hierarchy", "hybrid", "--assume-loader", "grub"])
}

/// The words are there, and neither GRUB nor systemd would see them: that is known before anything is written.
#[test]
fn a_change_that_would_not_lead_to_v2_is_refused_beforehand() {
    let pin = "systemd.unified_cgroup_hierarchy=0";
    for (settings, words) in [
        // GRUB ends a command where a line ends.
        (format!("GRUB_CMDLINE_LINUX=\"quiet\n{pin}\nsplash\"\n"), "would hand over `quiet`"),
        // A quote that is never closed.
        (
            format!("GRUB_CMDLINE_LINUX=\"it's quiet\"\nGRUB_CMDLINE_LINUX_DEFAULT=\"{pin}\"\n"),
            "could not read",
        ),
        (
            format!("GRUB_CMDLINE_LINUX=\"it\\\\'s\"\nGRUB_CMDLINE_LINUX_DEFAULT=\"{pin}\"\n"),
            "would hand over",
        ),
    ] {
        let (code, said) = plan_of(&settings);
        assert!(code == 3 && said.contains("[grub-settings-not-editable]") && said.contains(words), "{said}");
    }
}

#[test]
fn a_torn_journal_is_refused_and_kept() {
    let (code, said, kept) = status_of("{\"schema\": 1, \"txn\": \"2026");
    assert_eq!(code, 1, "{said}");
    assert!(said.contains("journal.json: not a whole journal: it is cut off"), "{said}");
    assert_eq!(kept, "{\"schema\": 1, \"txn\": \"2026");
}

#[test]
fn an_empty_journal_and_a_damaged_one_have_words_of_their_own() {
    for (journal, words) in [("", "the file is empty"), ("{\"schema\": 1, \u{0}\u{0}", "it is damaged")] {
        let (code, said, kept) = status_of(journal);
        assert!(code == 1 && said.contains(words) && said.contains("original"), "{said}");
        assert_eq!(kept, journal);
    }
}

#[test]
fn a_journal_of_something_else_or_of_a_later_version_is_refused() {
    let (code, said, _) = status_of("{\"phase\":\"failed\",\"reboots\":2}");
    assert!(code == 1 && said.contains("schema none"), "{said}");
    let (code, said, _) = status_of("{\"schema\": 99}");
    assert!(code == 1 && said.contains("schema 99") && said.contains("knows schema 1"), "{said}");
}

#[test]
fn an_unknown_key_in_a_journal_is_refused() {
    let sim = Sim::new(PINNED);
    sim.run_well(Verb::Migrate);
    let journal = sim.text(JOURNAL).replacen("\"txn\"", "\"surprise\": 1,\n  \"txn\"", 1);
    let (code, said, _) = status_of(&journal);
    assert!(code == 1 && said.contains("surprise") && said.contains("whole, but"), "{said}");
}

#[test]
fn a_torn_journal_stops_every_verb_that_would_write() {
    let sim = Sim::new(PINNED);
    sim.put(JOURNAL, "{");
    let before = sim.boot_files();
    for verb in [Verb::Migrate, Verb::Resume, Verb::ResumeAtBoot, Verb::Rollback] {
        assert!(sim.run(verb, &Fuse::counting()).is_err(), "{verb:?}");
    }
    assert_eq!((sim.boot_files(), sim.text(JOURNAL)), (before, "{".to_owned()));
}

#[test]
fn two_runs_at_once() {
    let sim = Sim::new(PINNED);
    sim.run_well(Verb::Migrate);
    let fs = RootedFs::new(sim.path("/"));
    let _first = Lock::take(&fs, "migrate").unwrap();
    let error = anyhow::Error::from(Lock::take(&fs, "resume").unwrap_err());
    assert!(error.to_string().contains(&format!("process {}, migrate", std::process::id())), "{error}");
    assert_eq!(Exit::of(&error), Exit::TryLater);
}

#[test]
fn not_root() {
    if !nix::unistd::geteuid().is_root() {
        println!("SKIP: only root can become somebody else");
        return;
    }
    // Somebody else cannot look into the build directory everywhere.
    let place = tempfile::tempdir().unwrap();
    let copy = place.path().join("cgroup2-migrate");
    // By another process: while this one has the copy open for writing, a child of another thread may too, and then it
    // cannot be run.
    let copied = Command::new("cp").arg(env!("CARGO_BIN_EXE_cgroup2-migrate")).arg(&copy).status();
    assert!(copied.unwrap().success());
    std::fs::set_permissions(place.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    for verb in ["migrate", "resume", "rollback"] {
        let mut command = Command::new(&copy);
        let output = command.arg(verb).uid(65534).gid(65534).current_dir("/").output().unwrap();
        assert_eq!(output.status.code(), Some(1));
        assert!(said(&output).contains(&format!("sudo cgroup2-migrate {verb}")), "{}", said(&output));
    }
}

#[test]
fn an_empty_tree_with_v2_has_nothing_to_do() {
    let empty = tempfile::tempdir().unwrap();
    for verb in ["check", "plan"] {
        let (code, said) = over(empty.path(), &[verb, "--assume-hierarchy", "unified"]);
        assert_eq!(code, 0, "{said}");
    }
}

#[test]
fn what_a_tree_says_of_a_run_is_not_believed() {
    let tree = tempfile::tempdir().unwrap();
    for (path, text) in [
        ("etc/default/grub", PINNED),
        ("etc/os-release", "ID=debian\n"),
        ("run/systemd/container", "lxc\n"),
        ("proc/1/comm", "init\n"),
        ("proc/sys/kernel/osrelease", "4.4.0-19041-Microsoft\n"),
        (".dockerenv", ""),
    ] {
        let path = tree.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    let (code, said) =
        over(tree.path(), &["plan", "--assume-hierarchy", "hybrid", "--assume-loader", "grub"]);
    assert_eq!(code, 0, "{said}");
}

#[test]
fn the_own_root_is_this_host() {
    let output = |arguments: &[&str]| {
        let output = program(arguments).output().unwrap();
        (output.status.code(), String::from_utf8(output.stdout).unwrap())
    };
    assert_eq!(output(&["check", "--json", "--root", "/"]), output(&["check", "--json"]));
    let (code, _) = output(&["check", "--root", "/proc/self/root", "--assume-hierarchy", "hybrid"]);
    assert_eq!(code, Some(1));
}

#[test]
fn carriage_returns() {
    let (code, said) = plan_of("GRUB_CMDLINE_LINUX=\"systemd.unified_cgroup_hierarchy=0\"\r\n");
    assert_eq!(code, 3, "{said}");
    assert!(said.contains("/etc/default/grub:1") && said.contains("dos2unix"), "{said}");
}

#[test]
fn a_file_no_shell_can_read() {
    let (code, said) = plan_of("GRUB_CMDLINE_LINUX=\"systemd.unified_cgroup_hierarchy=0\n");
    assert_eq!(code, 3, "{said}");
    assert!(said.contains("grub-settings-unreadable") && said.contains("/etc/default/grub:1"), "{said}");
}

#[test]
fn a_file_that_changed_between_plan_and_write() {
    let sim = Sim::new(PINNED);
    sim.options.replace(Options { until: Some(PhaseName::Planned), ..Options::default() });
    assert!(matches!(sim.run_well(Verb::Migrate), Ending::Paused(_)));
    sim.put("etc/default/grub", "GRUB_CMDLINE_LINUX=\"of a colleague\"\n");
    let before = sim.boot_files();
    let ending = sim.run_well(Verb::Resume);
    assert!(matches!(&ending, Ending::RolledBack(why) if why.contains("/etc/default/grub")), "{ending:?}");
    assert_eq!((sim.boot_files(), sim.reboots.get()), (before, 0));
}

#[test]
fn a_deleted_file_is_not_called_changed() {
    let sim = Sim::new(PINNED);
    sim.options.replace(Options { until: Some(PhaseName::Planned), ..Options::default() });
    sim.run_well(Verb::Migrate);
    std::fs::remove_file(sim.path("etc/default/grub")).unwrap();
    let ending = sim.run_well(Verb::Resume);
    let words = "/etc/default/grub was deleted by someone else";
    assert!(matches!(&ending, Ending::RolledBack(why) if why.contains(words)), "{ending:?}");
}

#[test]
fn a_file_deleted_since_is_told_on_the_way_back_and_so_is_its_original() {
    let sim = Sim::new(PINNED);
    sim.run_well(Verb::Migrate);
    sim.settle();
    std::fs::remove_file(sim.path("etc/default/grub")).unwrap();
    let Ending::NeedsPerson(why) = sim.run_well(Verb::Rollback) else { panic!("not a person") };
    assert!(why.contains("was deleted") && why.contains("00.original") && !why.contains("diff"), "{why}");
    let original = sim.text(&format!("var/lib/cgroup2-migrate/{}/00.original", sim.journal().txn));
    sim.put("etc/default/grub", &original);
    assert_eq!(sim.run_well(Verb::Rollback), Ending::GoingDown);
    assert!(matches!(sim.settle(), Ending::RolledBack(_)));
}

#[test]
fn disk_full_or_read_only_at_every_write() {
    for fault in [Fault::DiskFull, Fault::ReadOnly] {
        for k in 1..100 {
            let sim = Sim::new(PINNED);
            let before = sim.boot_files();
            let fuse = Fuse::at(k, fault);
            let ending = sim.run(Verb::Migrate, &fuse);
            if fuse.effects() < k {
                break;
            }
            match ending {
                Ok(Ending::GoingDown) => panic!("{fault:?} at {k} went unnoticed: {:?}", fuse.log()),
                Ok(Ending::RolledBack(_)) => assert_eq!(sim.boot_files(), before),
                Ok(_) | Err(_) => assert_eq!(sim.reboots.get(), 0),
            }
        }
    }
}

#[test]
fn settings_with_an_unknown_key() {
    for (text, word) in [("wait_secnds = 3", "wait_secnds"), ("wait_seconds = 3601", "3600 at most")] {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("x.toml");
        std::fs::write(&file, format!("[reboot]\n{text}\n")).unwrap();
        let (code, said) = over(directory.path(), &["check", "--config", file.to_str().unwrap()]);
        assert_eq!(code, 1, "{said}");
        assert!(said.contains(file.to_str().unwrap()) && said.contains(word), "{said}");
    }
}

#[test]
fn wrong_usage() {
    for arguments in [
        &["migrate", "--until", "nowhere"][..],
        &["resume", "--reboot-wait", "99999"],
        &["plan", "--assume-hierarchy", "v2"],
        &["dance"],
    ] {
        assert_eq!(program(arguments).output().unwrap().status.code(), Some(2), "{arguments:?}");
    }
}

#[test]
fn no_stop_where_nothing_can_be_held() {
    for phase in ["rebooting", "done", "rolling-back", "rolled-back", "needs-person"] {
        let output = program(&["migrate", "--until", phase]).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{phase}");
        assert!(said(&output).contains("planned, staged, booted, verified"), "{}", said(&output));
    }
}

#[test]
fn a_root_that_is_none() {
    let tree = tempfile::tempdir().unwrap();
    let file = tree.path().join("image.raw");
    std::fs::write(&file, "").unwrap();
    for verb in ["detect", "check", "plan", "status"] {
        let (code, said) = over(&tree.path().join("gone"), &[verb]);
        assert!(
            code == 1 && said.contains("--root") && said.contains("gone: No such file"),
            "{verb}: {said}"
        );
        let (code, said) = over(&file, &[verb]);
        assert!(code == 1 && said.contains("image.raw: not a directory"), "{verb}: {said}");
    }
}

#[test]
fn the_file_of_config_is_one_of_this_machine_and_directory() {
    let (tree, here) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    std::fs::write(here.path().join("mine.toml"), "surprise = 1\n").unwrap();
    for name in ["mine.toml".to_owned(), here.path().join("mine.toml").display().to_string()] {
        let mut command = program(&["check", "--config", &name, "--root"]);
        let output = command.arg(tree.path()).current_dir(here.path()).output().unwrap();
        assert_eq!(output.status.code(), Some(1));
        assert!(said(&output).contains("mine.toml:1: ") && said(&output).contains("surprise"), "{name}");
    }
}

#[test]
fn nobody_reads_on() {
    let mut child = program(&["detect", "--json"]).stdout(std::process::Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

fn finding(sim: &Sim, id: &str) -> String {
    let (_, plan) = sim.plan();
    assert!(plan.files.is_empty(), "{:?}", plan.files);
    let found = plan.findings.iter().find(|finding| finding.id == id);
    found.unwrap_or_else(|| panic!("no {id}: {:?}", plan.findings)).detail.clone()
}

#[test]
fn a_menu_that_cannot_be_read_is_not_called_missing() {
    let sim = Sim::new(PINNED);
    std::fs::remove_file(sim.path("boot/grub/grub.cfg")).unwrap();
    std::fs::create_dir(sim.path("boot/grub/grub.cfg")).unwrap();
    assert_eq!(finding(&sim, "boot-menu-unreadable"), "read /boot/grub/grub.cfg: not a regular file");
    let arguments = ["plan", "--assume-hierarchy", "hybrid", "--assume-loader", "grub"];
    let (code, said) = over(&sim.path("/"), &arguments);
    assert!(code == 0 && said.contains("WARNING [boot-menu-unreadable]"), "{said}");
}

#[test]
fn an_entry_that_loads_no_linux_is_found_before_anything_is_written() {
    let sim = Sim::new(PINNED);
    let xen = "set default=0\nmenuentry 'Xen' {\n multiboot2 /xen.gz\n module2 /vmlinuz root=/dev/sda1\n}\n";
    sim.put("boot/grub/grub.cfg", xen);
    assert!(finding(&sim, "boot-entry-not-linux").starts_with("Xen (default 0 in grub.cfg)"));
}

#[test]
fn an_entry_that_no_setting_reaches_is_found_before_anything_is_written() {
    let sim = Sim::new(PINNED);
    let by_hand = format!(
        "set default=0\nset timeout=1\n### BEGIN /etc/grub.d/40_custom ###\n{}### END /etc/grub.d/40_custom ###\n",
        "menuentry 'Mine' {\n linux /vmlinuz-6.1.0-32-amd64 root=/dev/sda1 systemd.unified_cgroup_hierarchy=0\n}\n"
    );
    sim.put("boot/grub/grub.cfg", &by_hand);
    assert!(finding(&sim, "boot-entry-by-hand").contains("Mine (default 0 in grub.cfg)"));
    sim.put("boot/grub/grub.cfg", &by_hand.replace("40_custom", "10_linux"));
    let (_, plan) = sim.plan();
    assert!(plan.files.len() == 1 && plan.findings.is_empty(), "{:?}", plan.findings);
}

#[test]
fn a_pin_that_someone_took_out_already_is_not_answered_with_an_argument() {
    let sim = Sim::new(PINNED);
    for path in ["etc/default/grub", "boot/grub/grub.cfg"] {
        let text = sim.text(path).replace("systemd.unified_cgroup_hierarchy=0", "");
        sim.put(path, &text);
    }
    assert!(finding(&sim, "only-reboot-left").contains("not rebooted"));
}
