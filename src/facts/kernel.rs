//! The running kernel.

use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::host::{Fs, FsError};

/// The running kernel; `None` where a file could not be read.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct KernelFacts {
    /// `uname -r`.
    pub release: Option<String>,
    /// `/proc/cmdline`.
    pub command_line: Option<String>,
    /// Different after each boot.
    pub boot_id: Option<String>,
    /// It still has the v1 memory controller.
    pub has_v1_memory: Option<bool>,
    /// It still has the v1 cpuset controller.
    pub has_v1_cpuset: Option<bool>,
}

pub(super) const RELEASE: &str = "/proc/sys/kernel/osrelease";

/// Reads what the running kernel says of itself.
#[must_use]
pub fn scan(fs: &dyn Fs) -> KernelFacts {
    let release = super::text(fs, RELEASE);
    let config = release.as_deref().and_then(|release| super::text(fs, &format!("/boot/config-{release}")));
    let version = release.as_deref().and_then(version);
    let has = |option: &str, since: (u32, u32)| v1_option(config.as_deref()?, version?, option, since);
    KernelFacts {
        has_v1_memory: has("CONFIG_MEMCG_V1", (6, 11)),
        has_v1_cpuset: has("CONFIG_CPUSETS_V1", (6, 12)),
        command_line: super::text(fs, "/proc/cmdline"),
        boot_id: super::text(fs, "/proc/sys/kernel/random/boot_id"),
        release,
    }
}

/// The running boot.
///
/// # Errors
/// [`FsError`]: without it nothing may be decided after a reboot.
pub fn boot_id(fs: &dyn Fs) -> Result<String, FsError> {
    let bytes = fs.read(Path::new("/proc/sys/kernel/random/boot_id"))?;
    Ok(String::from_utf8_lossy(&bytes).trim().to_owned())
}

/// When this boot began, by the clock as it is now; `None` if the kernel does not say.
#[must_use]
pub fn booted_at(fs: &dyn Fs) -> Option<jiff::Timestamp> {
    let text = super::text(fs, "/proc/stat")?;
    let seconds = text.lines().find_map(|line| line.strip_prefix("btime "))?;
    jiff::Timestamp::from_second(seconds.trim().parse().ok()?).ok()
}

/// The first two numbers of a release such as `6.12.41+deb13-amd64`.
#[must_use]
pub fn version(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|letter: char| !letter.is_ascii_digit()).map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

/// Microsoft builds the kernels of WSL and puts its name into their release.
pub(super) fn is_of_wsl(release: &str) -> bool {
    let release = release.to_ascii_lowercase();
    release.contains("microsoft") || release.contains("wsl2")
}

/// The v1 side got an option of its own in `since`; before that it came with the controller.
fn v1_option(config: &str, version: (u32, u32), option: &str, since: (u32, u32)) -> Option<bool> {
    let is_set = config.lines().any(|line| line == format!("{option}=y"));
    Some(is_set || version < since)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_v1_side_of_a_controller() {
        let has = |config: &str, version| v1_option(config, version, "CONFIG_MEMCG_V1", (6, 11));
        assert_eq!(has("CONFIG_MEMCG=y\n", (6, 1)), Some(true));
        assert_eq!(has("# CONFIG_MEMCG_V1 is not set\n", (6, 12)), Some(false));
        assert_eq!(has("CONFIG_MEMCG_V1=y\n", (6, 12)), Some(true));
        assert_eq!(version("6.12.41+deb13-amd64"), Some((6, 12)));
        assert_eq!(version("mainline"), None);
    }
}
