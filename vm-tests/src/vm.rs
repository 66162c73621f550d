//! A guest: a disk of its own, powered on and off, reached by ssh, its boots told apart.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use crate::image::{Image, State, image};
use crate::limits;
use crate::qemu::{Boot, Qemu, Writes, fresh_disk};
use crate::ssh::{Answer, Ssh};

/// One machine with a disk of its own. Powering it on again boots the same disk.
#[derive(Debug)]
pub(crate) struct Vm {
    image: Image,
    disk: PathBuf,
    console: PathBuf,
    writes: Writes,
    qemu: Option<Qemu>,
    /// How often it has reset itself.
    resets: usize,
}

impl Vm {
    /// A machine in this state, powered off; its disk and logs go into `directory`.
    pub(crate) fn new(state: State, directory: &Path, writes: Writes) -> Result<Self> {
        fs::create_dir_all(directory).with_context(|| format!("cannot create {}", directory.display()))?;
        let image = image(state)?;
        let disk = directory.join("disk.qcow2");
        fresh_disk(&image, &disk)?;
        Ok(Self { image, disk, console: directory.join("console.log"), writes, qemu: None, resets: 0 })
    }

    /// Powers on through firmware and GRUB, and waits until the system is up.
    pub(crate) fn boot(&mut self) -> Result<()> {
        self.power_on(&Boot::Firmware)?;
        self.wait_until_up()
    }

    /// Powers on; does not wait.
    pub(crate) fn power_on(&mut self, boot: &Boot) -> Result<()> {
        self.qemu = Some(Qemu::start(&self.image, &self.disk, &self.console, boot, self.writes)?);
        Ok(())
    }

    /// Waits for sshd and then for systemd to be done with booting.
    pub(crate) fn wait_until_up(&mut self) -> Result<()> {
        self.wait_for_sshd(limits::boot())?;
        let answer = self.run_within("systemctl is-system-running --wait", limits::boot())?;
        ensure!(answer.stdout.trim() == "running", "the guest is {}, not running", answer.stdout.trim());
        Ok(())
    }

    /// Waits for the guest to go down and come up with another boot id than `before`.
    pub(crate) fn wait_for_reboot(&mut self, before: &BootMark) -> Result<()> {
        let deadline = Instant::now() + limits::reboot();
        while self.resets == before.resets {
            self.follow_reset()?;
            ensure!(Instant::now() < deadline, "no reboot within {} s", limits::reboot().as_secs());
            std::thread::sleep(Duration::from_millis(200));
        }
        self.wait_for_sshd(limits::boot())?;
        let now = self.boot_id()?;
        ensure!(now != before.boot_id, "the machine was reset, yet answers with the old boot id {now}");
        Ok(())
    }

    /// Each boot is a QEMU of its own: one that the guest has reset ends, and the next boots the same disk. So a
    /// reset is seen for certain, and emulation does not drag the last boot's translated code along.
    pub(crate) fn follow_reset(&mut self) -> Result<()> {
        if self.powered()?.has_ended()? {
            ensure!(self.console_count(POWERED_DOWN) == 0, "the machine powered itself off");
            self.resets += 1;
            self.power_on(&Boot::Firmware)?;
        }
        Ok(())
    }

    /// This boot, to be told from the next.
    pub(crate) fn mark_boot(&mut self) -> Result<BootMark> {
        Ok(BootMark { boot_id: self.boot_id()?, resets: self.resets })
    }

    /// Fails when the guest reboots while we look on.
    pub(crate) fn ensure_stays_up(&mut self, duration: Duration) -> Result<()> {
        let before = self.mark_boot()?;
        let end = Instant::now() + duration;
        while Instant::now() < end {
            ensure!(!self.powered()?.has_ended()?, "the machine rebooted when nothing was left to do");
            std::thread::sleep(Duration::from_millis(200));
        }
        ensure!(before == self.mark_boot()?, "the machine rebooted when nothing was left to do");
        Ok(())
    }

    /// The kernel's name for this boot.
    pub(crate) fn boot_id(&mut self) -> Result<String> {
        self.must("cat /proc/sys/kernel/random/boot_id")
    }

    /// Runs a quick shell command, whatever its exit code.
    pub(crate) fn run(&mut self, shell: &str) -> Result<Answer> {
        self.run_within(shell, limits::command())
    }

    /// Runs a shell command, whatever its exit code.
    pub(crate) fn run_within(&mut self, shell: &str, limit: Duration) -> Result<Answer> {
        self.ssh()?.run(shell, limit)
    }

    /// Runs a quick shell command that must succeed; gives what it printed, trimmed.
    pub(crate) fn must(&mut self, shell: &str) -> Result<String> {
        let answer = self.run(shell)?;
        ensure!(answer.code == 0, "in the guest, exit {}: {shell}\n{}", answer.code, answer.stderr.trim());
        Ok(answer.stdout.trim().to_owned())
    }

    /// The way into the guest as it is now. Every boot has sockets of its own, so no connection outlives its boot.
    pub(crate) fn ssh(&mut self) -> Result<Ssh> {
        let key = self.image.ssh_key.clone();
        let qemu = self.powered()?;
        Ok(Ssh { port: qemu.ssh_port(), key, shared: qemu.sockets().join("ssh") })
    }

    /// Waits until the console says `words` more often than `seen` times.
    pub(crate) fn wait_for_console(&mut self, words: &str, seen: usize, limit: Duration) -> Result<()> {
        let deadline = Instant::now() + limit;
        while self.console_count(words) <= seen {
            self.follow_reset()?;
            ensure!(
                Instant::now() < deadline,
                "the console did not say \"{words}\" within {} s",
                limit.as_secs()
            );
            std::thread::sleep(Duration::from_millis(100));
        }
        Ok(())
    }

    /// How often the console has said `words`, over all boots.
    pub(crate) fn console_count(&self, words: &str) -> usize {
        String::from_utf8_lossy(&fs::read(&self.console).unwrap_or_default()).matches(words).count()
    }

    /// The file the console is kept in.
    pub(crate) fn console(&self) -> &Path {
        &self.console
    }

    /// SIGKILL to QEMU: for the guest, a power cut.
    pub(crate) fn cut_power(&mut self) -> Result<()> {
        self.qemu.take().context("the machine is off")?.cut_power()
    }

    /// Ends QEMU in an orderly way.
    pub(crate) fn power_off(&mut self) -> Result<()> {
        self.qemu.take().map_or(Ok(()), |mut qemu| qemu.quit())
    }

    /// Ends the machine and removes its disk; the logs stay.
    pub(crate) fn discard(&mut self) -> Result<()> {
        self.cut_power()?;
        fs::remove_file(&self.disk).with_context(|| format!("cannot remove {}", self.disk.display()))
    }

    fn wait_for_sshd(&mut self, limit: Duration) -> Result<()> {
        let deadline = Instant::now() + limit;
        while !self.ssh()?.greets() {
            self.follow_reset()?;
            ensure!(Instant::now() < deadline, "sshd did not greet within {} s", limit.as_secs());
            std::thread::sleep(Duration::from_millis(300));
        }
        Ok(())
    }

    fn powered(&mut self) -> Result<&mut Qemu> {
        self.qemu.as_mut().context("the machine is off")
    }
}

/// What tells one boot from the next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BootMark {
    /// The kernel's random name for it.
    pub(crate) boot_id: String,
    resets: usize,
}

/// The kernel's last words before the power goes.
const POWERED_DOWN: &str = "reboot: Power down";
