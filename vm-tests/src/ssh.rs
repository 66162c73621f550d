//! Commands in a guest, through the host's ssh client.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use crate::command::command;
use crate::limits;

/// The way into one guest.
#[derive(Debug, Clone)]
pub(crate) struct Ssh {
    /// The port on 127.0.0.1.
    pub(crate) port: u16,
    /// The private key.
    pub(crate) key: PathBuf,
    /// The socket of the one connection that all commands of a boot share: under emulation a new one costs seconds.
    pub(crate) shared: PathBuf,
}

/// How a command in the guest ended.
#[derive(Debug, Clone)]
pub(crate) struct Answer {
    /// Its exit code; 255 also when the connection broke.
    pub(crate) code: i32,
    /// What it printed.
    pub(crate) stdout: String,
    /// What it complained.
    pub(crate) stderr: String,
}

/// ssh's own exit code for "no connection", "connection lost", and all else that is not the command's doing.
pub(crate) const CONNECTION_LOST: i32 = 255;

impl Ssh {
    /// Runs a shell command to its end.
    pub(crate) fn run(&self, shell: &str, limit: Duration) -> Result<Answer> {
        self.run_with_input(shell, Stdio::null(), limit)
    }

    /// Runs a shell command and gives each line, of both its streams, as it comes; then its exit code.
    pub(crate) fn stream(&self, shell: &str, limit: Duration, mut line: impl FnMut(&str)) -> Result<i32> {
        let (sender, lines) = channel();
        let mut child = self
            .client()
            .args(["root@127.0.0.1", &format!("{{ {shell}; }} 2>&1")])
            .stdout(Stdio::piped())
            .spawn()
            .context("cannot start ssh")?;
        let stdout = child.stdout.take().context("ssh has no output")?;
        thread::spawn(move || {
            BufReader::new(stdout).lines().map_while(Result::ok).try_for_each(|line| sender.send(line))
        });
        let deadline = Instant::now() + limit;
        while let Ok(text) = lines.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            line(&text);
        }
        wait_at_most(&mut child, deadline.saturating_duration_since(Instant::now()))
            .with_context(|| shell.to_owned())
    }

    /// Puts a file of the host into the guest.
    pub(crate) fn put(&self, from: &Path, to: &str, mode: &str) -> Result<()> {
        let file = File::open(from).with_context(|| format!("cannot read {}", from.display()))?;
        let receive = format!("cat >'{to}.new' && chmod {mode} '{to}.new' && mv '{to}.new' '{to}'");
        let answer = self.run_with_input(&receive, file.into(), limits::long_command())?;
        ensure!(answer.code == 0, "cannot put {} into the guest: {}", from.display(), answer.stderr);
        Ok(())
    }

    /// A command line for a person's own session.
    pub(crate) fn interactive(&self) -> Command {
        let mut ssh = self.client();
        ssh.stdin(Stdio::inherit()).arg("-t").arg("root@127.0.0.1");
        ssh
    }

    /// Whether sshd itself greets. QEMU accepts connections before the guest listens, so connecting proves nothing.
    pub(crate) fn greets(&self) -> bool {
        let address = SocketAddr::from(([127, 0, 0, 1], self.port));
        let greet = || -> std::io::Result<bool> {
            let mut stream = TcpStream::connect_timeout(&address, limits::greeting())?;
            stream.set_read_timeout(Some(limits::greeting()))?;
            let mut greeting = [0; 4];
            stream.read_exact(&mut greeting)?;
            Ok(&greeting == b"SSH-")
        };
        greet().unwrap_or(false)
    }

    fn run_with_input(&self, shell: &str, input: Stdio, limit: Duration) -> Result<Answer> {
        let mut child = self
            .client()
            .args(["root@127.0.0.1", shell])
            .stdin(input)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .context("cannot start ssh")?;
        let stdout = read_aside(child.stdout.take());
        let stderr = read_aside(child.stderr.take());
        let code = wait_at_most(&mut child, limit).with_context(|| format!("in the guest: {shell}"))?;
        Ok(Answer {
            code,
            stdout: stdout.join().unwrap_or_default(),
            stderr: stderr.join().unwrap_or_default(),
        })
    }

    fn client(&self) -> Command {
        let mut ssh = command("ssh");
        ssh.arg("-F").arg("none").arg("-i").arg(&self.key).arg("-p").arg(self.port.to_string());
        ssh.arg("-o").arg(format!("ControlPath={}", self.shared.display()));
        for option in OPTIONS {
            ssh.args(["-o", option]);
        }
        ssh
    }
}

/// A guest is a stranger each time, and a reboot cuts connections without a word.
const OPTIONS: &[&str] = &[
    "BatchMode=yes",
    "ControlMaster=auto",
    "ControlPersist=300",
    "IdentitiesOnly=yes",
    "StrictHostKeyChecking=no",
    "UserKnownHostsFile=/dev/null",
    "LogLevel=ERROR",
    "ConnectTimeout=20",
    "ServerAliveInterval=5",
    "ServerAliveCountMax=6",
    "PreferredAuthentications=publickey",
    // The cheapest for a guest without AES instructions of its own.
    "Ciphers=chacha20-poly1305@openssh.com",
];

fn read_aside(stream: Option<impl Read + Send + 'static>) -> thread::JoinHandle<String> {
    thread::spawn(move || {
        let mut text = Vec::new();
        if let Some(mut stream) = stream {
            // A stream that breaks gives what came before.
            let _ = stream.read_to_end(&mut text);
        }
        String::from_utf8_lossy(&text).into_owned()
    })
}

fn wait_at_most(child: &mut Child, limit: Duration) -> Result<i32> {
    let deadline = Instant::now() + limit;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status.code().unwrap_or(CONNECTION_LOST));
        }
        if Instant::now() >= deadline {
            child.kill()?;
            child.wait()?;
            bail!("no end after {} s", limit.as_secs());
        }
        thread::sleep(Duration::from_millis(20));
    }
}
