//! Plans, findings and states as text for people.

use std::fmt::Write as _;

use crate::migration::decide::Ending;
use crate::migration::journal::Journal;
use crate::migration::status::Status;
use crate::plan::{Plan, Possible};
use crate::report::{Finding, Severity};
use crate::verify::{Answer, Proof};

/// A plan, whole.
pub(super) fn plan(plan: &Plan, accepted: &[String]) -> String {
    let mut text = findings(plan, accepted);
    if plan.steps.is_empty() {
        return text;
    }
    text.push_str("\nSteps:\n");
    for (number, step) in plan.steps.iter().enumerate() {
        let _ = writeln!(text, "  {}. {}", number + 1, step.title);
    }
    for file in &plan.files {
        let _ = write!(text, "\n{}", file.diff);
    }
    if !plan.later_files.is_empty() {
        text.push_str("\nOnce v2 is proven:\n");
    }
    for file in &plan.later_files {
        let _ = write!(text, "\n{}", file.diff);
    }
    let line = |line: &Option<String>| line.clone().unwrap_or_else(|| "not known beforehand".to_owned());
    let _ = writeln!(text, "\nKernel line now:   {}", line(&plan.effective.before));
    let _ = writeln!(text, "Kernel line after: {}", line(&plan.effective.after));
    let _ = writeln!(text, "Down time: {}", plan.down_time);
    let _ = writeln!(text, "Way back:  {}: {}", possible(plan.way_back.possible), plan.way_back.why);
    text
}

fn possible(possible: Possible) -> &'static str {
    match possible {
        Possible::Yes => "yes",
        Possible::No => "NO",
        Possible::Unknown => "not known",
    }
}

/// What was found, and what that means.
/// Findings alone.
pub(super) fn listed(findings: &[Finding], accepted: &[String]) -> String {
    findings.iter().map(|found| finding(found, accepted)).collect()
}

pub(super) fn findings(plan: &Plan, accepted: &[String]) -> String {
    let mut text = format!("Hierarchy: {}\n", plan.hierarchy);
    for found in &plan.findings {
        text.push_str(&finding(found, accepted));
    }
    for id in accepted.iter().filter(|id| !plan.findings.iter().any(|finding| finding.id == **id)) {
        let _ = writeln!(text, "\nAccepted, but not found here: {id}");
    }
    let _ = writeln!(text, "\n{}", summary(plan, accepted));
    text
}

fn summary(plan: &Plan, accepted: &[String]) -> String {
    let blockers = plan.blockers(accepted);
    if let Some(unsupported) = blockers.iter().find(|finding| finding.is_unsupported()) {
        return format!("This host cannot be migrated: {}.", unsupported.title);
    }
    match blockers.len() {
        0 if plan.nothing_to_do => "This host runs cgroup v2 already: nothing to do.".to_owned(),
        0 => "Nothing stands in the way.".to_owned(),
        1 => "One blocker stands in the way: remove it, then `check` again.".to_owned(),
        many => format!("{many} blockers stand in the way: remove them, then `check` again."),
    }
}

fn finding(finding: &Finding, accepted: &[String]) -> String {
    let is_accepted = finding.acceptable && accepted.contains(&finding.id);
    let word = if is_accepted { "ACCEPTED" } else { severity(finding.severity) };
    let mut text = format!("\n{word} [{}] {}\n", finding.id, finding.title);
    let _ = writeln!(text, "  {}", finding.detail);
    for path in &finding.files {
        let _ = writeln!(text, "  file: {}", path.display());
    }
    if let Some(remedy) = &finding.remedy {
        let _ = writeln!(text, "  remedy: {}", remedy.text);
        if let Some(argv) = &remedy.argv {
            let _ = writeln!(text, "          {}", shown(argv));
        }
    }
    if finding.severity == Severity::Blocker && finding.acceptable && !is_accepted {
        let _ = writeln!(text, "  or go on all the same: --accept {}", finding.id);
    }
    text
}

