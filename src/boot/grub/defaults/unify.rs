//! The smallest edit after which the kernel arguments lead to cgroup v2.

use std::path::PathBuf;

use super::dropin::{self, Ours};
use super::evaluate::{Text, Val, World};
use super::patch::Patch;
use super::{ARGUMENT_VARIABLES, Defaults, LINUX, LINUX_DEFAULT, Notice, Value, verify};
use crate::boot::FileEdit;
use crate::boot::grub::words::{self, ArgumentWord};
use crate::boot::kargs::{Meaning, UNIFIED_ON};

/// What systemd does when no kernel argument decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DefaultMode {
    /// cgroup v2: taking the v1 arguments out is enough.
    Unified,
    /// cgroup v1, legacy or hybrid: an argument has to ask for v2.
    NotUnified,
    /// Could not be found out: treated as [`DefaultMode::NotUnified`].
    Unknown,
}

/// The edit, as data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unification {
    /// Files that change; none if the text leads to v2 already. The directory of a drop-in may not exist yet.
    pub edits: Vec<FileEdit>,
    /// What a person should know.
    pub notices: Vec<Notice>,
}

/// Why no edit can be made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EditError {
    /// The file has Windows line ends.
    #[error("edit {}:{line}: found a carriage return at the end of the line `{text}`; convert the file with dos2unix first", path.display())]
    CarriageReturn {
        /// The file.
        path: PathBuf,
        /// From 1.
        line: usize,
        /// The line, without its end.
        text: String,
    },
    /// A drop-in would have to assign a variable that was made read-only.
    #[error("edit {}: the arguments are computed by shell code, and {name} is read-only so that no drop-in can change it; take the cgroup v1 arguments out by hand", path.display())]
    ReadOnly {
        /// The variable.
        name: &'static str,
        /// The main file.
        path: PathBuf,
    },
    /// There are drop-ins whose names cannot be followed by one of ours.
    #[error("create a drop-in in {}: found names that no name of ours sorts after in every locale; rename the last of them", path.display())]
    NoName {
        /// The directory.
        path: PathBuf,
    },
    /// No edit passed its own check. Nothing has been written.
    #[error(
        "edit /etc/default/grub: no edit kept all other arguments as they are ({reason}); take the cgroup v1 arguments out by hand"
    )]
    Unproven {
        /// What the check of the last attempt said.
        reason: String,
    },
}

/// Finds the edit. Every candidate is followed again as the shells would, and only one that changes nothing
/// but the words about the cgroup hierarchy is given back. Running it on its own result gives no edits.
///
/// # Errors
/// [`EditError`]; nothing is ever guessed.
pub fn unify(defaults: &Defaults, mode: DefaultMode) -> Result<Unification, EditError> {
    let mut reason = String::new();
    for patch in candidates(defaults, mode) {
        let edits = patch.edits(&defaults.files);
        match proven(defaults, &edits, mode) {
            Ok(()) => return finished(defaults, edits),
            Err(fault) => reason = fault,
        }
    }
    Err(obstacle(defaults).unwrap_or(EditError::Unproven { reason }))
}

fn finished(defaults: &Defaults, edits: Vec<FileEdit>) -> Result<Unification, EditError> {
    edits.iter().try_for_each(refuse_carriage_returns)?;
    let mut notices = defaults.notices();
    notices.extend(computed_notices(defaults));
    Ok(Unification { edits, notices })
}

fn computed_notices(defaults: &Defaults) -> Vec<Notice> {
    let notice = |name: &str| match defaults.value(name) {
        Value::Opaque { why, path, line } => {
            let text = format!("{name} is computed while grub-mkconfig runs ({why}): left as it is");
            Some(Notice { id: "computed-kernel-arguments", path, line, text })
        }
        Value::Known { .. } | Value::Unset => None,
    };
    let computed =
        |name: &&&str| defaults.worlds.iter().any(|world| matches!(world.lookup(name), Val::Opaque(_)));
    ARGUMENT_VARIABLES.iter().filter(computed).filter_map(|name| notice(name)).collect()
}

fn refuse_carriage_returns(edit: &FileEdit) -> Result<(), EditError> {
    let text = edit.before.as_deref().unwrap_or_default();
    let mut lines = text.split(|byte| *byte == b'\n').enumerate();
    match lines.find_map(|(index, line)| Some((index, line.strip_suffix(b"\r")?))) {
        None => Ok(()),
        Some((index, line)) => Err(EditError::CarriageReturn {
            path: edit.path.clone(),
            line: index + 1,
            text: String::from_utf8_lossy(line).into_owned(),
        }),
    }
}

fn obstacle(defaults: &Defaults) -> Option<EditError> {
    let read_only =
        |name: &&&'static str| defaults.worlds.iter().any(|world| world.read_only.contains(**name));
    if dropin::free_path(&defaults.files).is_none() {
        return Some(EditError::NoName { path: PathBuf::from(super::DROP_IN_DIRECTORY) });
    }
    let name = ARGUMENT_VARIABLES.iter().find(read_only)?;
    Some(EditError::ReadOnly { name, path: PathBuf::from(super::MAIN_FILE) })
}

