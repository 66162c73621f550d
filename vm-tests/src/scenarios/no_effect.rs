//! The right words on the kernel command line, and v1 all the same: no second try, but the way back.

use anyhow::{Result, ensure};

use super::Scenario;
use crate::context::Context;
use crate::image::State;
use crate::node::text_at;
use crate::product::Build;
use crate::qemu::Writes;
use crate::{expect, limits};

pub(super) const SCENARIO: Scenario = Scenario {
    name: "no-effect",
    about: "the initrd mounts v1 whatever the arguments say: one reboot, files restored, told why, no loop",
    state: State::Stuck,
    build: Build::Plain,
    run: goes_back,
};

fn goes_back(context: &Context) -> Result<()> {
    context.with_node(State::Stuck, Writes::Fast, |node| {
        let before = node.fingerprint()?;
        context.say("migrating");
        let status = node.through_reboot("migrate --yes")?;
        context.say("back and settled");
        expect::rolled_back(node, &status, &before, "hybrid")?;
        expect::boots(node, 2)?;
        let why = text_at(&status, "why")?;
        ensure!(
            why.contains("v1") || why.contains("hybrid"),
            "the reason does not say that the hierarchy is still v1: {why}"
        );
        ensure!(
            !node.kernel_words()?.iter().any(|word| word == "systemd.unified_cgroup_hierarchy=0"),
            "the new line was never booted, so this scenario proved nothing"
        );
        node.vm.ensure_stays_up(limits::stillness())
    })
}
