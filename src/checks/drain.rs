//! What speaks against draining this node: everything at once, before the cordon.

use crate::config::Settings;
use crate::facts::Facts;
use crate::node::PodKey;
use crate::node::drain::{Obstacle, ObstacleKind};
use crate::node::preflight::Preflight;
use crate::node::select::Objection;
use crate::report::{Finding, Severity};

pub(super) fn check(facts: &Facts, settings: &Settings) -> Vec<Finding> {
    match &facts.node {
        None => Vec::new(),
        Some(_) if settings.no_drain => Vec::new(),
        Some(Err(why)) => vec![not_reached(why)],
        Some(Ok(preflight)) => of_node(preflight),
    }
}

/// Findings about a node whose API answers.
#[must_use]
pub fn of_node(preflight: &Preflight) -> Vec<Finding> {
    let rules: [fn(&Preflight) -> Option<Finding>; 9] =
        [denied, cordoned, emptydir_data, unmanaged, stuck, two_budgets, forbidden, held_now, control_plane];
    rules.iter().filter_map(|rule| rule(preflight)).collect()
}

fn not_reached(why: &str) -> Finding {
    Finding::new(Severity::Blocker, "node-api-unavailable", "the Kubernetes API cannot be asked about this node", why)
        .remedy(
            "see that the API server can be reached with the kubelet's credential; where somebody else has drained the \
             node, say so with --no-drain",
        )
}

fn denied(preflight: &Preflight) -> Option<Finding> {
    let denied: Vec<String> = preflight.denied.iter().map(ToString::to_string).collect();
    (!denied.is_empty()).then(|| {
        Finding::new(
            Severity::Blocker,
            "node-rights-missing",
            "the credential lacks rights that a drain needs",
            denied.join("\n"),
        )
        .remedy("use the kubelet's own credential, or grant these (packaging/kubernetes/)")
    })
}

fn cordoned(preflight: &Preflight) -> Option<Finding> {
    let before = &preflight.before;
    before.was_unschedulable.then(|| {
        Finding::new(
            Severity::Note,
            "node-cordoned-before",
            "somebody else has cordoned this node",
            format!("node {} is cordoned, and not by this program", before.node),
        )
        .remedy("none needed; it stays cordoned after the migration, too")
    })
}

/// One finding over all pods that one kind of objection is about.
fn over(
    preflight: &Preflight,
    wanted: impl Fn(&Objection) -> bool,
    make: impl Fn(String) -> Finding,
) -> Option<Finding> {
    let lines = preflight.objections.iter().filter_map(|(pod, objections)| {
        let objection = objections.iter().find(|objection| wanted(objection))?;
        Some((pod, format!("{pod}: {objection}")))
    });
    told(lines.collect(), make)
}

/// One finding over all pods that one kind of obstacle holds.
fn held(
    preflight: &Preflight,
    wanted: impl Fn(&ObstacleKind) -> bool,
    make: impl Fn(String) -> Finding,
) -> Option<Finding> {
    let lines = preflight.obstacles.iter().filter(|(_, obstacle, _)| wanted(&obstacle.kind));
    told(lines.map(|(pod, obstacle, names)| (pod, obstructed(pod, obstacle, names))).collect(), make)
}

fn obstructed(pod: &PodKey, obstacle: &Obstacle, names: &[String]) -> String {
    if names.is_empty() {
        return format!("{pod}: {}: {}", obstacle.kind, obstacle.detail);
    }
    format!("{pod}: {}: {}", obstacle.kind, names.join(" and "))
}

fn told(lines: Vec<(&PodKey, String)>, make: impl Fn(String) -> Finding) -> Option<Finding> {
    if lines.is_empty() {
        return None;
    }
    let detail: Vec<&str> = lines.iter().map(|(_, line)| line.as_str()).collect();
    let finding = make(detail.join("\n"));
    Some(lines.iter().fold(finding, |finding, (pod, _)| finding.about_pod(&pod.to_string())))
}

fn emptydir_data(preflight: &Preflight) -> Option<Finding> {
    over(
        preflight,
        |objection| matches!(objection, Objection::EmptyDir(_)),
        |detail| {
            Finding::new(
                Severity::Blocker,
                "pod-emptydir-data",
                "pods keep data on this node that would be lost",
                detail,
            )
            .acceptable()
            .remedy("save the data; or let it go: --delete-emptydir-data")
        },
    )
}

fn unmanaged(preflight: &Preflight) -> Option<Finding> {
    over(
        preflight,
        |objection| matches!(objection, Objection::Unmanaged),
        |detail| {
            Finding::new(Severity::Blocker, "pod-unmanaged", "pods that nobody makes anew", detail)
                .acceptable()
                .remedy("move them by hand; or let them go for good: --force")
        },
    )
}

fn stuck(preflight: &Preflight) -> Option<Finding> {
    over(
        preflight,
        |objection| matches!(objection, Objection::StuckTerminating(_)),
        |detail| {
            Finding::new(
                Severity::Blocker,
                "pod-stuck-terminating",
                "pods that should have ended long ago",
                detail,
            )
            .remedy("see what holds them (finalizers, a busy volume, a dead runtime), then try again")
        },
    )
}

fn two_budgets(preflight: &Preflight) -> Option<Finding> {
    held(
        preflight,
        |kind| *kind == ObstacleKind::TwoBudgets,
        |detail| {
            Finding::new(
                Severity::Blocker,
                "pod-two-budgets",
                "pods with more than one disruption budget cannot be evicted",
                detail,
            )
            .remedy("leave one budget for each pod (kubectl get poddisruptionbudget)")
        },
    )
}

fn forbidden(preflight: &Preflight) -> Option<Finding> {
    held(
        preflight,
        |kind| matches!(kind, ObstacleKind::Forbidden | ObstacleKind::Other),
        |detail| {
            Finding::new(
                Severity::Blocker,
                "pod-eviction-refused",
                "the API server refuses evictions",
                detail,
            )
            .remedy("see its words; a credential that may create pods/eviction is needed")
        },
    )
}

fn held_now(preflight: &Preflight) -> Option<Finding> {
    held(
        preflight,
        |kind| matches!(kind, ObstacleKind::Budget(_) | ObstacleKind::Webhook(_)),
        |detail| {
            Finding::new(Severity::Warning, "pod-eviction-held", "pods that could not be evicted right now", detail).remedy(
            "the drain asks again up to its time limit; more replicas or a larger budget make room, a webhook waits for \
             something of its own",
        )
        },
    )
}

fn control_plane(preflight: &Preflight) -> Option<Finding> {
    told(preflight.control_plane.iter().map(|pod| (pod, pod.to_string())).collect(), |detail| {
        Finding::new(
            Severity::Warning,
            "node-control-plane",
            "this node carries a part of the control plane",
            detail,
        )
        .remedy("its static pods stop with the reboot: one control-plane node at a time, the others well")
    })
}
