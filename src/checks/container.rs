//! The program must run on the host itself.

use crate::config::Settings;
use crate::facts::Facts;
use crate::report::Finding;

pub(super) fn check(facts: &Facts, _: &Settings) -> Vec<Finding> {
    facts.container.refusal().into_iter().collect()
}
