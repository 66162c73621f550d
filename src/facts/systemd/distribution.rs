//! What distributions ship, for trees whose systemd cannot be looked into. Those that build systemd with a default
//! of their own are the reason for this table.

use std::collections::BTreeMap;

use crate::boot::hierarchy::Hierarchy::{self, Hybrid, Legacy, Unified};

/// What one release ships.
#[derive(Debug, Clone, Copy)]
pub(super) struct Release {
    /// `ID` in os-release, or a word of `ID_LIKE`.
    pub(super) name: &'static str,
    /// The first version this row is true of.
    since: (u32, u32),
    /// systemd's version, where it is one for the whole row.
    pub(super) systemd: Option<u32>,
    /// Its built-in default.
    pub(super) default: Hierarchy,
}

const fn release(name: &'static str, since: (u32, u32), systemd: u32, default: Hierarchy) -> Release {
    Release { name, since, systemd: Some(systemd), default }
}

const fn mixed(name: &'static str, since: (u32, u32), default: Hierarchy) -> Release {
    Release { name, since, systemd: None, default }
}

/// In order of versions for each name.
const RELEASES: [Release; 29] = [
    release("rhel", (7, 0), 219, Legacy),
    release("rhel", (8, 0), 239, Legacy),
    release("rhel", (9, 0), 252, Unified),
    release("rhel", (10, 0), 257, Unified),
    release("ol", (7, 0), 219, Legacy),
    release("ol", (8, 0), 239, Legacy),
    release("ol", (9, 0), 252, Unified),
    release("ol", (10, 0), 257, Unified),
    release("ubuntu", (18, 4), 237, Hybrid),
    release("ubuntu", (20, 4), 245, Hybrid),
    mixed("ubuntu", (20, 10), Hybrid),
    mixed("ubuntu", (21, 10), Unified),
    release("ubuntu", (22, 4), 249, Unified),
    mixed("ubuntu", (22, 10), Unified),
    release("debian", (10, 0), 241, Hybrid),
    release("debian", (11, 0), 247, Unified),
    release("debian", (12, 0), 252, Unified),
    release("debian", (13, 0), 257, Unified),
    release("sles", (12, 0), 228, Legacy),
    mixed("sles", (15, 0), Hybrid),
    release("sles", (15, 6), 254, Unified),
    mixed("sles", (16, 0), Unified),
    mixed("opensuse-leap", (15, 0), Hybrid),
    release("opensuse-leap", (15, 6), 254, Unified),
    release("amzn", (2, 0), 219, Legacy),
    release("amzn", (2023, 0), 252, Unified),
    mixed("photon", (4, 0), Hybrid),
    mixed("openEuler", (20, 3), Legacy),
    mixed("fedora", (31, 0), Unified),
];

/// The row for a host with this os-release. `ID` goes before the words of `ID_LIKE`; those are asked only by
/// families that keep the numbers of the one they are like.
pub(super) fn find(os_release: &BTreeMap<String, String>) -> Option<Release> {
    let id = os_release.get("ID")?;
    let version = version(os_release.get("VERSION_ID")?)?;
    let row = |name: &str| RELEASES.into_iter().rfind(|row| row.name == name && row.since <= version);
    let is_like_rhel =
        os_release.get("ID_LIKE").is_some_and(|like| like.split_whitespace().any(|name| name == "rhel"));
    match id.as_str() {
        "rhel" | "centos" | "rocky" | "almalinux" => row("rhel"),
        "sled" | "sles_sap" => row("sles"),
        other if RELEASES.iter().any(|row| row.name == other) => row(other),
        // Amazon Linux and others say that they are like RHEL and count in another way.
        _ if is_like_rhel && version.0 <= 20 => row("rhel"),
        _ => None,
    }
}

fn version(text: &str) -> Option<(u32, u32)> {
    let mut numbers = text.split('.').map(|number| number.parse().ok());
    Some((numbers.next()??, numbers.next().flatten().unwrap_or(0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_row_of_a_release() {
        for (id, version, expected) in [
            ("debian", "10", Some(Hybrid)),
            ("debian", "12", Some(Unified)),
            ("ubuntu", "20.04", Some(Hybrid)),
            ("ubuntu", "21.10", Some(Unified)),
            ("ubuntu", "24.04", Some(Unified)),
            ("rocky", "8.10", Some(Legacy)),
            ("centos", "7", Some(Legacy)),
            ("rhel", "9.4", Some(Unified)),
            ("sles", "15.5", Some(Hybrid)),
            ("sles", "15.6", Some(Unified)),
            ("amzn", "2023", Some(Unified)),
            ("debian", "9", None),
            ("gentoo", "2.15", None),
        ] {
            let os_release = [("ID", id), ("VERSION_ID", version)];
            let os_release = os_release.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
            assert_eq!(find(&os_release).map(|row| row.default), expected, "{id} {version}");
        }
    }
}
