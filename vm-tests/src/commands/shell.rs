//! A machine for a developer.

use anyhow::{Context as _, Result};

use crate::image::State;
use crate::product::{self, Build};
use crate::progress::step;
use crate::qemu::Writes;
use crate::vm::Vm;

/// Boots a machine with the program installed and opens a shell in it; the machine ends with the shell.
pub(crate) fn shell(state: &str) -> Result<()> {
    let names = State::ALL.map(State::name).join(", ");
    let state =
        State::from_name(state).with_context(|| format!("no state \"{state}\"; there are: {names}"))?;
    let program = product::build(Build::Plain)?;
    let directory = tempfile::tempdir()?;
    let mut vm = Vm::new(state, directory.path(), Writes::Fast)?;
    step(&format!("booting (console: {})", vm.console().display()));
    vm.boot()?;
    product::install(&mut vm, &program)?;
    step("a shell in the machine; it is powered off and forgotten when you leave");
    vm.ssh()?.interactive().status().context("cannot start ssh")?;
    vm.power_off()
}
