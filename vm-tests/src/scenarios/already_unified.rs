//! A machine on v2 is left alone.

use anyhow::Result;

use super::Scenario;
use crate::context::Context;
use crate::image::State;
use crate::product::Build;
use crate::qemu::Writes;
use crate::{expect, limits};

pub(super) const SCENARIO: Scenario = Scenario {
    name: "already-unified",
    about: "bookworm as installed, on v2: nothing to do, nothing touched, exit 0",
    state: State::Unpinned,
    build: Build::Plain,
    run: nothing_to_do,
};

fn nothing_to_do(context: &Context) -> Result<()> {
    context.with_node(State::Unpinned, Writes::Fast, |node| {
        let before = node.fingerprint()?;
        context.say("migrating");
        node.expect_exit("migrate --yes", 0)?;
        before.ensure_unchanged(&node.fingerprint()?)?;
        let status = node.status()?;
        expect::hierarchy(node, &status, "unified")?;
        node.vm.ensure_stays_up(limits::stillness())
    })
}
