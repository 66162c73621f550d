//! In which order pods go: wave after wave, each begun when the one before is gone.
//!
//! What others depend on goes last: storage and network helpers of the system classes, and whatever a selector names.

use crate::node::pod::NodePod;

/// Where `system-cluster-critical` begins (`scheduling.SystemCriticalPriority`).
const SYSTEM: i32 = 2_000_000_000;

/// A set of pods by namespace and labels; what is not given is not asked.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Selector {
    /// Namespace.
    pub namespace: Option<String>,
    /// Labels that all must be there.
    pub labels: Vec<(String, String)>,
}

impl Selector {
    pub(in crate::node) fn matches(&self, pod: &NodePod) -> bool {
        let in_namespace = self.namespace.as_ref().is_none_or(|namespace| *namespace == pod.key.namespace);
        in_namespace && self.labels.iter().all(|label| pod.labels.contains(label))
    }
}

/// The order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Waves {
    /// Pods with a priority below the first bound go first, those below the second one next, and so on.
    pub bounds: Vec<i32>,
    /// After all of those, one wave for each, in this order.
    pub last: Vec<Selector>,
}

impl Default for Waves {
    fn default() -> Self {
        Self { bounds: vec![SYSTEM, SYSTEM + 1000], last: Vec::new() }
    }
}

impl Waves {
    /// The number of a pod's wave; lower ones go first.
    #[must_use]
    pub fn of(&self, pod: &NodePod) -> usize {
        if let Some(index) = self.last.iter().position(|selector| selector.matches(pod)) {
            return self.bounds.len() + 1 + index;
        }
        self.bounds.iter().take_while(|bound| pod.priority >= **bound).count()
    }
}
