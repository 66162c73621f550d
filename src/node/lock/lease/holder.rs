//! Who holds a slot.

use serde::{Deserialize, Serialize};

/// Who holds a slot, as `holderIdentity` says it: `<node-uid>/<run-id>/<boot-id>`. A name would not do: the node of a
/// name may be another one tomorrow.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Holder {
    /// UID of the Node object.
    pub node_uid: String,
    /// The run.
    pub run: String,
    /// The boot in which it last wrote to the slot.
    pub boot: String,
}

impl Holder {
    /// Reads `holderIdentity`; `None` if it is somebody else's text.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let parts: Vec<&str> = text.split('/').collect();
        let [node_uid, run, boot] = parts.as_slice() else { return None };
        let is_word = |part: &&&str| !part.is_empty() && part.chars().all(|c| c.is_ascii_graphic());
        if ![node_uid, run, boot].iter().all(is_word) {
            return None;
        }
        let owned = |part: &&str| (*part).to_owned();
        Some(Self { node_uid: owned(node_uid), run: owned(run), boot: owned(boot) })
    }

    /// True if it is the same run on the same node, whatever the boot.
    #[must_use]
    pub fn is_same_run(&self, other: &Self) -> bool {
        self.node_uid == other.node_uid && self.run == other.run
    }
}

impl std::fmt::Display for Holder {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{}/{}/{}", self.node_uid, self.run, self.boot)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_our_own_text_is_read() {
        let text = "b5b0c2de-1/r-7/9a1f";
        assert_eq!(Holder::parse(text).unwrap().to_string(), text);
        for foreign in ["", "kured", "a/b", "a//c", "a/b/c/d", "{\"nodeID\":\"x\"}", "a/b/c d", "/r/b"] {
            assert_eq!(Holder::parse(foreign), None, "{foreign}");
        }
    }

    #[test]
    fn a_reboot_does_not_change_whose_it_is() {
        let before = Holder::parse("u/r/boot-A").unwrap();
        assert!(before.is_same_run(&Holder::parse("u/r/boot-B").unwrap()));
        assert!(!before.is_same_run(&Holder::parse("u/other/boot-A").unwrap()));
        assert!(!before.is_same_run(&Holder::parse("v/r/boot-A").unwrap()));
    }
}
