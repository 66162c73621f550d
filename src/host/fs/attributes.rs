//! Mode, owner and extended attributes of one open file.
//!
//! What a file has already is never set again. That is what makes file systems work that keep none of it:
//! on vfat the owner and mode of every file are those of the mount, and under SELinux it shows a
//! `security.selinux` that cannot be set; a new file beside the old one has the same of each by itself.

use std::collections::BTreeMap;
use std::fs::{File, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt, fchown};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use nix::errno::Errno;
use nix::sys::statfs::{FsType, MSDOS_SUPER_MAGIC, fstatfs};
use xattr::FileExt as _;

use crate::host::Attributes;

const PERMISSION_BITS: u32 = 0o7777;
const EXFAT_SUPER_MAGIC: FsType = FsType(0x2011_bab0);
const ACCESS_ACL: &str = "system.posix_acl_access";

/// Checksums that the kernel keeps of content and inode. Copied to another content they would make the file
/// unreadable where IMA appraises; the kernel makes new ones by itself.
const BOUND_TO_THE_INODE: [&str; 2] = ["security.ima", "security.evm"];

/// What a new file of ours is given. As root, which is how the program writes to a host, it is root's.
pub(super) fn of_a_new_file() -> Attributes {
    Attributes {
        mode: 0o644,
        uid: nix::unistd::geteuid().as_raw(),
        gid: nix::unistd::getegid().as_raw(),
        xattrs: BTreeMap::new(),
    }
}

/// The attributes that `file` has.
pub(super) fn read(file: &File) -> io::Result<Attributes> {
    let metadata = file.metadata()?;
    Ok(Attributes {
        mode: metadata.mode() & PERMISSION_BITS,
        uid: metadata.uid(),
        gid: metadata.gid(),
        xattrs: read_xattrs(file)?,
    })
}

fn read_xattrs(file: &File) -> io::Result<BTreeMap<String, String>> {
    let names = match file.list_xattr() {
        Ok(names) => names,
        Err(error) if is_unsupported(&error) => return Ok(BTreeMap::new()),
        Err(error) => return Err(error),
    };
    let mut xattrs = BTreeMap::new();
    for name in names {
        // `None`: listed and gone in between.
        if let Some(value) = file.get_xattr(&name)? {
            let name = name.into_string().map_err(|name| not_utf8(&name))?;
            xattrs.insert(name, BASE64.encode(value));
        }
    }
    Ok(xattrs)
}

fn not_utf8(name: &std::ffi::OsStr) -> io::Error {
    let text = format!("extended attribute {} is not named in UTF-8", name.display());
    io::Error::new(io::ErrorKind::InvalidData, text)
}

/// Gives `file` the attributes wanted. The content must be written before: writing clears capabilities and
/// set-user-ID bits.
pub(super) fn apply(file: &File, wanted: &Attributes) -> io::Result<()> {
    let found = read(file)?;
    // A default ACL of the directory came with the new file.
    if found.xattrs.contains_key(ACCESS_ACL) && !wanted.xattrs.contains_key(ACCESS_ACL) {
        file.remove_xattr(ACCESS_ACL)?;
    }
    if (found.uid, found.gid) != (wanted.uid, wanted.gid) {
        unless_from_mount_options(file, fchown(file, Some(wanted.uid), Some(wanted.gid)))?;
    }
    if read(file)?.mode != wanted.mode {
        unless_from_mount_options(file, file.set_permissions(Permissions::from_mode(wanted.mode)))?;
    }
    set_xattrs(file, wanted, &found)
}

fn set_xattrs(file: &File, wanted: &Attributes, found: &Attributes) -> io::Result<()> {
    for (name, value) in &wanted.xattrs {
        if found.xattrs.get(name) == Some(value) || BOUND_TO_THE_INODE.contains(&name.as_str()) {
            continue;
        }
        let value = BASE64.decode(value).map_err(|error| {
            io::Error::new(io::ErrorKind::InvalidData, format!("value of extended attribute {name}: {error}"))
        })?;
        file.set_xattr(name, &value)
            .map_err(|error| io::Error::new(error.kind(), format!("extended attribute {name}: {error}")))?;
    }
    Ok(())
}

/// On vfat and exfat owner and mode are those of the mount: that they cannot be set there is no failure.
fn unless_from_mount_options(file: &File, result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if (is_eperm(&error) || is_unsupported(&error)) && has_owner_of_mount(file) => Ok(()),
        other => other,
    }
}

fn has_owner_of_mount(file: &File) -> bool {
    fstatfs(file)
        .is_ok_and(|statfs| [MSDOS_SUPER_MAGIC, EXFAT_SUPER_MAGIC].contains(&statfs.filesystem_type()))
}

pub(super) fn is_eperm(error: &io::Error) -> bool {
    error.raw_os_error() == Some(Errno::EPERM as i32)
}

fn is_unsupported(error: &io::Error) -> bool {
    error.raw_os_error() == Some(Errno::EOPNOTSUPP as i32)
}
