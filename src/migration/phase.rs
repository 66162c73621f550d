//! The phases of a migration and the one table of ways between them.
//!
//! The table drives [`super::journal::Journal::advance`], the tests, and the diagram in `docs/phases.dot`.

use serde::{Deserialize, Serialize};

/// Where a migration stands. Reasons travel with the phases that need one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "phase", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Phase {
    /// The plan is in the journal. On a host that is no node, files are being saved, edited and generated; all of it can
    /// be repeated.
    Planned,
    /// It is the node's turn in its fleet. On a host that is no node, files are being saved, edited and generated.
    Locked,
    /// Nothing new is scheduled onto the node; pods are being evicted.
    Cordoned,
    /// No pod is left that had to go. Files are being saved, edited and generated.
    Drained,
    /// Every file is as planned and the entry that will boot was read back.
    Staged,
    /// The reboot was asked for.
    Rebooting,
    /// Another boot than the one that was planned in; nothing has been proven about it yet.
    Booted,
    /// This boot runs cgroup v2 and passed the proofs.
    Verified,
    /// The kubelet is told to refuse cgroup v1 from now on, restarted, and proven to be up; or, where it does not come
    /// up, its files are put back.
    KubeletFinal,
    /// The node is back in service.
    Uncordoned,
    /// Finished.
    Done,
    /// Files are being put back; ends with a reboot only if the running hierarchy is not the old one.
    RollingBack {
        /// Why.
        why: String,
    },
    /// Everything is as it was.
    RolledBack {
        /// Why.
        why: String,
    },
    /// Nothing more is done by itself.
    NeedsPerson {
        /// What was found and what can be done.
        why: String,
    },
}

/// A phase without its reason: for the table, `--until`, and JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PhaseName {
    /// See [`Phase::Planned`].
    Planned,
    /// See [`Phase::Locked`].
    Locked,
    /// See [`Phase::Cordoned`].
    Cordoned,
    /// See [`Phase::Drained`].
    Drained,
    /// See [`Phase::Staged`].
    Staged,
    /// See [`Phase::Rebooting`].
    Rebooting,
    /// See [`Phase::Booted`].
    Booted,
    /// See [`Phase::Verified`].
    Verified,
    /// See [`Phase::KubeletFinal`].
    KubeletFinal,
    /// See [`Phase::Uncordoned`].
    Uncordoned,
    /// See [`Phase::Done`].
    Done,
    /// See [`Phase::RollingBack`].
    RollingBack,
    /// See [`Phase::RolledBack`].
    RolledBack,
    /// See [`Phase::NeedsPerson`].
    NeedsPerson,
}

use PhaseName as P;

/// Every way from one phase to another, with what it means. Nothing else is legal.
pub const TRANSITIONS: &[(PhaseName, PhaseName, &str)] = &[
    (P::Planned, P::Staged, "files written, entry read back"),
    (P::Planned, P::Booted, "power lost after the last file, boots v2"),
    (P::Planned, P::RollingBack, "an effect failed, or power lost before staged"),
    (P::Planned, P::Locked, "it is this node's turn in its fleet"),
    (P::Locked, P::Cordoned, "nothing new is scheduled onto the node"),
    (P::Locked, P::Staged, "files written, entry read back"),
    (P::Locked, P::Booted, "power lost after the last file, boots v2"),
    (P::Locked, P::RollingBack, "an effect failed, power lost, or asked by a person"),
    (P::Planned, P::Cordoned, "nothing new is scheduled onto the node"),
    (P::Cordoned, P::Drained, "no pod is left that had to go"),
    (P::Cordoned, P::Booted, "power lost, and somebody else had it boot v2"),
    (P::Cordoned, P::RollingBack, "pods did not go, power lost, or asked by a person"),
    (P::Drained, P::Staged, "files written, entry read back"),
    (P::Drained, P::Booted, "power lost after the last file, boots v2"),
    (P::Drained, P::RollingBack, "an effect failed, or power lost before staged"),
    (P::Staged, P::Rebooting, "reboot asked for"),
    (P::Staged, P::Booted, "rebooted by a person"),
    (P::Staged, P::RollingBack, "the entry that will boot changed, or asked by a person"),
    (P::Rebooting, P::Booted, "boot_id changed"),
    (P::Rebooting, P::Staged, "the host did not go down"),
    (P::Rebooting, P::RollingBack, "asked by a person"),
    (P::Booted, P::Verified, "proofs passed"),
    (P::Booted, P::RollingBack, "still v1, or a proof failed"),
    (P::Booted, P::NeedsPerson, "hierarchy could not be found out"),
    (P::Verified, P::KubeletFinal, "the kubelet's files say that v1 is fine"),
    (P::KubeletFinal, P::Uncordoned, "the kubelet is up, our cordon is off"),
    (P::KubeletFinal, P::Done, "the kubelet is up, nothing left to do"),
    (P::KubeletFinal, P::RollingBack, "the kubelet did not come up, or asked by a person"),
    (P::KubeletFinal, P::NeedsPerson, "the next boot may not be v2"),
    (P::Verified, P::Uncordoned, "our cordon is off"),
    (P::Uncordoned, P::Done, "nothing left to do"),
    (P::Uncordoned, P::NeedsPerson, "the next boot may not be v2"),
    (P::Uncordoned, P::RollingBack, "asked by a person"),
    (P::Verified, P::Done, "nothing left to do"),
    (P::Verified, P::NeedsPerson, "the next boot may not be v2"),
    (P::Verified, P::RollingBack, "asked by a person"),
    (P::Verified, P::NeedsPerson, "a later boot would be v1 again"),
    (P::Done, P::RollingBack, "asked by a person"),
    (P::RollingBack, P::RolledBack, "files and hierarchy as before"),
    (P::RollingBack, P::NeedsPerson, "cannot be put back by itself"),
    (P::NeedsPerson, P::RollingBack, "asked by a person"),
    (P::NeedsPerson, P::Booted, "resumed by a person"),
];

