//! A message bus of the test's own, with made-up services on it.
#![expect(clippy::disallowed_methods, reason = "a test starts its helpers itself")]

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use cgroup2_migrate::host::logind::SystemBus;
use cgroup2_migrate::host::{Init as _, InitError};

const PYTHON: &str = "/usr/bin/python3";
const TEMPLATE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/dbus_template.py");
const CONFIGURATION: &str = r#"<!DOCTYPE busconfig PUBLIC "-//freedesktop//DTD D-Bus Bus Configuration 1.0//EN"
 "http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd">
<busconfig><type>system</type><listen>unix:dir=DIRECTORY</listen><auth>EXTERNAL</auth>
<policy context="default"><allow send_destination="*"/><allow eavesdrop="true"/><allow own="*"/></policy>
</busconfig>"#;

/// The bus and its services; all end with it.
pub(crate) struct PrivateBus {
    directory: tempfile::TempDir,
    pub(crate) address: String,
    processes: Vec<Child>,
}

impl PrivateBus {
    /// `None`, with the reason printed, if the machine has not what it takes.
    pub(crate) fn start() -> Option<Self> {
        let mocks = Command::new(PYTHON).args(["-c", "import dbusmock"]).stderr(Stdio::null()).status();
        if !mocks.is_ok_and(|status| status.success()) {
            println!("SKIP: no python3-dbusmock (apt-get install dbus python3-dbusmock)");
            return None;
        }
        let directory = tempfile::tempdir().unwrap();
        let configuration = directory.path().join("bus.conf");
        let text = CONFIGURATION.replace("DIRECTORY", &directory.path().display().to_string());
        std::fs::write(&configuration, text).unwrap();
        let daemon = Command::new("dbus-daemon")
            .args(["--nofork", "--print-address=1"])
            .arg(format!("--config-file={}", configuration.display()))
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn();
        let Ok(mut daemon) = daemon else {
            println!("SKIP: no dbus-daemon (apt-get install dbus)");
            return None;
        };
        let mut address = String::new();
        BufReader::new(daemon.stdout.take().unwrap()).read_line(&mut address).unwrap();
        Some(Self { directory, address: address.trim().to_owned(), processes: vec![daemon] })
    }

    /// Adds logind with these answers (JSON, see the template), and waits until it is there.
    pub(crate) fn with_logind(self, answers: &str) -> Self {
        self.with_service("login1", answers, |bus| is_there(&bus.can_reboot()))
    }

    /// Adds systemd with these answers.
    pub(crate) fn with_systemd(self, answers: &str) -> Self {
        self.with_service("systemd1", answers, |bus| is_there(&bus.unit_file_state("some.unit")))
    }

    fn with_service(mut self, service: &str, answers: &str, is_up: impl Fn(&SystemBus) -> bool) -> Self {
        let rest = answers.trim().trim_start_matches('{');
        let parameters = format!("{{\"service\":\"{service}\",{rest}");
        let mock = Command::new(PYTHON)
            .args(["-m", "dbusmock", "--system", "--template", TEMPLATE, "--parameters", &parameters])
            .arg("--logfile")
            .arg(self.directory.path().join(service))
            .env("DBUS_SYSTEM_BUS_ADDRESS", &self.address)
            .stdin(Stdio::null())
            .spawn();
        self.processes.push(mock.unwrap());
        let bus = self.client().with_limit(Duration::from_millis(500));
        let deadline = Instant::now() + Duration::from_secs(30);
        while !is_up(&bus) {
            assert!(Instant::now() < deadline, "the made-up {service} does not come up");
            std::thread::sleep(Duration::from_millis(50));
        }
        self
    }

    pub(crate) fn client(&self) -> SystemBus {
        SystemBus::at(&self.address)
    }

    /// The calls that the made-up logind received, but for properties and the one that asks whether it is up.
    pub(crate) fn calls_of_logind(&self) -> Vec<String> {
        self.calls_of("login1")
    }

    /// The same of the made-up systemd.
    pub(crate) fn calls_of_systemd(&self) -> Vec<String> {
        self.calls_of("systemd1")
    }

    fn calls_of(&self, service: &str) -> Vec<String> {
        let log = std::fs::read_to_string(self.directory.path().join(service)).unwrap_or_default();
        let calls = log.lines().filter_map(|line| line.split_once(' ')).map(|(_, call)| call.to_owned());
        let is_noise = |call: &String| {
            call == "CanReboot"
                || call.starts_with("Get")
                || call.contains(" raised: ")
                || call.starts_with("emit ")
        };
        calls.filter(|call| !is_noise(call)).collect()
    }

    pub(crate) fn directory(&self) -> &Path {
        self.directory.path()
    }
}

fn is_there<T>(answer: &Result<T, InitError>) -> bool {
    !matches!(answer, Err(InitError::Unreachable { .. }))
}

impl Drop for PrivateBus {
    fn drop(&mut self) {
        for process in self.processes.iter_mut().rev() {
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}

/// Runs the test `in_a_child` of this test binary with another environment.
pub(crate) fn child(what: &str, address: &str) -> bool {
    let status = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "in_a_child"])
        .envs([("C2M_CHILD", what), ("DBUS_SYSTEM_BUS_ADDRESS", address), ("CGROUP2_MIGRATE_TEST_HOST", "1")])
        .stdout(Stdio::null())
        .status();
    status.unwrap().success()
}
