//! Boot configuration as text: kernel arguments, what systemd makes of them, and one folder a boot loader.
//! Text goes in and text comes out; nothing here touches the machine.

pub mod grub;
pub mod hierarchy;
pub mod kargs;

use std::path::PathBuf;

/// One file that is to change, as data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileEdit {
    /// Host path.
    pub path: PathBuf,
    /// Content the edit was made from; `None` if the file is to be created.
    pub before: Option<Vec<u8>>,
    /// Content afterwards.
    pub after: Vec<u8>,
}

/// What the boot loader would do now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NextBoot {
    /// The entry that will boot leads to cgroup v2.
    Unified,
    /// It leads to cgroup v1.
    NotUnified(String),
    /// No running host would come of it: no Linux kernel, or a line that the installed systemd refuses.
    WontBoot(String),
    /// It could not be found out.
    Unknown(String),
}
