//! The answer of `detect`: the hierarchy in use, and what brought it about.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::boot::hierarchy::{Decision, Hierarchy};
use crate::checks;
use crate::facts::cgroup::{self, CgroupFacts, HybridLayout};
use crate::facts::container::{self, ContainerFacts, Surroundings};
use crate::facts::firmware;
use crate::facts::kernel::{self, KernelFacts};
use crate::facts::source::{self, Place};
use crate::facts::systemd::{self, ASSUMED_SYSTEMD, SystemdFacts};
use crate::facts::told;
use crate::host::{Fs, Mounts};
use crate::report::{Finding, Severity};

/// What kind of thing brought the hierarchy about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Decider {
    /// A word on the kernel command line.
    Argument,
    /// systemd's built-in default.
    Default,
    /// Something that mounted before systemd looked at the command line: an initrd, as a rule.
    Earlier,
    /// An init that is not systemd.
    OtherInit,
    /// Could not be found out.
    Unknown,
}

/// What brought the hierarchy about.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DecidedBy {
    /// The kind of thing.
    pub kind: Decider,
    /// The word on the kernel command line, as written.
    pub word: Option<String>,
    /// Files that the word stands in.
    pub places: Vec<Place>,
}

/// Controllers by hierarchy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Controllers {
    /// Mounted as v1; null if that could not be found out.
    pub v1: Option<Vec<String>>,
    /// On the v2 mount; null if that could not be found out.
    pub v2: Option<Vec<String>>,
    /// Those of cpu, cpuset, memory and pids that are in neither; null if that could not be found out.
    pub missing: Option<Vec<String>>,
}

/// The answer; its JSON form is a contract.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Detection {
    /// Version of this form.
    pub schema: u32,
    /// The host's hierarchy; unknown in a container, whatever is mounted there.
    pub hierarchy: Hierarchy,
    /// How that is known and what brought it about, most important first.
    pub why: Vec<String>,
    /// What brought it about.
    pub decided_by: DecidedBy,
    /// Which of the hybrid layouts, if hybrid.
    pub hybrid_layout: Option<HybridLayout>,
    /// Controllers by hierarchy.
    pub controllers: Controllers,
    /// cgroup2 mounts elsewhere.
    pub other_cgroup2_mounts: Vec<PathBuf>,
    /// Host, container or WSL.
    pub surroundings: Surroundings,
    /// PID 1 and systemd.
    pub systemd: SystemdFacts,
    /// The running kernel.
    pub kernel: KernelFacts,
    /// What stands in the way, and what to do about it.
    pub findings: Vec<Finding>,
    /// What else was noticed.
    pub notes: Vec<String>,
}

impl Detection {
    /// True if this is no place to judge or migrate a host from.
    #[must_use]
    pub fn is_refused(&self) -> bool {
        self.surroundings != Surroundings::Host
    }
}

/// Looks at a host.
#[must_use]
pub fn detect(fs: &dyn Fs, mounts: &dyn Mounts) -> Detection {
    let table = mounts.table();
    let surroundings = container::scan(fs, mounts, table.as_deref().unwrap_or_default());
    let cgroup = cgroup::scan(fs, mounts, &table);
    let kernel = kernel::scan(fs);
    let systemd = systemd::scan(fs);
    let mut detection = assemble(cgroup, kernel, systemd, &surroundings);
    match surroundings.surroundings {
        Surroundings::Container => distrust_view(&mut detection),
        Surroundings::Wsl => credit_wsl(&mut detection),
        Surroundings::Host => explain(&mut detection, fs),
    }
    let why = detection.why.join("; ");
    told::detected(&format!("{} ({why})", detection.hierarchy), &detection.kernel, &detection.systemd);
    detection
}

