//! One emulator process: started, watched, ended by its own handle only.

use std::ffi::OsString;
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Child;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::accelerator;
use crate::command::{command, run};
use crate::emulator::emulator;
use crate::image::Image;

/// How the guest finds its kernel.
#[derive(Debug, Clone)]
pub(crate) enum Boot {
    /// As a real machine does: firmware, then GRUB from the disk.
    Firmware,
    /// Straight into the image's kernel with these words.
    Kernel(String),
}

/// What becomes of writes that the host has not stored yet when QEMU is killed.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Writes {
    /// The disk is thrown away after the test: flushes cost nothing.
    Fast,
    /// A flush in the guest is a flush on the host: the disk survives a killed QEMU.
    Durable,
}

/// A running QEMU.
#[derive(Debug)]
pub(crate) struct Qemu {
    process: Child,
    sockets: tempfile::TempDir,
    ssh_port: u16,
}

impl Qemu {
    /// Powers a machine on. The console is appended to `console`, QEMU's own words to a file beside it.
    pub(crate) fn start(
        image: &Image,
        disk: &Path,
        console: &Path,
        boot: &Boot,
        writes: Writes,
    ) -> Result<Self> {
        let sockets = tempfile::Builder::new().prefix("vm-tests-").tempdir()?;
        let ssh_port = free_port()?;
        let own_words = File::options().create(true).append(true).open(console.with_extension("qemu.log"))?;
        let process = emulator()?
            .args(accelerator::arguments(image))
            .args(["-smp", "1", "-m", "1024", "-nodefaults", "-no-user-config", "-display", "none"])
            .args(["-no-reboot", "-device", "virtio-rng-pci"])
            .arg("-drive")
            .arg(format!("file={},format=qcow2,if=virtio,cache={}", comma_safe(disk), writes.cache_mode()))
            .arg("-netdev")
            .arg(format!("user,id=net,restrict=on,hostfwd=tcp:127.0.0.1:{ssh_port}-:22"))
            .args(["-device", "virtio-net-pci,netdev=net,romfile="])
            .arg("-chardev")
            .arg(format!("file,id=console,path={},append=on", comma_safe(console)))
            .args(["-serial", "chardev:console"])
            .arg("-qmp")
            .arg(format!("unix:{},server=on,wait=off", sockets.path().join(CONTROL).display()))
            .args(boot.arguments(image))
            .stderr(own_words)
            .spawn()
            .context("cannot start QEMU")?;
        Ok(Self { process, sockets, ssh_port })
    }

    /// The port on 127.0.0.1 that leads to the guest's sshd.
    pub(crate) fn ssh_port(&self) -> u16 {
        self.ssh_port
    }

    /// A directory for sockets, with a path short enough for one, that goes when this machine goes.
    pub(crate) fn sockets(&self) -> &Path {
        self.sockets.path()
    }

    /// Whether the guest has reset itself, which ends QEMU; fails when QEMU ended for a reason of its own.
    pub(crate) fn has_ended(&mut self) -> Result<bool> {
        match self.process.try_wait()? {
            None => Ok(false),
            Some(status) if status.success() => Ok(true),
            Some(status) => bail!("QEMU failed ({status})"),
        }
    }

    /// SIGKILL: for the guest, a power cut.
    pub(crate) fn cut_power(&mut self) -> Result<()> {
        self.process.kill()?;
        self.process.wait()?;
        Ok(())
    }

    /// Asks QEMU to end after writing out what it holds; kills it when it does not.
    pub(crate) fn quit(&mut self) -> Result<()> {
        let deadline = Instant::now() + Duration::from_secs(10);
        if self.ask_to_quit().is_ok() {
            while Instant::now() < deadline {
                if self.process.try_wait()?.is_some() {
                    return Ok(());
                }
                std::thread::sleep(Duration::from_millis(50));
            }
        }
        self.cut_power()
    }

    fn ask_to_quit(&self) -> Result<()> {
        let mut control = UnixStream::connect(self.sockets.path().join(CONTROL))?;
        control.set_read_timeout(Some(Duration::from_secs(5)))?;
        let mut answers = BufReader::new(control.try_clone()?);
        let mut line = String::new();
        answers.read_line(&mut line)?;
        control.write_all(b"{\"execute\":\"qmp_capabilities\"}\n")?;
        answers.read_line(&mut line)?;
        control.write_all(b"{\"execute\":\"quit\"}\n")?;
        answers.read_line(&mut line)?;
        Ok(())
    }
}

impl Drop for Qemu {
    fn drop(&mut self) {
        // An end that fails here was an end already.
        let _ = self.cut_power();
    }
}

impl Boot {
    fn arguments(&self, image: &Image) -> Vec<OsString> {
        match self {
            Self::Firmware => Vec::new(),
            Self::Kernel(words) => [
                "-kernel".into(),
                image.kernel.clone().into_os_string(),
                "-initrd".into(),
                image.initrd.clone().into_os_string(),
                "-append".into(),
                words.into(),
            ]
            .to_vec(),
        }
    }
}

impl Writes {
    fn cache_mode(self) -> &'static str {
        match self {
            Self::Fast => "unsafe",
            Self::Durable => "writeback",
        }
    }
}

const CONTROL: &str = "qmp";

/// A disk that begins as the image and keeps its own changes.
pub(crate) fn fresh_disk(image: &Image, disk: &Path) -> Result<()> {
    run(command("qemu-img")
        .args(["create", "-q", "-f", "qcow2", "-F", "qcow2", "-b"])
        .arg(&image.disk)
        .arg(disk))?;
    Ok(())
}

fn free_port() -> Result<u16> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}

/// QEMU's options are lists with commas between; a comma in a value is written twice.
fn comma_safe(path: &Path) -> String {
    path.display().to_string().replace(',', ",,")
}
