//! What must change so that the kubelet refuses cgroup v1, or takes it. Data only: nothing is written here.

use std::path::{Path, PathBuf};

use super::edit;
use super::flags;
use super::layers::{Effective, Origin};
use super::setup::{ConfigFile, Setup};
use super::source::Source;
use super::{FAIL_CGROUP_V1, holders::Holder};
use crate::boot::FileEdit;

/// The name of a drop-in of ours: behind those that vendors write.
const OWN_DROP_IN: &str = "90-cgroup2-migrate.conf";

/// What the kubelet shall do on cgroup v1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Goal {
    /// Refuse it: for a node that runs v2, and stays there.
    RefuseV1,
    /// Take it: for the way back.
    AllowV1,
}

impl Goal {
    /// The value of `failCgroupV1`.
    #[must_use]
    pub fn value(self) -> bool {
        self == Self::RefuseV1
    }
}

/// One file that changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// Path, before, after.
    pub edit: FileEdit,
    /// Why, in words.
    pub why: String,
}

/// Why it is not for this program to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The file, if it is about one.
    pub path: Option<PathBuf>,
    /// What stands in the way.
    pub why: String,
    /// The way that is left.
    pub remedy: String,
}

/// Every change that the goal needs. A value that stands somewhere is changed there; only for a goal that nothing on
/// the disk decides, a drop-in or a line is added. A kubelet before 1.31 does not know the key: there is nothing to do.
///
/// # Errors
/// Everything that stands in the way; then nothing should be changed.
pub fn flip(setup: &Setup, goal: Goal) -> Result<Vec<Change>, Vec<Refusal>> {
    if setup.version.is_some_and(|version| !version.knows_fail_cgroup_v1()) {
        return Ok(Vec::new());
    }
    let mut flipper = Flipper { setup: setup.clone(), goal, changes: Vec::new(), refusals: Vec::new() };
    if setup.owner.owns_everything() {
        flipper.hand_over();
    } else {
        flipper.unread();
        flipper.holders();
        flipper.files();
        flipper.add_if_needed();
    }
    if flipper.refusals.is_empty() { Ok(flipper.changes) } else { Err(flipper.refusals) }
}

struct Flipper {
    /// As it would be after the changes.
    setup: Setup,
    goal: Goal,
    changes: Vec<Change>,
    refusals: Vec<Refusal>,
}

impl Flipper {
    fn hand_over(&mut self) {
        if self.is_needed() {
            let why = format!("the kubelet's configuration on this host belongs to {}", self.setup.owner);
            self.refuse(None, why);
        }
    }

    /// `None` if nothing says what the kubelet would do.
    fn is_reached(&self) -> Option<bool> {
        let effective = Effective::of(&self.setup);
        effective.get(FAIL_CGROUP_V1).map(|setting| setting.value == self.goal.value())
    }

    fn refuse(&mut self, path: Option<&Path>, why: String) {
        let remedy = self.setup.owner.own_way(self.goal.value());
        self.refusals.push(Refusal { path: path.map(Path::to_owned), why, remedy });
    }

    /// What could not be read could hold the value, too.
    fn unread(&mut self) {
        for problem in self.setup.problems.clone() {
            self.refuse(None, problem);
        }
        for file in self.setup.files.clone() {
            if let Err(why) = file.document {
                self.refuse(Some(&file.source.path), why);
            }
        }
    }

    fn holders(&mut self) {
        let goal = self.goal.value();
        for index in 0..self.setup.holders.len() {
            let Some(holder) = self.setup.holders.get(index).cloned() else { continue };
            if !holds_another_value(&holder, goal) {
                continue;
            }
            match self.edited_flags(&holder) {
                Ok(text) => self.change_holder(index, &holder.source, text),
                Err(why) => self.refuse(Some(&holder.source.path), why),
            }
        }
        for flag in &mut self.setup.flags {
            // Those that no file explains are seen again in `add_if_needed`.
            if flag.name == flags::FAIL_CGROUP_V1 && flag.spot.is_some() {
                flag.value = Some(goal.to_string());
            }
        }
    }

    fn edited_flags(&self, holder: &Holder) -> Result<String, String> {
        if is_of_a_package(&holder.source.path) {
            return Err("the flag stands in a file of a package, which an update would write anew".to_owned());
        }
        edit::set_flags(holder.form, &holder.source, self.goal.value())
    }

    fn change_holder(&mut self, index: usize, old: &Source, text: String) {
        let why = format!("--fail-cgroupv1={} stands here, and a flag beats every file", !self.goal.value());
        self.change(old, &text, why);
        if let Some(holder) = self.setup.holders.get_mut(index) {
            holder.source.text = text;
        }
    }

    fn change(&mut self, old: &Source, text: &str, why: String) {
        let edit =
            FileEdit { path: old.path.clone(), before: Some(old.text.clone().into()), after: text.into() };
        self.changes.push(Change { edit, why });
    }

