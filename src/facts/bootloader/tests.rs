use super::*;
use crate::boot::grub::menu::{NextBoot, next_boot};
use crate::host::{Expect, RootedFs};

const REAL: &str = "menuentry 'Linux' {\n linux /vmlinuz root=UUID=dd ro\n}\n";
const STUB: &str =
    "search.fs_uuid dd root hd0,gpt2\nset prefix=($root)'/boot/grub'\nconfigfile $prefix/grub.cfg\n";

fn tree(files: &[(&str, &str)]) -> (tempfile::TempDir, RootedFs) {
    let root = tempfile::tempdir().unwrap();
    let fs = RootedFs::new(root.path());
    for (path, text) in files {
        let path = Path::new(path);
        fs.create_directory(path.parent().unwrap(), 0o755).unwrap();
        fs.replace(path, text.as_bytes(), &Expect::Anything, None).unwrap();
    }
    (root, fs)
}

fn located(files: &[(&str, &str)]) -> Option<Located> {
    let (_root, fs) = tree(files);
    locate(&fs).unwrap()
}

#[test]
fn case_037_the_stub_is_left_alone() {
    let esp = "/boot/efi/EFI/ubuntu/grub.cfg";
    let found = located(&[(esp, STUB), ("/boot/grub/grub.cfg", REAL), ("/sys/firmware/efi/x", "")]).unwrap();
    assert_eq!(found.grub_cfg, Path::new("/boot/grub/grub.cfg"));
    assert_eq!((found.grubenv.as_path(), found.prefix), (Path::new("/boot/grub/grubenv"), ToolPrefix::Grub));
    assert_eq!(found.stubs.len(), 1);
    assert_eq!(
        (found.stubs[0].0.as_path(), found.stubs[0].1.target.as_str()),
        (Path::new(esp), "/boot/grub/grub.cfg")
    );
    assert!(found.others.is_empty());
}

#[test]
fn case_037_a_menu_on_the_esp_is_the_one_efi_reads() {
    let esp = Path::new("/boot/efi/EFI/centos/grub.cfg");
    let below_boot = Path::new("/boot/grub2/grub.cfg");
    let files = [(esp.to_str().unwrap(), REAL), (below_boot.to_str().unwrap(), REAL)];
    let bios = located(&files).unwrap();
    assert_eq!((bios.grub_cfg.as_path(), bios.others.as_slice()), (below_boot, &[esp.to_owned()][..]));
    let efi = located(&[&files[..], &[("/sys/firmware/efi/x", "")]].concat()).unwrap();
    assert_eq!((efi.grub_cfg.as_path(), efi.others.as_slice()), (esp, &[below_boot.to_owned()][..]));
    assert_eq!((efi.prefix, efi.build()), (ToolPrefix::Grub2, Build::Unknown));
    assert_eq!(located(&files[..1]).unwrap().grub_cfg, esp);
}

#[test]
fn another_systems_menu_on_the_esp_is_not_ours() {
    let files = [
        ("/boot/efi/EFI/debian/grub.cfg", STUB),
        ("/boot/efi/EFI/centos/grub.cfg", REAL),
        ("/boot/grub/grub.cfg", REAL),
        ("/sys/firmware/efi/x", ""),
    ];
    let (root, fs) = tree(&files);
    let found = locate(&fs).unwrap().unwrap();
    assert_eq!(found.grub_cfg, Path::new("/boot/grub/grub.cfg"));
    assert_eq!(found.others, [Path::new("/boot/efi/EFI/centos/grub.cfg")]);
    std::fs::create_dir(root.path().join("etc")).unwrap();
    std::os::unix::fs::symlink("../boot/efi/EFI/centos/grub.cfg", root.path().join("etc/grub2-efi.cfg"))
        .unwrap();
    assert_eq!(locate(&fs).unwrap().unwrap().grub_cfg, Path::new("/boot/efi/EFI/centos/grub.cfg"));
}

#[test]
fn no_menu_is_an_answer() {
    assert_eq!(located(&[]), None);
    assert_eq!(located(&[("/boot/efi/EFI/debian/grub.cfg", STUB)]), None);
}

#[test]
fn the_menu_comes_with_what_lies_beside_it() {
    let env = format!("# GRUB Environment Block\nnext_entry=trial\n{}", "#".repeat(982));
    let menu = format!("load_env\nset default=\"${{next_entry}}\"\n{REAL}source $prefix/custom.cfg\n");
    let custom = "menuentry T --id trial { linux /vmlinuz trial }";
    let (_root, fs) = tree(&[
        ("/boot/grub/grub.cfg", &menu),
        ("/boot/grub/grubenv", &env),
        ("/boot/grub/custom.cfg", custom),
    ]);
    let found = locate(&fs).unwrap().unwrap();
    let (menu, beside) = read_menu(&fs, &found).unwrap();
    assert_eq!(beside.env.get("next_entry"), Some("trial"));
    let NextBoot::Entry(entry) = next_boot(&menu, &beside.env) else { panic!() };
    assert_eq!(entry.linux.unwrap().arguments, "trial");
}
