//! Which cgroup hierarchy systemd makes of a kernel command line.
//!
//! This is what systemd *wants*; what a running host *has* is read from the host itself ([`crate::facts::cgroup`]).
//! Followed here, release by release: `cg_is_unified_wanted()` and `cg_is_hybrid_wanted()` (src/basic/cgroup-util.c
//! up to v245, then src/shared/cgroup-setup.c), read at v231, v239, v252 and v255; for 256 to 258 the merged
//! changes systemd/systemd#31442 and #34999. Not modelled: lines that hold a newline (systemd reads the first
//! one only), backslashes before systemd 247 (they escaped then), and the EFI variable `SystemdOptions`.

use serde::{Deserialize, Serialize};

use super::kargs::{Arg, Kargs, LEGACY_CONTROLLER, LEGACY_FORCE, Switch, UNIFIED, boolean};

/// The layout of `/sys/fs/cgroup`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Hierarchy {
    /// All controllers on v1, no cgroup2 mount.
    Legacy,
    /// Controllers on v1, a cgroup2 mount without controllers beside them.
    Hybrid,
    /// cgroup v2 alone.
    Unified,
    /// Could not be found out.
    Unknown,
}

impl Hierarchy {
    /// The word used everywhere: `legacy`, `hybrid`, `unified`, `unknown`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Legacy => "legacy",
            Self::Hybrid => "hybrid",
            Self::Unified => "unified",
            Self::Unknown => "unknown",
        }
    }
}

impl std::fmt::Display for Hierarchy {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(self.as_str())
    }
}

/// Whether the host comes up at all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// As usual.
    Boots,
    /// After systemd has waited 30 seconds so that its warning is read.
    BootsAfterDelay,
    /// systemd stops before it starts anything; the host hangs.
    RefusesToBoot,
}

/// What systemd makes of a line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Decision {
    /// What it sets up; with [`Outcome::RefusesToBoot`] what it was asked for.
    pub hierarchy: Hierarchy,
    /// The word that decided, as written; `None` if it was systemd's built-in default.
    pub word: Option<String>,
    /// Why, in one sentence.
    pub reason: String,
    /// Words that look as if they mattered and do not, and what else is worth knowing.
    pub notes: Vec<String>,
    /// Whether the host comes up.
    pub outcome: Outcome,
}

/// The default that systemd has when nobody built it otherwise. Distributions did: RHEL 8, SLES 15, Ubuntu 20.04.
#[must_use]
pub fn upstream_default(systemd: u32) -> Hierarchy {
    match systemd {
        ..=231 => Hierarchy::Legacy,
        232..=242 => Hierarchy::Hybrid,
        243.. => Hierarchy::Unified,
    }
}

/// Says what systemd of this version, built with this default, makes of a kernel command line when nothing is
/// mounted on `/sys/fs/cgroup` yet.
#[must_use]
pub fn decide(line: &str, systemd: u32, default: Hierarchy) -> Decision {
    let kargs = Kargs::parse(line);
    let mut decision = match systemd {
        ..=225 => {
            fixed(Hierarchy::Legacy, format!("systemd {systemd} knows only v1, whatever the arguments say"))
        }
        226..=232 => early(&kargs, systemd, default),
        233..=255 => settled(&kargs, systemd, default),
        256..=257 => fading(&kargs, systemd),
        258.. => {
            fixed(Hierarchy::Unified, format!("systemd {systemd} knows only v2, whatever the arguments say"))
        }
    };
    decision.notes.extend(notes(&kargs, systemd, default, decision.hierarchy));
    decision
}

fn fixed(hierarchy: Hierarchy, reason: String) -> Decision {
    Decision { hierarchy, word: None, reason, notes: Vec::new(), outcome: Outcome::Boots }
}

fn by(arg: &Arg<'_>, hierarchy: Hierarchy, reason: &str) -> Decision {
    Decision { word: Some(arg.raw.to_owned()), ..fixed(hierarchy, format!("{}: {reason}", arg.raw)) }
}

