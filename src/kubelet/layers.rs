//! Which value of a setting counts, and where it comes from. From the lowest: built-in default, the file of `--config`,
//! the drop-ins of `--config-dir` in the order of their names, flags. Feature gates from the command line are the
//! exception: they are the lowest layer (from the kubelet's documentation by memory, not looked up).

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;

use super::FAIL_CGROUP_V1;
use super::document::{Entry, Node};
use super::flags::Flag;
use super::setup::{ConfigFile, Setup};
use super::source::Place;
use super::version::Version;

/// Settings that matter here, and the flag of each that has one.
pub const KEYS: [(&str, Option<&str>); 15] = [
    (FAIL_CGROUP_V1, Some("fail-cgroupv1")),
    ("cgroupDriver", Some("cgroup-driver")),
    ("singleProcessOOMKill", None),
    ("kubeReservedCgroup", Some("kube-reserved-cgroup")),
    ("systemReservedCgroup", Some("system-reserved-cgroup")),
    ("enforceNodeAllocatable", Some("enforce-node-allocatable")),
    ("memoryThrottlingFactor", None),
    ("memoryReservationPolicy", None),
    ("cgroupsPerQOS", Some("cgroups-per-qos")),
    ("staticPodPath", Some("pod-manifest-path")),
    ("cpuManagerPolicy", Some("cpu-manager-policy")),
    ("shutdownGracePeriod", None),
    ("shutdownGracePeriodCriticalPods", None),
    ("shutdownGracePeriodByPodPriority", None),
    ("containerRuntimeEndpoint", Some("container-runtime-endpoint")),
];

const GATES: &str = "featureGates";

/// Where a value comes from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Origin {
    /// Built in.
    Default,
    /// A file of KubeletConfiguration.
    File(Place),
    /// The command line, and where that has it from.
    Flag(Place),
}

impl std::fmt::Display for Origin {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Default => formatter.write_str("the built-in default"),
            Self::File(place) => write!(formatter, "{place}"),
            Self::Flag(place) => write!(formatter, "a flag at {place}"),
        }
    }
}

/// A value and its origin.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Setting {
    /// The value.
    pub value: Value,
    /// Its origin.
    pub origin: Origin,
}

/// All layers of every setting, lowest first. A feature gate is `featureGates.NAME`.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Effective {
    layers: BTreeMap<String, Vec<Setting>>,
}

impl Effective {
    /// Puts the layers of a setup together.
    #[must_use]
    pub fn of(setup: &Setup) -> Self {
        let mut effective = Self::default();
        effective.defaults(setup.version);
        effective.gates_of_flags(&setup.flags);
        let reads_drop_ins = setup.version.is_none_or(Version::reads_drop_ins);
        for file in setup.files.iter().filter(|file| reads_drop_ins || !file.is_drop_in) {
            effective.file(file);
        }
        effective.flags(&setup.flags);
        effective
    }

    /// The value that counts.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&Setting> {
        self.layers(key).last()
    }

    /// The text that counts.
    #[must_use]
    pub fn text(&self, key: &str) -> Option<&str> {
        self.get(key)?.value.as_str()
    }

    /// Every place that says something, lowest first.
    #[must_use]
    pub fn layers(&self, key: &str) -> &[Setting] {
        self.layers.get(key).map(Vec::as_slice).unwrap_or_default()
    }

    /// The feature gates that something sets, by name.
    pub fn gates(&self) -> impl Iterator<Item = (&str, &Setting)> {
        self.layers
            .iter()
            .filter_map(|(key, layers)| Some((key.strip_prefix("featureGates.")?, layers.last()?)))
    }

    fn put(&mut self, key: &str, value: Value, origin: Origin) {
        if !value.is_null() {
            self.layers.entry(key.to_owned()).or_default().push(Setting { value, origin });
        }
    }

    fn defaults(&mut self, version: Option<Version>) {
        for (key, value) in [
            ("cgroupDriver", "cgroupfs".into()),
            ("cgroupsPerQOS", true.into()),
            ("cpuManagerPolicy", "none".into()),
        ] {
            self.put(key, value, Origin::Default);
        }
        let Some(version) = version else { return };
        if version.knows_fail_cgroup_v1() {
            self.put(FAIL_CGROUP_V1, version.refuses_v1_by_default().into(), Origin::Default);
        }
        if version >= Version::v1(36) {
            self.put("memoryReservationPolicy", "None".into(), Origin::Default);
        }
        // From 1.37 on there is none (the final source of 1.37.0 was not read).
        if version < Version::v1(37) {
            self.put("memoryThrottlingFactor", 0.9.into(), Origin::Default);
        }
    }

    fn file(&mut self, file: &ConfigFile) {
        let Ok(document) = &file.document else { return };
        let origin = |line| Origin::File(Place { path: file.source.path.clone(), line });
        for entry in &document.entries {
            if let (GATES, Node::Map(gates)) = (entry.key.as_str(), &entry.value.node) {
                self.gates_of_a_file(gates, &origin);
            } else if KEYS.iter().any(|(key, _)| *key == entry.key) {
                self.put(&entry.key, entry.value.node.to_json(), origin(entry.line));
            }
        }
    }

    fn gates_of_a_file(&mut self, gates: &[Entry], origin: &impl Fn(usize) -> Origin) {
        for gate in gates {
            self.put(&format!("{GATES}.{}", gate.key), gate.value.node.to_json(), origin(gate.line));
        }
    }

    fn gates_of_flags(&mut self, flags: &[Flag]) {
        for flag in flags.iter().filter(|flag| flag.name == "feature-gates") {
            let pairs =
                flag.value.as_deref().unwrap_or_default().split(',').filter_map(|pair| pair.split_once('='));
            for (name, value) in pairs {
                self.put(
                    &format!("{GATES}.{}", name.trim()),
                    typed(value.trim()),
                    Origin::Flag(flag.place.clone()),
                );
            }
        }
    }

    fn flags(&mut self, flags: &[Flag]) {
        for flag in flags {
            let key = KEYS.iter().find(|(_, name)| *name == Some(flag.name.as_str()));
            let Some((key, _)) = key else { continue };
            let boolean = flag.boolean().filter(|_| flag.is_boolean());
            let value = boolean.map_or_else(|| flag.value.clone().unwrap_or_default().into(), Value::from);
            self.put(key, value, Origin::Flag(flag.place.clone()));
        }
    }
}

fn typed(text: &str) -> Value {
    text.to_ascii_lowercase().parse::<bool>().map_or_else(|_| text.into(), Value::from)
}

/// Keys that were meant to be one of ours: the kubelet minds capital letters, and reads none of these. An unknown key
/// is told in its log and passed over, as far as is known (background knowledge: strict first, then lenient).
#[must_use]
pub fn misspelt(file: &ConfigFile) -> Vec<(String, &'static str, Place)> {
    let Ok(document) = &file.document else { return Vec::new() };
    let meant = |entry: &Entry| {
        let (key, _) = KEYS.iter().find(|(key, _)| plain(key) == plain(&entry.key) && *key != entry.key)?;
        let place = Place { path: file.source.path.clone(), line: entry.line };
        Some((entry.key.clone(), *key, place))
    };
    document.entries.iter().filter_map(meant).collect()
}

fn plain(key: &str) -> String {
    key.chars().filter(|letter| !matches!(letter, '-' | '_')).collect::<String>().to_lowercase()
}
