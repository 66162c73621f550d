//! A guest with the program installed: what a test does to it, and what it can ask it.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use crate::limits;
use crate::ssh::{Answer, CONNECTION_LOST};
use crate::vm::Vm;

/// A machine under test.
#[derive(Debug)]
pub(crate) struct Node {
    /// The machine itself.
    pub(crate) vm: Vm,
}

/// Whether this is a phase after which nothing happens by itself any more.
pub(crate) fn is_settled(phase: &str) -> bool {
    ["done", "rolled-back", "needs-person"].contains(&phase)
}

impl Node {
    /// Runs the program with these arguments, whatever its exit code.
    pub(crate) fn program(&mut self, arguments: &str) -> Result<Answer> {
        self.vm.run_within(&format!("cgroup2-migrate {arguments}"), limits::long_command())
    }

    /// Runs the program, which must end with this exit code.
    pub(crate) fn expect_exit(&mut self, arguments: &str, code: i32) -> Result<Answer> {
        let answer = self.program(arguments)?;
        ensure!(
            answer.code == code,
            "`cgroup2-migrate {arguments}` ended with {}, not {code}:\n{}{}",
            answer.code,
            answer.stdout,
            answer.stderr
        );
        Ok(answer)
    }

    /// Runs the program with `--json` added and reads what it prints, whatever its exit code.
    pub(crate) fn json(&mut self, arguments: &str) -> Result<Value> {
        let answer = self.program(&format!("{arguments} --json"))?;
        serde_json::from_str(&answer.stdout).with_context(|| {
            format!(
                "`cgroup2-migrate {arguments} --json` (exit {}) is no JSON: {}{}",
                answer.code, answer.stdout, answer.stderr
            )
        })
    }

    /// `status --json`.
    pub(crate) fn status(&mut self) -> Result<Value> {
        self.json("status")
    }

    /// The phase `status` gives.
    pub(crate) fn phase(&mut self) -> Result<String> {
        text_at(&self.status()?, "phase")
    }

    /// Runs a verb that ends in a reboot, and waits until the machine is back and the program has come to rest.
    /// The connection may break while it runs, so its exit code counts only when it is an honest failure.
    pub(crate) fn through_reboot(&mut self, arguments: &str) -> Result<Value> {
        let before = self.vm.mark_boot()?;
        let answer = self.program(arguments)?;
        ensure!(
            answer.code == 0 || answer.code == CONNECTION_LOST,
            "`cgroup2-migrate {arguments}` ended with {} instead of rebooting:\n{}{}",
            answer.code,
            answer.stdout,
            answer.stderr
        );
        self.vm.wait_for_reboot(&before)?;
        self.wait_until_settled()
    }

    /// Waits until nothing more happens by itself, over as many reboots as it takes, and gives the last status.
    pub(crate) fn wait_until_settled(&mut self) -> Result<Value> {
        let deadline = Instant::now() + limits::reboot();
        let mut last = String::from("no answer");
        while Instant::now() < deadline {
            self.vm.follow_reset()?;
            if let Some(status) = self.status_if_up()? {
                last = text_at(&status, "phase")?;
                if is_settled(&last) {
                    return Ok(status);
                }
            }
            std::thread::sleep(Duration::from_secs(2));
        }
        bail!("the program did not come to rest; last phase: {last}")
    }

    /// What the kernel itself says is mounted: `unified`, `hybrid`, `legacy`.
    pub(crate) fn hierarchy(&mut self) -> Result<String> {
        let kind = self.vm.must(
            "stat -fc %T /sys/fs/cgroup; stat -fc %T /sys/fs/cgroup/unified 2>/dev/null || echo absent",
        )?;
        match kind.lines().collect::<Vec<_>>().as_slice() {
            ["cgroup2fs", _] => Ok("unified".into()),
            ["tmpfs", "cgroup2fs"] => Ok("hybrid".into()),
            ["tmpfs", _] => Ok("legacy".into()),
            _ => bail!("unheard-of file systems: {kind}"),
        }
    }

    /// The words the running kernel was given.
    pub(crate) fn kernel_words(&mut self) -> Result<Vec<String>> {
        Ok(self.vm.must("cat /proc/cmdline")?.split_whitespace().map(str::to_owned).collect())
    }

    /// Every file of the boot configuration: path, kind, mode, owner, link target, content.
    pub(crate) fn fingerprint(&mut self) -> Result<Fingerprint> {
        let list = self.vm.must(FINGERPRINT)?;
        Ok(Fingerprint(list.lines().map(str::to_owned).collect()))
    }

    /// The boot ids of all boots so far, written down by the guest itself at each boot.
    pub(crate) fn boots(&mut self) -> Result<Vec<String>> {
        Ok(self.vm.must("cat /var/log/boots")?.lines().map(str::to_owned).collect())
    }

    /// `status --json`, or nothing while the machine is on its way down or up.
    pub(crate) fn status_if_up(&mut self) -> Result<Option<Value>> {
        if !self.vm.ssh()?.greets() {
            return Ok(None);
        }
        let answer = self.program("status --json")?;
        if answer.code == CONNECTION_LOST {
            return Ok(None);
        }
        let status = serde_json::from_str(&answer.stdout).with_context(|| {
            format!("status --json, exit {}: {}{}", answer.code, answer.stdout, answer.stderr)
        })?;
        Ok(Some(status))
    }
}

const FINGERPRINT: &str = "cd / && export LC_ALL=C
find etc/default etc/grub.d boot/grub -path boot/grub/i386-pc -prune -o -printf '%p %y %m %U:%G %l\\n' | sort
find etc/default etc/grub.d boot/grub -path boot/grub/i386-pc -prune -o -type f -print0 | sort -z | xargs -0 sha256sum";

/// The boot configuration at one time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fingerprint(Vec<String>);

impl Fingerprint {
    /// Fails naming every file that is not as it was.
    pub(crate) fn ensure_unchanged(&self, now: &Self) -> Result<()> {
        let gone = self.0.iter().filter(|line| !now.0.contains(line)).map(|line| format!("- {line}"));
        let new = now.0.iter().filter(|line| !self.0.contains(line)).map(|line| format!("+ {line}"));
        let differences: Vec<String> = gone.chain(new).collect();
        ensure!(differences.is_empty(), "files are not as they were:\n{}", differences.join("\n"));
        Ok(())
    }
}

/// A text field of a status.
pub(crate) fn text_at(value: &Value, field: &str) -> Result<String> {
    value
        .get(field)
        .and_then(Value::as_str)
        .map(str::to_owned)
        .with_context(|| format!("no text \"{field}\" in {value}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_changed_file_is_named_with_both_its_lines() {
        let before = Fingerprint(vec!["boot/grub/grub.cfg f 444".into(), "etc/default/grub f 644".into()]);
        let now = Fingerprint(vec!["boot/grub/grub.cfg f 600".into(), "etc/default/grub f 644".into()]);
        before.ensure_unchanged(&before).unwrap();
        let error = before.ensure_unchanged(&now).unwrap_err().to_string();
        assert!(error.contains("- boot/grub/grub.cfg f 444\n+ boot/grub/grub.cfg f 600"), "{error}");
        assert!(!error.contains("etc/default"), "{error}");
    }
}
