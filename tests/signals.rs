//! SIGINT, SIGTERM and SIGHUP: the run ends where it can be left, says so, and the next one goes on.
#![allow(
    clippy::panic,
    clippy::unwrap_used,
    clippy::wildcard_enum_match_arm,
    reason = "a test that sees another ending has failed"
)]

#[path = "support/sim.rs"]
mod sim;

use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use cgroup2_migrate::boot::hierarchy::Hierarchy;
use cgroup2_migrate::host::{Inhibitor, Interrupt, Invocation, RunError, Runner as _, SystemRunner};
use cgroup2_migrate::migration::decide::Ending;
use cgroup2_migrate::migration::phase::PhaseName;
use nix::sys::signal::{Signal, raise};
use sim::{Sim, Verb};

const PINNED: &str = "GRUB_CMDLINE_LINUX=\"quiet systemd.unified_cgroup_hierarchy=0\"\n";

/// Runs with a signal at each effect in turn, until there is none left to be interrupted.
fn interrupted_at_each(verb: Verb, prepare: impl Fn() -> Sim, check: impl Fn(&Sim)) {
    for k in 0..200 {
        let sim = prepare();
        sim.signal_at.set(k);
        let ending = sim.run_well(verb);
        sim.signal_at.set(usize::MAX);
        match ending {
            Ending::TryLater(why) => assert!(why.contains("signal"), "{why}"),
            Ending::GoingDown => return assert!(k > 5, "only {k} effects"),
            other => panic!("at {k}: {other:?}"),
        }
        assert_eq!(sim.journal().waiting.map(|why| why.contains("signal")), Some(true));
        check(&sim);
    }
    panic!("no end");
}

#[test]
fn a_signal_at_any_effect_is_a_pause_and_nothing_more() {
    interrupted_at_each(
        Verb::Migrate,
        || Sim::new(PINNED),
        |sim| {
            assert_eq!(sim.reboots.get(), 0);
            assert_eq!(sim.run_well(Verb::Resume), Ending::GoingDown);
            assert_eq!(sim.settle(), Ending::Done);
            assert_eq!((sim.hierarchy(), sim.reboots.get()), (Hierarchy::Unified, 1));
        },
    );
}

#[test]
fn a_signal_at_any_effect_of_the_way_back_is_a_pause_too() {
    let migrated = || {
        let sim = Sim::new(PINNED);
        sim.run_well(Verb::Migrate);
        sim.settle();
        sim
    };
    interrupted_at_each(Verb::Rollback, migrated, |sim| {
        assert_eq!((sim.reboots.get(), sim.journal().state.name()), (1, PhaseName::RollingBack));
        assert_eq!(sim.run_well(Verb::Resume), Ending::GoingDown);
        assert!(matches!(sim.settle(), Ending::RolledBack(_)));
        assert_eq!((sim.hierarchy(), sim.text("etc/default/grub").as_str()), (Hierarchy::Hybrid, PINNED));
    });
}

#[test]
fn a_killed_generator_is_no_reason_to_go_back() {
    let sim = Sim::new(PINNED);
    sim.signal_kills_tool.set(true);
    assert!(matches!(sim.run_well(Verb::Migrate), Ending::TryLater(why) if why.contains("signal")));
    assert_eq!(sim.journal().state.name(), PhaseName::Planned);
    let beside = std::fs::read_dir(sim.path("boot/grub")).unwrap().map(|entry| entry.unwrap().file_name());
    let left: Vec<_> = beside.filter(|name| name.to_string_lossy().contains("cgroup2-migrate")).collect();
    assert!(left.is_empty(), "{left:?}");
    sim.signal_at.set(usize::MAX);
    assert_eq!(sim.run_well(Verb::Resume), Ending::GoingDown);
    assert_eq!(sim.settle(), Ending::Done);
}

