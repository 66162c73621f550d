//! Runs scenarios, a few at a time, and says how each ended.

use std::collections::{BTreeMap, VecDeque};
use std::path::PathBuf;
use std::sync::Mutex;

use anyhow::Result;

use crate::context::Context;
use crate::image::image;
use crate::product::{Build, build};
use crate::progress::watched;
use crate::scenarios::Scenario;

/// Runs them all, `jobs` at a time; whether all passed.
pub(crate) fn run(scenarios: Vec<Scenario>, jobs: usize) -> Result<bool> {
    let programs = build_what_is_needed(&scenarios)?;
    build_images(&scenarios)?;
    let queue = Mutex::new(VecDeque::from(scenarios));
    let verdicts = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..jobs.max(1) {
            scope.spawn(|| {
                while let Some(scenario) = next(&queue) {
                    let passed = run_one(&scenario, &programs);
                    lock(&verdicts).push(passed);
                }
            });
        }
    });
    let verdicts = lock(&verdicts);
    let passed = verdicts.iter().filter(|passed| **passed).count();
    println!("{passed} passed, {} failed", verdicts.len() - passed);
    Ok(passed == verdicts.len())
}

fn run_one(scenario: &Scenario, programs: &BTreeMap<&'static str, PathBuf>) -> bool {
    let program = programs.get(scenario.build.name()).cloned().unwrap_or_default();
    let context = match Context::new(scenario.name, program) {
        Ok(context) => context,
        Err(error) => {
            println!("not ok {} {error:#}", scenario.name);
            return false;
        }
    };
    match (scenario.run)(&context) {
        Ok(()) => println!("ok {} {}s", scenario.name, context.seconds()),
        Err(ref error) => {
            // No log to write to is no reason to keep the verdict back.
            let _ = std::fs::write(context.logs().join("failure.txt"), format!("{error:?}\n"));
            println!(
                "not ok {} {error:#} (after {}s, logs: {})",
                scenario.name,
                context.seconds(),
                context.logs().display()
            );
            return false;
        }
    }
    true
}

fn build_what_is_needed(scenarios: &[Scenario]) -> Result<BTreeMap<&'static str, PathBuf>> {
    let mut programs = BTreeMap::new();
    for kind in [Build::Plain, Build::Failpoints] {
        if scenarios.iter().any(|scenario| scenario.build == kind) {
            programs.insert(kind.name(), build(kind)?);
        }
    }
    Ok(programs)
}

fn build_images(scenarios: &[Scenario]) -> Result<()> {
    let mut states: Vec<_> = scenarios.iter().map(|scenario| scenario.state).collect();
    states.dedup();
    watched("images", || states.into_iter().try_for_each(|state| image(state).map(|_| ())))
}

fn next(queue: &Mutex<VecDeque<Scenario>>) -> Option<Scenario> {
    lock(queue).pop_front()
}

/// A scenario that panicked has left nothing half-done behind a lock.
fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}
