//! Arguments for systemd that lie in the firmware.

use std::path::{Path, PathBuf};

use super::systemd::{ASSUMED_SYSTEMD, SystemdFacts};
use crate::host::{Fs, FsError};

const DIRECTORY: &str = "/sys/firmware/efi/efivars";

/// With systemd's own vendor id: a variable of this name of anybody else is not read.
const VARIABLE: &str = "SystemdOptions-8cf2644b-4b0b-428f-9387-6d876050dc67";

/// The versions of systemd that read them.
const READERS: std::ops::Range<u32> = 244..258;

/// What they count beside the kernel command line (`proc_cmdline_get_key`, v252 src/basic/proc-cmdline.c).
pub const HOW_OPTIONS_COUNT: &str = "systemd looks there for what the kernel command line does not say";

/// The EFI variable `SystemdOptions`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SystemOptions {
    /// Where it is.
    pub path: PathBuf,
    /// What it holds.
    pub text: String,
}

/// The options, if there are any that this systemd reads.
///
/// # Errors
/// [`FsError`] if the variable, or the directory of the variables, is there and cannot be read.
pub fn options(fs: &dyn Fs, systemd: &SystemdFacts) -> Result<Option<SystemOptions>, FsError> {
    if !READERS.contains(&systemd.version.unwrap_or(ASSUMED_SYSTEMD)) {
        return Ok(None);
    }
    let names = fs.list(Path::new(DIRECTORY))?;
    let Some(name) = names.into_iter().find(|name| name.starts_with(VARIABLE)) else { return Ok(None) };
    let path = Path::new(DIRECTORY).join(name);
    let text = decoded(&fs.read(&path)?);
    Ok(Some(SystemOptions { path, text }))
}

/// Four bytes of attributes, then UTF-16 with a zero at the end (`efi_get_variable_string`, v252
/// src/basic/efivars.c).
pub(super) fn decoded(bytes: &[u8]) -> String {
    let (_, text) = bytes.split_at_checked(4).unwrap_or_default();
    let units = text.chunks_exact(2).filter_map(|pair| Some(u16::from_le_bytes(pair.try_into().ok()?)));
    char::decode_utf16(units).map(|unit| unit.unwrap_or('?')).filter(|unit| *unit != '\0').collect()
}