/// 226 to 232: names must match to the letter, a bare word decides at once wherever it stands, and there is no
/// unified default.
fn early(kargs: &Kargs<'_>, systemd: u32, default: Hierarchy) -> Decision {
    let unified = early_switch(kargs, UNIFIED);
    if let Some((true, arg)) = unified {
        let mut decision = by(arg, Hierarchy::Unified, "asks for v2");
        if systemd < 230 {
            decision.notes.push(format!("systemd {systemd} can mount v2 only on kernels before 4.5"));
        }
        return decision;
    }
    let asked = unified.map(|(_, arg)| arg);
    if systemd < 232 {
        return v1(asked, Hierarchy::Legacy, &format!("systemd {systemd} uses v1 unless told otherwise"));
    }
    match early_switch(kargs, LEGACY_CONTROLLER) {
        Some((legacy, arg)) => v1_by_both(asked, arg, legacy),
        None => v1(asked, v1_default(default), &built_in(systemd, default)),
    }
}

fn early_switch<'k>(kargs: &'k Kargs<'_>, name: &'k str) -> Option<(bool, &'k Arg<'k>)> {
    let exact = || kargs.iter().filter(|arg| arg.key == name);
    if let Some(bare) = exact().find(|arg| arg.value.is_none()) {
        return Some((true, bare));
    }
    let last = exact().next_back()?;
    Some((last.value.as_deref().and_then(boolean) == Some(true), last))
}

/// 233 to 255.
fn settled(kargs: &Kargs<'_>, systemd: u32, default: Hierarchy) -> Decision {
    match kargs.switch(UNIFIED) {
        Switch::Is(true, arg) => return by(arg, Hierarchy::Unified, "asks for v2"),
        Switch::Is(false, arg) => return v1_side(kargs, Some(arg), systemd, default),
        Switch::Absent | Switch::Unreadable(_) => {}
    }
    if let Some(arg) = v1_forbidden(kargs, systemd) {
        return by(
            arg,
            Hierarchy::Unified,
            "forbids all v1 controllers, which systemd 240 and later take as asking for v2",
        );
    }
    match default {
        Hierarchy::Unified | Hierarchy::Unknown => fixed(default, built_in(systemd, default)),
        Hierarchy::Hybrid | Hierarchy::Legacy => v1_side(kargs, None, systemd, default),
    }
}

/// `cgroup_no_v1` with exactly the value `all`, if systemd minds it; the last one counts.
fn v1_forbidden<'k>(kargs: &'k Kargs<'_>, systemd: u32) -> Option<&'k Arg<'k>> {
    let last = kargs.named("cgroup_no_v1").rfind(|arg| arg.value.is_some())?;
    (systemd >= 240 && last.value.as_deref() == Some("all")).then_some(last)
}

/// v1 it is: hybrid or legacy?
fn v1_side(kargs: &Kargs<'_>, asked: Option<&Arg<'_>>, systemd: u32, default: Hierarchy) -> Decision {
    match kargs.switch(LEGACY_CONTROLLER) {
        Switch::Is(legacy, arg) => v1_by_both(asked, arg, legacy),
        Switch::Absent | Switch::Unreadable(_) => v1(asked, v1_default(default), &built_in(systemd, default)),
    }
}

/// Built for unified, systemd that is told not to be makes the hybrid layout (`DEFAULT_HIERARCHY >=
/// CGROUP_UNIFIED_SYSTEMD`).
fn v1_default(default: Hierarchy) -> Hierarchy {
    match default {
        Hierarchy::Unified | Hierarchy::Hybrid => Hierarchy::Hybrid,
        Hierarchy::Legacy => Hierarchy::Legacy,
        Hierarchy::Unknown => Hierarchy::Unknown,
    }
}

fn v1(asked: Option<&Arg<'_>>, hierarchy: Hierarchy, why: &str) -> Decision {
    match asked {
        Some(arg) => by(arg, hierarchy, &format!("asks for v1; the {} layout, as {why}", hierarchy.as_str())),
        None => fixed(hierarchy, why.to_owned()),
    }
}

fn v1_by_both(asked: Option<&Arg<'_>>, layout: &Arg<'_>, legacy: bool) -> Decision {
    let hierarchy = if legacy { Hierarchy::Legacy } else { Hierarchy::Hybrid };
    match asked {
        Some(arg) => by(
            arg,
            hierarchy,
            &format!("asks for v1, and {} for the {} layout", layout.raw, hierarchy.as_str()),
        ),
        None => by(layout, hierarchy, &format!("asks for the {} layout of v1", hierarchy.as_str())),
    }
}

fn built_in(systemd: u32, default: Hierarchy) -> String {
    format!("systemd {systemd} is built with default-hierarchy={}", default.as_str())
}

