//! Our own drop-in, for arguments that are computed by shell code: it filters the finished values.

use std::path::{Path, PathBuf};

use super::evaluate::{LiveByte, Reason, Site, Text, Val, World};
use super::{ARGUMENT_VARIABLES, DROP_IN_DIRECTORY, LINUX, SourceFile};
use crate::boot::grub::shell::Tail;
use crate::boot::grub::words::{self, ArgumentWord};
use crate::boot::kargs::{Meaning, UNIFIED_ON};

const TEMPLATE: &str = include_str!("dropin.sh");
const HEADER: &str = "# Written by cgroup2-migrate";
const FALSE: &str = "systemd.unified[-_]cgroup[-_]hierarchy=0 | systemd.unified[-_]cgroup[-_]hierarchy=[nN] | \
     systemd.unified[-_]cgroup[-_]hierarchy=[nN][oO] | systemd.unified[-_]cgroup[-_]hierarchy=[fF] | \
     systemd.unified[-_]cgroup[-_]hierarchy=[fF][aA][lL][sS][eE] | systemd.unified[-_]cgroup[-_]hierarchy=[oO][fF][fF]";
const ANY: &str = "systemd.unified[-_]cgroup[-_]hierarchy | systemd.unified[-_]cgroup[-_]hierarchy=*";
const ADDED: &str = "GRUB_CMDLINE_LINUX=\"${GRUB_CMDLINE_LINUX:+$GRUB_CMDLINE_LINUX }@WANTED@\"\n";

/// What the drop-in does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ours {
    /// Takes the v1 words out.
    Strip,
    /// Takes every word about the hierarchy out and adds the one that asks for v2.
    Force,
}

/// The text of the drop-in.
pub(super) fn content(ours: Ours) -> Vec<u8> {
    let (pins, added) = match ours {
        Ours::Strip => (FALSE, ""),
        Ours::Force => (ANY, ADDED),
    };
    TEMPLATE.replace("@PINS@", pins).replace("@ADDED@", added).replace("@WANTED@", UNIFIED_ON).into_bytes()
}

/// Which of our drop-ins this text is, to the byte.
pub(super) fn recognise(text: &[u8]) -> Option<Ours> {
    [Ours::Strip, Ours::Force]
        .into_iter()
        .find(|ours| text.starts_with(HEADER.as_bytes()) && content(*ours) == text)
}

/// What remains of a file name where punctuation and case do not count.
pub(super) fn dictionary_key(path: &Path) -> Vec<u8> {
    use std::os::unix::ffi::OsStrExt as _;
    let name = path.file_name().map(|name| name.as_bytes().to_ascii_lowercase()).unwrap_or_default();
    name.into_iter().filter(|byte| byte.is_ascii_alphanumeric() || *byte >= 0x80).collect()
}

/// A name that sorts after all files there are, in byte order and in a dictionary's; that of an old drop-in
/// of ours if it does.
pub(super) fn free_path(files: &[SourceFile]) -> Option<PathBuf> {
    let others: Vec<&Path> = files
        .iter()
        .filter(|file| !file.text.starts_with(HEADER.as_bytes()))
        .map(|file| file.path.as_path())
        .collect();
    let last = |path: &PathBuf| {
        let after = |other: &&&Path| {
            other.as_os_str() < path.as_os_str() && dictionary_key(other) < dictionary_key(path)
        };
        let beside = others.iter().filter(|other| other.starts_with(DROP_IN_DIRECTORY));
        beside.clone().filter(|other| after(other)).count() == beside.count()
    };
    let names = (0..8).flat_map(|tildes| {
        (2..40)
            .map(move |letters| format!("{}{}-cgroup2-migrate.cfg", "~".repeat(tildes), "z".repeat(letters)))
    });
    names.map(|name| Path::new(DROP_IN_DIRECTORY).join(name)).find(last)
}

/// Does to the variables what the drop-in would.
pub(super) fn apply(ours: Ours, world: &mut World) {
    if let Some(name) = ARGUMENT_VARIABLES.iter().find(|name| world.read_only.contains(**name)) {
        let reason = Reason::new(&format!("{name} is read-only and our drop-in assigns it"), world.file, 0);
        world.taint(&reason);
        world.doubt = Some((reason, true));
        return;
    }
    for name in ARGUMENT_VARIABLES {
        if let Val::Text(text) = world.lookup(name) {
            world.put(name, Val::Text(Text { live: filtered(ours, &text.live), site: our_site(world.file) }));
        }
    }
    if ours == Ours::Force {
        add_wanted(world);
    }
}

fn add_wanted(world: &mut World) {
    let mut live = match world.lookup(LINUX) {
        Val::Text(text) => text.live,
        Val::Unset => Vec::new(),
        Val::Opaque(_) => return,
    };
    if !live.is_empty() {
        live.push(LiveByte { byte: b' ', origin: None });
    }
    live.extend(UNIFIED_ON.bytes().map(|byte| LiveByte { byte, origin: None }));
    world.put(LINUX, Val::Text(Text { live, site: our_site(world.file) }));
}

fn our_site(file: usize) -> Site {
    Site { file, word: 0..0, value_start: 0, tail: Tail::Plain, plain: false }
}

fn goes(ours: Ours, word: &ArgumentWord) -> bool {
    match word.meaning {
        Meaning::UnifiedFalse | Meaning::OtherPin => true,
        Meaning::UnifiedTrue | Meaning::UnifiedBare | Meaning::UnifiedJunk => ours == Ours::Force,
        Meaning::Foreign => false,
    }
}

fn filtered(ours: Ours, live: &[LiveByte]) -> Vec<LiveByte> {
    let bytes: Vec<u8> = live.iter().map(|live| live.byte).collect();
    let mut kept: Vec<LiveByte> = Vec::new();
    let mut end = 0;
    for word in words::words(&bytes) {
        let from = if kept.is_empty() { word.range.start } else { end };
        if !goes(ours, &word) {
            kept.extend(live.get(from..word.range.end).unwrap_or_default().iter().cloned());
        }
        end = word.range.end;
    }
    kept
}
