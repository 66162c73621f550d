//! What to do next: a pure, total function of what is remembered and what is seen.
//!
//! What is seen beats what is remembered: the running boot, the hierarchy by statfs, and the bytes on disk.

mod back;
mod kubelet;

use super::journal::{Journal, Kind, Purpose, TouchedFile};
use super::phase::{Phase, PhaseName};
use crate::boot::NextBoot;
use crate::boot::hierarchy::Hierarchy;

/// A file compared with what the journal knows of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileState {
    /// As before the migration (or generated anew from restored files).
    Original,
    /// As we made it.
    Ours,
    /// Neither: someone else wrote it.
    Foreign,
    /// It is not there, and should be.
    Deleted,
    /// It could not be read.
    Unknown,
}

/// What is seen of the host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Observed {
    /// The running boot.
    pub boot_id: String,
    /// By statfs.
    pub hierarchy: Hierarchy,
    /// True if the running kernel's command line asks for cgroup v2; decides nothing, explains much.
    pub arguments_active: bool,
    /// State of each file of the journal, in its order.
    pub files: Vec<FileState>,
    /// Whether what has to be written can be: `Err` with what stands in the way. `Ok` in phases that write no file.
    pub storage: Result<(), String>,
    /// What the installed systemd would make of the kernel line of before: `Err` with the reason if v1 would not
    /// come of it.
    pub way_back: Result<(), String>,
    /// What would boot next.
    pub next_boot: NextBoot,
    /// Whether the host is going down; `None` if logind could not be asked, as late in a shutdown.
    pub going_down: Option<bool>,
}

/// One thing to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Wait for the node's turn in its fleet.
    TakeTurn,
    /// Tell the lock that the node is back from its reboot.
    RenewTurn,
    /// Give the lock back, or tell the fleet that this run needs a person.
    EndTurn,
    /// Cordon the node.
    Cordon,
    /// Let the node's pods go.
    Drain,
    /// Take our own cordon off.
    Uncordon,
    /// Save content and attributes of every file that will be touched.
    SaveOriginals,
    /// Write the new content of the file with this index.
    WriteFile(usize),
    /// Let the boot loader's tool generate the file with this index, check it, put it in place.
    Generate(usize),
    /// Write the phase down.
    Advance(Phase),
    /// Ask for a reboot.
    RequestReboot(Purpose),
    /// Prove the running boot.
    Verify,
    /// Put the original of the file with this index back.
    Restore(usize),
    /// Generate the file with this index from restored files, since someone else wrote it in between.
    GenerateAnew(usize),
    /// Find out what has to change so that the kubelet refuses cgroup v1, and write it down.
    LookAtKubelet,
    /// Restart the kubelet.
    RestartKubelet,
    /// See that the kubelet is up with its new files.
    ProveKubelet,
    /// Write down why the kubelet's new files are put back.
    GiveUpKubelet(String),
    /// Nothing to do now.
    Stop(Ending),
}

/// Why a run ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ending {
    /// On cgroup v2, proven.
    Done,
    /// Back where it was.
    RolledBack(String),
    /// A person has to look.
    NeedsPerson(String),
    /// Stopped where it was asked to.
    Paused(String),
    /// The host is going down; the rest happens after it is up again.
    GoingDown,
    /// Something outside stands in the way for now.
    TryLater(String),
    /// A finding forbids to go on.
    Blocked(String),
}

impl Ending {
    /// A signal ended the run where it could be left.
    #[must_use]
    pub fn by_signal() -> Self {
        Self::TryLater("a signal asked the last run to end, and it did so where it could be left".to_owned())
    }
}

