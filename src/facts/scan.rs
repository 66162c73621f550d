//! Everything that is known of a host, read once.

use std::path::Path;

use super::bootloader;
use super::cgroup::{self, CgroupFacts};
use super::container::{self, ContainerFacts};
use super::firmware::{self, SystemOptions};
use super::grub::{self, GrubFacts};
use super::kernel::{self, KernelFacts};
use super::kubelet::{self, KubeletFacts};
use super::os::{self, OsFacts};
use super::reboot::{self, RebootFacts};
use super::resume_unit::{self, ResumeUnit};
use super::runtime::{self, RuntimeFacts};
use super::storage::{self, StorageFacts};
use super::systemd::{self, SystemdFacts};
use crate::boot::NextBoot;
use crate::boot::hierarchy::Hierarchy;
use crate::host::Host;
use crate::kubelet::Setup;
use crate::node::lock;
use crate::node::preflight::Preflight;

/// What to read.
#[derive(Debug, Clone, Default)]
pub struct Scan {
    /// The running host; otherwise a mounted tree, of which only the files that boot it are read. What its `/proc`
    /// and `/run` hold, if anything, is about nobody knows what; but for the mount table of a mounted host root.
    pub running: bool,
    /// What a tree's host runs, as somebody said.
    pub assumed_hierarchy: Option<Hierarchy>,
    /// Which boot loader a tree's host has, as somebody said.
    pub assumed_loader: Option<String>,
}

impl Scan {
    /// The running host.
    #[must_use]
    pub fn running() -> Self {
        Self { running: true, ..Self::default() }
    }
}

/// All facts.
#[derive(Debug, Clone)]
pub struct Facts {
    /// What was read.
    pub scan: Scan,
    /// Whether this is a host at all.
    pub container: ContainerFacts,
    /// Hierarchy and controllers.
    pub cgroup: CgroupFacts,
    /// Kernel.
    pub kernel: KernelFacts,
    /// systemd.
    pub systemd: SystemdFacts,
    /// Distribution, or why it is not known.
    pub os: Result<OsFacts, String>,
    /// Boot loader.
    pub grub: GrubFacts,
    /// Tools of GRUB that are not installed; none for a tree.
    pub missing_tools: Vec<String>,
    /// Places that will be written; `None` for a tree.
    pub storage: Option<StorageFacts>,
    /// How it would reboot; `None` for a tree.
    pub reboot: Option<RebootFacts>,
    /// What goes on after the reboot; `None` for a tree.
    pub resume_unit: Option<ResumeUnit>,
    /// What speaks for a node of a cluster, or why it is not known; `None` for a tree.
    pub kubelet: Option<Result<KubeletFacts, String>>,
    /// What the API server says of this node and its pods, or why it says nothing; `None` if it was not asked.
    pub node: Option<Result<Preflight, String>>,
    /// What is known of the fleet's lock and gates, or why nothing is; `None` if none is wanted.
    pub fleet: Option<Result<lock::preflight::Preflight, String>>,
    /// How its kubelet is set up.
    pub kubelet_setup: Setup,
    /// The container runtime.
    pub runtime: RuntimeFacts,
    /// The EFI variable `SystemdOptions`, if systemd reads it, or why it is not known.
    pub efi_system_options: Result<Option<SystemOptions>, String>,
}

/// Reads everything, and tells it to those who want to know.
#[must_use]
pub fn scan(host: Host<'_>, what: &Scan) -> Facts {
    let facts = read(host, what);
    super::told::facts(&facts);
    facts
}

fn read(host: Host<'_>, what: &Scan) -> Facts {
    let grub = grub::scan(host.fs);
    let table = host.mounts.table();
    let mut systemd = systemd::scan(host.fs);
    if !what.running {
        systemd.pid1 = None;
    }
    let kubelet_setup = kubelet::setup(host, what.running);
    Facts {
        scan: what.clone(),
        container: if what.running {
            container::scan(host.fs, host.mounts, table.as_deref().unwrap_or_default())
        } else {
            ContainerFacts::of_a_tree()
        },
        cgroup: cgroup::scan(host.fs, host.mounts, &table),
        kernel: if what.running { kernel::scan(host.fs) } else { KernelFacts::default() },
        os: os::read(host.fs, what.running).map_err(super::said),
        missing_tools: if what.running { missing_tools(host, &grub) } else { Vec::new() },
        storage: what.running.then(|| storage::scan(host, &table, &grub.directory())),
        reboot: what.running.then(|| reboot::scan(host)),
        resume_unit: what.running.then(|| resume_unit::scan(host)),
        kubelet: what.running.then(|| kubelet::scan(host.fs)),
        node: None,
        fleet: None,
        runtime: runtime::scan(host, &kubelet_setup, what.running),
        kubelet_setup,
        efi_system_options: efi_system_options(host, &systemd, what.running),
        systemd,
        grub,
    }
}

/// They lie in the firmware of the machine that runs: a tree has none.
fn efi_system_options(
    host: Host<'_>,
    systemd: &SystemdFacts,
    running: bool,
) -> Result<Option<SystemOptions>, String> {
    if !running {
        return Ok(None);
    }
    firmware::options(host.fs, systemd).map_err(super::said)
}

/// Tools that generate and check the menu, by the names this GRUB gives them.
fn missing_tools(host: Host<'_>, grub: &GrubFacts) -> Vec<String> {
    let menu = grub.located.as_ref().map(|located| &located.grub_cfg);
    menu.map(|menu| bootloader::missing_tools(host.runner, menu)).unwrap_or_default()
}

impl Facts {
    /// The hierarchy: as somebody said, or as seen.
    #[must_use]
    pub fn hierarchy(&self) -> Hierarchy {
        self.scan.assumed_hierarchy.unwrap_or(self.cgroup.hierarchy)
    }

    /// The script that hands the next entry on as it stands, if that entry leads to v1: no setting reaches it.
    #[must_use]
    pub fn hands_on_v1(&self) -> Option<&Path> {
        let script = self.grub.copied_from.as_deref()?;
        matches!(self.next_boot(), NextBoot::NotUnified(_)).then_some(script)
    }

    /// What would boot next.
    #[must_use]
    pub fn next_boot(&self) -> NextBoot {
        grub::judge(&self.grub.next, &self.systemd)
    }
}