fn assemble(
    cgroup: CgroupFacts,
    kernel: KernelFacts,
    systemd: SystemdFacts,
    place: &ContainerFacts,
) -> Detection {
    Detection {
        schema: 1,
        hierarchy: cgroup.hierarchy,
        why: vec![cgroup.why],
        decided_by: DecidedBy { kind: Decider::Unknown, word: None, places: Vec::new() },
        hybrid_layout: cgroup.hybrid_layout,
        controllers: Controllers {
            v1: cgroup.v1_controllers,
            v2: cgroup.v2_controllers,
            missing: cgroup.missing_controllers,
        },
        other_cgroup2_mounts: cgroup.other_cgroup2_mounts,
        surroundings: place.surroundings,
        systemd,
        kernel,
        findings: checks::refusal(place).into_iter().collect(),
        notes: cgroup.notes.into_iter().chain(place.notes.iter().cloned()).collect(),
    }
}

fn distrust_view(detection: &mut Detection) {
    let seen = format!("seen from inside: {} ({})", detection.hierarchy.as_str(), detection.why.join("; "));
    detection.hierarchy = Hierarchy::Unknown;
    detection.hybrid_layout = None;
    detection.why = vec!["in a container, whose view is not the host's".to_owned(), seen];
}

fn credit_wsl(detection: &mut Detection) {
    detection.decided_by.kind = Decider::OtherInit;
    detection.why.push("WSL mounts it before any init in here runs".to_owned());
}

/// Adds what brought the hierarchy about.
fn explain(detection: &mut Detection, fs: &dyn Fs) {
    if detection.hierarchy == Hierarchy::Unknown {
        return;
    }
    if let Some(name) = detection.systemd.pid1.as_deref().filter(|_| detection.systemd.is_another_init()) {
        let why = format!(
            "PID 1 is {name} and not systemd: it mounted this itself, arguments for systemd do not count"
        );
        detection.why.push(why);
        detection.decided_by.kind = Decider::OtherInit;
        return;
    }
    match detection.kernel.command_line.clone() {
        Some(line) => explain_by_line(detection, fs, &line),
        None => detection
            .why
            .push("the kernel command line could not be read, so what decided is not known".to_owned()),
    }
}

fn explain_by_line(detection: &mut Detection, fs: &dyn Fs, line: &str) {
    if detection.systemd.version.is_none() {
        let note = format!(
            "systemd's version is not known; the command line is read as systemd {ASSUMED_SYSTEMD} does"
        );
        detection.notes.push(note);
    }
    detection.notes.extend(firmware_note(fs, &detection.systemd));
    let decision = detection.systemd.decide(line);
    attribute(detection, &decision);
    if let Some(word) = &decision.word {
        detection.decided_by.places = source::locate_argument(word, &source::read_all(fs));
    }
}

fn firmware_note(fs: &dyn Fs, systemd: &SystemdFacts) -> Option<String> {
    match firmware::options(fs, systemd) {
        Ok(options) => options.map(|options| {
            format!(
                "the EFI variable SystemdOptions holds `{}`: {}",
                options.text,
                firmware::HOW_OPTIONS_COUNT
            )
        }),
        Err(error) => Some(format!("whether the EFI variable SystemdOptions is set is not known: {error}")),
    }
}

fn attribute(detection: &mut Detection, decision: &Decision) {
    detection.decided_by.word.clone_from(&decision.word);
    detection.notes.extend(decision.notes.iter().cloned());
    if !agrees(decision, detection.hierarchy) {
        blame_initrd(detection, decision);
        return;
    }
    let is_default = decision.word.is_none();
    detection.decided_by.kind = if is_default { Decider::Default } else { Decider::Argument };
    detection.why.push(decision.reason.clone());
    if is_default {
        detection.why.push(format!(
            "no word on the kernel command line decides; default: {}",
            detection.systemd.origin
        ));
    }
}

/// With a default that is not known, a decision can still be right as far as it goes.
fn agrees(decision: &Decision, found: Hierarchy) -> bool {
    match decision.hierarchy {
        Hierarchy::Unknown => {
            decision.word.is_none() || matches!(found, Hierarchy::Hybrid | Hierarchy::Legacy)
        }
        Hierarchy::Legacy | Hierarchy::Hybrid | Hierarchy::Unified => decision.hierarchy == found,
    }
}