/// The next step.
#[must_use]
pub fn decide(journal: &Journal, seen: &Observed) -> Step {
    if let Some(stop) = asked_to_stop(journal, seen) {
        return Step::Stop(stop);
    }
    match &journal.state {
        Phase::Planned => planned(journal, seen),
        Phase::Locked => locked(journal, seen),
        Phase::Cordoned => cordoned(journal, seen),
        Phase::Drained => write(journal, seen),
        Phase::Staged => staged(journal, seen),
        Phase::Rebooting => rebooting(journal, seen),
        Phase::Booted => booted(seen),
        Phase::Verified => verified(journal, seen),
        Phase::KubeletFinal => kubelet::kubelet_final(journal, seen),
        Phase::Uncordoned => uncordoned(journal, seen),
        Phase::Done => Step::Stop(done(seen)),
        Phase::RollingBack { why } => back::rolling_back(journal, seen, why),
        Phase::RolledBack { why } => Step::Stop(Ending::RolledBack(why.clone())),
        Phase::NeedsPerson { why } => waits_for_person(journal, seen, why),
    }
}

/// `--until`: a stop before the reboot is over once the host went down all the same.
fn asked_to_stop(journal: &Journal, seen: &Observed) -> Option<Ending> {
    let phase = journal.options.until.filter(|phase| *phase == journal.state.name())?;
    let is_before_the_reboot = matches!(
        phase,
        PhaseName::Planned | PhaseName::Locked | PhaseName::Cordoned | PhaseName::Drained | PhaseName::Staged
    );
    if is_before_the_reboot && seen.boot_id != journal.before.boot_id {
        return None;
    }
    Some(Ending::Paused(format!("stopped at {phase}, as asked; `resume` goes on")))
}

/// Its turn comes before all else.
fn planned(journal: &Journal, seen: &Observed) -> Step {
    if journal.fleet.is_some() && !journal.waits_for_turn() && seen.boot_id == journal.before.boot_id {
        return Step::Advance(Phase::Locked);
    }
    locked(journal, seen)
}

fn locked(journal: &Journal, seen: &Observed) -> Step {
    if journal.waits_for_turn() && seen.boot_id == journal.before.boot_id {
        return Step::TakeTurn;
    }
    leave_service(journal, seen)
}

/// A node leaves service before the first file of it is changed.
fn leave_service(journal: &Journal, seen: &Observed) -> Step {
    match &journal.node {
        None => write(journal, seen),
        Some(_) if seen.boot_id != journal.before.boot_id => planned_in_another_boot(seen),
        Some(node) if journal.options.no_drain && !node.cordon_begun => write(journal, seen),
        Some(node) if !node.cordoned => Step::Cordon,
        Some(_) => Step::Advance(Phase::Cordoned),
    }
}

fn cordoned(journal: &Journal, seen: &Observed) -> Step {
    if seen.boot_id != journal.before.boot_id {
        return planned_in_another_boot(seen);
    }
    let is_drained = journal.options.no_drain || journal.node.as_ref().is_none_or(|node| node.drained);
    match is_drained {
        true => Step::Advance(Phase::Drained),
        false if journal.waits_for_turn() => Step::TakeTurn,
        false => Step::Drain,
    }
}

fn write(journal: &Journal, seen: &Observed) -> Step {
    if seen.boot_id != journal.before.boot_id {
        return planned_in_another_boot(seen);
    }
    // Once something is written the way back is better than a stop half way.
    let is_untouched = journal.files.iter().all(|file| !file.touched);
    if let Some(stop) = storage_blocks(seen).filter(|_| is_untouched) {
        return stop;
    }
    if let Some(what) = lost(journal, seen) {
        return roll_back(format!("while the change was made, {what}"));
    }
    if !journal.originals_saved {
        return Step::SaveOriginals;
    }
    if let Some(index) = first(journal, seen, |state, file| is_edited(file) && state == FileState::Original) {
        return Step::WriteFile(index);
    }
    let is_due = |state, file: &TouchedFile| file.kind == Kind::Generated && state != FileState::Ours;
    if let Some(index) = first(journal, seen, is_due) {
        return Step::Generate(index);
    }
    match &seen.next_boot {
        NextBoot::Unified => Step::Advance(Phase::Staged),
        NextBoot::NotUnified(why) | NextBoot::WontBoot(why) | NextBoot::Unknown(why) => {
            roll_back(format!("read back after the change: {why}"))
        }
    }
}

