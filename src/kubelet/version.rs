//! What a release of the kubelet knows. k3s, RKE2 and their like carry the kubelet's own numbers in front of theirs.

use serde::Serialize;

/// Major and minor number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Version {
    /// 1.
    pub major: u32,
    /// 37.
    pub minor: u32,
}

impl std::fmt::Display for Version {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{}.{}", self.major, self.minor)
    }
}

impl Version {
    /// 1.`minor`.
    #[must_use]
    pub const fn v1(minor: u32) -> Self {
        Self { major: 1, minor }
    }

    /// The first version in a text such as `Kubernetes v1.34.1` or `k3s version v1.32.1+k3s1 (6a322f12)`.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        text.split_whitespace().find_map(|word| numbers(word.strip_prefix('v').unwrap_or(word)))
    }

    /// It has `failCgroupV1`; before, the key is unknown and must not be written.
    #[must_use]
    pub fn knows_fail_cgroup_v1(self) -> bool {
        self >= Self::v1(31)
    }

    /// It refuses cgroup v1 if nothing is set.
    #[must_use]
    pub fn refuses_v1_by_default(self) -> bool {
        self >= Self::v1(35)
    }

    /// It reads `--config-dir`; 1.28 and 1.29 want an environment variable for it.
    #[must_use]
    pub fn reads_drop_ins(self) -> bool {
        self >= Self::v1(30)
    }

    /// It takes the cgroup driver from a runtime that tells it, whatever its own configuration says.
    #[must_use]
    pub fn asks_the_runtime_for_the_driver(self) -> bool {
        self >= Self::v1(31)
    }
}

fn numbers(word: &str) -> Option<Version> {
    let mut parts = word.split('.');
    let major = parts.next()?.parse().ok()?;
    let minor: String = parts.next()?.chars().take_while(char::is_ascii_digit).collect();
    Some(Version { major, minor: minor.parse().ok()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_programs_say_of_themselves() {
        for (text, minor) in [
            ("Kubernetes v1.34.1\n", 34),
            ("k3s version v1.32.1+k3s1 (6a322f12)\ngo version go1.23.3\n", 32),
            ("rke2 version v1.31.4+rke2r1 (abc)\n", 31),
            ("v1.35.0", 35),
            ("Kubernetes v1.37.0-beta.0", 37),
            ("Kubernetes v1.30+", 30),
        ] {
            assert_eq!(Version::parse(text), Some(Version::v1(minor)), "{text}");
        }
        assert_eq!(Version::parse("no version at all"), None);
        assert_eq!(Version::parse(""), None);
    }
}
