//! The operating system, and who owns its kernel command line.

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::kernel;
use crate::host::{Fs, FsError};

/// What the host says it is, from os-release and a few marks beside it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OsFacts {
    /// `ID`: `debian`, `rocky`, …; `linux` if it does not say (os-release(5)).
    pub id: String,
    /// `VERSION_ID`: `12`, `8.10`, …
    pub version_id: Option<String>,
    /// `ID_LIKE`, nearest relative first.
    pub id_like: Vec<String>,
    /// `VARIANT_ID`: `coreos`, `server`, …
    pub variant_id: Option<String>,
    /// `IMAGE_ID`: set where the whole system is an image.
    pub image_id: Option<String>,
    /// `PRETTY_NAME`, for messages.
    pub pretty_name: Option<String>,
    /// Who owns the kernel command line, if that is not the files of the boot loader.
    pub managed_by: Option<Manager>,
}

/// Who owns the kernel command line: an edit of the boot loader's files would be lost, or never be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Manager {
    /// Windows, for its Linux guests.
    Wsl,
    /// The NixOS configuration.
    NixOs,
    /// The Talos machine configuration.
    Talos,
    /// The Bottlerocket settings.
    Bottlerocket,
    /// Flatcar's OEM partition.
    Flatcar,
    /// Google's Container-Optimized OS.
    ContainerOptimizedOs,
    /// OpenShift's Machine Config Operator.
    MachineConfigOperator,
    /// Ubuntu Core's gadget snap.
    UbuntuCore,
    /// rpm-ostree.
    RpmOstree,
    /// An ostree image without rpm-ostree, bootc among them.
    Ostree,
    /// transactional-update, on MicroOS and SLE Micro.
    TransactionalUpdate,
}

impl std::fmt::Display for Manager {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(match self {
            Self::Wsl => "Windows",
            Self::NixOs => "the NixOS configuration",
            Self::Talos => "the Talos machine configuration",
            Self::Bottlerocket => "the Bottlerocket settings",
            Self::Flatcar => "Flatcar's OEM partition",
            Self::ContainerOptimizedOs => "the node pool (Container-Optimized OS)",
            Self::MachineConfigOperator => "OpenShift's Machine Config Operator",
            Self::UbuntuCore => "Ubuntu Core's gadget snap",
            Self::RpmOstree => "rpm-ostree",
            Self::Ostree => "the ostree image",
            Self::TransactionalUpdate => "transactional-update",
        })
    }
}

impl Manager {
    /// The vendor's own way to change the kernel command line, in words.
    #[must_use]
    pub fn own_way(self) -> &'static str {
        match self {
            Self::Wsl => {
                "on Windows, set kernelCommandLine in the [wsl2] section of %UserProfile%\\.wslconfig, then wsl --shutdown"
            }
            Self::NixOs => {
                "take the arguments out of boot.kernelParams (and systemd.enableUnifiedCgroupHierarchy) in the NixOS \
                 configuration, then nixos-rebuild boot and reboot"
            }
            Self::Talos => {
                "change machine.install.extraKernelArgs in the machine configuration, then talosctl upgrade"
            }
            Self::Bottlerocket => {
                "change settings.boot.init-parameters through apiclient, then apiclient reboot; or replace the node by \
                 one of a variant for Kubernetes 1.26 or later"
            }
            Self::Flatcar => {
                "take the arguments out of grub.cfg on the OEM partition (/oem or /usr/share/oem), remove \
                 /etc/flatcar-cgroupv1 and the containerd drop-in 10-use-cgroupfs.conf, then reboot"
            }
            Self::ContainerOptimizedOs => {
                "set cgroupMode in the Linux node configuration of the GKE node pool"
            }
            Self::MachineConfigOperator => {
                "set spec.cgroupMode of the cluster's nodes.config.openshift.io, or the kernelArguments of a \
                 MachineConfig; never on the host"
            }
            Self::UbuntuCore => {
                "change the kernel command line of the gadget snap, or snap set system system.kernel.cmdline-append"
            }
            Self::RpmOstree => {
                "rpm-ostree kargs --delete-if-present=…, which makes a new deployment, then reboot"
            }
            Self::Ostree => {
                "change the kernel arguments of the image (bootc: /usr/lib/bootc/kargs.d), then deploy it"
            }
            Self::TransactionalUpdate => {
                "edit /etc/default/grub, then transactional-update grub.cfg; with systemd-boot or grub2-bls edit \
                 /etc/kernel/cmdline, then sdbootutil update-all-entries; then reboot"
            }
        }
    }
}

