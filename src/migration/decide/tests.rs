//! Every combination of what is remembered and what is seen: what must never happen, never does.

use super::*;
use crate::migration::journal::{
    Before, FleetLock, FleetPart, KubeletPart, KubeletRestart, NodePart, Options, RebootRequest, SCHEMA, Turn,
};
use crate::node::lock::lease::Hold;

const HIERARCHIES: [Hierarchy; 4] =
    [Hierarchy::Legacy, Hierarchy::Hybrid, Hierarchy::Unified, Hierarchy::Unknown];
const STATES: [FileState; 5] =
    [FileState::Original, FileState::Ours, FileState::Foreign, FileState::Deleted, FileState::Unknown];

fn phases() -> Vec<Phase> {
    let why = || "a reason".to_owned();
    vec![
        Phase::Planned,
        Phase::Staged,
        Phase::Rebooting,
        Phase::Booted,
        Phase::Verified,
        Phase::KubeletFinal,
        Phase::Done,
        Phase::RollingBack { why: why() },
        Phase::RolledBack { why: why() },
        Phase::NeedsPerson { why: why() },
    ]
}

fn next_boots() -> [NextBoot; 4] {
    [
        NextBoot::Unified,
        NextBoot::NotUnified("v1".to_owned()),
        NextBoot::WontBoot("hangs".to_owned()),
        NextBoot::Unknown("?".to_owned()),
    ]
}

fn file(kind: Kind, touched: bool) -> TouchedFile {
    TouchedFile {
        path: "/etc/default/grub".into(),
        kind,
        before: Some("old".to_owned()),
        after: Some("new".to_owned()),
        attributes: None,
        link_target: None,
        touched,
        made_directory: false,
        regenerated: None,
        original_outdated: false,
    }
}

fn journal(state: Phase, touched: bool, no_reboot: bool, asked_in: Option<&str>) -> Journal {
    let reboots = asked_in.map(|boot_id| RebootRequest {
        purpose: Purpose::Rollback,
        boot_id: boot_id.to_owned(),
        at: jiff::Timestamp::UNIX_EPOCH,
    });
    Journal {
        schema: SCHEMA,
        txn: "t".to_owned(),
        version: "0".to_owned(),
        state,
        options: Options { no_reboot, ..Options::default() },
        before: Before {
            boot_id: "first".to_owned(),
            hierarchy: Hierarchy::Hybrid,
            controllers: Vec::new(),
            cmdline: String::new(),
        },
        node: None,
        fleet: None,
        kubelet: Some(KubeletPart::default()),
        files: vec![file(Kind::Edited, touched), file(Kind::Generated, touched)],
        originals_saved: touched,
        reboots: reboots.into_iter().collect(),
        waiting: None,
        history: Vec::new(),
    }
}

/// Calls `visit` with every combination.
fn everything(mut visit: impl FnMut(&Journal, &Observed, Step)) {
    for state in phases() {
        for (touched, no_reboot) in [(false, false), (false, true), (true, false), (true, true)] {
            for asked_in in [None, Some("first"), Some("second")] {
                let journal = journal(state.clone(), touched, no_reboot, asked_in);
                every_sight(|seen| visit(&journal, seen, decide(&journal, seen)));
            }
        }
    }
}

fn every_sight(mut visit: impl FnMut(&Observed)) {
    for (boot_id, storage) in ["first", "second", "third"].into_iter().flat_map(with_and_without_storage) {
        for (hierarchy, way_back) in
            HIERARCHIES.into_iter().flat_map(|one| [(one, Ok(())), (one, Err("no".to_owned()))])
        {
            for (edited, generated) in STATES.iter().flat_map(|a| STATES.iter().map(move |b| (*a, *b))) {
                for next_boot in next_boots() {
                    for going_down in [None, Some(false), Some(true)] {
                        visit(&Observed {
                            boot_id: boot_id.to_owned(),
                            hierarchy,
                            arguments_active: true,
                            files: vec![edited, generated],
                            storage: storage.clone(),
                            way_back: way_back.clone(),
                            next_boot: next_boot.clone(),
                            going_down,
                        });
                    }
                }
            }
        }
    }
}

fn with_and_without_storage(boot_id: &str) -> [(&str, Result<(), String>); 2] {
    [(boot_id, Ok(())), (boot_id, Err("read-only".to_owned()))]
}

