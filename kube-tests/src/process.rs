//! A program that cannot outlive the tests, however they end.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{LazyLock, Mutex, mpsc};

use anyhow::{Context as _, Result};

/// Killed when dropped; killed by the kernel when the process of the tests is gone.
#[derive(Debug)]
pub(crate) struct Process {
    child: Child,
    log: PathBuf,
}

impl Process {
    /// Starts `program` in this folder; what it prints is appended to a log there.
    pub(crate) fn start(program: &Path, arguments: &[String], folder: &Path) -> Result<Self> {
        let name = program.file_name().context("a program has a name")?;
        let log = folder.join(name).with_extension("log");
        let output = File::options().create(true).append(true).open(&log)?;
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL"]).arg(program).args(arguments);
        command.current_dir(folder).stdin(Stdio::null()).stdout(output.try_clone()?).stderr(output);
        let child = spawn(command).with_context(|| format!("cannot start {}", program.display()))?;
        Ok(Self { child, log })
    }

    /// What its log is called after.
    pub(crate) fn name(&self) -> String {
        self.log.file_stem().unwrap_or_default().to_string_lossy().into_owned()
    }

    /// Whether it has ended by itself.
    pub(crate) fn has_ended(&mut self) -> bool {
        !matches!(self.child.try_wait(), Ok(None))
    }

    /// The last lines it printed, for an error message.
    pub(crate) fn last_words(&self) -> String {
        let text = std::fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(20)..].join("\n")
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The kernel sends the signal at the end of the *thread* that started the program, and the thread of a test ends
/// long before the tests do: so one thread that never ends starts them all.
fn spawn(command: Command) -> std::io::Result<Child> {
    static STARTER: LazyLock<Mutex<mpsc::Sender<Order>>> = LazyLock::new(|| Mutex::new(starter()));
    let (reply, started) = mpsc::channel();
    STARTER.lock().expect("nothing panics with it").send((command, reply)).expect("it never ends");
    started.recv().expect("it answers each order")
}

type Order = (Command, mpsc::Sender<std::io::Result<Child>>);

fn starter() -> mpsc::Sender<Order> {
    let (orders, incoming) = mpsc::channel::<Order>();
    std::thread::spawn(move || {
        for (mut command, reply) in incoming {
            let _ = reply.send(command.spawn());
        }
    });
    orders
}
