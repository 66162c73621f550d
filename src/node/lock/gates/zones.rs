//! Zones one after the other: workloads that are spread over zones keep all but one.

use serde::Deserialize;

use super::pool::peers;
use super::{Gate, Known, PoolNode, Rules};
use crate::node::lock::FINAL;

/// How zones follow each other.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Zones {
    /// They do not matter.
    #[default]
    Any,
    /// No node starts while one of another zone is unavailable.
    OneAtATime,
    /// That, and all nodes of the zones before (by name) must be through first, well or not.
    InOrder,
}

pub(super) fn zones(rules: &Rules, own: &Known<PoolNode>, nodes: &Known<Vec<PoolNode>>) -> Gate {
    if rules.zones == Zones::Any {
        return Gate::Open;
    }
    Gate::of(own, |own| {
        Gate::of(nodes, |nodes| {
            let Some(zone) = &own.zone else { return Gate::Open };
            let others =
                peers(rules, own, nodes).filter(|node| node.zone.as_ref().is_some_and(|other| other != zone));
            judged(rules.zones, zone, &others.collect::<Vec<_>>())
        })
    })
}

fn judged(zones: Zones, own: &String, others: &[&PoolNode]) -> Gate {
    let with_zone =
        |node: &&&PoolNode| format!("{} of zone {}", node.name, node.zone.as_deref().unwrap_or_default());
    let away: Vec<String> =
        others.iter().filter(|node| node.is_unavailable()).map(|node| with_zone(&node)).collect();
    if !away.is_empty() {
        return Gate::closed(format!("another zone than {own} is not whole: {}", away.join(", ")));
    }
    let is_waited_for =
        |node: &&&PoolNode| node.zone.as_ref().is_some_and(|zone| zone < own) && !is_through(node);
    let before: Vec<String> = others.iter().filter(is_waited_for).map(|node| with_zone(&node)).collect();
    if zones != Zones::InOrder || before.is_empty() {
        return Gate::Open;
    }
    Gate::closed(format!("zones before {own} are not through: {}", before.join(", ")))
}

/// Rolled back is through: whether the fleet goes on after a failure is for the lock to say.
fn is_through(node: &PoolNode) -> bool {
    node.phase.as_deref().is_some_and(|phase| FINAL.contains(&phase))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(name: &str, zone: &str) -> PoolNode {
        let zone = (!zone.is_empty()).then(|| zone.to_owned());
        PoolNode { name: name.to_owned(), ready: true, zone, ..PoolNode::default() }
    }

    fn gate(zones_rule: Zones, own: PoolNode, others: &[PoolNode]) -> Gate {
        let rules = Rules { zones: zones_rule, ..Rules::default() };
        zones(&rules, &Ok(own), &Ok(others.to_vec()))
    }

    #[test]
    fn one_zone_at_a_time() {
        let away = PoolNode { unschedulable: true, ..node("n-a", "a") };
        assert_eq!(gate(Zones::OneAtATime, node("own", "a"), std::slice::from_ref(&away)), Gate::Open);
        assert_eq!(gate(Zones::OneAtATime, node("own", "b"), &[node("n-a", "a")]), Gate::Open);
        let closed = gate(Zones::OneAtATime, node("own", "b"), std::slice::from_ref(&away));
        assert!(matches!(&closed, Gate::Closed { why, .. } if why.ends_with("n-a of zone a")), "{closed:?}");
        assert_eq!(gate(Zones::Any, node("own", "b"), std::slice::from_ref(&away)), Gate::Open);
        assert_eq!(gate(Zones::OneAtATime, node("own", ""), &[away]), Gate::Open);
    }

    #[test]
    fn in_order_waits_for_the_zones_before_and_not_for_those_after() {
        let through = PoolNode { phase: Some("rolled-back".into()), ..node("n-a1", "a") };
        let on_its_way = PoolNode { phase: Some("drained".into()), ..node("n-a2", "a") };
        assert_eq!(gate(Zones::InOrder, node("own", "a"), &[node("n-b", "b")]), Gate::Open);
        assert_eq!(gate(Zones::InOrder, node("own", "b"), std::slice::from_ref(&through)), Gate::Open);
        let closed = gate(Zones::InOrder, node("own", "b"), &[through, on_its_way.clone()]);
        assert!(
            matches!(&closed, Gate::Closed { why, .. } if why.ends_with(": n-a2 of zone a")),
            "{closed:?}"
        );
        assert_eq!(gate(Zones::OneAtATime, node("own", "b"), &[on_its_way]), Gate::Open);
    }
}