#[test]
fn nothing_is_begun_and_nothing_put_back_where_it_cannot_be_written() {
    everything(|journal, seen, step| {
        let begins = matches!(step, Step::WriteFile(_) | Step::SaveOriginals)
            && journal.files.iter().all(|file| !file.touched);
        let goes_back = matches!(step, Step::Restore(_) | Step::GenerateAnew(_));
        if begins || goes_back || step == Step::RequestReboot(Purpose::Migrate) {
            assert!(seen.storage.is_ok(), "{:?}: {step:?}", journal.state);
        }
    });
}

#[test]
fn every_change_of_phase_is_in_the_table() {
    everything(|journal, seen, step| {
        if let Step::Advance(phase) = step {
            let (from, to) = (journal.state.name(), phase.name());
            assert!(from.leads_to(to), "{from} to {to} at {seen:?}");
        }
    });
}

#[test]
fn the_reboot_into_v2_is_asked_for_only_when_everything_was_read_back_in_the_first_boot() {
    everything(|journal, seen, step| {
        if step == Step::RequestReboot(Purpose::Migrate) {
            assert_eq!(journal.state, Phase::Staged);
            assert_eq!((seen.boot_id.as_str(), &seen.next_boot), ("first", &NextBoot::Unified));
        }
    });
}

#[test]
fn the_reboot_back_is_asked_for_once_and_only_if_the_hierarchy_is_another_one() {
    everything(|journal, seen, step| {
        if step == Step::RequestReboot(Purpose::Rollback) {
            assert_ne!(seen.hierarchy, journal.before.hierarchy);
            assert!(seen.way_back.is_ok() && matches!(seen.next_boot, NextBoot::NotUnified(_)), "{seen:?}");
            assert!(journal.reboot(Purpose::Rollback).is_none_or(|asked| asked.boot_id == seen.boot_id));
        }
    });
}

#[test]
fn no_reboot_is_asked_for_while_an_earlier_one_may_be_under_way() {
    everything(|journal, seen, step| {
        if let Step::RequestReboot(purpose) = step {
            let asked_in_this_boot =
                journal.reboot(purpose).is_some_and(|asked| asked.boot_id == seen.boot_id);
            assert!(!asked_in_this_boot || seen.going_down == Some(false), "{seen:?}");
        }
    });
}

#[test]
fn who_wants_no_reboot_gets_none() {
    everything(|journal, _, step| {
        assert!(!(journal.options.no_reboot && matches!(step, Step::RequestReboot(_))));
    });
}

#[test]
fn nothing_is_put_back_that_was_not_touched_or_that_someone_else_wrote() {
    everything(|journal, seen, step| {
        if let Step::Restore(index) = step {
            assert!(journal.files[index].touched);
            assert_eq!(seen.files[index], FileState::Ours);
        }
    });
}

#[test]
fn nothing_is_written_over_what_someone_else_wrote() {
    everything(|_, seen, step| {
        if let Step::WriteFile(index) = step {
            assert_eq!(seen.files[index], FileState::Original);
        }
    });
}

#[test]
fn nothing_is_written_in_another_boot_than_the_first_but_on_the_way_back() {
    everything(|journal, seen, step| {
        if matches!(step, Step::SaveOriginals | Step::WriteFile(_) | Step::Generate(_)) {
            assert_eq!((seen.boot_id.as_str(), &journal.state), ("first", &Phase::Planned));
        }
    });
}

#[test]
fn it_is_called_done_only_after_the_proof_and_with_v2_as_the_next_boot() {
    everything(|journal, seen, step| {
        if step == Step::Advance(Phase::Done) {
            assert!(matches!(journal.state, Phase::Verified | Phase::KubeletFinal), "{:?}", journal.state);
            assert_eq!(seen.next_boot, NextBoot::Unified);
            assert_ne!(seen.files[0], FileState::Original, "the next menu is v1 again");
        }
        if step == Step::Advance(Phase::RolledBack { why: "a reason".to_owned() }) {
            assert!(matches!(journal.state, Phase::RollingBack { .. }));
        }
    });
}

#[test]
fn it_is_called_rolled_back_only_with_every_touched_file_and_the_hierarchy_as_before() {
    everything(|journal, seen, step| {
        if matches!(step, Step::Advance(Phase::RolledBack { .. })) {
            assert_eq!(seen.hierarchy, journal.before.hierarchy);
            let touched = journal.files.iter().zip(&seen.files).filter(|(file, _)| file.touched);
            assert!(touched.into_iter().all(|(_, state)| *state == FileState::Original));
        }
    });
}

