//! The kubelet of this host as its files say: the layers of its configuration, who owns them, and the smallest edit
//! of `failCgroupV1`. Files are read through [`crate::host::Fs`]; nothing is written here.
//!
//! | module | what it holds |
//! |---|---|
//! | [`version`] | what a release of the kubelet knows |
//! | [`traced`] | text that knows which bytes of its file it stands in |
//! | [`environment`], [`unit`] | systemd's environment files and unit files |
//! | [`command`] | the command line that they make |
//! | [`flags`] | the flags in it |
//! | [`document`] | YAML and JSON with the place of every value |
//! | [`marks`] | what shows that a kubelet is here, and the one that runs |
//! | [`owner`] | who writes these files |
//! | [`holders`] | files that hold flags |
//! | [`setup`] | all of it, read |
//! | [`layers`] | which value counts, and where it comes from |
//! | [`configz`] | what the running kubelet says itself |
//! | [`edit`], [`flip`] | text to text; what must change for `failCgroupV1` to be another |

pub mod command;
pub mod configz;
pub mod document;
pub mod edit;
pub mod environment;
pub mod flags;
pub mod flip;
pub mod holders;
pub mod layers;
pub mod marks;
pub mod owner;
pub mod setup;
mod source;
pub mod traced;
pub mod unit;
pub mod version;

pub use flip::{Change, Goal, Refusal, flip};
pub use layers::{Effective, Origin, Setting};
pub use owner::Owner;
pub use setup::Setup;
pub use source::{Place, Source};
pub use version::Version;

/// The key that this program changes.
pub const FAIL_CGROUP_V1: &str = "failCgroupV1";
