//! The container runtime's side of the cgroup driver.

use std::path::{Path, PathBuf};

use toml::{Table, Value};

use crate::host::{Fs, Host, Invocation};
use crate::kubelet::{Effective, Owner, Setup, Source, Version, command};

const CONTAINERD: &str = "/etc/containerd/config.toml";
const CRIO: &str = "/etc/crio/crio.conf";

/// Where containerd keeps its runtimes: configuration of version 3, 2 and 1.
const RUNTIMES_OF: [&str; 3] = ["io.containerd.cri.v1.runtime", "io.containerd.grpc.v1.cri", "cri"];

/// Units of runtimes.
const UNITS: [&str; 3] = ["containerd.service", "crio.service", "docker.service"];

/// Which runtime.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Runtime {
    /// containerd.
    Containerd,
    /// CRI-O.
    CriO,
}

impl std::fmt::Display for Runtime {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(match self {
            Self::Containerd => "containerd",
            Self::CriO => "CRI-O",
        })
    }
}

/// What its files say.
#[derive(Debug, Clone, Default)]
pub struct RuntimeFacts {
    /// The runtime, if it is one whose files are known.
    pub runtime: Option<Runtime>,
    /// `systemd` or `cgroupfs`; `None` if that could not be found out.
    pub driver: Option<&'static str>,
    /// The file that says so.
    pub file: Option<PathBuf>,
    /// It tells the kubelet its driver (RuntimeConfig): from kubelet 1.31 on the kubelet's own setting then counts for
    /// nothing.
    pub tells_its_driver: bool,
    /// Its configuration and units.
    pub sources: Vec<Source>,
    /// Why a file could not be read.
    pub problem: Option<String>,
}

/// Reads it; of a tree, with `running` false, no program is asked.
#[must_use]
pub fn scan(host: Host<'_>, setup: &Setup, running: bool) -> RuntimeFacts {
    let mut facts = RuntimeFacts { sources: units(host.fs), ..RuntimeFacts::default() };
    // These bring a containerd of their own, and set both sides.
    if matches!(setup.owner, Owner::K3s | Owner::Rke2 | Owner::K0s | Owner::MicroK8s) {
        return facts;
    }
    facts.runtime = which(host.fs, &Effective::of(setup));
    let read = match facts.runtime {
        None => Ok(()),
        Some(Runtime::CriO) => facts.crio(host.fs),
        Some(Runtime::Containerd) => {
            let version = running.then(|| containerd_version(host)).flatten();
            facts.containerd(host.fs, version)
        }
    };
    facts.problem = read.err();
    facts
}

fn units(fs: &dyn Fs) -> Vec<Source> {
    UNITS.iter().flat_map(|unit| command::unit_files(fs, unit).unwrap_or_default()).collect()
}

fn which(fs: &dyn Fs, effective: &Effective) -> Option<Runtime> {
    let exists = |path: &str| fs.exists(Path::new(path));
    match effective.text("containerRuntimeEndpoint") {
        Some(endpoint) if endpoint.contains("crio") => Some(Runtime::CriO),
        Some(endpoint) if endpoint.contains("cri-dockerd") => None,
        Some(_) | None if exists(CONTAINERD) => Some(Runtime::Containerd),
        Some(_) | None => (exists(CRIO) || exists("/etc/crio/crio.conf.d")).then_some(Runtime::CriO),
    }
}

fn containerd_version(host: Host<'_>) -> Option<Version> {
    host.runner.find("containerd")?;
    let invocation = Invocation {
        argv: ["containerd", "--version"].map(str::to_owned).to_vec(),
        time_limit: std::time::Duration::from_secs(10),
        changes_host: false,
    };
    let finished = host.runner.run(&invocation).ok()?;
    Version::parse(&String::from_utf8_lossy(&finished.stdout))
}

impl RuntimeFacts {
    fn containerd(&mut self, fs: &dyn Fs, version: Option<Version>) -> Result<(), String> {
        let mut merged = self.toml(fs, Path::new(CONTAINERD))?;
        for path in imports(fs, &merged) {
            let more = self.toml(fs, &path)?;
            merge(&mut merged, more);
        }
        let is_2 = version.is_some_and(|version| version.major >= 2)
            || merged.get("version").and_then(Value::as_integer).is_some_and(|version| version >= 3);
        self.tells_its_driver = is_2;
        self.driver = containerd_driver(&merged, is_2);
        self.file = Some(PathBuf::from(CONTAINERD));
        Ok(())
    }

