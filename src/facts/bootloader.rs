//! Where GRUB keeps its menu and its environment block.

use std::path::{Path, PathBuf};

use crate::boot::grub::env::GrubEnv;
use crate::boot::grub::menu::{Build, Menu, MenuError, Stub, is_stub};
use crate::host::{Fs, FsError, Runner};

/// How the tools of this GRUB are called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ToolPrefix {
    /// `grub-mkconfig`: Debian, Ubuntu, Arch.
    Grub,
    /// `grub2-mkconfig`: Red Hat and SUSE.
    Grub2,
}

impl ToolPrefix {
    /// Name of a tool: `mkconfig` is `grub-mkconfig` or `grub2-mkconfig`.
    #[must_use]
    pub fn tool(self, name: &str) -> String {
        match self {
            Self::Grub => format!("grub-{name}"),
            Self::Grub2 => format!("grub2-{name}"),
        }
    }
}

/// The menu GRUB reads, and its relatives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Located {
    /// The file with the entries: what a generator has to write.
    pub grub_cfg: PathBuf,
    /// The environment block in the same directory, whether it is there or not.
    pub grubenv: PathBuf,
    /// How its tools are called.
    pub prefix: ToolPrefix,
    /// Files on the EFI system partition that only lead to the menu. They must stay as they are.
    pub stubs: Vec<(PathBuf, Stub)>,
    /// Other files with entries of their own: of the other firmware, of another system, or left over.
    pub others: Vec<PathBuf>,
}

impl Located {
    /// Whose GRUB it is, as far as its place tells: SUSE's directory is called like Red Hat's, and only Red
    /// Hat's has rules of its own.
    #[must_use]
    pub fn build(&self) -> Build {
        build(&self.grub_cfg)
    }
}

/// How the tools are called that belong to a menu at this place.
#[must_use]
pub fn tool_prefix(grub_cfg: &Path) -> ToolPrefix {
    if grub_cfg.starts_with("/boot/grub") { ToolPrefix::Grub } else { ToolPrefix::Grub2 }
}

/// The name of a tool (`mkconfig`) as it is installed here. Which name it has is a matter of the distribution, and
/// the place of the menu only a hint.
///
/// # Errors
/// The names that were looked for, the likelier one first.
pub fn find_tool(runner: &dyn Runner, grub_cfg: &Path, name: &str) -> Result<String, [String; 2]> {
    let order = match tool_prefix(grub_cfg) {
        ToolPrefix::Grub => [ToolPrefix::Grub, ToolPrefix::Grub2],
        ToolPrefix::Grub2 => [ToolPrefix::Grub2, ToolPrefix::Grub],
    };
    let names = order.map(|prefix| prefix.tool(name));
    names.iter().find(|tool| runner.find(tool).is_some()).cloned().ok_or(names)
}

/// Tools that generate and check this menu and are not installed, as texts that name what was looked for.
#[must_use]
pub fn missing_tools(runner: &dyn Runner, grub_cfg: &Path) -> Vec<String> {
    let missing = ["mkconfig", "script-check"].map(|name| find_tool(runner, grub_cfg, name).err());
    missing.into_iter().flatten().map(|names| names.join(" or ")).collect()
}

/// As [`Located::build`].
#[must_use]
pub fn build(grub_cfg: &Path) -> Build {
    match tool_prefix(grub_cfg) {
        ToolPrefix::Grub => Build::Upstream,
        ToolPrefix::Grub2 => Build::Unknown,
    }
}

const BELOW_BOOT: [&str; 2] = ["/boot/grub/grub.cfg", "/boot/grub2/grub.cfg"];
const VENDORS: [&str; 2] = ["/boot/efi/EFI", "/efi/EFI"];

/// Finds the menu; `None` if there is none.
///
/// # Errors
/// [`FsError`] if a directory or file is there and cannot be read.
pub fn locate(fs: &dyn Fs) -> Result<Option<Located>, FsError> {
    let on_esp = esp_files(fs)?;
    let (mut real, mut stubs) = (Vec::new(), Vec::new());
    for path in on_esp {
        match is_stub(&text(fs, &path)?) {
            Some(stub) => stubs.push((path, stub)),
            None => real.push(path),
        }
    }
    let mut menus = below_boot(fs)?;
    let place = if esp_comes_first(fs, &real, &stubs) { 0 } else { menus.len() };
    menus.splice(place..place, real);
    if menus.is_empty() {
        return Ok(None);
    }
    let grub_cfg = menus.remove(0);
    let (grubenv, prefix) = (grub_cfg.with_file_name("grubenv"), tool_prefix(&grub_cfg));
    Ok(Some(Located { grub_cfg, grubenv, prefix, stubs, others: menus }))
}

