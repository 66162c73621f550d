//! etcd keeps its quorum without the member of this node. Its pod is a static one: no drain moves it, and no budget
//! guards it.

use super::{Gate, Known, PoolNode};

/// Accepting this id means: the API may be away while this node reboots.
pub const CONTROL_PLANE_OUTAGE: &str = "control-plane-outage";

/// A member of an etcd cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EtcdMember {
    /// Name.
    pub name: String,
    /// It answers, and has no alarm; `None` if that could not be found out.
    pub healthy: Option<bool>,
    /// It does not vote (yet).
    pub learner: bool,
}

/// Whether etcd can spare the member of this node.
#[must_use]
pub fn etcd(own: &Known<PoolNode>, members: &Known<Vec<EtcdMember>>, accepted: &[String]) -> Gate {
    Gate::of(own, |own| {
        if !own.control_plane {
            return Gate::Open;
        }
        match Gate::of(members, |members| judged(members, accepted)) {
            Gate::Unknown { .. } if is_accepted(accepted) => Gate::Open,
            gate @ (Gate::Open | Gate::Closed { .. } | Gate::Unknown { .. }) => gate,
        }
    })
}

fn is_accepted(accepted: &[String]) -> bool {
    accepted.iter().any(|id| id == CONTROL_PLANE_OUTAGE)
}

fn judged(members: &[EtcdMember], accepted: &[String]) -> Gate {
    if members.is_empty() {
        return Gate::Open;
    }
    let named = |healthy| {
        let names = members.iter().filter(|one| one.healthy == healthy).map(|one| one.name.as_str());
        names.collect::<Vec<_>>().join(", ")
    };
    let (ill, unknown) = (named(Some(false)), named(None));
    if !ill.is_empty() {
        return Gate::closed(format!("etcd members are not healthy: {ill}"));
    }
    let voters = members.iter().filter(|one| !one.learner).count();
    if is_accepted(accepted) {
        return Gate::Open;
    }
    if survives(voters, voters) && unknown.is_empty() {
        return Gate::Open;
    }
    if survives(voters, voters) {
        return Gate::unknown(format!(
            "whether these etcd members are healthy cannot be found out: {unknown}; let the lock's credential list pods, \
             or --accept {CONTROL_PLANE_OUTAGE}"
        ));
    }
    Gate::Closed {
        why: format!(
            "an etcd of {voters} cannot spare a member, so the API will be away during the reboot; if that may be, \
             --accept {CONTROL_PLANE_OUTAGE}"
        ),
        try_again_in: None,
    }
}

/// True if a majority of all voters is left when one healthy voter goes.
fn survives(healthy: usize, voters: usize) -> bool {
    healthy > voters / 2 + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn members(healthy: &[bool]) -> Vec<EtcdMember> {
        let member = |(index, healthy): (usize, &bool)| EtcdMember {
            name: format!("m{index}"),
            healthy: Some(*healthy),
            learner: false,
        };
        healthy.iter().enumerate().map(member).collect()
    }

    fn gate(members: Vec<EtcdMember>, accepted: &[&str]) -> Gate {
        let own = PoolNode { control_plane: true, ..PoolNode::default() };
        etcd(&Ok(own), &Ok(members), &accepted.iter().map(|id| (*id).to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn the_rule_of_the_quorum() {
        // healthy − 1 ≥ ⌊n/2⌋ + 1
        let left = [(1, 1, false), (2, 2, false), (3, 3, true), (2, 3, false), (4, 4, true), (5, 5, true)];
        for (healthy, voters, expected) in
            left.into_iter().chain([(4, 5, true), (3, 5, false), (0, 3, false)])
        {
            assert_eq!(survives(healthy, voters), expected, "{healthy} of {voters}");
        }
    }

    #[test]
    fn three_can_spare_one_and_fewer_need_a_word() {
        assert_eq!(gate(members(&[true; 3]), &[]), Gate::Open);
        for few in [1, 2] {
            let closed = gate(members(&vec![true; few]), &["other"]);
            assert!(matches!(closed, Gate::Closed { try_again_in: None, .. }), "{closed:?}");
            assert_eq!(gate(members(&vec![true; few]), &[CONTROL_PLANE_OUTAGE]), Gate::Open);
        }
    }

    #[test]
    fn an_ill_member_is_not_accepted_away_and_a_learner_has_no_vote() {
        let closed = gate(members(&[true, true, false]), &[CONTROL_PLANE_OUTAGE]);
        assert!(matches!(&closed, Gate::Closed { why, .. } if why.ends_with(": m2")), "{closed:?}");
        let mut two_and_a_learner = members(&[true; 3]);
        two_and_a_learner[2].learner = true;
        assert!(matches!(gate(two_and_a_learner, &[]), Gate::Closed { .. }));
    }

    #[test]
    fn health_that_is_not_known_is_no_yes_but_for_a_word() {
        let mut three = members(&[true; 3]);
        three[1].healthy = None;
        let unknown = gate(three.clone(), &[]);
        assert!(matches!(&unknown, Gate::Unknown { why } if why.contains(": m1;")), "{unknown:?}");
        assert_eq!(gate(three, &[CONTROL_PLANE_OUTAGE]), Gate::Open);
        let own = Ok(PoolNode { control_plane: true, ..PoolNode::default() });
        assert_eq!(etcd(&own, &Err("no".to_owned()), &[CONTROL_PLANE_OUTAGE.to_owned()]), Gate::Open);
    }

    #[test]
    fn workers_and_outside_etcds_are_not_asked() {
        let worker = Ok(PoolNode::default());
        assert_eq!(etcd(&worker, &Err("no".to_owned()), &[]), Gate::Open);
        assert_eq!(gate(Vec::new(), &[]), Gate::Open);
        let own = Ok(PoolNode { control_plane: true, ..PoolNode::default() });
        assert!(matches!(etcd(&own, &Err("no".to_owned()), &[]), Gate::Unknown { .. }));
    }
}
