use std::collections::BTreeMap;
use std::io::Write as _;
use std::os::unix::fs::symlink;

use super::*;
use crate::host::sha256;

struct Tree {
    directory: tempfile::TempDir,
    fs: RootedFs,
}

fn tree() -> Tree {
    let directory = tempfile::tempdir().unwrap();
    let fs = RootedFs::guarded(directory.path().to_owned(), true);
    Tree { directory, fs }
}

impl Tree {
    fn disk(&self, path: &str) -> PathBuf {
        self.directory.path().join(path.trim_start_matches('/'))
    }

    fn put(&self, path: &str, text: &str) {
        self.fs.replace(Path::new(path), text.as_bytes(), &Expect::Anything, None).unwrap();
    }

    fn replace(&self, path: &str, text: &str, expect: &Expect) -> Result<(), FsError> {
        self.fs.replace(Path::new(path), text.as_bytes(), expect, None)
    }

    fn text(&self, path: &str) -> String {
        std::fs::read_to_string(self.disk(path)).unwrap()
    }

    fn names(&self) -> Vec<String> {
        self.fs.list(Path::new("/")).unwrap()
    }

    fn snapshot(&self, path: &str) -> Snapshot {
        self.fs.snapshot(Path::new(path)).unwrap().unwrap()
    }
}

fn hash(text: &str) -> Expect {
    Expect::Sha256(sha256(text.as_bytes()))
}

fn source_text(error: &FsError) -> String {
    std::error::Error::source(error).unwrap().to_string()
}

#[test]
fn a_new_file_is_0644_and_nothing_else_is_left() {
    let tree = tree();
    tree.replace("/grub", "one", &Expect::Absent).unwrap();
    assert_eq!(tree.text("/grub"), "one");
    assert_eq!(tree.snapshot("/grub").attributes.mode, 0o644);
    assert_eq!(tree.names(), ["grub"]);
}

#[test]
fn mode_and_owner_stay() {
    let tree = tree();
    tree.put("/grub", "one");
    std::fs::set_permissions(tree.disk("/grub"), std::fs::Permissions::from_mode(0o640)).unwrap();
    if nix::unistd::geteuid().is_root() {
        std::os::unix::fs::chown(tree.disk("/grub"), Some(12), Some(34)).unwrap();
    } else {
        println!("SKIP: changing the owner needs root");
    }
    let before = tree.snapshot("/grub").attributes;
    tree.replace("/grub", "two", &hash("one")).unwrap();
    assert_eq!(tree.snapshot("/grub").attributes, before);
    assert_eq!(before.mode, 0o640);
}

#[test]
fn given_attributes_win() {
    let tree = tree();
    tree.put("/grub", "one");
    let wanted = Attributes { mode: 0o4700, ..tree.snapshot("/grub").attributes };
    tree.fs.replace(Path::new("/grub"), b"two", &Expect::Anything, Some(&wanted)).unwrap();
    assert_eq!(tree.snapshot("/grub").attributes, wanted);
}

#[test]
fn extended_attributes_stay() {
    let tree = tree();
    tree.put("/grub", "one");
    if let Err(error) = xattr::set(tree.disk("/grub"), "user.note", b"\x00\xff") {
        println!("SKIP: no user attributes here: {error}");
        return;
    }
    let before = tree.snapshot("/grub").attributes;
    assert_eq!(before.xattrs, BTreeMap::from([("user.note".to_owned(), "AP8=".to_owned())]));
    tree.replace("/grub", "two", &hash("one")).unwrap();
    assert_eq!(tree.snapshot("/grub").attributes, before);
}

/// `user::rwx, user:12:rwx, group::r--, mask::rwx, other::---` as the kernel stores it.
const ACL: &[u8] = b"\x02\0\0\0\x01\0\x07\0\xff\xff\xff\xff\x02\0\x07\0\x0c\0\0\0\x04\0\x04\0\xff\xff\xff\xff\x10\0\x07\0\xff\xff\xff\xff\x20\0\0\0\xff\xff\xff\xff";