/// EL7 and EL8 on EFI keep the menu on the ESP, and `/etc/grub2-efi.cfg` leads to it. Without that link a stub
/// beside it tells that the menu on the ESP is another system's, or left over; with BIOS it is never read.
fn esp_comes_first(fs: &dyn Fs, real: &[PathBuf], stubs: &[(PathBuf, Stub)]) -> bool {
    let linked = fs.resolve(Path::new("/etc/grub2-efi.cfg")).is_ok_and(|target| real.contains(&target));
    fs.exists(Path::new("/sys/firmware/efi")) && (linked || stubs.is_empty())
}

/// A menu below `/boot` that is a stub itself (EL9's on the ESP are; so are some images') is none.
fn below_boot(fs: &dyn Fs) -> Result<Vec<PathBuf>, FsError> {
    let mut found = Vec::new();
    for path in BELOW_BOOT.map(PathBuf::from) {
        if fs.exists(&path) && is_stub(&text(fs, &path)?).is_none() {
            found.push(path);
        }
    }
    Ok(found)
}

fn esp_files(fs: &dyn Fs) -> Result<Vec<PathBuf>, FsError> {
    let mut found = Vec::new();
    for directory in VENDORS.map(Path::new) {
        for vendor in fs.list(directory)? {
            let path = directory.join(vendor).join("grub.cfg");
            if fs.exists(&path) {
                found.push(path);
            }
        }
    }
    Ok(found)
}

fn text(fs: &dyn Fs, path: &Path) -> Result<String, FsError> {
    Ok(String::from_utf8_lossy(&fs.read(path)?).into_owned())
}

/// What lies beside the menu and has a say in what boots.
#[derive(Debug, Clone)]
pub struct Beside {
    /// The environment block.
    pub env: GrubEnv,
    /// Files the menu may read in, by name, with their text, or `None` if absent.
    pub files: Vec<(String, Option<String>)>,
}

/// The menu's text could not be had or understood.
#[derive(Debug, thiserror::Error)]
pub enum ReadMenuError {
    /// It could not be read.
    #[error(transparent)]
    Fs(#[from] FsError),
    /// It is no GRUB script.
    #[error(transparent)]
    Menu(#[from] MenuError),
}

/// Reads the environment block and the files that this menu may read in.
///
/// # Errors
/// [`FsError`] if a file is there and cannot be read.
pub fn beside(fs: &dyn Fs, grub_cfg: &Path, menu: &Menu) -> Result<Beside, FsError> {
    let optional = |path: &Path| fs.exists(path).then(|| fs.read(path)).transpose();
    let env = GrubEnv::read(optional(&grub_cfg.with_file_name("grubenv"))?.as_deref());
    let mut files = Vec::new();
    for name in menu.files_read_in() {
        let bytes = optional(&grub_cfg.with_file_name(&name))?;
        files.push((name, bytes.map(|bytes| String::from_utf8_lossy(&bytes).into_owned())));
    }
    Ok(Beside { env, files })
}

/// The menu as it is on the host, with all that lies beside it, ready for
/// [`next_boot`](crate::boot::grub::menu::next_boot).
///
/// # Errors
/// [`ReadMenuError`].
pub fn read_menu(fs: &dyn Fs, located: &Located) -> Result<(Menu, Beside), ReadMenuError> {
    let menu = Menu::parse(&text(fs, &located.grub_cfg)?)?.built_by(located.build());
    let beside = beside(fs, &located.grub_cfg, &menu)?;
    let add = |menu: Menu, (name, text): &(String, Option<String>)| menu.beside(name, text.as_deref());
    Ok((beside.files.iter().fold(menu, add), beside))
}

pub mod files;
pub mod others;
#[cfg(test)]
mod tests;
