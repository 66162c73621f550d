//! A migration to watch: each command as it is run in the guest, its output, what the machine does meanwhile.

use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};

use crate::console_tail::ConsoleTail;
use crate::image::{State, image};
use crate::limits;
use crate::node::{Node, is_settled, text_at};
use crate::product::{self, Build};
use crate::progress::watched;
use crate::qemu::Writes;
use crate::ssh::CONNECTION_LOST;
use crate::vm::Vm;

/// Boots a machine on v1 and shows it being migrated.
pub(crate) fn demo() -> Result<()> {
    let program = product::build(Build::Plain)?;
    watched("a Debian 12 disk image (minutes the first time, cached after)", || image(State::Hybrid))?;
    let directory = tempfile::tempdir()?;
    let mut node = Node { vm: Vm::new(State::Hybrid, directory.path(), Writes::Fast)? };
    watched("booting a virtual machine, by its own GRUB, into cgroup v1", || node.vm.boot())?;
    watched("installing cgroup2-migrate in it", || product::install(&mut node.vm, &program))?;

    title("Where it stands");
    show(&mut node, "stat -fc %T /sys/fs/cgroup")?;
    show(&mut node, "cat /proc/cmdline")?;
    show(&mut node, "cgroup2-migrate detect")?;
    title("What would be done");
    show(&mut node, "cgroup2-migrate plan")?;
    title("Doing it");
    let begin = Instant::now();
    migrate(&mut node)?;
    let duration = begin.elapsed();
    title("The proof");
    show(&mut node, "cgroup2-migrate status")?;
    show(&mut node, "cat /proc/cmdline")?;
    show(&mut node, "grep ^GRUB_CMDLINE /etc/default/grub")?;
    show(&mut node, "cgroup2-migrate detect")?;
    show(&mut node, "cgroup2-migrate verify")?;
    show(&mut node, "stat -fc %T /sys/fs/cgroup")?;
    let kind = node.hierarchy()?;
    ensure!(kind == "unified", "the machine ended on {kind}");
    println!("\nFrom cgroup v1 to v2, with one reboot, in {} s.", duration.as_secs());
    Ok(())
}

/// The command, the reboot it asks for, and the phases until nothing more happens by itself.
fn migrate(node: &mut Node) -> Result<()> {
    let before = node.vm.mark_boot()?;
    let console = ConsoleTail::start(node.vm.console().to_owned());
    show(node, "cgroup2-migrate migrate --yes")?;
    watched("waiting for the machine to reboot", || node.vm.wait_for_reboot(&before))?;
    drop(console);
    follow_phases(node)
}

fn follow_phases(node: &mut Node) -> Result<()> {
    let deadline = Instant::now() + limits::reboot();
    let mut shown = String::new();
    while Instant::now() < deadline {
        node.vm.follow_reset()?;
        if let Some(status) = node.status_if_up()? {
            let phase = text_at(&status, "phase")?;
            if phase != shown {
                println!("    phase: {phase}");
            }
            if is_settled(&phase) {
                return Ok(());
            }
            shown = phase;
        }
        std::thread::sleep(Duration::from_secs(1));
    }
    bail!("the program did not come to rest; last phase: {shown}")
}

fn title(what: &str) {
    println!("\n--- {what} ---");
}

/// Runs a command in the guest with its output as it comes.
fn show(node: &mut Node, command: &str) -> Result<()> {
    println!("\nguest# {command}");
    let code = node.vm.ssh()?.stream(command, limits::long_command(), |line| println!("    {line}"))?;
    ensure!(code == 0 || code == CONNECTION_LOST, "{command} ended with {code}");
    Ok(())
}
