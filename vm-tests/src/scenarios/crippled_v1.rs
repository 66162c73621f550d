//! A newer system forced to a v1 that lacks half of its controllers.

use anyhow::{Result, ensure};
use serde_json::Value;

use super::Scenario;
use crate::context::Context;
use crate::expect;
use crate::image::State;
use crate::node::text_at;
use crate::product::Build;
use crate::qemu::Writes;

pub(super) const SCENARIO: Scenario = Scenario {
    name: "crippled-v1",
    about: "trixie forced to v1, whose kernel has no v1 memory and cpuset: told so, then migrated",
    state: State::Crippled,
    build: Build::Plain,
    run: told_and_migrated,
};

fn told_and_migrated(context: &Context) -> Result<()> {
    context.with_node(State::Crippled, Writes::Fast, |node| {
        let words = node.kernel_words()?;
        let detected = node.json("detect")?;
        let hierarchy = text_at(&detected, "hierarchy")?;
        ensure!(hierarchy == "hybrid", "detect says {hierarchy}, not hybrid: {detected}");
        let missing =
            detected.pointer("/controllers/missing").and_then(Value::as_array).cloned().unwrap_or_default();
        for controller in ["memory", "cpuset"] {
            ensure!(
                missing.iter().any(|name| name == controller),
                "{controller} is not told as missing: {detected}"
            );
        }
        node.expect_exit("check", 0)?;
        context.say("migrating");
        let status = node.through_reboot("migrate --yes")?;
        expect::migrated(node, &status, &words)?;
        expect::boots(node, 2)
    })
}
