//! The budgets of pods that have more than one: the server does not say which, so they are looked up where they may be
//! read. A kubelet's credential may not.

use super::api::NodeApi;
use super::drain::{ObstacleKind, Outcome};
use super::pod::PodKey;

/// The outcome of a drain, with the names of budgets that the server left out.
#[must_use]
pub fn with_budgets(api: &dyn NodeApi, node: &str, outcome: Outcome) -> Outcome {
    let Outcome::Blocked(mut left) = outcome else { return outcome };
    for left in left.iter_mut().filter(|left| left.by == Some(ObstacleKind::TwoBudgets)) {
        let names = names(api, node, &left.pod);
        if !names.is_empty() {
            left.why = format!("{} ({})", left.why, names.join(" and "));
        }
    }
    Outcome::Blocked(left)
}

fn names(api: &dyn NodeApi, node: &str, key: &PodKey) -> Vec<String> {
    let pods = api.pods(node).unwrap_or_default();
    let pod = pods.iter().find(|pod| pod.key == *key);
    pod.and_then(|pod| api.budgets_of(pod).ok()).unwrap_or_default()
}
