//! `plan`: the steps, the diffs, the way back; nothing is changed.

use std::path::Path;

use anyhow::Result;

use super::args::Look;
use super::check::verdict;
use super::kubernetes::add_node;
use super::output::{print, print_json};
use super::{Exit, text};
use crate::{facts, plan};

pub(super) fn run(arguments: &Look, config: Option<&Path>) -> Result<Exit> {
    let (session, scan) = arguments.target.open()?;
    let settings = session.settings(config, &arguments.choices)?;
    let mut facts = facts::scan(session.host(), &scan);
    add_node(&mut facts, &session, &settings);
    let plan = plan::make(&facts, &settings);
    if arguments.json {
        print_json(&plan)?;
    } else {
        print(&text::plan(&plan, &settings.accept))?;
    }
    Ok(verdict(&plan.blockers(&settings.accept)))
}