    /// `cgroup_manager`, `systemd` if it is not set. CRI-O tells its driver from 1.28 on; which one this is, is not
    /// asked.
    fn crio(&mut self, fs: &dyn Fs) -> Result<(), String> {
        let mut merged = Table::new();
        for path in
            std::iter::once(PathBuf::from(CRIO)).chain(files_in(fs, Path::new("/etc/crio/crio.conf.d"), ""))
        {
            let more = self.toml(fs, &path)?;
            merge(&mut merged, more);
        }
        let runtime = merged.get("crio").and_then(|crio| crio.get("runtime"));
        let manager = runtime.and_then(|runtime| runtime.get("cgroup_manager")).and_then(Value::as_str);
        self.driver = Some(if manager == Some("cgroupfs") { "cgroupfs" } else { "systemd" });
        self.file = Some(PathBuf::from(CRIO));
        Ok(())
    }

    fn toml(&mut self, fs: &dyn Fs, path: &Path) -> Result<Table, String> {
        let Some(source) = Source::read(fs, path)? else { return Ok(Table::new()) };
        let table = toml::from_str(&source.text)
            .map_err(|error| format!("read {}: {}", path.display(), error.message()))?;
        self.sources.push(source);
        Ok(table)
    }
}

/// Files that `imports` names, patterns in the last part of a path among them (background knowledge, not looked up).
fn imports(fs: &dyn Fs, config: &Table) -> Vec<PathBuf> {
    let named =
        config.get("imports").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str);
    named
        .flat_map(|path| match path.rsplit_once("/*") {
            Some((directory, end)) => files_in(fs, Path::new(directory), end),
            None => vec![PathBuf::from(path)],
        })
        .filter(|path| path.is_absolute())
        .collect()
}

fn files_in(fs: &dyn Fs, directory: &Path, end: &str) -> Vec<PathBuf> {
    let names = fs.list(directory).unwrap_or_default().into_iter();
    names.filter(|name| name.ends_with(end)).map(|name| directory.join(name)).collect()
}

fn merge(into: &mut Table, more: Table) {
    for (key, value) in more {
        match (into.get_mut(&key), value) {
            (Some(Value::Table(old)), Value::Table(new)) => merge(old, new),
            (_, value) => drop(into.insert(key, value)),
        }
    }
}

/// The default runtime's `SystemdCgroup`, `false` if it is not set. containerd 2 looks for systemd by itself where no
/// handler has any options: then the files do not tell.
fn containerd_driver(config: &Table, is_2: bool) -> Option<&'static str> {
    let plugins = config.get("plugins");
    let plugin = RUNTIMES_OF.iter().find_map(|name| plugins?.get(name)?.get("containerd"));
    let default = plugin.and_then(|plugin| plugin.get("default_runtime_name")).and_then(Value::as_str);
    let runtimes = plugin.and_then(|plugin| plugin.get("runtimes")).and_then(Value::as_table);
    let has_options = |runtime: &Value| {
        runtime.get("options").and_then(Value::as_table).is_some_and(|options| !options.is_empty())
    };
    if is_2 && !runtimes.is_some_and(|runtimes| runtimes.values().any(has_options)) {
        return None;
    }
    let options = runtimes.and_then(|runtimes| runtimes.get(default.unwrap_or("runc"))?.get("options"));
    let is_systemd = options.and_then(|options| options.get("SystemdCgroup")).and_then(Value::as_bool);
    Some(if is_systemd == Some(true) { "systemd" } else { "cgroupfs" })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn driver(text: &str, is_2: bool) -> Option<&'static str> {
        containerd_driver(&toml::from_str(text).unwrap(), is_2)
    }

    #[test]
    fn every_version_of_the_configuration_of_containerd() {
        let v2 = "version = 2\n[plugins.\"io.containerd.grpc.v1.cri\".containerd.runtimes.runc.options]\nSystemdCgroup = true\n";
        let v3 = "version = 3\n[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc.options]\nSystemdCgroup = true\n";
        assert_eq!((driver(v2, false), driver(v3, true)), (Some("systemd"), Some("systemd")));
        assert_eq!(driver("version = 2\n", false), Some("cgroupfs"));
        assert_eq!(driver("version = 3\n", true), None);
        assert_eq!(driver(&v3.replace("true", "false"), true), Some("cgroupfs"));
        let other = v3.replace("runtimes.runc", "runtimes.nvidia");
        assert_eq!(driver(&other, true), Some("cgroupfs"));
        let default = format!(
            "{other}[plugins.'io.containerd.cri.v1.runtime'.containerd]\ndefault_runtime_name = 'nvidia'\n"
        );
        assert_eq!(driver(&default, true), Some("systemd"));
    }

    #[test]
    fn later_files_win_key_by_key() {
        let mut config: Table = toml::from_str("[a]\nx = 1\ny = 1\n").unwrap();
        merge(&mut config, toml::from_str("[a]\ny = 2\n").unwrap());
        assert_eq!(config, toml::from_str("[a]\nx = 1\ny = 2\n").unwrap());
    }
}
