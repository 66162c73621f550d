//! The ways into a run: a new migration from a plan, a stopped one that a person lets go on, a way back.

use anyhow::{Context, Result, bail};

use super::decide::Ending;
use super::journal::{Before, Entry, Journal, Kind, NodePart, Options, Purpose, SCHEMA, TouchedFile};
use super::observe::{content_hash, observe};
use super::originals;
use super::phase::{Phase, PhaseName};
use super::store::Store;
use crate::boot::hierarchy::Hierarchy;
use crate::config::fleet::Fleet;
use crate::facts::{Facts, kernel, kubelet, storage, systemd::SystemdFacts};
use crate::host::{Host, sha256};
use crate::kubelet::{Effective, FAIL_CGROUP_V1};
use crate::plan::Plan;

/// Writes the journal of a new migration. Nothing of the host is changed yet.
///
/// # Errors
/// If the boot id cannot be read or the state directory not be written.
pub fn begin(host: Host<'_>, facts: &Facts, plan: &Plan, options: Options, fleet: &Fleet) -> Result<Journal> {
    let boot_id = kernel::boot_id(host.fs).context("begin the migration")?;
    let now = host.clock.now();
    let journal = Journal {
        schema: SCHEMA,
        txn: format!("{}-{}", now.strftime("%Y%m%dT%H%M%SZ"), boot_id.chars().take(8).collect::<String>()),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        state: Phase::Planned,
        node: node(facts, &options),
        fleet: super::fleet::part(fleet, facts),
        options,
        before: before(facts, plan, &boot_id),
        files: touched_files(host, plan)?,
        kubelet: None,
        originals_saved: false,
        reboots: Vec::new(),
        waiting: None,
        history: vec![Entry { at: now, boot_id, phase: PhaseName::Planned, why: None }],
    };
    originals::prepare(host.fs, &journal.txn)?;
    for (index, file) in plan.files.iter().enumerate() {
        originals::keep_new(host.fs, &journal, index, &file.content)?;
    }
    Store::new(host.fs).save(&journal)?;
    originals::forget_earlier(host.fs, &journal.txn);
    Ok(journal)
}

/// What the node is before the first patch. Where the API server was not asked, somebody else drains.
fn node(facts: &Facts, options: &Options) -> Option<NodePart> {
    let preflight = facts.node.as_ref()?.as_ref().ok().filter(|_| !options.no_drain)?;
    Some(NodePart {
        before: preflight.before.clone(),
        cordon_begun: false,
        cordoned: false,
        drained: false,
        released: false,
        left_cordoned: None,
    })
}

fn before(facts: &Facts, plan: &Plan, boot_id: &str) -> Before {
    Before {
        boot_id: boot_id.to_owned(),
        hierarchy: plan.hierarchy,
        controllers: facts.cgroup.usable_controllers(),
        cmdline: facts.kernel.command_line.clone().unwrap_or_default(),
    }
}

/// Edited files in the plan's order, then the generated one.
fn touched_files(host: Host<'_>, plan: &Plan) -> Result<Vec<TouchedFile>> {
    let mut files: Vec<TouchedFile> = plan
        .files
        .iter()
        .map(|file| {
            let after = Some(sha256(&file.content));
            touched(file.path.clone(), Kind::Edited, file.before_sha256.clone(), after)
        })
        .collect();
    if let Some(path) = &plan.generated {
        let before = content_hash(host, path)?;
        files.push(touched(path.clone(), Kind::Generated, before, None));
    }
    Ok(files)
}

pub(super) fn touched(
    path: std::path::PathBuf,
    kind: Kind,
    before: Option<String>,
    after: Option<String>,
) -> TouchedFile {
    TouchedFile {
        path,
        kind,
        before,
        after,
        attributes: None,
        link_target: None,
        touched: false,
        made_directory: false,
        regenerated: None,
        original_outdated: false,
    }
}

/// A person lets a stopped migration go on: a stop that was asked for is over, and a boot that could not be judged
/// is judged again.
///
/// # Errors
/// From another mount namespace, or if the journal cannot be written.
pub fn reopen(host: Host<'_>, journal: &mut Journal) -> Result<()> {
    among_files_of_host(host, journal)?;
    journal.options.until = None;
    if journal.state.name() == PhaseName::NeedsPerson {
        let boot_id = kernel::boot_id(host.fs)?;
        if boot_id != journal.before.boot_id {
            journal.kubelet = None;
            journal.advance(Phase::Booted, host.clock.now(), &boot_id)?;
        }
    }
    Ok(Store::new(host.fs).save(journal)?)
}

