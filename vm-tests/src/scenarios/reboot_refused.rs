//! Reboots that systemd would refuse: found before anything is written, survived when they come later.

use anyhow::{Result, ensure};

use super::Scenario;
use crate::context::Context;
use crate::image::State;
use crate::node::{Fingerprint, Node};
use crate::product::Build;
use crate::qemu::Writes;
use crate::{expect, limits};

pub(super) const SCENARIO: Scenario = Scenario {
    name: "reboot-refused",
    about: "masked reboot.target and a block inhibitor: found in time; one that comes later: state kept, exit 75",
    state: State::Hybrid,
    build: Build::Plain,
    run: refused_then_done,
};

/// Exit codes of the program.
const BLOCKED: i32 = 3;
const TRY_LATER: i32 = 75;

fn refused_then_done(context: &Context) -> Result<()> {
    context.with_node(State::Hybrid, Writes::Fast, |node| {
        let before = node.fingerprint()?;
        let words = node.kernel_words()?;

        context.say("reboot.target masked");
        node.vm.must("systemctl mask reboot.target")?;
        is_blocked(node, &before, "reboot.target")?;
        node.vm.must("systemctl unmask reboot.target")?;

        context.say("a block inhibitor before the start");
        hold_shutdown(node)?;
        is_blocked(node, &before, WHO)?;
        release_shutdown(node)?;

        context.say("a block inhibitor after the files are staged");
        node.expect_exit("migrate --yes --until staged", 0)?;
        hold_shutdown(node)?;
        let boot = node.vm.mark_boot()?;
        node.expect_exit("resume --reboot-wait 5", TRY_LATER)?;
        ensure!(node.phase()? == "staged", "the phase is {}, not staged", node.phase()?);
        node.vm.ensure_stays_up(limits::stillness())?;
        ensure!(node.vm.mark_boot()? == boot, "it rebooted against a block inhibitor");
        release_shutdown(node)?;

        context.say("released: resuming");
        let status = node.through_reboot("resume")?;
        expect::migrated(node, &status, &words)?;
        expect::boots(node, 2)
    })
}

/// Refused with a finding that names `culprit`; nothing written.
fn is_blocked(node: &mut Node, before: &Fingerprint, culprit: &str) -> Result<()> {
    let answer = node.expect_exit("migrate --yes", BLOCKED)?;
    let said = format!("{}{}", answer.stdout, answer.stderr);
    ensure!(said.contains(culprit), "the finding does not name {culprit}:\n{said}");
    before.ensure_unchanged(&node.fingerprint()?)?;
    let phase = node.phase()?;
    ensure!(phase == "none", "the phase is {phase} although nothing was begun");
    Ok(())
}

const WHO: &str = "nightly-backup";

fn hold_shutdown(node: &mut Node) -> Result<()> {
    node.vm.must(&format!(
        "systemd-run --quiet --unit=hold-shutdown systemd-inhibit --what=shutdown --mode=block --who={WHO} \
         --why='a backup is running' sleep 1000
         until systemd-inhibit --list --no-pager | grep -q {WHO}; do sleep 1; done"
    ))?;
    Ok(())
}

fn release_shutdown(node: &mut Node) -> Result<()> {
    node.vm.must(&format!(
        "systemctl stop hold-shutdown.service
         while systemd-inhibit --list --no-pager | grep -q {WHO}; do sleep 1; done"
    ))?;
    Ok(())
}
