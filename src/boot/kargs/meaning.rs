//! What one word means for the cgroup hierarchy, whoever cut it out of its line.

use super::{LEGACY_CONTROLLER, LEGACY_FORCE, UNIFIED, boolean, same_name};

/// What a word means for the cgroup hierarchy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Meaning {
    /// [`UNIFIED`] with a true value.
    UnifiedTrue,
    /// The same with a false value.
    UnifiedFalse,
    /// The same without a value: true, unless another one has a value.
    UnifiedBare,
    /// The same with a value systemd cannot read: then it goes on as if there were none.
    UnifiedJunk,
    /// One of the other arguments that ask for v1.
    OtherPin,
    /// Anything else.
    Foreign,
}

impl Meaning {
    /// Judges a word by its parts, quotes taken off.
    #[must_use]
    pub fn of(key: &str, value: Option<&str>) -> Self {
        if same_name(key, LEGACY_CONTROLLER) || same_name(key, LEGACY_FORCE) {
            return Self::OtherPin;
        }
        if !same_name(key, UNIFIED) {
            return Self::Foreign;
        }
        match value.map(boolean) {
            None => Self::UnifiedBare,
            Some(None) => Self::UnifiedJunk,
            Some(Some(true)) => Self::UnifiedTrue,
            Some(Some(false)) => Self::UnifiedFalse,
        }
    }

    /// True for the words that are there to hold a host on v1, in every spelling that has that effect. A value
    /// that systemd cannot read (`=2`), `rd.` words (which have no effect), and everything that has a use besides
    /// (`cgroup_enable=`, `swapaccount=`, `cgroup.memory=`, `cgroup_no_v1=`) are no pins.
    #[must_use]
    pub fn is_pin(self) -> bool {
        matches!(self, Self::UnifiedFalse | Self::OtherPin)
    }
}

/// True if these words together ask for v2, and do not merely leave it to systemd's built-in default.
#[must_use]
pub fn ask_for_unified(words: &[Meaning]) -> bool {
    let about_it = words.iter().filter(|word| !matches!(word, Meaning::OtherPin | Meaning::Foreign));
    let decides = deciding(about_it, |word| **word != Meaning::UnifiedBare);
    matches!(decides, Some(Meaning::UnifiedTrue | Meaning::UnifiedBare))
}

/// Of words with one name, the one that counts (systemd 233 and later): the last with a value, wherever it
/// stands; a bare one only where none has a value.
pub(super) fn deciding<W>(
    words: impl DoubleEndedIterator<Item = W> + Clone,
    has_value: impl Fn(&W) -> bool,
) -> Option<W> {
    words.clone().rfind(has_value).or_else(|| words.into_iter().next_back())
}
