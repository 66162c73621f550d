//! The entry that will boot, on the made-up machine: what forbids a migration before anything is written.
#![allow(clippy::panic, clippy::unwrap_used, reason = "a test stops at the first surprise")]

#[path = "support/sim.rs"]
mod sim;

use cgroup2_migrate::config::Settings;
use cgroup2_migrate::host::fake::Fuse;
use cgroup2_migrate::plan;
use cgroup2_migrate::report::{Finding, Severity};
use sim::{Sim, Verb};

const PIN: &str = "systemd.unified_cgroup_hierarchy=0";
const MENU: &str = "boot/grub/grub.cfg";

fn settings(arguments: &str) -> String {
    format!("GRUB_DEFAULT=0\nGRUB_CMDLINE_LINUX_DEFAULT=\"{arguments}\"\n")
}

fn machine() -> Sim {
    Sim::new(&settings(&format!("quiet {PIN}")))
}

fn finding(sim: &Sim, id: &str) -> Option<Finding> {
    let (_, plan) = sim.plan();
    plan.findings.into_iter().find(|finding| finding.id == id)
}

/// Blocked by this and nothing else, before the first write; a person may go on.
fn blocked_by(sim: &Sim, id: &str) -> Finding {
    let (_, plan) = sim.plan();
    let blockers: Vec<_> = plan.blockers(&[]).into_iter().map(|finding| finding.id.clone()).collect();
    assert_eq!(blockers, [id], "{:?}", plan.findings);
    assert!(plan.files.is_empty());
    assert!(sim.run(Verb::Migrate, &Fuse::counting()).is_err() && sim.effects.borrow().is_empty());
    let finding = finding(sim, id).unwrap();
    assert!(finding.remedy.is_some());
    finding
}

fn change_menu(sim: &Sim, from: &str, to: &str) {
    let text = sim.text(MENU);
    assert!(text.contains(from));
    sim.put(MENU, &text.replace(from, to));
}

#[test]
fn an_ordinary_entry_is_not_remarked_upon() {
    let (_, plan) = machine().plan();
    assert!(plan.findings.iter().all(|finding| finding.severity != Severity::Blocker), "{:?}", plan.findings);
    assert!(finding(&machine(), "boots-another-kernel").is_none());
    assert_eq!(plan.effective.after.as_deref(), Some("root=UUID=1 ro quiet"));
}

#[test]
fn a_menu_that_waits_for_somebody() {
    let sim = machine();
    change_menu(&sim, "set timeout=5", "set timeout=-1");
    assert!(blocked_by(&sim, "boot-menu-waits").acceptable);
    let sim = machine();
    change_menu(&sim, "set timeout=5", "set timeout=5\nset superusers=root");
    assert!(blocked_by(&sim, "boot-entry-locked").detail.contains("Debian 6.1.0-32-amd64"));
}

#[test]
fn a_kernel_or_initrd_that_is_not_there() {
    for file in ["vmlinuz-6.1.0-32-amd64", "initrd.img-6.1.0-32-amd64"] {
        let sim = machine();
        std::fs::remove_file(sim.path("boot").join(file)).unwrap();
        assert!(blocked_by(&sim, "boot-kernel-missing").detail.contains(file));
    }
}

#[test]
fn a_newer_kernel_is_told() {
    let sim = machine();
    sim.install_kernel("6.9.0-1-amd64");
    sim.put(MENU, &sim.menu());
    let note = finding(&sim, "boots-another-kernel").unwrap();
    assert!(note.title.contains("vmlinuz-6.9.0-1-amd64") && note.severity == Severity::Note, "{note:?}");
}

#[test]
fn a_menu_that_is_not_what_boots() {
    let sim = machine();
    sim.put("proc/cmdline", &format!("initrd=\\debian\\initrd.img root=UUID=1 ro {PIN}\n"));
    blocked_by(&sim, "boot-entry-mismatch");
    sim.put("proc/cmdline", &format!("BOOT_IMAGE=/vmlinuz root=UUID=2 ro {PIN}\n"));
    assert!(blocked_by(&sim, "boot-entry-mismatch").detail.contains("root=UUID=2"));
    sim.put("proc/cmdline", &format!("BOOT_IMAGE=/vmlinuz root=/dev/vda1 ro {PIN}\n"));
    assert!(finding(&sim, "boot-entry-mismatch").is_none());
}

const CUSTOM: &str = "menuentry 'Mine' --id mine {\n\tlinux /boot/vmlinuz-6.1.0-32-amd64 root=UUID=1 ro quiet \
                      systemd.unified_cgroup_hierarchy=0\n}\n";

#[test]
fn a_pin_of_custom_cfg_is_found_there() {
    for settings in [settings("quiet"), settings(&format!("quiet {PIN}"))] {
        let sim = Sim::new(&settings);
        change_menu(&sim, "set default=\"0\"", "set default=mine");
        sim.put(MENU, &(sim.text(MENU) + "source $prefix/custom.cfg\n"));
        sim.put("boot/grub/custom.cfg", CUSTOM);
        sim.boot();
        let detail = blocked_by(&sim, "pin-not-in-settings").detail;
        assert!(detail.contains(&format!("`{PIN}` from /boot/grub/custom.cfg:2")), "{detail}");
        assert_eq!(sim.plan().1.effective.after, None);
    }
}