impl Phase {
    /// The name without the reason.
    #[must_use]
    pub fn name(&self) -> PhaseName {
        match self {
            Self::Planned => P::Planned,
            Self::Locked => P::Locked,
            Self::Cordoned => P::Cordoned,
            Self::Drained => P::Drained,
            Self::Staged => P::Staged,
            Self::Rebooting => P::Rebooting,
            Self::Booted => P::Booted,
            Self::Verified => P::Verified,
            Self::KubeletFinal => P::KubeletFinal,
            Self::Uncordoned => P::Uncordoned,
            Self::Done => P::Done,
            Self::RollingBack { .. } => P::RollingBack,
            Self::RolledBack { .. } => P::RolledBack,
            Self::NeedsPerson { .. } => P::NeedsPerson,
        }
    }

    /// The reason, where the phase has one.
    #[must_use]
    pub fn why(&self) -> Option<&str> {
        match self {
            Self::RollingBack { why } | Self::RolledBack { why } | Self::NeedsPerson { why } => Some(why),
            Self::Planned
            | Self::Locked
            | Self::Cordoned
            | Self::Drained
            | Self::Staged
            | Self::Rebooting
            | Self::Booted
            | Self::Verified
            | Self::KubeletFinal
            | Self::Uncordoned
            | Self::Done => None,
        }
    }

    /// True if a new migration may begin after it.
    #[must_use]
    pub fn is_final(&self) -> bool {
        matches!(self, Self::Done | Self::RolledBack { .. })
    }
}

impl PhaseName {
    /// The word used in JSON, on the command line and in the diagram.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            P::Planned => "planned",
            P::Locked => "locked",
            P::Cordoned => "cordoned",
            P::Drained => "drained",
            P::Staged => "staged",
            P::Rebooting => "rebooting",
            P::Booted => "booted",
            P::Verified => "verified",
            P::KubeletFinal => "kubelet-final",
            P::Uncordoned => "uncordoned",
            P::Done => "done",
            P::RollingBack => "rolling-back",
            P::RolledBack => "rolled-back",
            P::NeedsPerson => "needs-person",
        }
    }

    /// True if the table has a way from `self` to `next`.
    #[must_use]
    pub fn leads_to(self, next: PhaseName) -> bool {
        TRANSITIONS.iter().any(|(from, to, _)| (*from, *to) == (self, next))
    }
}

impl std::fmt::Display for PhaseName {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(self.as_str())
    }
}

/// The table as a Graphviz diagram.
#[must_use]
pub fn diagram() -> String {
    let mut dot = String::from("digraph migration {\n    rankdir=LR;\n    node [shape=box];\n");
    for (from, to, meaning) in TRANSITIONS {
        dot.push_str(&format!("    \"{from}\" -> \"{to}\" [label=\"{meaning}\"];\n"));
    }
    dot.push_str("}\n");
    dot
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [PhaseName; 14] = [
        P::Planned,
        P::Locked,
        P::Cordoned,
        P::Drained,
        P::Staged,
        P::Rebooting,
        P::Booted,
        P::Verified,
        P::KubeletFinal,
        P::Uncordoned,
        P::Done,
        P::RollingBack,
        P::RolledBack,
        P::NeedsPerson,
    ];

    #[test]
    fn every_phase_but_the_first_can_be_reached() {
        for phase in ALL.into_iter().filter(|phase| *phase != P::Planned) {
            assert!(TRANSITIONS.iter().any(|(_, to, _)| *to == phase), "{phase} cannot be reached");
        }
    }

    #[test]
    fn only_a_rolled_back_migration_has_no_way_on() {
        for phase in ALL {
            let leads_on = TRANSITIONS.iter().any(|(from, _, _)| *from == phase);
            assert_eq!(leads_on, phase != P::RolledBack, "{phase}");
        }
    }

    #[test]
    fn words_in_json_and_in_text_are_the_same() {
        for phase in ALL {
            assert_eq!(serde_json::to_string(&phase).unwrap(), format!("\"{phase}\""));
        }
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "a test writes its golden file where it is told to")]
    fn the_diagram_in_docs_is_the_table() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/phases.dot");
        if std::env::var_os("C2M_UPDATE_GOLDEN").is_some() {
            std::fs::write(path, diagram()).unwrap();
        }
        let drawn = std::fs::read_to_string(path).unwrap_or_default();
        assert_eq!(drawn, diagram(), "draw it anew: C2M_UPDATE_GOLDEN=1 cargo test");
    }
}
