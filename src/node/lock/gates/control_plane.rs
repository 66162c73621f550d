//! Control-plane nodes go one at a time, whatever the number of slots.

use super::{Gate, Known, PoolNode};

pub(super) fn control_plane(own: &Known<PoolNode>, nodes: &Known<Vec<PoolNode>>) -> Gate {
    Gate::of(own, |own| {
        if !own.control_plane {
            return Gate::Open;
        }
        Gate::of(nodes, |nodes| {
            let others = nodes.iter().filter(|node| node.control_plane && node.name != own.name);
            let away: Vec<String> = others.filter(|node| node.is_unavailable()).map(PoolNode::told).collect();
            if away.is_empty() {
                return Gate::Open;
            }
            Gate::closed(format!("control-plane nodes go one at a time: {}", away.join(", ")))
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(name: &str, control_plane: bool, ready: bool) -> PoolNode {
        PoolNode { name: name.to_owned(), control_plane, ready, ..PoolNode::default() }
    }

    #[test]
    fn one_that_is_away_keeps_the_others_up_and_workers_do_not_count() {
        let (own, worker) = (node("c-1", true, true), node("w-1", false, false));
        let all = |ready| Ok(vec![own.clone(), node("c-2", true, ready), worker.clone()]);
        assert_eq!(control_plane(&Ok(own.clone()), &all(true)), Gate::Open);
        let gate = control_plane(&Ok(own.clone()), &all(false));
        assert!(matches!(&gate, Gate::Closed { why, .. } if why.ends_with("c-2 is not Ready")), "{gate:?}");
        assert_eq!(control_plane(&Ok(worker.clone()), &all(false)), Gate::Open);
    }

    #[test]
    fn a_control_plane_node_that_sees_no_others_does_not_know() {
        let hidden = Err("forbidden".to_owned());
        assert!(matches!(control_plane(&Ok(node("c", true, true)), &hidden), Gate::Unknown { .. }));
        assert_eq!(control_plane(&Ok(node("w", false, true)), &hidden), Gate::Open);
        assert!(matches!(control_plane(&Err("away".to_owned()), &hidden), Gate::Unknown { .. }));
    }
}