#[test]
fn a_pin_of_a_script_is_found_there_but_not_in_one_that_is_not_run() {
    use std::os::unix::fs::PermissionsExt as _;
    let sim = Sim::new(&settings("quiet"));
    change_menu(&sim, "ro  quiet", &format!("ro  quiet {PIN}"));
    sim.boot();
    sim.put("etc/grub.d/40_custom", &format!("#!/bin/sh\nexec tail -n +3 $0\n# {PIN}\n{CUSTOM}"));
    // Generated anew it would be gone: the menu is out of date.
    assert!(finding(&sim, "pin-not-in-settings").is_none());
    let executable = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(sim.path("etc/grub.d/40_custom"), executable).unwrap();
    assert!(blocked_by(&sim, "pin-not-in-settings").detail.contains("/etc/grub.d/40_custom:5"));
}

/// It used to be said twice, and whoever accepted the one was stopped by the other.
#[test]
fn an_entry_by_hand_with_a_pin_is_told_once() {
    use std::os::unix::fs::PermissionsExt as _;
    let sim = Sim::new(&settings("quiet"));
    let part = format!("### BEGIN /etc/grub.d/40_custom ###\n{CUSTOM}### END /etc/grub.d/40_custom ###\n");
    change_menu(&sim, "set default=\"0\"", "set default=mine");
    sim.put(MENU, &(sim.text(MENU) + &part));
    sim.put("etc/grub.d/40_custom", &format!("#!/bin/sh\nexec tail -n +3 $0\n{CUSTOM}"));
    let executable = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(sim.path("etc/grub.d/40_custom"), executable).unwrap();
    sim.boot();
    let detail = blocked_by(&sim, "boot-entry-by-hand").detail;
    assert!(detail.contains(&format!("`{PIN}`")), "{detail}");
    let accepted = vec!["boot-entry-by-hand".to_owned()];
    let accepts = Settings { accept: accepted.clone(), ..Settings::default() };
    let plan = plan::make(&sim.plan().0, &accepts);
    assert_eq!(plan.blockers(&accepted), Vec::<&Finding>::new());
    assert!(plan.findings.iter().all(|finding| finding.id != "pin-not-in-settings"), "{:?}", plan.findings);
    assert_eq!(plan.effective.before, plan.effective.after, "changing the settings does not reach it");
}

#[test]
fn a_pin_of_another_entry_of_a_script_is_nothing_to_us() {
    let sim = machine();
    sim.put("boot/grub/custom.cfg", CUSTOM);
    sim.put(MENU, &(sim.text(MENU) + "source $prefix/custom.cfg\n"));
    assert!(finding(&sim, "pin-not-in-settings").is_none());
}

#[test]
fn a_pin_for_xen_is_left_and_told() {
    let sim = machine();
    sim.put(
        "etc/default/grub",
        &(settings(&format!("quiet {PIN}")) + &format!("GRUB_CMDLINE_XEN=\"{PIN}\"\n")),
    );
    let note = finding(&sim, "pin-in-xen-settings").unwrap();
    assert!(note.detail.contains("GRUB_CMDLINE_XEN") && note.severity == Severity::Note);
}

/// Without a menu of GRUB.
fn without_grub(files: &[(&str, &str)]) -> Finding {
    let sim = machine();
    std::fs::remove_file(sim.path(MENU)).unwrap();
    for (path, text) in files {
        sim.put(path, text);
    }
    let (_, plan) = sim.plan();
    let blockers: Vec<Finding> = plan.blockers(&[]).into_iter().cloned().collect();
    assert_eq!(blockers.len(), 1, "{blockers:?}");
    blockers.into_iter().next().unwrap()
}

#[test]
fn other_loaders_are_named_with_their_files() {
    assert_eq!(without_grub(&[]).id, "loader-not-found");
    for (name, files, says) in [
        (
            "systemd-boot",
            &[("boot/efi/loader/loader.conf", "timeout 3\n")][..],
            "/boot/efi/loader/loader.conf",
        ),
        ("extlinux", &[("boot/extlinux/extlinux.conf", "label l0\n")], "/boot/extlinux/extlinux.conf"),
        ("Raspberry Pi", &[("boot/firmware/cmdline.txt", "a\nb\n")], "only the first line is read"),
        (
            "U-Boot",
            &[("boot/armbianEnv.txt", ""), ("boot/boot.cmd", "")],
            "/boot/armbianEnv.txt, /boot/boot.cmd",
        ),
    ] {
        let found = without_grub(files);
        assert_eq!(found.id, "loader-unsupported");
        assert!(found.title.contains(name) && found.detail.contains(says), "{found:?}");
    }
}

/// A variable of the firmware: four bytes of attributes, then UTF-16.
#[test]
fn the_firmware_says_which_loader_it_was() {
    let variable = "sys/firmware/efi/efivars/LoaderInfo-4a67b082-0a4c-41cf-b6c7-440b29bb8c4f";
    let text: String = "systemd-boot 252".chars().flat_map(|letter| [letter, '\0']).collect();
    let text = format!("\u{6}\0\0\0{text}\0\0");
    assert!(without_grub(&[(variable, &text)]).title.contains("systemd-boot"));
    let sim = machine();
    sim.put(variable, &text);
    assert!(blocked_by(&sim, "boot-entry-mismatch").detail.contains("systemd-boot 252"));
}

#[test]
fn a_menu_that_cannot_be_read_is_no_missing_loader() {
    let sim = machine();
    std::fs::remove_file(sim.path(MENU)).unwrap();
    std::fs::create_dir(sim.path(MENU)).unwrap();
    let (_, plan) = sim.plan();
    let found: Vec<_> = plan.blockers(&[]).into_iter().map(|finding| finding.id.clone()).collect();
    assert_eq!(found, ["boot-menu-unreadable"]);
    assert!(finding(&sim, "boot-menu-unreadable").unwrap().detail.contains("/boot/grub/grub.cfg"));
}