#[test]
fn a_stop_that_was_asked_for_comes_first() {
    let mut journal = journal(Phase::Staged, true, false, None);
    journal.options.until = Some(crate::migration::phase::PhaseName::Staged);
    every_sight(|seen| {
        let stops = matches!(decide(&journal, seen), Step::Stop(Ending::Paused(_)));
        assert_eq!(stops, seen.boot_id == "first", "a stop before the reboot ends with it");
    });
}

#[test]
fn the_reason_tells_an_ineffective_argument_from_a_missing_one() {
    let journal = journal(Phase::Booted, true, false, None);
    let mut reasons = Vec::new();
    for arguments_active in [true, false] {
        every_sight(|seen| {
            let seen = Observed { arguments_active, hierarchy: Hierarchy::Legacy, ..seen.clone() };
            if let Step::Advance(Phase::RollingBack { why }) = decide(&journal, &seen) {
                reasons.push((arguments_active, why.contains("initramfs")));
            }
        });
    }
    assert!(!reasons.is_empty() && reasons.iter().all(|(active, initramfs)| active == initramfs));
}

/// Every phase and turn that a node of a fleet can be in.
fn in_a_fleet(mut visit: impl FnMut(&Journal, &Observed, Step)) {
    let service = [Phase::Locked, Phase::Cordoned, Phase::Drained, Phase::Uncordoned];
    let hold = Hold { slot: 0, fencing: 1 };
    for state in phases().into_iter().chain(service) {
        for turn in [Turn::Waiting, Turn::Asked, Turn::Ours(Some(hold.clone())), Turn::Over] {
            let uncordoned = [state == Phase::Uncordoned, true];
            for released in uncordoned {
                let journal = of_a_fleet(state.clone(), turn.clone(), released);
                every_sight(|seen| visit(&journal, seen, decide(&journal, seen)));
            }
        }
    }
}

fn of_a_fleet(state: Phase, turn: Turn, released: bool) -> Journal {
    let node = NodePart {
        before: crate::node::cordon::Before { node: "n".into(), uid: "u".into(), was_unschedulable: false },
        cordon_begun: true,
        cordoned: true,
        drained: true,
        released,
        left_cordoned: None,
    };
    let lock = FleetLock::GatesAlone;
    let fleet = FleetPart { lock, kubeconfig: None, node: None, turn, back_in: None, counted: false };
    Journal { node: Some(node), fleet: Some(fleet), ..journal(state, true, false, None) }
}

#[test]
fn a_node_of_a_fleet_changes_phases_by_the_table_too() {
    in_a_fleet(|journal, seen, step| {
        if let Step::Advance(phase) = step {
            let (from, to) = (journal.state.name(), phase.name());
            assert!(from.leads_to(to), "{from} to {to} at {seen:?}");
        }
    });
}

#[test]
fn nothing_begins_and_nothing_reboots_into_v2_before_its_turn() {
    in_a_fleet(|journal, _, step| {
        let begins = matches!(step, Step::Cordon | Step::Advance(Phase::Locked | Phase::Cordoned));
        if begins || step == Step::RequestReboot(Purpose::Migrate) {
            assert!(!journal.waits_for_turn(), "{:?}: {step:?}", journal.state);
        }
    });
}

#[test]
fn no_run_ends_with_something_of_the_lock_and_a_cordon_comes_off_first() {
    in_a_fleet(|journal, _, step| {
        if matches!(step, Step::Advance(Phase::Done | Phase::RolledBack { .. })) {
            assert!(journal.turn_to_end().is_none(), "{:?}", journal.state);
        }
        if step == Step::EndTurn && !matches!(journal.state, Phase::NeedsPerson { .. }) {
            assert!(journal.cordoned_node().is_none(), "{:?}", journal.state);
        }
    });
}

