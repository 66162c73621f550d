//! Programs of the machine: [`SystemRunner`].

use std::ffi::OsStr;
use std::io::{self, Read};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, killpg};
use nix::unistd::{AccessFlags, Pid, access};

use super::{FULL_PATH, Finished, Interrupt, Invocation, RunError, Runner};

/// The most that is kept of each output stream; the rest is read and dropped.
const OUTPUT_LIMIT: usize = 4 << 20;
/// How long a program may take to clean up between SIGTERM and SIGKILL.
const TERM_GRACE: Duration = Duration::from_secs(3);
/// After SIGKILL only a process that hangs in the kernel (a dead disk) stays. Then we leave it.
const KILL_GRACE: Duration = Duration::from_secs(2);
/// How long to wait for the end of the output after the program's own end: a daemon it left may hold it open.
const OUTPUT_GRACE: Duration = Duration::from_secs(2);
const POLL: Duration = Duration::from_millis(10);

/// The programs of this machine.
///
/// Each runs in a process group of its own, which is killed as a whole at the time limit and when a signal asks us to
/// end: a Ctrl-C meant for us reaches us alone. A child that makes its own session escapes the kill; systemd ends it
/// with our unit.
#[derive(Debug)]
pub struct SystemRunner {
    changes_refused: bool,
    interrupt: Interrupt,
}

impl SystemRunner {
    /// A runner that refuses to change a test host, see [`super::test_host`].
    #[must_use]
    pub fn new() -> Self {
        Self { changes_refused: super::test_host(), interrupt: Interrupt::default() }
    }

    /// Kills what runs when a signal comes.
    #[must_use]
    pub fn with_interrupt(self, interrupt: Interrupt) -> Self {
        Self { interrupt, ..self }
    }
}

impl Default for SystemRunner {
    fn default() -> Self {
        Self::new()
    }
}

impl Runner for SystemRunner {
    fn find(&self, program: &str) -> Option<PathBuf> {
        if program.contains('/') {
            let path = PathBuf::from(program);
            // A relative one would mean another file after the change of directory.
            return (path.is_absolute() && is_program(&path)).then_some(path);
        }
        let candidates = FULL_PATH.split(':').map(|directory| Path::new(directory).join(program));
        candidates.into_iter().find(|path| is_program(path))
    }

    fn run_with(
        &self,
        invocation: &Invocation,
        environment: &[(String, String)],
    ) -> Result<Finished, RunError> {
        let argv = invocation.argv.join(" ");
        if self.changes_refused && invocation.changes_host {
            return Err(RunError::TestHost { argv });
        }
        let shown = shown(invocation, environment);
        log::info!("run: {shown}");
        let mut running = self.start(invocation, environment)?;
        let ended = running.wait(invocation.time_limit, || self.interrupt.came()).map_err(io_error(&argv))?;
        if let Some(status) = ended {
            log::info!("run: {shown}: ended with {status}");
            return Ok(running.finished(status));
        }
        running.kill();
        if self.interrupt.came() {
            return Err(RunError::Interrupted { argv });
        }
        Err(RunError::TimedOut { argv, limit: invocation.time_limit })
    }
}

impl SystemRunner {
    #[expect(clippy::disallowed_methods, reason = "this is the seam that everything else goes through")]
    fn start(&self, invocation: &Invocation, environment: &[(String, String)]) -> Result<Running, RunError> {
        let argv = invocation.argv.join(" ");
        let (program, arguments) = invocation.argv.split_first().ok_or_else(|| {
            io_error("")(io::Error::new(io::ErrorKind::InvalidInput, "an empty command line"))
        })?;
        let path = self.find(program).ok_or_else(|| RunError::Missing { program: program.clone() })?;
        let child = Command::new(path)
            .args(arguments)
            .env_clear()
            .envs(std::env::vars_os().filter(|(name, _)| is_passed_on(name)))
            .envs(environment.iter().map(|(name, value)| (name, value)))
            .env("PATH", FULL_PATH)
            // Ours may be on a file system that is about to be unmounted.
            .current_dir("/")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .spawn();
        Ok(Running::new(child.map_err(io_error(&argv))?))
    }
}

/// A program with an environment of its own deals in secrets, and its arguments may hold one.
fn shown(invocation: &Invocation, environment: &[(String, String)]) -> String {
    if environment.is_empty() {
        invocation.argv.join(" ")
    } else {
        invocation.argv.first().cloned().unwrap_or_default()
    }
}

