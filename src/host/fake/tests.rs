use std::cell::Cell;
use std::fmt;
use std::path::Path;
use std::time::Duration;

use nix::errno::Errno;

use super::*;
use crate::host::fs::RootedFs;
use crate::host::{Clock as _, Expect, Finished, Fs, FsError, Init, Invocation, Runner};

/// Three effects over three seams; stops at the first error, as a program does.
fn program(fs: &dyn Fs, runner: &dyn Runner, init: &dyn Init) -> Result<(), String> {
    let text = |error: &dyn fmt::Display| error.to_string();
    fs.replace(Path::new("/file"), b"x", &Expect::Anything, None).map_err(|error| text(&error))?;
    let argv = vec!["update-grub".to_owned()];
    let invocation = Invocation { argv, time_limit: Duration::from_secs(1), changes_host: true };
    runner.run(&invocation).map_err(|error| text(&error))?;
    init.reboot().map_err(|error| text(&error))
}

/// How far it came: file written, program run, reboots.
fn outcome(fuse: &Fuse) -> (bool, usize, usize) {
    let tree = tempfile::tempdir().unwrap();
    let plain = RootedFs::new(tree.path());
    let runs = Cell::new(0);
    let runner = FakeRunner::new().with_fuse(fuse.clone()).on("update-grub", |_| {
        runs.set(runs.get() + 1);
        Ok(Finished { code: Some(0), stdout: Vec::new(), stderr: Vec::new() })
    });
    let init = FakeInit::new().with_fuse(fuse.clone());
    let result = program(&FaultyFs::new(&plain, fuse.clone()), &runner, &init);
    assert_eq!(result.is_err(), fuse.power_is_lost());
    (plain.exists(Path::new("/file")), runs.get(), init.reboots())
}

#[test]
fn one_number_counts_the_effects_of_all_seams() {
    let fuse = Fuse::counting();
    assert_eq!(outcome(&fuse), (true, 1, 1));
    assert_eq!(fuse.log(), ["replace /file", "run update-grub", "reboot"]);
}

#[test]
fn power_is_lost_before_or_after_the_chosen_effect() {
    let before = |k| outcome(&Fuse::at(k, Fault::PowerLostBefore));
    let after = |k| outcome(&Fuse::at(k, Fault::PowerLostAfter));
    assert_eq!([before(1), before(2), before(3)], [(false, 0, 0), (true, 0, 0), (true, 1, 0)]);
    assert_eq!([after(1), after(2), after(3)], [(true, 0, 0), (true, 1, 0), (true, 1, 1)]);
}

#[test]
fn without_power_nothing_answers() {
    let fuse = Fuse::at(1, Fault::PowerLostBefore);
    let tree = tempfile::tempdir().unwrap();
    let plain = RootedFs::new(tree.path());
    let fs = FaultyFs::new(&plain, fuse.clone());
    assert!(fs.read(Path::new("/")).is_err() && fs.exists(Path::new("/")));
    let error = fs.remove(Path::new("/x"), &Expect::Anything).unwrap_err();
    assert!(matches!(error, FsError::Io { source, .. } if source.to_string() == "power lost"));
    assert!(!fs.exists(Path::new("/")) && fs.list(Path::new("/")).is_err());
    assert!(FakeInit::new().with_fuse(fuse.clone()).can_reboot().is_err());
    assert_eq!(fuse.effects(), 1);
}

#[test]
fn a_full_disk_is_passed_over_once() {
    let tree = tempfile::tempdir().unwrap();
    let plain = RootedFs::new(tree.path());
    let fs = FaultyFs::new(&plain, Fuse::at(1, Fault::DiskFull));
    let write = || fs.replace(Path::new("/x"), b"", &Expect::Anything, None);
    let error = write().unwrap_err();
    assert!(
        matches!(error, FsError::Io { source, .. } if source.raw_os_error() == Some(Errno::ENOSPC as i32))
    );
    write().unwrap();
}

#[test]
fn the_clock_moves_with_sleep() {
    let clock = FakeClock::default();
    let begin = clock.now();
    clock.sleep(Duration::from_secs(90));
    assert_eq!(clock.now().duration_since(begin), jiff::SignedDuration::from_secs(90));
    assert_eq!(clock.sleeps(), [Duration::from_secs(90)]);
}
