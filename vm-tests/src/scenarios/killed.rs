//! A power cut between any two effects: the next boot converges, on v2 or back where it was, without a loop.

use anyhow::{Result, bail, ensure};
use serde_json::Value;

use super::Scenario;
use crate::context::Context;
use crate::image::State;
use crate::node::{Fingerprint, Node, text_at};
use crate::product::Build;
use crate::qemu::Writes;
use crate::{expect, limits};

pub(super) const SCENARIOS: [Scenario; 9] = [
    at("killed-before-save-originals", |context| power_cut(context, "before-save-originals")),
    at("killed-after-save-originals", |context| power_cut(context, "after-save-originals")),
    at("killed-before-write-file", |context| power_cut(context, "before-write-file")),
    at("killed-after-write-file", |context| power_cut(context, "after-write-file")),
    at("killed-before-regenerate", |context| power_cut(context, "before-regenerate")),
    at("killed-after-regenerate", |context| power_cut(context, "after-regenerate")),
    at("killed-before-request-reboot", |context| power_cut(context, "before-request-reboot")),
    at("killed-before-verify", |context| power_cut(context, "before-verify")),
    at("killed-after-verify", |context| power_cut(context, "after-verify")),
];

const fn at(name: &'static str, run: fn(&Context) -> Result<()>) -> Scenario {
    Scenario {
        name,
        about: "a power cut at that point of a migration: the next boot ends on v2 or where it began",
        state: State::Hybrid,
        build: Build::Failpoints,
        run,
    }
}

fn power_cut(context: &Context, failpoint: &str) -> Result<()> {
    context.with_node(State::Hybrid, Writes::Durable, |node| {
        let before = node.fingerprint()?;
        let words = node.kernel_words()?;
        arm(node, failpoint)?;
        context.say("migrating, to be stopped on the way");
        node.vm.must("systemd-run --quiet --collect --unit=migration cgroup2-migrate migrate --yes")?;
        node.vm.wait_for_console(&reached(failpoint), 0, limits::reboot() + limits::long_command())?;
        context.say("stopped; power cut");
        node.vm.cut_power()?;
        node.vm.power_on(&crate::qemu::Boot::Firmware)?;
        let status = node.wait_until_settled()?;
        context.say(&format!("came to rest: {}", text_at(&status, "phase")?));
        converged(node, &status, &before, &words)?;
        node.vm.ensure_stays_up(limits::stillness())?;
        rebooted_only_as_asked(node, &status)
    })
}

/// The program, on reaching this point, removes the file, says so on the console and waits for ever.
fn arm(node: &mut Node, failpoint: &str) -> Result<()> {
    node.vm.must(&format!("echo {failpoint} >/etc/cgroup2-migrate-failpoint && sync"))?;
    Ok(())
}

fn reached(failpoint: &str) -> String {
    format!("cgroup2-migrate failpoint {failpoint}")
}

fn converged(node: &mut Node, status: &Value, before: &Fingerprint, words: &[String]) -> Result<()> {
    match text_at(status, "phase")?.as_str() {
        "done" => expect::migrated(node, status, words),
        "rolled-back" => expect::rolled_back(node, status, before, "hybrid"),
        other => bail!("came to rest in {other}: {status}"),
    }
}

/// The first boot, the one after the cut, and those the program asked for: at most one to migrate, one to go back.
fn rebooted_only_as_asked(node: &mut Node, status: &Value) -> Result<()> {
    let asked = |purpose: &str| {
        let reboots = status.get("reboots").and_then(Value::as_array).cloned().unwrap_or_default();
        reboots.iter().filter(|reboot| reboot.get("purpose").and_then(Value::as_str) == Some(purpose)).count()
    };
    let (to_migrate, to_go_back) = (asked("migrate"), asked("rollback"));
    ensure!(to_migrate <= 1 && to_go_back <= 1, "asked for more than one reboot: {status}");
    let boots = node.boots()?.len();
    ensure!(
        boots <= 2 + to_migrate + to_go_back,
        "{boots} boots, of which only {} were asked for",
        to_migrate + to_go_back
    );
    Ok(())
}