fn io_error(argv: &str) -> impl FnOnce(io::Error) -> RunError {
    move |source| RunError::Io { argv: argv.to_owned(), source }
}

fn is_program(path: &Path) -> bool {
    path.is_file() && access(path, AccessFlags::X_OK).is_ok()
}

/// Language and terminal; everything else a person's shell holds could change what a tool does.
fn is_passed_on(name: &OsStr) -> bool {
    name == "LANG" || name == "LANGUAGE" || name == "TERM" || name.as_encoded_bytes().starts_with(b"LC_")
}

struct Running {
    child: Child,
    stdout: Output,
    stderr: Output,
}

impl Running {
    fn new(mut child: Child) -> Self {
        let stdout = Output::collect(child.stdout.take());
        let stderr = Output::collect(child.stderr.take());
        Self { child, stdout, stderr }
    }

    /// Waits for the program's end; `None` if it did not come in time, or before `is_given_up`.
    fn wait(&mut self, limit: Duration, is_given_up: impl Fn() -> bool) -> io::Result<Option<ExitStatus>> {
        let begin = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait()? {
                return Ok(Some(status));
            }
            if begin.elapsed() >= limit || is_given_up() {
                return Ok(None);
            }
            std::thread::sleep(POLL.min(limit.saturating_sub(begin.elapsed())));
        }
    }

    fn finished(self, status: ExitStatus) -> Finished {
        let deadline = Instant::now() + OUTPUT_GRACE;
        Finished {
            code: status.code(),
            stdout: self.stdout.taken_at(deadline),
            stderr: self.stderr.taken_at(deadline),
        }
    }

    fn kill(&mut self) {
        self.signal(Signal::SIGTERM);
        // The leader is not reaped here even if it ends: its number names the group until SIGKILL is sent.
        let deadline = Instant::now() + TERM_GRACE;
        while Instant::now() < deadline && !self.has_ended() {
            std::thread::sleep(POLL);
        }
        self.signal(Signal::SIGKILL);
        let _ = self.wait(KILL_GRACE, || false);
    }

    fn has_ended(&self) -> bool {
        use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid};
        let flags = WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT;
        self.group().is_none_or(|leader| waitid(Id::Pid(leader), flags) != Ok(WaitStatus::StillAlive))
    }

    /// A failure means that nobody is left.
    fn signal(&self, signal: Signal) {
        if let Some(group) = self.group() {
            let _ = killpg(group, signal);
        }
    }

    fn group(&self) -> Option<Pid> {
        i32::try_from(self.child.id()).ok().map(Pid::from_raw)
    }
}

/// One output stream, read by a thread so that a full pipe never stops the program.
struct Output {
    kept: Arc<Mutex<Vec<u8>>>,
    reader: Option<JoinHandle<()>>,
}

impl Output {
    fn collect(stream: Option<impl Read + Send + 'static>) -> Self {
        let kept = Arc::new(Mutex::new(Vec::new()));
        let reader = stream.map(|stream| {
            let kept = Arc::clone(&kept);
            std::thread::spawn(move || drain(stream, &kept))
        });
        Self { kept, reader }
    }

