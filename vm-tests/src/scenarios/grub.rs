//! The whole way on Debian with GRUB: migrate, reboot by itself, resume by the unit, prove it.

use anyhow::Result;

use super::Scenario;
use crate::context::Context;
use crate::expect;
use crate::image::State;
use crate::product::Build;
use crate::qemu::Writes;

pub(super) const HYBRID: Scenario = Scenario {
    name: "grub-hybrid",
    about: "bookworm on the hybrid hierarchy goes to v2 with one reboot; a second run has nothing to do",
    state: State::Hybrid,
    build: Build::Plain,
    run: |context| migrates(context, State::Hybrid),
};

pub(super) const LEGACY: Scenario = Scenario {
    name: "grub-legacy",
    about: "bookworm on pure v1 goes to v2 with one reboot; a second run has nothing to do",
    state: State::Legacy,
    build: Build::Plain,
    run: |context| migrates(context, State::Legacy),
};

fn migrates(context: &Context, state: State) -> Result<()> {
    context.with_node(state, Writes::Fast, |node| {
        let words = node.kernel_words()?;
        let status = node.status()?;
        expect::hierarchy(node, &status, state.name())?;
        context.say("migrating");
        let status = node.through_reboot("migrate --yes")?;
        context.say("back and settled");
        expect::migrated(node, &status, &words)?;
        expect::boots(node, 2)?;
        let settled = node.fingerprint()?;
        context.say("migrating again");
        node.expect_exit("migrate --yes", 0)?;
        settled.ensure_unchanged(&node.fingerprint()?)?;
        node.expect_exit("verify", 0)?;
        expect::boots(node, 2)
    })
}