/// Every part that a kubelet can have in a journal, by what was done.
fn kubelet_parts() -> Vec<KubeletPart> {
    let restart = |boot_id: &str, done| {
        let at = jiff::Timestamp::UNIX_EPOCH;
        KubeletRestart { boot_id: boot_id.to_owned(), at, done, containers: Vec::new() }
    };
    let restarts =
        [None, Some(restart("first", true)), Some(restart("second", false)), Some(restart("second", true))];
    let mut parts = vec![KubeletPart::default()];
    for restart in restarts {
        for (given_up, put_back) in
            [(None, false), (Some("why".to_owned()), false), (Some("why".to_owned()), true)]
        {
            for proven in [false, true] {
                let (unit, notes) = (Some("kubelet.service".to_owned()), Vec::new());
                let (restart, given_up) = (restart.clone(), given_up.clone());
                parts.push(KubeletPart { unit, notes, restart, proven, given_up, put_back });
            }
        }
    }
    parts
}

/// Calls `visit` with every combination that a kubelet with two files can come to.
fn every_kubelet(mut visit: impl FnMut(&Journal, &Observed, Step)) {
    let touched = [(false, false), (true, false), (true, true)];
    for (part, (one, other)) in kubelet_parts().iter().flat_map(|part| touched.map(|touched| (part, touched)))
    {
        for state in [Phase::Verified, Phase::KubeletFinal, Phase::RollingBack { why: "a reason".to_owned() }]
        {
            let mut journal = journal(state, true, false, None);
            journal.kubelet = Some(part.clone());
            journal.files.extend([file(Kind::Kubelet, one), file(Kind::Kubelet, other)]);
            for (hierarchy, states) in HIERARCHIES.iter().flat_map(|one| pairs().map(move |two| (*one, two)))
            {
                let seen = Observed {
                    boot_id: "second".to_owned(),
                    hierarchy,
                    arguments_active: true,
                    files: [vec![FileState::Ours, FileState::Ours], states].concat(),
                    storage: Ok(()),
                    way_back: Ok(()),
                    next_boot: NextBoot::Unified,
                    going_down: Some(false),
                };
                visit(&journal, &seen, decide(&journal, &seen));
            }
        }
    }
}

fn pairs() -> impl Iterator<Item = Vec<FileState>> {
    STATES.iter().flat_map(|one| STATES.iter().map(move |other| vec![*one, *other]))
}

#[test]
fn a_kubelet_is_changed_only_on_v2_and_only_where_its_files_are_as_they_were() {
    every_kubelet(|journal, seen, step| {
        if let Step::WriteFile(index) = step {
            assert_eq!((&journal.state, seen.hierarchy), (&Phase::KubeletFinal, Hierarchy::Unified));
            assert_eq!((seen.files[index], journal.files[index].kind), (FileState::Original, Kind::Kubelet));
        }
        if matches!(step, Step::ProveKubelet | Step::LookAtKubelet) {
            assert_eq!(seen.hierarchy, Hierarchy::Unified);
        }
    });
}

#[test]
fn a_kubelet_with_new_files_is_proven_with_all_of_them_in_this_boot() {
    every_kubelet(|journal, seen, step| {
        let kubelet = journal.kubelet.as_ref().unwrap();
        if step == Step::ProveKubelet {
            assert_eq!(seen.files[2..], [FileState::Ours, FileState::Ours]);
            assert!(
                kubelet.restart.as_ref().is_some_and(|restart| restart.done && restart.boot_id == "second")
            );
        }
        let is_end = matches!(step, Step::Advance(Phase::Done));
        if is_end && journal.state == Phase::KubeletFinal {
            let disturbed = kubelet.restart.is_some();
            assert!(kubelet.proven || kubelet.unit.is_none() || kubelet.given_up.is_some() && !disturbed);
        }
    });
}

/// A kubelet that refuses v1 must not meet it.
#[test]
fn no_reboot_and_no_end_of_the_way_back_with_a_kubelets_new_file_in_place() {
    every_kubelet(|journal, seen, step| {
        let is_back = matches!(step, Step::RequestReboot(_) | Step::Advance(Phase::RolledBack { .. }));
        let gives_up = journal.state == Phase::KubeletFinal
            && seen.hierarchy == Hierarchy::Unified
            && matches!(step, Step::Advance(Phase::RollingBack { .. }));
        if is_back || gives_up {
            let files = journal.files.iter().zip(&seen.files).skip(2);
            assert!(files.into_iter().all(|(file, state)| !file.touched || *state != FileState::Ours));
        }
        if let Step::Advance(phase) = step {
            assert!(
                journal.state.name().leads_to(phase.name()),
                "{} to {}",
                journal.state.name(),
                phase.name()
            );
        }
    });
}