/// A person goes on with a migration that is under way, with other options than before. What was accepted stays so.
///
/// # Errors
/// From another mount namespace, or if the journal cannot be written.
pub fn take_up(host: Host<'_>, journal: &mut Journal, options: Options) -> Result<()> {
    among_files_of_host(host, journal)?;
    let before = std::mem::replace(&mut journal.options, options);
    let accepted = &mut journal.options.accepted;
    let still: Vec<String> = before.accepted.into_iter().filter(|id| !accepted.contains(id)).collect();
    accepted.extend(still);
    journal.options.no_drain |= before.no_drain;
    Ok(Store::new(host.fs).save(journal)?)
}

/// What forbids a way back from here, found before a word of it is written: then the state stays what it is.
///
/// # Errors
/// From another mount namespace, or if the host cannot be looked at.
pub fn hindrance(host: Host<'_>, systemd: &SystemdFacts, journal: &Journal) -> Result<Option<Ending>> {
    among_files_of_host(host, journal)?;
    let state = Phase::RollingBack { why: String::new() };
    let seen = observe(host, systemd, &Journal { state, ..journal.clone() })?;
    if let Err(found) = seen.storage {
        let what = format!("{found}; nothing was changed; set it right, then `rollback` again");
        return Ok(Some(Ending::NeedsPerson(what)));
    }
    if seen.hierarchy == journal.before.hierarchy {
        return Ok(None);
    }
    let refused = seen.way_back.err().map(|why| format!("there is no way back: {why}; nothing was changed"));
    Ok(refused.or_else(|| in_service(journal)).map(Ending::Blocked))
}

/// A node that came back into service runs pods again: a way back that reboots it would take them along.
fn in_service(journal: &Journal) -> Option<String> {
    let Options { no_drain, no_reboot, .. } = journal.options;
    let node = journal.node.as_ref().filter(|node| node.released && !no_drain && !no_reboot)?;
    Some(format!(
        "node {} is in service again, and the way back reboots it; nothing was changed; `cgroup2-migrate drain` first, \
         then `rollback --no-drain`, and `uncordon` after the boot",
        node.before.node
    ))
}

/// What a person should know before a way back: that the kubelet would not start on v1. Where its files were changed,
/// their originals come back, which say that v1 is fine; otherwise it was upgraded or set up anew since.
#[must_use]
pub fn warning(host: Host<'_>, journal: &Journal) -> Option<String> {
    let comes_back = |file: &TouchedFile| file.kind == Kind::Kubelet && file.touched;
    if journal.before.hierarchy == Hierarchy::Unified || journal.files.iter().any(comes_back) {
        return None;
    }
    let effective = Effective::of(&kubelet::setup(host, true));
    let refuses = effective.get(FAIL_CGROUP_V1).filter(|setting| setting.value == true)?;
    Some(format!(
        "the kubelet would not start on cgroup v1: failCgroupV1 is true ({}); set it to false before the way back",
        refuses.origin
    ))
}

/// A person turns a migration back. A reboot of an earlier way back, in an earlier boot, is over: this one may ask
/// for its own.
///
/// # Errors
/// From another mount namespace, if there is no way back from its phase, or if the journal cannot be written.
pub fn turn_back(host: Host<'_>, journal: &mut Journal, why: &str) -> Result<()> {
    among_files_of_host(host, journal)?;
    let boot_id = kernel::boot_id(host.fs)?;
    journal.options.until = None;
    journal.reboots.retain(|request| request.purpose != Purpose::Rollback || request.boot_id == boot_id);
    journal.advance(Phase::RollingBack { why: why.to_owned() }, host.clock.now(), &boot_id)?;
    Ok(Store::new(host.fs).save(journal)?)
}

/// A person can stand where the journal is the host's and `/boot` is not. Where that cannot be found out, `check` has
/// said so before the migration began. The unit at boot is started where process 1 is.
fn among_files_of_host(host: Host<'_>, journal: &Journal) -> Result<()> {
    let elsewhere = |file: &&TouchedFile| storage::is_of_host(host, &file.path) == Ok(false);
    let Some(file) = journal.files.iter().find(elsewhere) else { return Ok(()) };
    bail!(
        "go on with the migration: {} here is not that of the host, as this is another mount namespace than that of \
         process 1; nothing was changed; run it there: nsenter --target 1 --mount cgroup2-migrate …",
        file.path.display()
    )
}