    fn taken_at(self, deadline: Instant) -> Vec<u8> {
        while Instant::now() < deadline && self.reader.as_ref().is_some_and(|reader| !reader.is_finished()) {
            std::thread::sleep(POLL);
        }
        std::mem::take(&mut *self.kept.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

fn drain(mut stream: impl Read, kept: &Mutex<Vec<u8>>) {
    let mut buffer = [0; 16 << 10];
    loop {
        match stream.read(&mut buffer) {
            Ok(0) => return,
            Ok(length) => keep(kept, buffer.get(..length).unwrap_or_default()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return,
        }
    }
}

fn keep(kept: &Mutex<Vec<u8>>, bytes: &[u8]) {
    let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
    let room = OUTPUT_LIMIT.saturating_sub(kept.len()).min(bytes.len());
    kept.extend_from_slice(bytes.get(..room).unwrap_or_default());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Invocation {
        invocation(&["sh", "-c", script])
    }

    fn invocation(argv: &[&str]) -> Invocation {
        Invocation {
            argv: argv.iter().map(|&word| word.to_owned()).collect(),
            time_limit: Duration::from_secs(20),
            changes_host: false,
        }
    }

    fn run(invocation: &Invocation) -> Finished {
        SystemRunner { changes_refused: false, ..SystemRunner::new() }.run(invocation).unwrap()
    }

    #[test]
    fn code_and_both_outputs_are_kept_apart() {
        let finished = run(&shell("echo out; echo err >&2; exit 3"));
        let expected = Finished { code: Some(3), stdout: b"out\n".to_vec(), stderr: b"err\n".to_vec() };
        assert_eq!(finished, expected);
    }

    #[test]
    fn a_signal_is_no_exit_code() {
        assert_eq!(run(&shell("kill -9 $$")).code, None);
    }

    #[test]
    fn the_environment_is_ours() {
        let finished = run(&invocation(&["env"]));
        let text = String::from_utf8(finished.stdout).unwrap();
        assert!(text.contains(&format!("PATH={FULL_PATH}\n")), "{text}");
        assert!(!text.contains("CARGO"), "{text}");
    }

    #[test]
    fn arguments_reach_no_shell_and_there_is_no_input() {
        let finished = run(&invocation(&["printf", "%s|", "$(id)", "a b", "*"]));
        assert_eq!(finished.stdout, b"$(id)|a b|*|");
        assert_eq!(run(&invocation(&["cat"])).stdout, b"");
    }

    #[test]
    fn a_flood_is_cut_and_does_not_block() {
        let finished = run(&shell("head -c 9000000 /dev/zero; head -c 9000000 /dev/zero >&2"));
        assert_eq!(finished.code, Some(0));
        assert_eq!((finished.stdout.len(), finished.stderr.len()), (OUTPUT_LIMIT, OUTPUT_LIMIT));
    }

    #[test]
    fn a_broken_pipe_ends_the_writer_quietly() {
        let finished = run(&shell("yes | head -n 1"));
        assert_eq!((finished.stdout.as_slice(), finished.stderr.as_slice()), (&b"y\n"[..], &b""[..]));
    }

    #[test]
    fn at_the_limit_grandchildren_die_too() {
        let tree = tempfile::tempdir().unwrap();
        let pids = tree.path().join("pids");
        // The grandchild ignores SIGTERM.
        let script = format!("(trap '' TERM; exec sleep 300) & echo $! >{}; wait", pids.display());
        let invocation = Invocation { time_limit: Duration::from_millis(500), ..shell(&script) };
        let error =
            SystemRunner { changes_refused: false, ..SystemRunner::new() }.run(&invocation).unwrap_err();
        assert!(matches!(error, RunError::TimedOut { .. }), "{error}");
        let pid = std::fs::read_to_string(pids).unwrap();
        assert!(is_gone_soon(pid.trim()), "grandchild {pid} lives");
    }

    fn is_gone_soon(pid: &str) -> bool {
        let lives = || {
            let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
            !status.is_empty() && !status.contains("State:\tZ")
        };
        (0..100).any(|_| {
            std::thread::sleep(Duration::from_millis(20));
            !lives()
        })
    }

    #[test]
    fn a_daemon_left_behind_does_not_hold_us() {
        let begin = Instant::now();
        let finished = run(&shell("echo ready; sleep 15 &"));
        assert_eq!(finished.stdout, b"ready\n");
        assert!(begin.elapsed() < Duration::from_secs(10));
    }

    #[test]
    fn a_missing_program_is_named() {
        let error = SystemRunner::new().run(&invocation(&["no-such-program", "x"])).unwrap_err();
        assert!(matches!(&error, RunError::Missing { program } if program == "no-such-program"), "{error}");
        assert!(SystemRunner::new().run(&invocation(&[])).is_err());
        assert_eq!(SystemRunner::new().find("/etc/passwd"), None);
        assert_eq!(SystemRunner::new().find("../bin/sh"), None);
        assert_eq!(SystemRunner::new().find("/bin/sh").as_deref(), Some(Path::new("/bin/sh")));
    }

    #[test]
    fn a_test_host_is_not_changed() {
        let runner = SystemRunner { changes_refused: true, ..SystemRunner::new() };
        assert!(runner.run(&invocation(&["true"])).is_ok());
        let error = runner.run(&Invocation { changes_host: true, ..invocation(&["true"]) }).unwrap_err();
        assert!(matches!(error, RunError::TestHost { .. }));
    }
}
