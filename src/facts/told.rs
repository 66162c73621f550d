//! What was read, a line each, for `-v`: somebody who wonders about an answer sees first what it was made of.

use super::Facts;
use super::grub::GrubFacts;
use super::kernel::KernelFacts;
use super::systemd::SystemdFacts;

/// Tells the facts of a scan.
pub(super) fn facts(facts: &Facts) {
    let cgroup = match facts.scan.assumed_hierarchy {
        Some(_) => "as was said".to_owned(),
        None => facts.cgroup.why.clone(),
    };
    tell("hierarchy", &format!("{} ({cgroup})", facts.hierarchy()));
    running(facts.kernel.release.as_deref(), facts.kernel.command_line.as_deref());
    tell("systemd", &facts.systemd.origin);
    tell("distribution", &facts.os.as_ref().map_or_else(Clone::clone, |os| os.id.clone()));
    grub(&facts.grub);
    match &facts.kubelet {
        None => {}
        Some(Ok(kubelet)) => tell("signs of a kubelet", &listed(&kubelet.found)),
        Some(Err(why)) => tell("signs of a kubelet", why),
    }
    rest(facts);
}

/// What is long, or matters to few.
fn rest(facts: &Facts) {
    log::debug!("read: places that are written: {:?}", facts.storage);
    log::debug!("read: reboot: {:?}", facts.reboot);
    log::debug!("read: unit that resumes: {:?}", facts.resume_unit);
    log::debug!("read: EFI variable SystemdOptions: {:?}", facts.efi_system_options);
    log::debug!("read: surroundings: {:?}", facts.container);
}

/// Tells what `detect` read.
pub fn detected(hierarchy: &str, kernel: &KernelFacts, systemd: &SystemdFacts) {
    tell("hierarchy", hierarchy);
    running(kernel.release.as_deref(), kernel.command_line.as_deref());
    tell("systemd", &systemd.origin);
}

fn running(release: Option<&str>, line: Option<&str>) {
    tell("running kernel", release.unwrap_or("not known"));
    tell("its command line", line.unwrap_or("not known"));
}

fn grub(grub: &GrubFacts) {
    let settings: Vec<String> = grub.settings.iter().map(|(path, _)| path.display().to_string()).collect();
    tell("settings of GRUB", grub.unreadable.as_deref().unwrap_or(&listed(&settings)));
    let menu = grub.located.as_ref().map(|located| located.grub_cfg.display().to_string());
    tell("menu of GRUB", &menu.or_else(|| grub.menu_unreadable.clone()).unwrap_or_else(|| "none".to_owned()));
    match &grub.next {
        Err(why) => tell("next entry", &format!("not known: {why}")),
        Ok(entry) => {
            let line = grub.next_arguments().unwrap_or("no Linux");
            tell("next entry", &format!("{} ({}): {line}", entry.path.join(" > "), entry.chosen_by));
        }
    }
}

fn listed(words: &[String]) -> String {
    if words.is_empty() { "none".to_owned() } else { words.join(", ") }
}

fn tell(what: &str, found: &str) {
    log::info!("read: {what}: {found}");
}
