//! Somebody must go on after the reboot: prove the new hierarchy, or lead back.

use crate::config::Settings;
use crate::facts::Facts;
use crate::facts::resume_unit::{Link, NAME, ResumeUnit};
use crate::report::{Finding, Severity};

pub(super) fn check(facts: &Facts, _: &Settings) -> Vec<Finding> {
    let Some(unit) = &facts.resume_unit else { return Vec::new() };
    if let Some(why) = missing(unit) {
        return vec![missing_finding(&why)];
    }
    unknown(unit).map(unknown_finding).into_iter().collect()
}

/// What is wrong with it, as far as it is known.
fn missing(unit: &ResumeUnit) -> Option<String> {
    if let Some(why) = unit.state.as_ref().ok().and_then(|state| unusable(state)) {
        return Some(why);
    }
    match &unit.link {
        Ok(Link::Absent) => return Some(format!("no multi-user.target.wants has a link to {NAME}")),
        Ok(Link::Masked) => return Some("its link in multi-user.target.wants leads to /dev/null".to_owned()),
        Ok(Link::There) | Err(_) => {}
    }
    match &unit.program {
        Ok(None) => Some(format!("no unit file {NAME} with an ExecStart= was found")),
        Ok(Some(program)) if !program.exists => {
            Some(format!("the program that it starts, {}, is not there", program.path.display()))
        }
        Ok(Some(_)) | Err(_) => None,
    }
}

fn unusable(state: &str) -> Option<String> {
    match state {
        "" => Some(format!("systemd knows no unit {NAME}")),
        state if state.starts_with("masked") || state == "bad" => Some(format!("{NAME} is {state}")),
        _ => None,
    }
}

fn unknown(unit: &ResumeUnit) -> Option<&String> {
    let link = unit.link.as_ref().err();
    unit.state.as_ref().err().or(link).or(unit.program.as_ref().err())
}

fn missing_finding(why: &str) -> Finding {
    Finding::new(
        Severity::Blocker,
        "resume-unit-missing",
        "nothing would go on after the reboot",
        format!("{why}; without it nobody proves cgroup v2 and nobody leads back"),
    )
    .remedy(format!(
        "install the package, or run `make install` in the sources: program, unit and its link belong together \
         (if it is masked: systemctl unmask {NAME})"
    ))
}

fn unknown_finding(why: &String) -> Finding {
    Finding::new(
        Severity::Blocker,
        "resume-unit-unknown",
        "it could not be found out whether anything would go on after the reboot",
        why,
    )
    .about(format!("/usr/lib/systemd/system/{NAME}"))
    .remedy("see that systemd answers (systemctl status) and that its unit directories can be read, then try again")
}
