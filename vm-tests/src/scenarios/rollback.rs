//! There and back: after a rollback the machine is what it was.

use anyhow::Result;

use super::Scenario;
use crate::context::Context;
use crate::expect;
use crate::image::State;
use crate::product::Build;
use crate::qemu::Writes;

pub(super) const SCENARIO: Scenario = Scenario {
    name: "rollback",
    about: "migrated, then rolled back: v1 again after one reboot, every file byte for byte as before",
    state: State::Hybrid,
    build: Build::Plain,
    run: there_and_back,
};

fn there_and_back(context: &Context) -> Result<()> {
    context.with_node(State::Hybrid, Writes::Fast, |node| {
        let before = node.fingerprint()?;
        let words = node.kernel_words()?;
        context.say("migrating");
        let status = node.through_reboot("migrate --yes")?;
        expect::migrated(node, &status, &words)?;
        context.say("rolling back");
        let status = node.through_reboot("rollback --yes")?;
        expect::rolled_back(node, &status, &before, "hybrid")?;
        expect::boots(node, 3)
    })
}