/// As it can be typed.
fn shown(argv: &[String]) -> String {
    let is_plain = |word: &str| {
        !word.is_empty() && word.chars().all(|c| c.is_alphanumeric() || "-_./=:,@%+".contains(c))
    };
    let quoted = |word: &String| {
        if is_plain(word) { word.clone() } else { format!("'{}'", word.replace('\'', "'\\''")) }
    };
    argv.iter().map(quoted).collect::<Vec<_>>().join(" ")
}

fn severity(severity: Severity) -> &'static str {
    match severity {
        Severity::Blocker => "BLOCKER",
        Severity::Warning => "WARNING",
        Severity::Note => "NOTE",
    }
}

/// One line as a phase begins.
pub(super) fn phase_line(journal: &Journal) -> String {
    let phase = journal.state.name();
    journal.state.why().map_or_else(|| format!("phase: {phase}"), |why| format!("phase: {phase}: {why}"))
}

/// How a run ended.
pub(super) fn ending(ending: &Ending) -> String {
    match ending {
        Ending::Done => "done: this host runs cgroup v2, proven".to_owned(),
        Ending::RolledBack(why) => format!("rolled back, everything is as it was: {why}"),
        Ending::NeedsPerson(why) => format!("needs a person (the state is kept): {why}"),
        Ending::Paused(why) => why.clone(),
        Ending::GoingDown => {
            "it goes on by itself after the boot\nthe host is going down; `cgroup2-migrate status` after it is back".to_owned()
        }
        Ending::TryLater(why) => format!("try again later with `resume` (the state is kept): {why}"),
        Ending::Blocked(why) => format!("blocked (the state is kept): {why}"),
    }
}

/// Proofs, one a line.
pub(super) fn proofs(proofs: &[Proof]) -> String {
    let mut text = String::new();
    for proof in proofs {
        let answer = match proof.answer {
            Answer::Yes => "yes",
            Answer::No => "NO",
            Answer::Unknown => "UNKNOWN",
        };
        let _ = writeln!(text, "{answer:8}{}: {}", proof.id, proof.detail);
    }
    let proven = proofs.iter().all(|proof| proof.answer == Answer::Yes);
    text.push_str(if proven { "proven: this host runs cgroup v2\n" } else { "not proven\n" });
    text
}

/// Where the host stands.
pub(super) fn status(status: &Status) -> String {
    let mut text = format!("Phase:     {}\n", status.phase);
    let mut line = |name: &str, value: Option<String>| {
        if let Some(value) = value {
            let _ = writeln!(text, "{:11}{value}", format!("{name}:"));
        }
    };
    line("Why", status.why.clone());
    line("Since", status.since.map(|since| since.to_string()));
    line("Waits for", status.waiting.clone());
    line("Next", Some(status.next.to_owned()));
    for note in &status.notes {
        line("Note", Some(note.clone()));
    }
    line("Hierarchy", Some(status.hierarchy.to_string()));
    line("Before", status.hierarchy_before.map(|before| before.to_string()));
    line("Migration", status.txn.clone());
    line("Reboots", (!status.reboots.is_empty()).then(|| status.reboots.len().to_string()));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_sees_the_host_go_down_is_told_where_to_look() {
        let last = ending(&Ending::GoingDown);
        let last = last.lines().last().unwrap();
        assert_eq!(last, "the host is going down; `cgroup2-migrate status` after it is back");
    }

    #[test]
    fn only_a_blocker_that_can_be_accepted_says_how() {
        let blocker = Finding::new(Severity::Blocker, "os-unknown", "t", "d");
        let accepted = ["os-unknown".to_owned()];
        let says =
            |one: &Finding, accepted: &[String]| finding(one, accepted).contains("--accept os-unknown");
        assert!(!says(&blocker, &[]));
        let blocker = blocker.acceptable();
        assert!(says(&blocker, &[]) && !says(&blocker, &accepted));
        assert!(!says(&Finding::new(Severity::Warning, "os-unknown", "t", "d").acceptable(), &[]));
    }
}