#[test]
fn an_acl_stays_and_one_of_the_directory_does_not_come_in() {
    let tree = tree();
    tree.put("/plain", "one");
    tree.put("/shared", "one");
    let set = |path, name| xattr::set(tree.disk(path), name, ACL);
    if let Err(error) = set("/shared", "system.posix_acl_access") {
        println!("SKIP: no ACLs here: {error}");
        return;
    }
    set("/", "system.posix_acl_default").unwrap();
    for path in ["/plain", "/shared"] {
        let before = tree.snapshot(path).attributes;
        tree.put(path, "two");
        assert_eq!(tree.snapshot(path).attributes, before, "{path}");
    }
    tree.put("/new", "one");
    let new = tree.snapshot("/new").attributes;
    assert_eq!((new.mode, new.xattrs.len()), (0o644, 0));
}

#[test]
fn a_link_stays_a_link() {
    let tree = tree();
    std::fs::create_dir(tree.disk("/real")).unwrap();
    tree.put("/real/grub.cfg", "one");
    symlink("/real/grub.cfg", tree.disk("/grub.cfg")).unwrap();
    let before = tree.snapshot("/grub.cfg");
    assert_eq!(before.link_target.as_deref(), Some(Path::new("/real/grub.cfg")));
    tree.replace("/grub.cfg", "two", &hash("one")).unwrap();
    assert_eq!(tree.text("/real/grub.cfg"), "two");
    assert_eq!(tree.snapshot("/grub.cfg").link_target, before.link_target);
    assert_eq!(tree.fs.resolve(Path::new("/grub.cfg")).unwrap(), Path::new("/real/grub.cfg"));
}

#[test]
fn a_link_to_nothing_is_refused() {
    let tree = tree();
    symlink("/efi/grubenv", tree.disk("/grubenv")).unwrap();
    let error = tree.replace("/grubenv", "x", &Expect::Absent).unwrap_err();
    assert_eq!(source_text(&error), "a symbolic link to nothing");
    assert_eq!(tree.fs.snapshot(Path::new("/grubenv")).unwrap(), None);
    assert!(tree.fs.remove(Path::new("/grubenv"), &Expect::Anything).is_err());
}

#[test]
fn what_changed_since_is_not_touched() {
    let tree = tree();
    tree.put("/grub", "theirs");
    let error = tree.replace("/grub", "ours", &hash("planned")).unwrap_err();
    assert!(
        matches!(&error, FsError::Changed { found, .. } if *found == format!("sha256:{}", sha256(b"theirs")))
    );
    let error = tree.replace("/grub", "ours", &Expect::Absent).unwrap_err();
    assert!(matches!(&error, FsError::Changed { expected, .. } if expected == "absent"));
    assert!(error.to_string().contains("someone else made it"), "{error}");
    let error = tree.replace("/gone", "ours", &hash("planned")).unwrap_err();
    assert!(matches!(&error, FsError::Changed { found, .. } if found == "absent"));
    assert!(error.to_string().contains("it was deleted"), "{error}");
    assert!(tree.fs.remove(Path::new("/grub"), &hash("planned")).is_err());
    assert_eq!((tree.text("/grub").as_str(), tree.names()), ("theirs", vec!["grub".to_owned()]));
}

#[test]
fn a_change_at_the_last_moment_is_seen() {
    let tree = tree();
    tree.put("/grub", "planned");
    let path = Path::new("/grub");
    let target = tree.fs.target("replace", path).unwrap();
    let temporary = target.prepare(b"ours", None).unwrap();
    std::fs::remove_file(tree.disk("/grub")).unwrap();
    assert!(target.check(&hash("planned")).is_err());
    // Another writer comes between the check and the rename.
    std::fs::File::create(tree.disk("/grub")).unwrap().write_all(b"theirs").unwrap();
    let error = target.rename(temporary, &Expect::Absent).unwrap_err();
    assert!(matches!(error, FsError::Changed { .. }), "{error}");
    assert_eq!((tree.text("/grub").as_str(), tree.names()), ("theirs", vec!["grub".to_owned()]));
}

#[test]
fn leftovers_of_a_crash_go_and_others_stay() {
    let tree = tree();
    tree.put("/grub", "one");
    let others =
        [".grub.cgroup2-migrate-abc", ".grub.cgroup2-migrate-abc12-", ".grub2.cgroup2-migrate-abc123"];
    for name in others.iter().chain(&[".grub.cgroup2-migrate-aB3dE6"]) {
        std::fs::File::create(tree.disk(name)).unwrap();
    }
    tree.put("/grub", "two");
    assert_eq!(tree.names().len(), 1 + others.len());
    assert!(!tree.disk(".grub.cgroup2-migrate-aB3dE6").exists());
}

