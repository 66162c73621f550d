//! What the gates are told, looked at anew each time.

use std::time::Duration;

use anyhow::Result;

use super::{Reply, Turns, no_part};
use crate::migration::journal::{FleetNode, FleetPart, Journal};
use crate::migration::phase::PhaseName;
use crate::node::lock::gates::{
    self, DaemonPod, Known, PoolNode, Seen, Settled, members, run_command, settle,
};

impl Turns<'_> {
    pub(super) fn seen(&self, journal: &Journal, expected: Duration) -> Result<Seen> {
        let fleet = journal.fleet.as_ref().ok_or_else(no_part)?;
        let now = self.host.clock.now();
        let command = self.rules.command.as_ref().map(|command| run_command(self.host.runner, command));
        // A host that is no node has no pods, no labels and no pool.
        let (own, nodes) = (Ok(PoolNode::default()), Ok(Vec::new()));
        let nothing = Seen { own, nodes, etcd: Ok(Vec::new()), pods: Ok(Vec::new()), command, now, expected };
        let Some(node) = &fleet.node else { return Ok(nothing) };
        let own = self.own(fleet, node);
        let nodes = fleet.as_lock(self.kubernetes, |api| Ok(gates::nodes(api)));
        let nodes = nodes.unwrap_or_else(|error| Err(format!("list nodes: {error}")));
        let etcd = fleet.as_lock(self.kubernetes, |api| Ok(members(api, self.host.fs, &own, &nodes)));
        let etcd = etcd.unwrap_or_else(|error| Err(format!("look at etcd: {error}")));
        let pods = fleet.known(self.kubernetes, "list the pods of this node", |api| api.pods(&node.name));
        Ok(Seen { own, nodes, etcd, pods, ..nothing })
    }

    fn own(&self, fleet: &FleetPart, node: &FleetNode) -> Known<PoolNode> {
        let own = fleet.as_node(self.kubernetes, |api| Ok(gates::own(api, &node.name)));
        own.unwrap_or_else(|error| Err(format!("look at node {}: {error}", node.name)))
    }

    /// Whether what was moved has found its place again.
    pub(super) fn settled(&self, journal: &Journal) -> Result<Reply> {
        let fleet = journal.fleet.as_ref().ok_or_else(no_part)?;
        let Some(node) = &fleet.node else { return Ok(Reply::Yes) };
        let pods = fleet.as_node(self.kubernetes, |api| {
            // A Node object that is gone has nothing to wait for.
            match api.node(&node.name) {
                Err(error) if error.code() == Some(404) => Ok(None),
                Err(error) => Err(error),
                Ok(_) => api.pods(&node.name).map(Some),
            }
        });
        let daemons = match pods {
            Ok(None) => return Ok(Reply::Yes),
            Ok(Some(pods)) => Ok(pods.iter().filter_map(DaemonPod::of).collect()),
            Err(error) => Err(format!("list the pods of this node: {error}")),
        };
        let (own, since_uncordon) = (self.own(fleet, node), self.since_uncordon(journal));
        Ok(Reply::of(settle(&Settled { own, daemons, since_uncordon, delay: self.rules.settle })))
    }

    /// By the history: a run that was cut off does not begin to wait anew.
    fn since_uncordon(&self, journal: &Journal) -> Duration {
        let is_end = |phase: PhaseName| matches!(phase, PhaseName::Verified | PhaseName::Uncordoned);
        let entry = journal.history.iter().rev().find(|entry| is_end(entry.phase));
        let since = entry.map(|entry| self.host.clock.now().duration_since(entry.at));
        since.and_then(|since| Duration::try_from(since).ok()).unwrap_or_default()
    }
}
