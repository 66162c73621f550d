//! What a scenario is given: a place for its files, the program, machines.

use std::fs;
use std::path::PathBuf;
use std::time::Instant;

use anyhow::Result;

use crate::image::State;
use crate::node::Node;
use crate::product::{self, repository};
use crate::qemu::Writes;
use crate::vm::Vm;

/// One run of one scenario.
#[derive(Debug)]
pub(crate) struct Context {
    name: &'static str,
    program: PathBuf,
    begin: Instant,
}

impl Context {
    /// For the scenario of this name; `program` is what is installed into its machines. Old logs are removed.
    pub(crate) fn new(name: &'static str, program: PathBuf) -> Result<Self> {
        let context = Self { name, program, begin: Instant::now() };
        let logs = context.logs();
        if logs.exists() {
            fs::remove_dir_all(&logs)?;
        }
        fs::create_dir_all(&logs)?;
        Ok(context)
    }

    /// Where its consoles, and on failure its evidence, are kept.
    pub(crate) fn logs(&self) -> PathBuf {
        repository().join("target/vm-tests").join(self.name)
    }

    /// Seconds since its begin.
    pub(crate) fn seconds(&self) -> u64 {
        self.begin.elapsed().as_secs()
    }

    /// Says what happens now.
    pub(crate) fn say(&self, what: &str) {
        eprintln!("    [{} {}s] {what}", self.name, self.seconds());
    }

    /// Boots a machine in this state with the program installed, and tells its story. When that fails, what the
    /// machine can still tell is written down; when it does not, its disk is removed.
    pub(crate) fn with_node<T>(
        &self,
        state: State,
        writes: Writes,
        story: impl FnOnce(&mut Node) -> Result<T>,
    ) -> Result<T> {
        let mut node = Node { vm: Vm::new(state, &self.logs(), writes)? };
        let result = self.prepare(&mut node, state).and_then(|()| story(&mut node));
        match &result {
            Ok(_) => node.vm.discard()?,
            Err(_) => self.keep_evidence(&mut node),
        }
        result
    }

    fn prepare(&self, node: &mut Node, state: State) -> Result<()> {
        self.say(&format!("booting the machine \"{}\"", state.name()));
        node.vm.boot()?;
        self.say("installing the program");
        product::install(&mut node.vm, &self.program)
    }

    /// As much as can still be had: the machine may be in any state.
    fn keep_evidence(&self, node: &mut Node) {
        for (file, shell) in EVIDENCE {
            if let Ok(answer) = node.vm.run(shell) {
                let text = format!("# {shell}\n{}{}", answer.stdout, answer.stderr);
                // The failure itself is what must be told; a full disk here must not hide it.
                let _ = fs::write(self.logs().join(file), text);
            }
        }
        let _ = node.vm.power_off();
    }
}

const EVIDENCE: &[(&str, &str)] = &[
    ("status.json", "cgroup2-migrate status --json"),
    ("journal.json", "cat /var/lib/cgroup2-migrate/journal.json"),
    ("state-files.txt", "ls -lRa /var/lib/cgroup2-migrate"),
    ("system-log.txt", "journalctl --boot --no-pager --output=short-monotonic"),
    ("resume-unit.txt", "systemctl status --no-pager --lines=200 cgroup2-migrate-resume.service"),
    (
        "boot-files.txt",
        "cat /proc/cmdline /etc/default/grub /boot/grub/grub.cfg; ls -la /boot/grub /etc/default",
    ),
    ("boots.txt", "cat /var/log/boots"),
];
