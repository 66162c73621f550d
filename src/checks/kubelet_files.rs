//! What is odd in the kubelet's own files: unreadable, misspelt, said twice.

use crate::config::Settings;
use crate::facts::Facts;
use crate::kubelet::layers::misspelt;
use crate::kubelet::{Effective, FAIL_CGROUP_V1, Place, Setting};
use crate::report::{Finding, Severity};

pub(super) fn check(facts: &Facts, _: &Settings) -> Vec<Finding> {
    let setup = &facts.kubelet_setup;
    let effective = Effective::of(setup);
    let wrong =
        setup.files.iter().filter_map(|file| Some((&file.source.path, file.document.as_ref().err()?)));
    let mut findings: Vec<Finding> =
        wrong.map(|(path, why)| unreadable(&format!("{}: {why}", path.display())).about(path)).collect();
    findings.extend(setup.problems.iter().map(|problem| unreadable(problem)));
    findings.extend(
        setup.files.iter().flat_map(misspelt).map(|(key, meant, place)| wrong_key(&key, meant, &place)),
    );
    findings.extend(said_twice(&effective));
    findings
}

fn unreadable(why: &str) -> Finding {
    Finding::new(
        Severity::Warning,
        "kubelet-files-unreadable",
        "a file of the kubelet could not be read, or is not clear",
        format!("{why}; what it sets is not known here, and it will not be changed"),
    )
    .remedy("make it right (one document, every key once)")
}

fn wrong_key(key: &str, meant: &str, place: &Place) -> Finding {
    Finding::new(
        Severity::Warning,
        "kubelet-key-misspelt",
        format!("the kubelet does not read {key}"),
        format!(
            "{place} has {key}, the key is {meant}: the kubelet minds capital letters, and this has no effect"
        ),
    )
    .about(&place.path)
    .remedy(format!("write {meant}, if it was meant, or take it out"))
}

/// Built-in defaults do not count.
fn said_twice(effective: &Effective) -> Option<Finding> {
    let layers: Vec<&Setting> = effective
        .layers(FAIL_CGROUP_V1)
        .iter()
        .filter(|layer| layer.origin != crate::kubelet::Origin::Default)
        .collect();
    let last = layers.last().filter(|_| layers.len() > 1)?;
    let all: Vec<String> = layers.iter().map(|layer| format!("{} ({})", layer.value, layer.origin)).collect();
    let finding = Finding::new(
        Severity::Warning,
        "fail-cgroup-v1-set-twice",
        "failCgroupV1 is set in more than one place",
        format!("{}; {} wins", all.join(", "), last.origin),
    );
    Some(finding.remedy("set it in one place alone; all of them are changed together otherwise"))
}
