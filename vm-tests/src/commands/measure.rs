//! What a kernel command line really makes of a machine.

use anyhow::Result;

use crate::image::State;
use crate::node::Node;
use crate::progress::watched;
use crate::qemu::{Boot, Writes};
use crate::vm::Vm;

/// Boots bookworm with these words added to its kernel command line, and prints the hierarchy it comes up with.
pub(crate) fn measure(words: &str) -> Result<()> {
    let directory = tempfile::tempdir()?;
    let mut node = Node { vm: Vm::new(State::Unpinned, directory.path(), Writes::Fast)? };
    node.vm.power_on(&Boot::Kernel(format!("{} {words}", MACHINE_WORDS)))?;
    watched("booting", || node.vm.wait_until_up())?;
    println!("{}", node.hierarchy()?);
    Ok(())
}

const MACHINE_WORDS: &str = "root=/dev/vda2 ro console=ttyS0 net.ifnames=0 mitigations=off quiet";