#[test]
fn only_a_plain_file_with_one_name_is_replaced() {
    let tree = tree();
    std::fs::create_dir(tree.disk("/directory")).unwrap();
    nix::unistd::mkfifo(&tree.disk("/fifo"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    tree.put("/one", "x");
    std::fs::hard_link(tree.disk("/one"), tree.disk("/two")).unwrap();
    for path in ["/directory", "/fifo", "/one"] {
        let error = tree.replace(path, "ours", &Expect::Anything).unwrap_err();
        assert!(matches!(error, FsError::Io { action: "replace", .. }), "{path}: {error}");
    }
    for path in ["/directory", "/fifo"] {
        assert_eq!(source_text(&tree.fs.read(Path::new(path)).unwrap_err()), "not a regular file");
    }
    assert_eq!(tree.snapshot("/one").hard_links, 2);
}

#[test]
fn a_missing_directory_is_an_error_and_a_missing_file_is_none() {
    let tree = tree();
    let error = tree.replace("/no/grub", "x", &Expect::Absent).unwrap_err();
    assert!(error.is_not_found(), "{error}");
    assert_eq!(tree.fs.snapshot(Path::new("/no/grub")).unwrap(), None);
    assert_eq!(tree.fs.list(Path::new("/no")).unwrap(), Vec::<String>::new());
    assert!(!tree.fs.exists(Path::new("/no")));
}

#[test]
fn removal_of_what_is_gone_depends_on_the_expectation() {
    let tree = tree();
    let path = Path::new("/grub");
    tree.put("/grub", "one");
    tree.fs.remove(path, &hash("one")).unwrap();
    assert!(!tree.fs.exists(path));
    tree.fs.remove(path, &Expect::Absent).unwrap();
    tree.fs.remove(path, &Expect::Anything).unwrap();
    assert!(tree.fs.remove(path, &hash("one")).is_err());
}

#[test]
fn directories_get_the_mode_asked_for() {
    let tree = tree();
    let path = Path::new("/var/lib/ours");
    tree.fs.create_directory(path, 0o700).unwrap();
    tree.fs.create_directory(path, 0o755).unwrap();
    let mode = std::fs::metadata(tree.disk("/var/lib/ours")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o700);
    tree.put("/var/lib/ours/file", "x");
    assert!(tree.fs.create_directory(Path::new("/var/lib/ours/file"), 0o700).is_err());
}

#[test]
fn space_and_sync_take_paths_that_are_not_there_yet() {
    let tree = tree();
    let path = Path::new("/var/lib/ours/journal.json");
    let space = tree.fs.space(path).unwrap();
    assert!(!space.read_only && space.available_bytes > 0);
    tree.fs.sync_file_system(path).unwrap();
}

#[test]
fn the_real_root_of_a_test_host_is_not_written() {
    for root in ["/", "/.", "/proc/self/root"] {
        let fs = RootedFs::guarded(root.into(), true);
        let path = Path::new("/nobody/writes/here");
        let results = [
            fs.replace(path, b"", &Expect::Anything, None),
            fs.remove(path, &Expect::Anything),
            fs.create_directory(path, 0o755),
            fs.sync_file_system(path),
            fs.lock(path).map(drop),
        ];
        for result in results {
            assert!(matches!(result, Err(FsError::TestHost { .. })), "{root}: {result:?}");
        }
    }
}

#[test]
fn only_an_empty_directory_is_removed() {
    let tree = tempfile::tempdir().unwrap();
    let fs = RootedFs::new(tree.path());
    let directory = Path::new("/made");
    fs.create_directory(directory, 0o755).unwrap();
    fs.replace(Path::new("/made/file"), b"", &Expect::Absent, None).unwrap();
    fs.remove_directory(directory).unwrap();
    assert!(fs.exists(directory));
    fs.remove(Path::new("/made/file"), &Expect::Anything).unwrap();
    fs.remove_directory(directory).unwrap();
    assert!(!fs.exists(directory));
    fs.remove_directory(directory).unwrap();
}