/// 256 and 257: v1 only with a second word that insists.
fn fading(kargs: &Kargs<'_>, systemd: u32) -> Decision {
    let wanted = settled(kargs, systemd, Hierarchy::Unified);
    let insists = matches!(kargs.switch(LEGACY_FORCE), Switch::Is(true, _));
    match (wanted.hierarchy, insists, systemd) {
        (Hierarchy::Unified | Hierarchy::Unknown, _, _) => wanted,
        (Hierarchy::Hybrid | Hierarchy::Legacy, true, _) => {
            Decision { outcome: Outcome::BootsAfterDelay, ..wanted }
        }
        (Hierarchy::Hybrid | Hierarchy::Legacy, false, 256) => Decision {
            reason: format!(
                "{}, but systemd 256 refuses to run on v1 without {LEGACY_FORCE}=1",
                wanted.reason
            ),
            outcome: Outcome::RefusesToBoot,
            ..wanted
        },
        (Hierarchy::Hybrid | Hierarchy::Legacy, false, _) => Decision {
            hierarchy: Hierarchy::Unified,
            reason: format!("{}, but systemd {systemd} goes to v2 without {LEGACY_FORCE}=1", wanted.reason),
            outcome: Outcome::BootsAfterDelay,
            ..wanted
        },
    }
}

fn notes(kargs: &Kargs<'_>, systemd: u32, default: Hierarchy, result: Hierarchy) -> Vec<String> {
    let mut notes: Vec<String> = kargs.iter().filter_map(|arg| note_on_word(kargs, arg, systemd)).collect();
    if systemd >= 256 && matches!(default, Hierarchy::Hybrid | Hierarchy::Legacy) {
        notes.push(format!("systemd {systemd} cannot be built with default-hierarchy={}", default.as_str()));
    }
    if systemd == 232 && result == Hierarchy::Hybrid {
        notes.push(
            "systemd 232 has cgroup2 on /sys/fs/cgroup/systemd, not on /sys/fs/cgroup/unified".to_owned(),
        );
    }
    let on_v1 = matches!(result, Hierarchy::Hybrid | Hierarchy::Legacy);
    let forbidding = kargs.named("cgroup_no_v1").find(|arg| !arg.after_double_dash && arg.value.is_some());
    if let Some(arg) = forbidding.filter(|_| on_v1) {
        notes.push(format!(
            "{}: the kernel gives these to v1 no more, so they are missing on this host",
            arg.raw
        ));
    }
    notes
}

fn note_on_word(kargs: &Kargs<'_>, arg: &Arg<'_>, systemd: u32) -> Option<String> {
    let raw = arg.raw;
    if arg.is("cgroup_disable") && !arg.after_double_dash {
        return Some(format!("{raw}: the kernel leaves these out, on v1 and on v2"));
    }
    let ours = [UNIFIED, LEGACY_CONTROLLER];
    if let Some(name) = ours.into_iter().find(|name| arg.is(name)) {
        return note_on_switch(kargs, arg, name, systemd);
    }
    let bare_key = arg.key.strip_prefix("rd.").unwrap_or(&arg.key);
    let looks_like = |name: &&str| bare_key.replace('-', "_").eq_ignore_ascii_case(name);
    if !ours.iter().any(looks_like) {
        return None;
    }
    Some(if arg.key.starts_with("rd.") {
        format!("{raw}: has no effect, systemd does not look for it with rd. in front")
    } else {
        format!("{raw}: has no effect, names are case sensitive")
    })
}

fn note_on_switch(kargs: &Kargs<'_>, arg: &Arg<'_>, name: &str, systemd: u32) -> Option<String> {
    let raw = arg.raw;
    if !(226..258).contains(&systemd) {
        return Some(format!("{raw}: has no effect, systemd {systemd} does not know it"));
    }
    if systemd < 233 {
        return (arg.key != name)
            .then(|| format!("{raw}: has no effect before systemd 233, - and _ differ there"));
    }
    match arg.value.as_deref() {
        Some(value) if boolean(value).is_none() => {
            Some(format!("{raw}: is not read, the value is no boolean"))
        }
        Some(_) => None,
        None => {
            let valued = kargs.value(name)?;
            Some(format!("{raw}: has no effect, a word without a value never overrides {name}={valued}"))
        }
    }
}

#[cfg(test)]
mod tests;