/// Reads the facts; of a tree, with `running` false, nothing that only a running host has.
///
/// # Errors
/// [`FsError`] if a file is there and cannot be read. That there is no os-release is no error.
pub fn read(fs: &dyn Fs, running: bool) -> Result<OsFacts, FsError> {
    let mut values = release(fs)?;
    let mut facts = OsFacts {
        id: values.remove("ID").unwrap_or_else(|| "linux".to_owned()),
        version_id: values.remove("VERSION_ID"),
        id_like: words(values.remove("ID_LIKE")),
        variant_id: values.remove("VARIANT_ID"),
        image_id: values.remove("IMAGE_ID"),
        pretty_name: values.remove("PRETTY_NAME"),
        managed_by: None,
    };
    facts.managed_by = manager(fs, &facts, running)?;
    Ok(facts)
}

/// What os-release says, empty values left out.
pub(super) fn release(fs: &dyn Fs) -> Result<BTreeMap<String, String>, FsError> {
    // In this order (os-release(5)): the second is what the vendor ships, the first what counts.
    let etc = fs.snapshot(Path::new("/etc/os-release"))?;
    let found = if etc.is_some() { etc } else { fs.snapshot(Path::new("/usr/lib/os-release"))? };
    let text = found.map(|file| file.bytes).unwrap_or_default();
    let mut values = assignments(&String::from_utf8_lossy(&text));
    values.retain(|_, value| !value.is_empty());
    Ok(values)
}

fn words(text: Option<String>) -> Vec<String> {
    text.unwrap_or_default().split_whitespace().map(str::to_owned).collect()
}

fn manager(fs: &dyn Fs, facts: &OsFacts, running: bool) -> Result<Option<Manager>, FsError> {
    // Under WSL os-release is that of any distribution.
    if running && is_wsl_kernel(fs)? {
        return Ok(Some(Manager::Wsl));
    }
    Ok(manager_by_id(&facts.id).or_else(|| manager_by_marks(fs, running)))
}

fn is_wsl_kernel(fs: &dyn Fs) -> Result<bool, FsError> {
    match fs.read(Path::new(kernel::RELEASE)) {
        Ok(release) => Ok(kernel::is_of_wsl(&String::from_utf8_lossy(&release))),
        Err(error) if error.is_not_found() => Ok(false),
        Err(error) => Err(error),
    }
}

fn manager_by_id(id: &str) -> Option<Manager> {
    match id {
        "nixos" => Some(Manager::NixOs),
        "talos" => Some(Manager::Talos),
        "bottlerocket" => Some(Manager::Bottlerocket),
        "flatcar" => Some(Manager::Flatcar),
        "cos" => Some(Manager::ContainerOptimizedOs),
        "rhcos" => Some(Manager::MachineConfigOperator),
        "ubuntu-core" => Some(Manager::UbuntuCore),
        "opensuse-microos"
        | "opensuse-leap-micro"
        | "opensuse-aeon"
        | "opensuse-kalpa"
        | "sle-micro"
        | "sle-micro-rancher"
        | "sl-micro"
        | "suse-microos" => Some(Manager::TransactionalUpdate),
        _ => None,
    }
}

/// Where the name does not tell: OKD and newer RHCOS call themselves fedora, centos or rhel.
fn manager_by_marks(fs: &dyn Fs, running: bool) -> Option<Manager> {
    let exists = |path: &str| fs.exists(Path::new(path));
    let is_ostree = exists("/ostree/repo") || running && exists("/run/ostree-booted");
    if exists("/etc/machine-config-daemon") {
        Some(Manager::MachineConfigOperator)
    } else if is_ostree && exists("/usr/bin/rpm-ostree") {
        Some(Manager::RpmOstree)
    } else {
        is_ostree.then_some(Manager::Ostree)
    }
}

/// The assignments of an os-release file. It is shell syntax without expansions; a later one wins.
fn assignments(text: &str) -> BTreeMap<String, String> {
    let lines = text.lines().map(str::trim).filter(|line| !line.starts_with('#'));
    lines
        .filter_map(|line| line.split_once('='))
        .map(|(name, value)| (name.to_owned(), unquoted(value)))
        .collect()
}