fn proven(defaults: &Defaults, edits: &[FileEdit], mode: DefaultMode) -> Result<(), String> {
    let mut files: Vec<_> =
        defaults.files.iter().map(|file| (file.path.clone(), file.text.clone())).collect();
    for edit in edits {
        files.retain(|(path, _)| *path != edit.path);
        files.push((edit.path.clone(), edit.after.clone()));
    }
    let after = Defaults::parse(files).map_err(|error| error.to_string())?;
    let with_drop_in = edits.iter().any(|edit| dropin::recognise(&edit.after).is_some());
    let seen = || verify::seen_by_others(defaults, &after).filter(|_| !with_drop_in);
    verify::fault(defaults, &after, mode).or_else(seen).map_or(Ok(()), Err)
}

/// Edits worth trying, the best first.
fn candidates(defaults: &Defaults, mode: DefaultMode) -> Vec<Patch> {
    let line = format!("{LINUX}=\"{UNIFIED_ON}\"");
    let mut candidates = vec![removal(defaults, None)];
    if mode != DefaultMode::Unified {
        candidates.push(replacement(defaults));
        candidates.push(addition(defaults, LINUX));
        candidates.push(
            removal(defaults, None)
                .and_then(|mut patch| patch.add_line(&defaults.files, &line).map(|()| patch)),
        );
        candidates.push(addition(defaults, LINUX_DEFAULT));
    }
    let ours = if mode == DefaultMode::Unified { Ours::Strip } else { Ours::Force };
    for mut patch in [removal_where_certain(defaults), Patch::default()] {
        candidates.push(patch.add_drop_in(&defaults.files, ours).map(|()| patch));
    }
    candidates.into_iter().flatten().collect()
}

/// Known values of the argument variables, in both shells.
fn texts(defaults: &Defaults) -> Vec<Text> {
    let in_world = |world: &World| {
        ARGUMENT_VARIABLES.map(|name| known(world, name)).into_iter().flatten().collect::<Vec<_>>()
    };
    // bash first: it understands more.
    defaults.worlds.iter().rev().flat_map(in_world).collect()
}

fn known(world: &World, name: &str) -> Option<Text> {
    match world.lookup(name) {
        Val::Text(text) => Some(text),
        Val::Unset | Val::Opaque(_) => None,
    }
}

/// The file and place of a word.
fn place(text: &Text, word: &ArgumentWord) -> Option<(usize, usize)> {
    let origin = text.live.get(word.range.start)?.origin.as_ref()?;
    Some((origin.file, origin.span.start))
}

/// All pins go, but for the one at `kept`. `None` if one of them cannot.
fn removal(defaults: &Defaults, kept: Option<(usize, usize)>) -> Option<Patch> {
    let mut patch = Patch::default();
    for text in texts(defaults) {
        let pins = words::words(&text.bytes()).into_iter().filter(|word| word.meaning.is_pin());
        for word in pins.filter(|word| kept.is_none() || place(&text, word) != kept) {
            patch.remove(&defaults.files, &text, &word)?;
        }
    }
    Some(patch)
}

/// Beside a drop-in: pins go where the value is certain in both shells and nothing else can have a copy of
/// it. What a computed value makes of a copy cannot be checked afterwards.
fn removal_where_certain(defaults: &Defaults) -> Patch {
    let mut patch = Patch::default();
    for name in ARGUMENT_VARIABLES.iter().filter(|name| is_certain(defaults, name)) {
        let Some(text) = defaults.worlds.first().and_then(|world| known(world, name)) else { continue };
        for word in words::words(&text.bytes()).into_iter().filter(|word| word.meaning.is_pin()) {
            let first = text.live.get(word.range.start).and_then(|live| live.origin.as_ref());
            let own =
                first.is_some_and(|at| (at.file, at.assignment) == (text.site.file, text.site.word.start));
            if own {
                let _ = patch.remove(&defaults.files, &text, &word);
            }
        }
    }
    patch
}

fn is_certain(defaults: &Defaults, name: &str) -> bool {
    let copied = [format!("${name}"), format!("${{{name}"), format!("${{#{name}")];
    let has = |text: &[u8], what: &String| text.windows(what.len()).any(|at| at == what.as_bytes());
    let ours = |text: &[u8]| dropin::recognise(text).is_some();
    let mut texts = defaults.files.iter().map(|file| file.text.as_slice()).filter(|text| !ours(text));
    let alone = texts.all(|text| !copied.iter().any(|what| has(text, what)));
    alone && matches!(defaults.value(name), Value::Known { .. })
}

/// The first false pin becomes true, the others go.
fn replacement(defaults: &Defaults) -> Option<Patch> {
    let [_, bash] = &defaults.worlds;
    let of_variable = |name: &&str| {
        let text = known(bash, name)?;
        let word =
            words::words(&text.bytes()).into_iter().find(|word| word.meaning == Meaning::UnifiedFalse)?;
        Some((text, word))
    };
    let (text, word) = [LINUX, LINUX_DEFAULT].iter().find_map(of_variable)?;
    let mut patch = removal(defaults, place(&text, &word))?;
    patch.make_true(&text, &word)?;
    Some(patch)
}

/// All pins go, and the wanted word is added where the variable got its value.
fn addition(defaults: &Defaults, name: &str) -> Option<Patch> {
    let mut patch = removal(defaults, None)?;
    let [dash, bash] = &defaults.worlds;
    let (text, other) = (known(bash, name)?, known(dash, name)?);
    if text.site != other.site
        || defaults.files.get(text.site.file).is_some_and(|file| dropin::recognise(&file.text).is_some())
    {
        return None;
    }
    patch.append(&text, UNIFIED_ON);
    Some(patch)
}