fn blame_initrd(detection: &mut Detection, decision: &Decision) {
    let (wanted, found) = (decision.hierarchy.as_str(), detection.hierarchy.as_str());
    detection.decided_by.kind = Decider::Earlier;
    detection.why.push(format!(
        "the command line has no effect: it gives {wanted} ({}), yet {found} is mounted; something mounted first, as a \
         rule an initrd that holds an older systemd",
        decision.reason
    ));
    let title = format!("the kernel command line gives {wanted}, the host runs {found}");
    let finding =
        Finding::new(Severity::Warning, "command-line-without-effect", title, decision.reason.clone());
    detection.findings.push(finding.remedy(
        "rebuild the initramfs (update-initramfs -u -k all, or dracut -f), so that it holds the systemd of the host; a \
         further reboot alone changes nothing",
    ));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::fake_mounts::FakeMounts;
    use crate::host::fs::RootedFs;

    const HYBRID: &str = "/sys/fs/cgroup tmpfs 0x01021994\n/sys/fs/cgroup/unified cgroup2 0x63677270\n";
    const UNIFIED: &str = "/sys/fs/cgroup cgroup2 0x63677270\n";

    fn found(statfs: &str, line: &str, default: &str, more: &[(&str, &[u8])]) -> Detection {
        let tree = tempfile::tempdir().unwrap();
        let library = format!("\0default-hierarchy={default}\0");
        let files = [
            ("proc/1/comm", b"systemd\n".as_slice()),
            ("proc/cmdline", line.as_bytes()),
            ("usr/lib/systemd/libsystemd-shared-249.so", library.as_bytes()),
        ];
        for (path, content) in files.iter().chain(more) {
            let path = tree.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::io::Write::write_all(&mut std::fs::File::create(path).unwrap(), content).unwrap();
        }
        detect(&RootedFs::new(tree.path()), &FakeMounts::from_text(statfs, "").unwrap())
    }

    #[test]
    fn an_argument_is_named_with_its_file() {
        let grub = (
            "etc/default/grub",
            b"A=1\nGRUB_CMDLINE_LINUX=\"systemd.unified_cgroup_hierarchy=0\"\n".as_slice(),
        );
        let found = found(HYBRID, "ro systemd.unified_cgroup_hierarchy=0\n", "unified", &[grub]);
        assert_eq!(found.decided_by.kind, Decider::Argument);
        assert_eq!(found.decided_by.word.as_deref(), Some("systemd.unified_cgroup_hierarchy=0"));
        assert_eq!(found.decided_by.places, [Place { path: "/etc/default/grub".into(), line: 2 }]);
    }

    #[test]
    fn without_a_word_it_is_the_default() {
        assert_eq!(found(UNIFIED, "ro quiet", "unified", &[]).decided_by.kind, Decider::Default);
        assert_eq!(found(HYBRID, "ro quiet", "hybrid", &[]).decided_by.kind, Decider::Default);
    }

    #[test]
    fn what_the_line_cannot_explain_came_earlier() {
        for (statfs, line) in
            [(UNIFIED, "systemd.unified_cgroup_hierarchy=0"), (HYBRID, ""), (HYBRID, "cgroup_no_v1=all")]
        {
            let found = found(statfs, line, "unified", &[]);
            assert_eq!((found.decided_by.kind, found.findings.len()), (Decider::Earlier, 1), "{line}");
        }
    }

    #[test]
    fn another_init_goes_by_its_own_rules() {
        let found =
            found(HYBRID, "systemd.unified_cgroup_hierarchy=0", "unified", &[("proc/1/comm", b"init\n")]);
        assert_eq!((found.decided_by.kind, found.decided_by.word), (Decider::OtherInit, None));
    }

    #[test]
    fn options_in_an_efi_variable_are_shown() {
        let variable: Vec<u8> =
            [7, 0, 0, 0].into_iter().chain("a=1\0".encode_utf16().flat_map(u16::to_le_bytes)).collect();
        let path = "sys/firmware/efi/efivars/SystemdOptions-8cf2644b-4b0b-428f-9387-6d876050dc67";
        let found = found(UNIFIED, "", "unified", &[(path, &variable)]);
        assert!(found.notes.iter().any(|note| note.contains("`a=1`")), "{:?}", found.notes);
    }
}
