//! Enough of the pool is well. Whatever took a node away counts, and a cordon counts as away.

use super::{Gate, Known, PoolNode, Rules};

pub(super) fn pool(rules: &Rules, own: &Known<PoolNode>, nodes: &Known<Vec<PoolNode>>) -> Gate {
    let Some(most) = rules.max_unavailable else { return Gate::Open };
    Gate::of(own, |own| {
        Gate::of(nodes, |nodes| {
            let others = peers(rules, own, nodes).filter(|node| node.is_unavailable());
            judged(&others.map(PoolNode::told).collect::<Vec<_>>(), most)
        })
    })
}

/// The other nodes of our pool.
pub(super) fn peers<'a>(
    rules: &'a Rules,
    own: &'a PoolNode,
    nodes: &'a [PoolNode],
) -> impl Iterator<Item = &'a PoolNode> {
    let is_peer = |node: &&PoolNode| node.name != own.name && node.control_plane == own.control_plane;
    nodes.iter().filter(is_peer).filter(|node| node.has(&rules.pool))
}

fn judged(away: &[String], most: usize) -> Gate {
    if away.len() < most {
        return Gate::Open;
    }
    Gate::closed(format!(
        "with this node {} of the pool would be unavailable, and {most} may be: {}",
        away.len() + 1,
        away.join(", ")
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(name: &str) -> PoolNode {
        PoolNode { name: name.to_owned(), ready: true, ..PoolNode::default() }
    }

    fn gate(most: usize, others: Vec<PoolNode>) -> Gate {
        let rules = Rules {
            max_unavailable: Some(most),
            pool: vec![("pool".into(), "a".into())],
            ..Rules::default()
        };
        // A cordon of our own node is none of another.
        let own = PoolNode { unschedulable: true, ..node("own") };
        pool(&rules, &Ok(own.clone()), &Ok(others.into_iter().chain([own]).collect()))
    }

    fn of_pool(node: PoolNode) -> PoolNode {
        PoolNode { labels: [("pool".to_owned(), "a".to_owned())].into(), ..node }
    }

    #[test]
    fn any_unavailable_node_of_the_pool_counts() {
        let down = of_pool(PoolNode { ready: false, ..node("n-1") });
        let cordoned = of_pool(PoolNode { unschedulable: true, ..node("n-2") });
        assert_eq!(gate(1, vec![of_pool(node("n-3"))]), Gate::Open);
        assert_eq!(gate(2, vec![down.clone()]), Gate::Open);
        let Gate::Closed { why, try_again_in: Some(_) } = gate(2, vec![down, cordoned]) else { panic!() };
        assert_eq!(
            why,
            "with this node 3 of the pool would be unavailable, and 2 may be: n-1 is not Ready, n-2 is cordoned"
        );
    }

    #[test]
    fn nodes_of_other_pools_do_not() {
        let elsewhere = PoolNode { ready: false, ..node("n-1") };
        let control = of_pool(PoolNode { ready: false, control_plane: true, ..node("n-2") });
        assert_eq!(gate(1, vec![elsewhere, control]), Gate::Open);
    }

    #[test]
    fn what_may_not_be_seen_is_no_yes_and_what_is_not_asked_is_no_question() {
        let hidden = Err("this credential may not list nodes".to_owned());
        let rules = Rules { max_unavailable: Some(1), ..Rules::default() };
        assert!(
            matches!(pool(&rules, &Ok(node("own")), &hidden), Gate::Unknown { why } if why.contains("may not"))
        );
        assert_eq!(pool(&Rules::default(), &Ok(node("own")), &hidden), Gate::Open);
    }
}
