//! Hosts that `migrate` must leave alone: the blocker, the exit code, and nothing changed.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on has failed")]

#[path = "support/sim.rs"]
mod sim;

use cgroup2_migrate::cli::{Exit, verdict};
use cgroup2_migrate::config::Settings;
use cgroup2_migrate::host::fake::Fuse;
use cgroup2_migrate::migration::phase::PhaseName;
use cgroup2_migrate::plan;
use cgroup2_migrate::report::Finding;
use sim::{Sim, Verb};

const PINNED: &str = "GRUB_CMDLINE_LINUX=\"systemd.unified_cgroup_hierarchy=0\"\n";
const JOURNAL: &str = "var/lib/cgroup2-migrate/journal.json";

/// `migrate` must end with this blocker and exit code, and leave every file as it is.
#[track_caller]
fn is_blocked(sim: &Sim, id: &str, exit: Exit) -> Finding {
    let before = sim.boot_files();
    let (_, plan) = sim.plan();
    let blockers = plan.blockers(&[]);
    let found = blockers.iter().find(|finding| finding.id == id);
    let found = (*found.unwrap_or_else(|| panic!("no {id}: {:?}", plan.findings))).clone();
    assert_eq!(verdict(&blockers), exit, "{blockers:?}");
    assert!(found.remedy.is_some(), "no remedy: {found:?}");
    assert!(plan.files.is_empty() && plan.steps.is_empty());
    assert!(sim.run(Verb::Migrate, &Fuse::counting()).is_err() && sim.effects.borrow().is_empty());
    assert_eq!(sim.boot_files(), before);
    assert!(!sim.path(JOURNAL).exists());
    found
}

#[test]
fn not_systemd() {
    let sim = Sim::new(PINNED);
    sim.put("proc/1/comm", "init\n");
    is_blocked(&sim, "unsupported-init", Exit::Unsupported);
}

#[test]
fn sys_not_mounted() {
    let sim = Sim::new(PINNED);
    sim.unmount_cgroup();
    is_blocked(&sim, "hierarchy-unknown", Exit::Blocked);
}

#[test]
fn among_other_mounts_than_those_of_the_host() {
    for path in
        ["/etc/default", "/etc/default/grub", "/boot", "/boot/grub/grub.cfg", "/var/lib/cgroup2-migrate"]
    {
        let sim = Sim::new(PINNED);
        sim.elsewhere.borrow_mut().insert(path.into());
        let finding = is_blocked(&sim, "other-mount-namespace", Exit::Blocked);
        assert!(finding.detail.ends_with(path) && !finding.acceptable, "{finding:?}");
    }
}

#[test]
fn nothing_goes_on_among_other_mounts_than_those_of_the_host() {
    let sim = Sim::new(PINNED);
    sim.options.borrow_mut().until = Some(PhaseName::Staged);
    sim.run_well(Verb::Migrate);
    sim.elsewhere.borrow_mut().insert("/boot/grub/grub.cfg".into());
    let before = (sim.boot_files(), sim.text(JOURNAL));
    for verb in [Verb::Resume, Verb::Rollback, Verb::Migrate] {
        let error = sim.run(verb, &Fuse::counting()).unwrap_err().to_string();
        assert!(error.contains("/boot/grub/grub.cfg here is not that of the host"), "{verb:?}: {error}");
    }
    let before_the_question = sim.hindrance().unwrap_err().to_string();
    assert!(before_the_question.contains("is not that of the host"), "{before_the_question}");
    assert_eq!((sim.boot_files(), sim.text(JOURNAL)), before);
}

#[test]
fn grub_tools_missing() {
    let sim = Sim::new(PINNED);
    sim.tools_missing.set(true);
    let finding = is_blocked(&sim, "grub-tools-missing", Exit::Blocked);
    assert!(finding.detail.contains("grub-mkconfig or grub2-mkconfig"), "{finding:?}");
}

