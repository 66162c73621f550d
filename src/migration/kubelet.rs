//! What the steps for the kubelet do: it is told to refuse cgroup v1, restarted, and seen to be up. Every one can be
//! repeated.

mod look;
mod prove;

use anyhow::{Result, anyhow};
use jiff::Timestamp;

use super::effects::Effects;
use super::failpoint::reach;
use super::journal::{Journal, Kind, KubeletPart, KubeletRestart, RunningContainer};
use super::phase::PhaseName;
use super::service::{Service, Tried, Went, not_ready};
use crate::facts::kernel;
use crate::host::{InitError, UNIT_DIRECTORIES};
use crate::node::cordon::CordonError;
use crate::node::{ApiError, NodeApi};

/// Everything a step needs.
pub(super) struct Kubelet<'a> {
    pub(super) effects: &'a Effects<'a>,
    pub(super) service: Service<'a>,
}

impl Kubelet<'_> {
    /// Restarts it: with the new files, or with the old ones that were put back.
    pub(super) fn restart(&self, journal: &mut Journal, boot_id: &str) -> Result<Went> {
        let is_back = part(journal)?.given_up.is_some() || journal.state.name() == PhaseName::RollingBack;
        if is_back {
            return self.restart_back(journal).map(|()| Went::On);
        }
        match self.note_restart(journal, boot_id)? {
            Went::On => {}
            left @ (Went::Later(_) | Went::Back(_) | Went::Interrupted) => return Ok(left),
        }
        reach("before-restart-kubelet");
        let restarted = self.ask_for_restart(journal);
        reach("after-restart-kubelet");
        note_outcome(part(journal)?, restarted);
        Ok(Went::On)
    }

    /// A reboot follows as a rule, so that it is not looked at how it went.
    fn restart_back(&self, journal: &mut Journal) -> Result<()> {
        if let Err(error) = self.ask_for_restart(journal) {
            log::warn!("the kubelet's files are as before, but it was not restarted: {error}");
        }
        part(journal)?.put_back = true;
        Ok(())
    }

    fn ask_for_restart(&self, journal: &mut Journal) -> Result<(), InitError> {
        let init = self.effects.host.init;
        let Some(unit) = journal.kubelet.as_ref().and_then(|part| part.unit.clone()) else { return Ok(()) };
        // Not for nothing: it takes devices from containers whose runtime hooks do not know of it.
        if journal.files.iter().any(|file| file.kind == Kind::Kubelet && is_of_systemd(&file.path)) {
            init.reload_units()?;
        }
        let result = init.restart_unit(&unit)?;
        log::info!("restart {unit}: {result}");
        Ok(())
    }

    /// That it is about to be restarted, and what runs before that. What ran is not asked again in the same boot: it
    /// may have been restarted already.
    fn note_restart(&self, journal: &mut Journal, boot_id: &str) -> Result<Went> {
        let known = part(journal)?.restart.take().filter(|restart| restart.boot_id == boot_id);
        let (went, containers) = match known {
            Some(restart) => (Went::On, restart.containers),
            None => self.before_restart(journal, boot_id)?,
        };
        let at = self.effects.host.clock.now();
        // Also where it was never up in this boot: it may have been started with the new files.
        if matches!(went, Went::On | Went::Back(_)) {
            let boot_id = boot_id.to_owned();
            part(journal)?.restart = Some(KubeletRestart { boot_id, at, done: false, containers });
            self.effects.store.save(journal)?;
        }
        Ok(went)
    }

    /// Waits until the kubelet is up in this boot, and asks what runs.
    fn before_restart(&self, journal: &mut Journal, boot_id: &str) -> Result<(Went, Vec<RunningContainer>)> {
        let since = kernel::booted_at(self.effects.host.fs);
        let mut containers = Vec::new();
        let went = self.service.wait_for(journal, |service, journal| {
            let Some(node) = &journal.node else { return Ok(Tried::Done) };
            let asked = up_with(service, &node.before.node, boot_id, since);
            Ok(asked.map_or_else(std::convert::identity, |found| {
                containers = found;
                Tried::Done
            }))
        })?;
        Ok((went, containers))
    }
}

/// What runs on a node that is up in this boot.
fn up_with(
    service: &Service<'_>,
    name: &str,
    boot_id: &str,
    since: Option<Timestamp>,
) -> Result<Vec<RunningContainer>, Tried> {
    let asked = service.connected(|api| {
        let node = api.node(name).map_err(CordonError::looking(name))?;
        let found = running(api, name, since).map_err(CordonError::looking(name))?;
        Ok(not_ready(&node, boot_id).map_or(Ok(found), Err))
    });
    match asked {
        Ok(found) => found.map_err(Tried::NotReady),
        Err(error) if error.is_of_another_node() => Ok(Vec::new()),
        Err(error) => Err(Tried::Unanswered(format!("the kubelet is not restarted yet: {error}"))),
    }
}

/// How it went is seen, not told, also where the answer did not come. Where nothing was asked, it runs on with its old
/// files.
fn note_outcome(part: &mut KubeletPart, restarted: Result<(), InitError>) {
    match restarted {
        Ok(()) | Err(InitError::TimedOut { .. } | InitError::Lost { .. }) => {
            part.restart.iter_mut().for_each(|restart| restart.done = true);
        }
        Err(
            error @ (InitError::Unreachable { .. } | InitError::Refused { .. } | InitError::TestHost { .. }),
        ) => {
            part.restart = None;
            part.given_up =
                Some(format!("the kubelet could not be restarted, so failCgroupV1 stays as it was: {error}"));
        }
    }
}

fn part(journal: &mut Journal) -> Result<&mut KubeletPart> {
    journal.kubelet.as_mut().ok_or_else(|| anyhow!("the journal has no kubelet: a fault in the program"))
}

fn is_of_systemd(path: &std::path::Path) -> bool {
    UNIT_DIRECTORIES.iter().any(|directory| path.starts_with(directory))
}

/// Containers that run. After a boot the API server knows those of the boot before for a while: they do not count.
fn running(
    api: &dyn NodeApi,
    node: &str,
    since: Option<Timestamp>,
) -> Result<Vec<RunningContainer>, ApiError> {
    let pods = match api.pods(node) {
        Err(error) if !error.may_pass() => {
            log::warn!("what runs on the node is not known: {error}");
            Vec::new()
        }
        pods => pods?,
    };
    let of_pods = pods.iter().flat_map(|pod| pod.running.iter().map(move |container| (pod, container)));
    let of_this_boot = of_pods.filter(|(_, container)| since.is_some_and(|since| container.started >= since));
    let told = of_this_boot.map(|(pod, container)| RunningContainer {
        pod: pod.key.to_string(),
        uid: pod.key.uid.clone(),
        name: container.name.clone(),
        id: container.id.clone(),
    });
    Ok(told.collect())
}
