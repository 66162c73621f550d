//! The `reboot` sections of the fixtures and of the cases from elsewhere, on a made-up machine.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test stops at the first surprise")]

#[path = "support/cases.rs"]
mod cases;
#[path = "support/sim.rs"]
mod sim;

use std::path::Path;

use cases::{BootFiles, Case, Logind, Reboot, Run, Step};
use cgroup2_migrate::boot::hierarchy::Hierarchy;
use cgroup2_migrate::cli::Exit;
use cgroup2_migrate::facts::bootloader::locate;
use cgroup2_migrate::host::fake::Fuse;
use cgroup2_migrate::host::{Inhibitor, RootedFs};
use cgroup2_migrate::migration::decide::Ending;
use cgroup2_migrate::migration::journal::Options;
use serde::Deserialize;
use sim::{Sim, Verb};

const JOURNAL: &str = "var/lib/cgroup2-migrate/journal.json";

/// `dbus-replies.json`; keys of no concern here are not read.
#[derive(Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct Replies {
    list_inhibitors: Vec<(String, String, String, String, u32, u32)>,
    reboot: Refusal,
}

#[derive(Default, Deserialize)]
struct Refusal {
    error: Option<String>,
}

impl Replies {
    fn read(case: &Path) -> Self {
        let file = case.join("dbus-replies.json");
        let Ok(text) = std::fs::read_to_string(&file) else { return Self::default() };
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
    }

    fn locks(&self) -> Vec<Inhibitor> {
        let rows = self.list_inhibitors.iter().cloned();
        rows.map(|(what, who, why, mode, uid, pid)| Inhibitor { what, who, why, mode, uid, pid }).collect()
    }
}

/// What a step came to.
struct Outcome {
    exit: Exit,
    said: String,
}

fn check(case: &Case) -> Result<(), String> {
    let expect = case.reboot().ok_or_else(|| case.lacks("reboot"))?;
    if let Some(menu) = &expect.menu {
        let located = locate(&RootedFs::new(&case.path)).unwrap().unwrap();
        assert_eq!(&located.grub_cfg, menu, "{}", case.path.display());
    }
    if !expect.script.is_empty() {
        play(&case.path, expect);
    }
    Ok(())
}

fn play(case: &Path, expect: &Reboot) {
    let sim = machine(case, expect);
    let replies = Replies::read(case);
    let (before, originals) = (sim.boot_files(), contents(&sim, expect));
    for (number, step) in expect.script.iter().enumerate() {
        let what = format!("{}: step {}, {:?}", case.display(), number + 1, step.run);
        set_logind(&sim, step.logind, &replies);
        let outcome = take(&sim, step);
        check_outcome(step, outcome.as_ref(), &what);
        check_machine(&sim, step, &before, &what);
    }
    assert_eq!(sim.reboots.get(), expect.reboots, "{}: reboots", case.display());
    assert_eq!(contents(&sim, expect), originals, "{}", case.display());
}

fn machine(case: &Path, expect: &Reboot) -> Sim {
    let read = |name: &str| std::fs::read_to_string(case.join(name));
    let boot_ids = match read("state/boot_id_before") {
        Ok(first) => vec![first, read("proc/sys/kernel/random/boot_id").unwrap()],
        Err(_) => Vec::new(),
    };
    let sim = Sim::over(case, expect.machine.default.unwrap_or(Hierarchy::Unified), boot_ids);
    sim.stuck_at.set(expect.machine.next_boots);
    sim.mkconfig_writes.replace(expect.machine.mkconfig_writes.clone());
    sim
}

fn contents(sim: &Sim, expect: &Reboot) -> Vec<Vec<u8>> {
    expect.unchanged.iter().map(|path| std::fs::read(sim.path(path.to_str().unwrap())).unwrap()).collect()
}