#[test]
fn nothing_goes_on_after_the_reboot() {
    const UNIT: &str = "usr/lib/systemd/system/cgroup2-migrate-resume.service";
    const LINK: &str = "multi-user.target.wants/cgroup2-migrate-resume.service";
    let told = |break_it: &dyn Fn(&Sim)| {
        let sim = Sim::new(PINNED);
        break_it(&sim);
        let finding = is_blocked(&sim, "resume-unit-missing", Exit::Blocked);
        assert!(!finding.acceptable && finding.remedy.unwrap().text.contains("make install"));
        finding.detail
    };
    let remove = |path: String| move |sim: &Sim| std::fs::remove_file(sim.path(&path)).unwrap();
    assert!(told(&|sim| drop(sim.resume_unit_state.replace(String::new()))).contains("knows no unit"));
    assert!(told(&|sim| drop(sim.resume_unit_state.replace("masked".into()))).contains("is masked"));
    assert!(told(&remove(UNIT.to_owned())).contains("no unit file"));
    assert!(told(&remove(format!("usr/lib/systemd/system/{LINK}"))).contains("has a link"));
    assert!(
        told(&remove("usr/bin/cgroup2-migrate".to_owned()))
            .contains("/usr/bin/cgroup2-migrate, is not there")
    );
    let mask = |sim: &Sim| {
        let link = sim.path(&format!("etc/systemd/system/{LINK}"));
        std::fs::create_dir_all(link.parent().unwrap()).unwrap();
        std::os::unix::fs::symlink("/dev/null", link).unwrap();
    };
    assert!(told(&mask).contains("/dev/null"));
}

#[test]
fn a_link_to_the_unit_in_etc_is_one_too() {
    let sim = Sim::new(PINNED);
    let link = "multi-user.target.wants/cgroup2-migrate-resume.service";
    std::fs::remove_file(sim.path(&format!("usr/lib/systemd/system/{link}"))).unwrap();
    sim.put(&format!("etc/systemd/system/{link}"), "");
    assert!(sim.plan().1.blockers(&[]).is_empty());
}

#[test]
fn a_kubelet_that_is_not_there_right_now() {
    let sim = Sim::new(PINNED);
    sim.put("lib/systemd/system/kubelet.service", "");
    sim.put("var/lib/kubelet/pods/17/etc-hosts", "");
    let finding = is_blocked(&sim, "node-not-drained", Exit::Blocked);
    assert!(finding.detail.contains("kubelet.service") && finding.detail.contains("pods"), "{finding:?}");
    let settings = Settings { no_drain: true, ..Settings::default() };
    assert!(plan::make(&sim.plan().0, &settings).blockers(&[]).is_empty());
}

#[test]
fn files_that_are_there_and_cannot_be_read() {
    for (path, id) in [
        ("etc/os-release", "os-unknown"),
        ("etc/fstab", "boot-mounts-unknown"),
        ("var/lib/kubelet/pods", "kubelet-unknown"),
    ] {
        let sim = Sim::new(PINNED);
        let is_directory = path.ends_with("pods");
        let _ = std::fs::remove_file(sim.path(path));
        // A file where a directory should be, and the other way round: not even root can read those.
        if is_directory {
            sim.put(path, "")
        } else {
            std::fs::create_dir_all(sim.path(path)).unwrap()
        }
        is_blocked(&sim, id, Exit::Blocked);
    }
}

#[test]
fn a_place_that_cannot_be_looked_at() {
    let sim = Sim::new(PINNED);
    std::fs::create_dir_all(sim.path("var/lib")).unwrap();
    std::os::unix::fs::symlink("cgroup2-migrate", sim.path("var/lib/cgroup2-migrate")).unwrap();
    is_blocked(&sim, "storage-unknown", Exit::Blocked);
}

#[test]
fn boot_is_in_fstab_and_not_mounted() {
    let sim = Sim::new(PINNED);
    sim.put("etc/fstab", "UUID=1 /boot ext4 defaults 0 2\n");
    let finding = is_blocked(&sim, "boot-not-mounted", Exit::Blocked);
    assert!(!finding.acceptable);
    assert_eq!(sim.plan().1.blockers(&["boot-not-mounted".to_owned()]).len(), 1);
}

#[test]
fn a_settings_file_with_two_names() {
    let sim = Sim::new(PINNED);
    std::fs::hard_link(sim.path("etc/default/grub"), sim.path("etc/grub-of-a-colleague")).unwrap();
    is_blocked(&sim, "hard-linked-file", Exit::Blocked);
}

#[test]
fn a_host_with_v2_has_nothing_to_do_whatever_else_it_is() {
    let sim = Sim::new("GRUB_CMDLINE_LINUX=\"\"\n");
    sim.put("etc/os-release", "ID=talos\n");
    sim.put("proc/7/comm", "kubelet\n");
    sim.put("etc/fstab", "UUID=1 /boot ext4 defaults 0 2\n");
    sim.resume_unit_state.replace(String::new());
    sim.tools_missing.set(true);
    let (_, plan) = sim.plan();
    assert!(plan.nothing_to_do && plan.findings.is_empty(), "{:?}", plan.findings);
    assert_eq!(verdict(&plan.blockers(&[])), Exit::Done);
}