/// The host went down before everything was written. A boot into v2 is taken as it is; from v1 the way back
/// needs no reboot, the way on would need one that nobody asked for in this boot.
fn planned_in_another_boot(seen: &Observed) -> Step {
    if seen.hierarchy == Hierarchy::Unified {
        return Step::Advance(Phase::Booted);
    }
    roll_back("the host went down before the change was complete".to_owned())
}

fn staged(journal: &Journal, seen: &Observed) -> Step {
    if seen.boot_id != journal.before.boot_id {
        return Step::Advance(Phase::Booted);
    }
    // First: a /boot that is not mounted has no menu, and that is no reason to go back.
    if let Some(stop) = storage_blocks(seen) {
        return stop;
    }
    match &seen.next_boot {
        NextBoot::Unified if journal.options.no_reboot => {
            Step::Stop(Ending::Paused("everything is in place; reboot when it suits you".to_owned()))
        }
        NextBoot::Unified if journal.waits_for_turn() => Step::TakeTurn,
        NextBoot::Unified => Step::RequestReboot(Purpose::Migrate),
        NextBoot::NotUnified(why) | NextBoot::WontBoot(why) | NextBoot::Unknown(why) => {
            roll_back(format!("right before the reboot: {why}"))
        }
    }
}

fn storage_blocks(seen: &Observed) -> Option<Step> {
    let found = seen.storage.as_ref().err()?;
    Some(Step::Stop(Ending::Blocked(format!("{found}; set it right, then `resume`"))))
}

fn rebooting(journal: &Journal, seen: &Observed) -> Step {
    if seen.boot_id != journal.before.boot_id {
        return Step::Advance(Phase::Booted);
    }
    match seen.going_down {
        Some(true) => Step::Stop(Ending::GoingDown),
        Some(false) => Step::Advance(Phase::Staged),
        None => Step::Stop(shutdown_unknown()),
    }
}

fn booted(seen: &Observed) -> Step {
    match seen.hierarchy {
        Hierarchy::Unified => Step::Verify,
        Hierarchy::Legacy | Hierarchy::Hybrid => roll_back(still_v1(seen)),
        Hierarchy::Unknown => needs_person(
            "the hierarchy of this boot could not be found out; look at /sys/fs/cgroup, then `resume` or `rollback`"
                .to_owned(),
        ),
    }
}

/// This boot is proven. Before the node goes back into service, its kubelet is told to refuse v1; not if somebody has
/// booted v1 since.
fn verified(journal: &Journal, seen: &Observed) -> Step {
    if lasts(journal, seen).is_err() || seen.hierarchy != Hierarchy::Unified {
        return into_service(journal, seen);
    }
    match &journal.kubelet {
        None => Step::LookAtKubelet,
        Some(kubelet) if kubelet.unit.is_some() => Step::Advance(Phase::KubeletFinal),
        Some(_) => into_service(journal, seen),
    }
}

fn into_service(journal: &Journal, seen: &Observed) -> Step {
    match lasts(journal, seen) {
        Err(why) => needs_person(not_lasting(journal, &why)),
        Ok(()) if journal.is_silent_in(&seen.boot_id) => Step::RenewTurn,
        Ok(()) if journal.cordoned_node().is_some() => Step::Uncordon,
        Ok(()) if journal.node.is_some() => Step::Advance(Phase::Uncordoned),
        Ok(()) => finished(journal),
    }
}

fn uncordoned(journal: &Journal, seen: &Observed) -> Step {
    match lasts(journal, seen) {
        Err(why) => needs_person(not_lasting(journal, &why)),
        Ok(()) => finished(journal),
    }
}

/// Whoever waits for this node's turn to end need not wait any longer.
fn finished(journal: &Journal) -> Step {
    if journal.turn_to_end().is_some() { Step::EndTurn } else { Step::Advance(Phase::Done) }
}

/// It is the end only if the next boot, and the next menu that is generated, lead to v2 too.
fn lasts(journal: &Journal, seen: &Observed) -> Result<(), String> {
    if let Some(path) = path_of(journal, seen, |state, file| is_edited(file) && state == FileState::Original)
    {
        return Err(format!("{path} is as it was before the migration"));
    }
    match &seen.next_boot {
        NextBoot::Unified => Ok(()),
        NextBoot::NotUnified(why) | NextBoot::WontBoot(why) | NextBoot::Unknown(why) => Err(why.clone()),
    }
}