fn set_logind(sim: &Sim, logind: Logind, replies: &Replies) {
    let locks_if = |wanted| if logind == wanted { replies.locks() } else { Vec::new() };
    sim.locks.replace(locks_if(Logind::Locked));
    sim.late_locks.replace(locks_if(Logind::Refuses));
    let refusal = replies.reboot.error.clone().filter(|_| logind == Logind::Refuses);
    sim.init_refuses.replace(refusal.map(|name| format!("{name}: ")));
    sim.going_down.set(logind == Logind::GoingDown);
}

fn take(sim: &Sim, step: &Step) -> Option<Outcome> {
    let verb = match step.run {
        Run::Boot => {
            sim.boot();
            return None;
        }
        Run::Migrate => Verb::Migrate,
        Run::Resume => Verb::Resume,
        Run::ResumeAtBoot => Verb::ResumeAtBoot,
        Run::Rollback => Verb::Rollback,
    };
    sim.options.replace(Options { until: step.until, no_reboot: step.no_reboot, ..Options::default() });
    blocked(sim, verb).or_else(|| Some(outcome(&sim.run_well(verb))))
}

/// A migration that blockers forbid. That is found before anything is written.
fn blocked(sim: &Sim, verb: Verb) -> Option<Outcome> {
    if verb != Verb::Migrate || sim.path(JOURNAL).exists() {
        return None;
    }
    let (_, plan) = sim.plan();
    let blockers = plan.blockers(&[]);
    if blockers.is_empty() {
        return None;
    }
    assert!(sim.run(verb, &Fuse::counting()).is_err() && sim.effects.borrow().is_empty());
    assert!(!sim.path(JOURNAL).exists() && plan.files.is_empty());
    let unsupported = blockers.iter().any(|finding| finding.is_unsupported());
    let exit = if unsupported { Exit::Unsupported } else { Exit::Blocked };
    Some(Outcome { exit, said: format!("{blockers:?}") })
}

fn outcome(ending: &Ending) -> Outcome {
    let said = match ending {
        Ending::Done | Ending::GoingDown => String::new(),
        Ending::RolledBack(why)
        | Ending::NeedsPerson(why)
        | Ending::Paused(why)
        | Ending::TryLater(why)
        | Ending::Blocked(why) => why.clone(),
    };
    Outcome { exit: Exit::from(ending), said }
}

fn exit_of(code: u8) -> Exit {
    match code {
        0 => Exit::Done,
        1 => Exit::Failed,
        2 => Exit::Usage,
        3 => Exit::Blocked,
        4 => Exit::NeedsPerson,
        5 => Exit::RolledBack,
        6 => Exit::Unsupported,
        75 => Exit::TryLater,
        other => Exit::Other(other),
    }
}

fn check_outcome(step: &Step, outcome: Option<&Outcome>, what: &str) {
    let Some(outcome) = outcome else { return };
    if let Some(code) = step.exit {
        assert_eq!(outcome.exit, exit_of(code), "{what}: {}", outcome.said);
    }
    for words in &step.says {
        assert!(outcome.said.contains(words), "{what}: `{words}` not in: {}", outcome.said);
    }
}

fn check_machine(sim: &Sim, step: &Step, before: &[(String, String)], what: &str) {
    if let Some(phase) = step.phase {
        assert_eq!(sim.journal().state.name(), phase, "{what}");
    }
    if let Some(hierarchy) = step.hierarchy {
        assert_eq!(sim.hierarchy(), hierarchy, "{what}");
    }
    if let Some(writes) = step.writes {
        assert_eq!(sim.effects.borrow().len(), writes, "{what}: {:?}", sim.effects.borrow());
    }
    if let Some(wanted) = step.boot_files {
        assert_eq!(sim.boot_files() == before, wanted == BootFiles::AsBefore, "{what}: files");
    }
}

#[test]
fn every_fixture_ends_as_expected() {
    let own = cases::own("reboot");
    assert!(own.len() >= 10, "fixtures are missing");
    assert_eq!(cases::judge_all(&own, check), own.len());
}

#[test]
fn cases_of_elsewhere_too() {
    cases::judge_all(&cases::elsewhere(), check);
}
