//! The scenarios, one file each, in order of worth.

mod already_unified;
mod crippled_v1;
mod grub;
mod killed;
mod no_effect;
mod reboot_refused;
mod rollback;

use anyhow::Result;

use crate::context::Context;
use crate::image::State;
use crate::product::Build;

/// One story.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Scenario {
    /// What it is called on the command line.
    pub(crate) name: &'static str,
    /// What it shows, in one line.
    pub(crate) about: &'static str,
    /// The machine it begins with.
    pub(crate) state: State,
    /// The build of the program it needs.
    pub(crate) build: Build,
    /// The story; an error is the reason it failed.
    pub(crate) run: fn(&Context) -> Result<()>,
}

/// All of them.
pub(crate) fn all() -> Vec<Scenario> {
    let mut all = vec![
        grub::HYBRID,
        grub::LEGACY,
        rollback::SCENARIO,
        no_effect::SCENARIO,
        reboot_refused::SCENARIO,
        already_unified::SCENARIO,
        crippled_v1::SCENARIO,
    ];
    all.extend(killed::SCENARIOS);
    all
}

/// Those that `names` select: a scenario's own name, or what stands before a dash in it (`killed`). No names: all.
pub(crate) fn select(names: &[String]) -> Result<Vec<Scenario>> {
    if let Some(unknown) =
        names.iter().find(|name| !all().iter().any(|scenario| scenario.is_selected_by(name)))
    {
        anyhow::bail!("no scenario \"{unknown}\"; `vm-tests list` names them");
    }
    let chosen =
        |scenario: &Scenario| names.is_empty() || names.iter().any(|name| scenario.is_selected_by(name));
    Ok(all().into_iter().filter(chosen).collect())
}

impl Scenario {
    fn is_selected_by(&self, name: &str) -> bool {
        self.name == name || self.name.strip_prefix(name).is_some_and(|rest| rest.starts_with('-'))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn selected(names: &[&str]) -> Vec<&'static str> {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        select(&names).unwrap().iter().map(|scenario| scenario.name).collect()
    }

    #[test]
    fn no_names_select_all() {
        assert_eq!(selected(&[]).len(), all().len());
    }

    #[test]
    fn a_common_beginning_selects_its_group() {
        assert!(selected(&["killed"]).len() >= 6);
        assert_eq!(selected(&["grub"]), ["grub-hybrid", "grub-legacy"]);
        assert_eq!(selected(&["rollback", "grub-hybrid"]), ["grub-hybrid", "rollback"]);
    }

    #[test]
    fn an_unknown_name_is_refused() {
        assert!(select(&["grub-hybird".to_owned()]).is_err());
    }

    #[test]
    fn names_are_unique() {
        let mut names: Vec<_> = all().iter().map(|scenario| scenario.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all().len());
    }
}