#[test]
fn a_signal_ends_the_wait_for_a_lock() {
    let sim = Sim::new(PINNED);
    let lock = |text: &str| text.to_owned();
    sim.options.borrow_mut().until = Some(PhaseName::Staged);
    sim.run_well(Verb::Migrate);
    let (what, who, why, mode) = (lock("shutdown"), lock("dpkg"), lock("installs"), lock("block"));
    sim.locks.replace(vec![Inhibitor { what, who, why, mode, uid: 0, pid: 7 }]);
    sim.signal_in_sleep.set(true);
    assert!(matches!(sim.run_well(Verb::Resume), Ending::TryLater(why) if why.contains("signal")));
    assert_eq!((sim.journal().state.name(), sim.reboots.get()), (PhaseName::Staged, 0));
}

/// A real one, to this process: it does not end it, and the tool that runs goes with everything it has started.
#[test]
fn a_real_signal_kills_the_tool_and_not_us() {
    let _alone = alone();
    let interrupt = Interrupt::default();
    interrupt.listen().unwrap();
    let tree = tempfile::tempdir().unwrap();
    let pid = tree.path().join("pid");
    let script = format!("sleep 300 & echo $! >{0}.part; mv {0}.part {0}; wait", pid.display());
    let argv = ["sh", "-c", &script].map(str::to_owned).to_vec();
    let invocation = Invocation { argv, time_limit: Duration::from_secs(100), changes_host: false };
    let error = std::thread::scope(|scope| {
        scope.spawn(|| {
            wait_until(|| pid.exists());
            raise(Signal::SIGTERM).unwrap();
        });
        SystemRunner::new().with_interrupt(interrupt.clone()).run(&invocation).unwrap_err()
    });
    assert!(matches!(error, RunError::Interrupted { .. }) && interrupt.came(), "{error}");
    let pid = std::fs::read_to_string(pid).unwrap();
    wait_until(|| is_gone(pid.trim()));
}

/// The last one comes when the connection is lost from which the program was started.
#[test]
fn each_of_them_is_heard() {
    let _alone = alone();
    let (ignored, heard): (Vec<Signal>, Vec<Signal>) =
        [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP].into_iter().partition(|signal| is_ignored(*signal));
    if !ignored.is_empty() {
        println!("SKIP: a shell that put us in the background had us ignore {ignored:?}");
    }
    assert!(heard.contains(&Signal::SIGTERM), "nobody ignores SIGTERM");
    for signal in heard {
        let interrupt = Interrupt::default();
        interrupt.listen().unwrap();
        raise(signal).unwrap();
        assert!(interrupt.came(), "{signal}");
    }
}

/// In a process of its own, which is started as `nohup` would.
#[test]
fn what_is_ignored_from_the_start_stays_so() {
    const INSIDE: &str = "C2M_TEST_IGNORES_SIGHUP";
    if std::env::var_os(INSIDE).is_some() {
        let interrupt = Interrupt::default();
        interrupt.listen().unwrap();
        raise(Signal::SIGHUP).unwrap();
        return assert!(!interrupt.came());
    }
    let script = "trap '' HUP; exec \"$0\" --exact what_is_ignored_from_the_start_stays_so";
    #[expect(clippy::disallowed_methods, reason = "this test, once more")]
    let mut shell = std::process::Command::new("sh");
    let output = shell.args(["-c", script]).arg(std::env::current_exe().unwrap()).env(INSIDE, "1").output();
    let output = output.unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.contains("1 passed"), "{said}");
}

fn is_ignored(signal: Signal) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).unwrap();
    u64::from_str_radix(mask.trim(), 16).unwrap() & (1 << (signal as i32 - 1)) != 0
}

/// A signal is heard by every listener of the process.
fn alone() -> MutexGuard<'static, ()> {
    static SIGNALS: Mutex<()> = Mutex::new(());
    SIGNALS.lock().unwrap_or_else(PoisonError::into_inner)
}

fn is_gone(pid: &str) -> bool {
    let status = std::fs::read_to_string(Path::new("/proc").join(pid).join("status")).unwrap_or_default();
    status.is_empty() || status.contains("State:\tZ")
}

fn wait_until(is_so: impl Fn() -> bool) {
    let soon = (0..3000).any(|_| {
        std::thread::sleep(Duration::from_millis(10));
        is_so()
    });
    assert!(soon, "it did not come to that");
}
