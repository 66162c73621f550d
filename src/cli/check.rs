//! `check`: every finding at once.

use std::path::Path;

use anyhow::Result;
use serde_json::json;

use super::args::Look;
use super::kubernetes::add_node;
use super::output::{print, print_json};
use super::{Exit, text};
use crate::{checks, facts, plan};

pub(super) fn run(arguments: &Look, config: Option<&Path>) -> Result<Exit> {
    let (session, scan) = arguments.target.open()?;
    let settings = session.settings(config, &arguments.choices)?;
    let mut facts = facts::scan(session.host(), &scan);
    add_node(&mut facts, &session, &settings);
    let plan = plan::make(&facts, &settings);
    if arguments.json {
        print_json(&json!({
            "schema": plan::SCHEMA, "hierarchy": plan.hierarchy, "findings": plan.findings,
        }))?;
    } else {
        print(&text::findings(&plan, &settings.accept))?;
    }
    Ok(verdict(&checks::blockers(&plan.findings, &settings.accept)))
}

/// The exit code that blockers lead to.
#[must_use]
pub fn verdict(blockers: &[&crate::report::Finding]) -> Exit {
    match blockers {
        [] => Exit::Done,
        found if found.iter().any(|finding| finding.is_unsupported()) => Exit::Unsupported,
        _ => Exit::Blocked,
    }
}
