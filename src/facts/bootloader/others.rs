//! Signs of boot loaders that are not GRUB: the files in which they keep the kernel command line, and what the firmware
//! was told by the loader that ran.

use std::path::{Path, PathBuf};

use crate::facts::firmware;
use crate::host::Fs;

/// What the loader that ran says of itself, as `systemd-boot 252.39` or `GRUB 2.12`.
const LOADER_INFO: &str = "/sys/firmware/efi/efivars/LoaderInfo-4a67b082-0a4c-41cf-b6c7-440b29bb8c4f";

/// A loader this version cannot change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OtherLoader {
    /// systemd-boot.
    SystemdBoot,
    /// extlinux or syslinux, also as U-Boot reads its file.
    Extlinux,
    /// The firmware of the Raspberry Pi.
    RaspberryPi,
    /// U-Boot with a script and variables.
    UBoot,
}

impl OtherLoader {
    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::SystemdBoot => "systemd-boot",
            Self::Extlinux => "extlinux",
            Self::RaspberryPi => "the firmware of the Raspberry Pi",
            Self::UBoot => "U-Boot",
        }
    }

    fn files(self) -> &'static [&'static str] {
        match self {
            Self::SystemdBoot => {
                &["/boot/loader/loader.conf", "/boot/efi/loader/loader.conf", "/efi/loader/loader.conf"]
            }
            Self::Extlinux => &["/boot/extlinux/extlinux.conf"],
            Self::RaspberryPi => &["/boot/firmware/cmdline.txt", "/boot/cmdline.txt"],
            Self::UBoot => &["/boot/armbianEnv.txt", "/boot/uEnv.txt", "/boot/boot.cmd"],
        }
    }
}

/// A loader and the files that tell of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sign {
    /// Which.
    pub loader: OtherLoader,
    /// Those of its files that are there.
    pub files: Vec<PathBuf>,
    /// The first of them has a second line with text: some loaders read the first one only.
    pub has_second_line: bool,
}

/// [`LOADER_INFO`], if there is such a variable.
#[must_use]
pub fn loader_info(fs: &dyn Fs) -> Option<String> {
    Some(firmware::decoded(&fs.read(Path::new(LOADER_INFO)).ok()?))
}

/// The loaders whose files are there, the likelier one first.
#[must_use]
pub fn signs(fs: &dyn Fs, loader_info: Option<&str>) -> Vec<Sign> {
    let all = [OtherLoader::SystemdBoot, OtherLoader::Extlinux, OtherLoader::RaspberryPi, OtherLoader::UBoot];
    all.into_iter().filter_map(|loader| sign(fs, loader, loader_info)).collect()
}

fn sign(fs: &dyn Fs, loader: OtherLoader, loader_info: Option<&str>) -> Option<Sign> {
    let files: Vec<PathBuf> =
        loader.files().iter().map(PathBuf::from).filter(|path| fs.exists(path)).collect();
    let told = loader_info.filter(|_| loader == OtherLoader::SystemdBoot);
    if !told.map_or(!files.is_empty(), |info| info.starts_with(loader.name())) {
        return None;
    }
    let text = files.first().and_then(|path| fs.read(path).ok()).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let has_second_line = text.lines().filter(|line| !line.trim().is_empty()).nth(1).is_some();
    Some(Sign { loader, files, has_second_line })
}