fn unquoted(value: &str) -> String {
    if let Some(literal) = value.strip_prefix('\'').and_then(|rest| rest.strip_suffix('\'')) {
        return literal.to_owned();
    }
    let inner = value.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).unwrap_or(value);
    let mut characters = inner.chars();
    let mut plain = String::with_capacity(inner.len());
    while let Some(character) = characters.next() {
        plain.push(if character == '\\' { characters.next().unwrap_or('\\') } else { character });
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::Expect;
    use crate::host::fs::RootedFs;

    fn facts(files: &[(&str, &str)]) -> OsFacts {
        let tree = tempfile::tempdir().unwrap();
        let fs = RootedFs::new(tree.path());
        for (path, text) in files {
            let path = Path::new(path);
            fs.create_directory(path.parent().unwrap(), 0o755).unwrap();
            fs.replace(path, text.as_bytes(), &Expect::Absent, None).unwrap();
        }
        read(&fs, true).unwrap()
    }

    fn manager_of(files: &[(&str, &str)]) -> Option<Manager> {
        facts(files).managed_by
    }

    #[test]
    fn rocky_with_every_kind_of_quotes() {
        let text = "# comment\nID=\"rocky\"\nID_LIKE='rhel centos fedora'\nVERSION_ID=8.10\n\
                    PRETTY_NAME=\"Rocky \\\"Green\\\" \\$8\"\nVARIANT_ID=\n";
        let expected = OsFacts {
            id: "rocky".into(),
            version_id: Some("8.10".into()),
            id_like: vec!["rhel".into(), "centos".into(), "fedora".into()],
            variant_id: None,
            image_id: None,
            pretty_name: Some("Rocky \"Green\" $8".into()),
            managed_by: None,
        };
        assert_eq!(facts(&[("/etc/os-release", text)]), expected);
        assert_eq!(facts(&[("/usr/lib/os-release", text)]), expected);
    }

    #[test]
    fn a_host_that_does_not_say_is_linux() {
        assert_eq!(facts(&[]).id, "linux");
        assert_eq!(facts(&[("/etc/os-release", ""), ("/usr/lib/os-release", "ID=debian")]).id, "linux");
    }

    #[test]
    fn vendors_by_their_id() {
        for (id, expected) in [
            ("nixos", Manager::NixOs),
            ("bottlerocket", Manager::Bottlerocket),
            ("cos", Manager::ContainerOptimizedOs),
            ("sl-micro", Manager::TransactionalUpdate),
        ] {
            assert_eq!(manager_of(&[("/etc/os-release", &format!("ID={id}\nNAME=x\n"))]), Some(expected));
        }
        assert_eq!(manager_of(&[("/etc/os-release", "ID=debian\n")]), None);
    }

    #[test]
    fn wsl_by_its_kernel_whatever_the_distribution() {
        let release = ("/proc/sys/kernel/osrelease", "5.15.90.1-microsoft-standard-WSL2\n");
        assert_eq!(manager_of(&[("/etc/os-release", "ID=ubuntu\n"), release]), Some(Manager::Wsl));
        let azure = ("/proc/sys/kernel/osrelease", "6.8.0-1021-azure\n");
        assert_eq!(manager_of(&[("/etc/os-release", "ID=ubuntu\n"), azure]), None);
    }

    #[test]
    fn ostree_by_its_marks_and_openshift_before_it() {
        let (fedora, booted) =
            (("/etc/os-release", "ID=fedora\nVARIANT_ID=coreos\n"), ("/run/ostree-booted", ""));
        let rpm_ostree = ("/usr/bin/rpm-ostree", "");
        assert_eq!(manager_of(&[fedora, booted, rpm_ostree]), Some(Manager::RpmOstree));
        assert_eq!(manager_of(&[fedora, booted]), Some(Manager::Ostree));
        assert_eq!(manager_of(&[fedora, rpm_ostree]), None);
        let daemon = ("/etc/machine-config-daemon/currentconfig", "{}");
        assert_eq!(manager_of(&[fedora, booted, rpm_ostree, daemon]), Some(Manager::MachineConfigOperator));
    }
}
