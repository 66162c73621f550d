//! Programs that are not there.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::Fuse;
use crate::host::{Finished, Invocation, RunError, Runner};

type Script<'a> = Box<dyn Fn(&Invocation) -> Result<Finished, RunError> + 'a>;

/// Programs that a test makes up. Effects are the runs with `changes_host`.
#[derive(Default)]
pub struct FakeRunner<'a> {
    programs: BTreeMap<String, Script<'a>>,
    calls: RefCell<Vec<Invocation>>,
    environments: RefCell<Vec<Vec<(String, String)>>>,
    fuse: Fuse,
}

impl<'a> FakeRunner<'a> {
    /// A machine without any program.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Shares a fuse.
    #[must_use]
    pub fn with_fuse(mut self, fuse: Fuse) -> Self {
        self.fuse = fuse;
        self
    }

    /// Adds a program, by the name it is called with, that does what `script` does.
    #[must_use]
    pub fn on(
        mut self,
        program: &str,
        script: impl Fn(&Invocation) -> Result<Finished, RunError> + 'a,
    ) -> Self {
        self.programs.insert(program.to_owned(), Box::new(script));
        self
    }

    /// Adds a program that ends with this code and these outputs.
    #[must_use]
    pub fn ends(self, program: &str, code: i32, stdout: &str, stderr: &str) -> Self {
        let finished = Finished { code: Some(code), stdout: stdout.into(), stderr: stderr.into() };
        self.on(program, move |_| Ok(finished.clone()))
    }

    /// Adds a program that never ends in time.
    #[must_use]
    pub fn hangs(self, program: &str) -> Self {
        self.on(program, |invocation| {
            Err(RunError::TimedOut { argv: invocation.argv.join(" "), limit: invocation.time_limit })
        })
    }

    /// The variables that each run was given, in order.
    #[must_use]
    pub fn environments(&self) -> Vec<Vec<(String, String)>> {
        self.environments.borrow().clone()
    }

    /// All that was asked for, in order.
    #[must_use]
    pub fn calls(&self) -> Vec<Invocation> {
        self.calls.borrow().clone()
    }
}

impl Runner for FakeRunner<'_> {
    fn find(&self, program: &str) -> Option<PathBuf> {
        let found = self.programs.contains_key(program) && !self.fuse.power_is_lost();
        found.then(|| Path::new("/usr/sbin").join(program))
    }

    fn run_with(
        &self,
        invocation: &Invocation,
        environment: &[(String, String)],
    ) -> Result<Finished, RunError> {
        self.environments.borrow_mut().push(environment.to_vec());
        self.calls.borrow_mut().push(invocation.clone());
        let program = invocation.argv.first().cloned().unwrap_or_default();
        let argv = invocation.argv.join(" ");
        let what = format!("run {argv}");
        let wrap = |source| RunError::Io { argv, source };
        let Some(script) = self.programs.get(&program) else {
            return self.fuse.observe(|| Err(RunError::Missing { program }), wrap);
        };
        let act = || script(invocation);
        if invocation.changes_host { self.fuse.effect(what, act, wrap) } else { self.fuse.observe(act, wrap) }
    }
}
