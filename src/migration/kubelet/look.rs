//! What has to change, from the files as they are now.

use anyhow::{Context as _, Result};

use super::Kubelet;
use crate::facts::kubelet;
use crate::host::{Host, sha256};
use crate::kubelet::{Change, Goal, Owner, Refusal, flip, marks};
use crate::migration::begin::touched;
use crate::migration::journal::{Journal, Kind, KubeletPart};
use crate::migration::{originals, state_path};

impl Kubelet<'_> {
    /// Finds out, saves the originals, and keeps the new contents beside the journal. That it is not for this program
    /// to do, or cannot be done, is noted: v2 is proven all the same.
    pub(in crate::migration) fn look(&self, journal: &mut Journal) {
        let host = self.effects.host;
        let setup = kubelet::setup(host, true);
        let own_way = setup.owner.own_way(Goal::RefuseV1.value());
        let mut part = KubeletPart::default();
        forget_intentions(journal);
        match flip(&setup, Goal::RefuseV1) {
            Err(refusals) => part.notes = refusals.iter().map(note).collect(),
            Ok(changes) if changes.is_empty() => {}
            Ok(changes) => match (unit(host, setup.owner), self.intend(journal, &changes)) {
                (Some(unit), Ok(())) => part.unit = Some(unit),
                (None, _) => {
                    part.notes.push(left(&format!(
                        "no unit of systemd that runs the kubelet was found; {own_way}"
                    )));
                }
                (_, Err(error)) => part.notes.push(left(&format!("{error:#}; {own_way}"))),
            },
        }
        if part.unit.is_none() {
            forget_intentions(journal);
        }
        part.notes.iter().for_each(|note| log::warn!("{note}"));
        journal.kubelet = Some(part);
    }

    fn intend(&self, journal: &mut Journal, changes: &[Change]) -> Result<()> {
        let fs = self.effects.host.fs;
        for Change { edit, .. } in changes {
            let before = edit.before.as_ref().map(|bytes| sha256(bytes));
            let file = touched(edit.path.clone(), Kind::Kubelet, before, Some(sha256(&edit.after)));
            // One that an earlier try has put back already is the same file again.
            let known =
                journal.files.iter().position(|known| known.kind == Kind::Kubelet && known.path == file.path);
            let index = known.unwrap_or(journal.files.len());
            match journal.files.get_mut(index) {
                Some(known) => *known = file,
                None => journal.files.push(file),
            }
            originals::keep_new(fs, journal, index, &edit.after).context("keep the kubelet's new files")?;
            originals::save(fs, journal, index).context("save the kubelet's files")?;
        }
        Ok(fs.sync_file_system(&state_path(&journal.txn))?)
    }
}

/// What was never written is no file of the migration. Files are written in their order: those are the last ones.
fn forget_intentions(journal: &mut Journal) {
    while journal.files.last().is_some_and(|file| file.kind == Kind::Kubelet && !file.touched) {
        journal.files.pop();
    }
}

/// Of two that could (a server and an agent) the one that runs.
fn unit(host: Host<'_>, owner: Owner) -> Option<String> {
    let there = marks::units(host.fs).unwrap_or_default();
    let mut units: Vec<&str> =
        owner.units().iter().copied().filter(|unit| there.iter().any(|name| name == unit)).collect();
    if units.len() > 1 {
        units.sort_by_key(|unit| host.init.active_state(unit).is_ok_and(|state| state == "inactive"));
    }
    units.first().map(|unit| (*unit).to_owned())
}

fn note(refusal: &Refusal) -> String {
    let about = refusal.path.as_ref().map(|path| format!("{}: ", path.display())).unwrap_or_default();
    left(&format!("{about}{}; {}", refusal.why, refusal.remedy))
}

fn left(why: &str) -> String {
    format!("failCgroupV1 of the kubelet was left as it is: {why}")
}