/// A person has to look, but the node need not stay out of service for that: it runs, in a mode that is known.
fn waits_for_person(journal: &Journal, seen: &Observed, why: &str) -> Step {
    if journal.cordoned_node().is_some() && seen.hierarchy != Hierarchy::Unknown {
        return Step::Uncordon;
    }
    if journal.turn_to_end().is_some_and(|fleet| !fleet.counted) {
        return Step::EndTurn;
    }
    Step::Stop(Ending::NeedsPerson(why.to_owned()))
}

/// The journal says done. A later boot may be another one.
fn done(seen: &Observed) -> Ending {
    if let Some(why) = gone_back(seen.hierarchy) {
        return Ending::NeedsPerson(why);
    }
    if seen.hierarchy == Hierarchy::Unknown {
        let why = "the migration was done and proven, but what this boot runs could not be found out; look at \
                   /sys/fs/cgroup";
        return Ending::NeedsPerson(why.to_owned());
    }
    Ending::Done
}

/// Said of a finished migration on a host that runs v1 all the same.
pub(super) fn gone_back(hierarchy: Hierarchy) -> Option<String> {
    matches!(hierarchy, Hierarchy::Legacy | Hierarchy::Hybrid).then(|| {
        format!(
            "the migration was done and proven, but this host runs {hierarchy} again: since then someone put the v1 \
             arguments back, or another entry was booted; `check` says what is so now, `migrate` begins anew"
        )
    })
}

fn not_lasting(journal: &Journal, found: &str) -> String {
    format!(
        "this boot runs cgroup v2, proven, but a later one may not: {found}; `rollback` puts everything back, or take \
         the v1 arguments out again (what was to be written lies in {}), run update-grub, then `resume`",
        super::state_path(&journal.txn).display()
    )
}

fn still_v1(seen: &Observed) -> String {
    let hierarchy = seen.hierarchy;
    if seen.arguments_active {
        return format!(
            "the new kernel arguments were active, but the hierarchy is still {hierarchy}: something mounted v1 \
             before systemd decided (often an initramfs with an old systemd: rebuild it, then try again)"
        );
    }
    format!("the host booted a kernel line without the change and the hierarchy is still {hierarchy}")
}

/// A second request must not follow a first one that may be under way.
fn shutdown_unknown() -> Ending {
    Ending::TryLater("a reboot was asked for, and logind does not say whether it is under way".to_owned())
}

fn needs_person(why: String) -> Step {
    Step::Advance(Phase::NeedsPerson { why })
}

fn roll_back(why: String) -> Step {
    Step::Advance(Phase::RollingBack { why })
}

/// The first edited file that is neither as before nor ours, and what happened to it.
fn lost(journal: &Journal, seen: &Observed) -> Option<String> {
    let files = journal.files.iter().zip(&seen.files).filter(|(file, _)| is_edited(file));
    files.into_iter().find_map(|(file, state)| {
        let path = file.path.display();
        match state {
            FileState::Original | FileState::Ours => None,
            FileState::Foreign => Some(format!("{path} was changed by someone else")),
            FileState::Deleted => Some(format!("{path} was deleted by someone else")),
            FileState::Unknown => Some(format!("{path} became unreadable")),
        }
    })
}

fn is_of_kubelet(file: &TouchedFile) -> bool {
    file.kind == Kind::Kubelet
}

fn is_edited(file: &TouchedFile) -> bool {
    file.kind == Kind::Edited
}

fn first(
    journal: &Journal,
    seen: &Observed,
    wanted: impl Fn(FileState, &TouchedFile) -> bool,
) -> Option<usize> {
    journal.files.iter().zip(&seen.files).position(|(file, state)| wanted(*state, file))
}

fn path_of(
    journal: &Journal,
    seen: &Observed,
    wanted: impl Fn(FileState, &TouchedFile) -> bool,
) -> Option<String> {
    let file = journal.files.get(first(journal, seen, wanted)?)?;
    Some(file.path.display().to_string())
}

#[cfg(test)]
mod tests;