    fn files(&mut self) {
        for index in 0..self.setup.files.len() {
            let Some(file) = self.setup.files.get(index).cloned() else { continue };
            let holds = file.document.as_ref().is_ok_and(|document| document.get(FAIL_CGROUP_V1).is_some());
            if !holds || self.setup.owner.writes_anew(&file.source.path) {
                continue;
            }
            let why = format!("{FAIL_CGROUP_V1}: {} stands here", !self.goal.value());
            match edit::set(&file.source.text, self.goal.value()) {
                Ok(text) if text == file.source.text => {}
                Ok(text) => self.change_file(index, &file, text, why),
                Err(why) => self.refuse(Some(&file.source.path), why),
            }
        }
    }

    fn change_file(&mut self, index: usize, old: &ConfigFile, text: String, why: String) {
        self.change(&old.source, &text, why);
        if let Some(file) = self.setup.files.get_mut(index) {
            *file = ConfigFile::new(Source::new(&old.source.path, text), old.is_drop_in);
        }
    }

    /// A default that takes v1 does no harm on a node that never meets it; nor does one that is not known.
    fn is_needed(&self) -> bool {
        match self.is_reached() {
            Some(true) => false,
            Some(false) => self.goal == Goal::AllowV1 || self.origin() != Some(Origin::Default),
            None => self.goal == Goal::AllowV1,
        }
    }

    /// Adds what decides it, where what stands here does not.
    fn add_if_needed(&mut self) {
        if !self.is_needed() {
            return;
        }
        match self.origin() {
            None => {
                self.refuse(None, "which release of the kubelet this is could not be found out".to_owned())
            }
            Some(Origin::Flag(_)) => {
                self.refuse(
                    None,
                    "the kubelet runs with a flag that stands in no file known here".to_owned(),
                );
            }
            Some(Origin::Default | Origin::File(_)) => self.add(),
        }
    }

    fn origin(&self) -> Option<Origin> {
        Effective::of(&self.setup).get(FAIL_CGROUP_V1).map(|setting| setting.origin.clone())
    }

    fn add(&mut self) {
        let reads_drop_ins = self.setup.version.is_none_or(super::Version::reads_drop_ins);
        match self.setup.drop_in_directory.clone().filter(|_| reads_drop_ins) {
            Some(directory) => self.add_drop_in(&directory.join(OWN_DROP_IN)),
            None => self.add_line(),
        }
        if self.refusals.is_empty() && self.is_reached() != Some(true) {
            self.refuse(None, "another file would still win over what is written here".to_owned());
        }
    }

    fn add_drop_in(&mut self, path: &Path) {
        let text = drop_in(self.goal.value());
        let old = self.setup.files.iter().position(|file| file.source.path == path);
        let before =
            old.and_then(|index| self.setup.files.get(index)).map(|file| file.source.text.clone().into());
        let why = "nothing that lasts sets it; a drop-in of our own does".to_owned();
        let edit = FileEdit { path: path.to_owned(), before, after: text.clone().into() };
        self.changes.push(Change { edit, why });
        self.setup.files.retain(|file| file.source.path != path);
        self.setup.files.push(ConfigFile::new(Source::new(path, text), true));
        // The file of `--config` first, then by name.
        self.setup.files.sort_by_key(|file| file.is_drop_in.then(|| file.source.path.clone()));
    }

    fn add_line(&mut self) {
        let main = self.setup.files.iter().position(|file| !file.is_drop_in);
        let found = main.and_then(|index| Some((index, self.setup.files.get(index)?.clone())));
        let lasting = found.filter(|(_, file)| !self.setup.owner.writes_anew(&file.source.path));
        let Some((index, file)) = lasting else {
            return self.refuse(
                None,
                "no file of the kubelet is here that could take the key and keep it".to_owned(),
            );
        };
        let why =
            format!("nothing sets {FAIL_CGROUP_V1}, and the built-in default is {}", !self.goal.value());
        match edit::add(&file.source.text, self.goal.value()) {
            Ok(text) => self.change_file(index, &file, text, why),
            Err(why) => self.refuse(Some(&file.source.path), why),
        }
    }
}

fn holds_another_value(holder: &Holder, goal: bool) -> bool {
    // What cannot be read was told when it was read.
    let flags = holder.flags().unwrap_or_default();
    flags.iter().any(|flag| flag.name == flags::FAIL_CGROUP_V1 && flag.boolean() != Some(goal))
}

fn is_of_a_package(path: &Path) -> bool {
    path.starts_with("/usr/lib") || path.starts_with("/lib")
}

/// Every drop-in needs its own apiVersion and kind, or the kubelet does not start.
fn drop_in(value: bool) -> String {
    format!(
        "# Written by cgroup2-migrate; remove it to go back to what the other files say.\n\
         apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n{FAIL_CGROUP_V1}: {value}\n"
    )
}
