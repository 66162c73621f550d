// The oracle is a program; the rule about `Command::new` is for what runs on hosts.
#![allow(clippy::disallowed_methods)]

use std::process::Command;

use proptest::prelude::*;

use super::*;

fn fresh() -> EnvBlock {
    let mut bytes = SIGNATURE.as_bytes().to_vec();
    bytes.resize(USUAL_SIZE, b'#');
    EnvBlock::parse(&bytes).unwrap()
}

#[test]
fn each_state_of_the_file_has_its_own_answer() {
    assert_eq!(GrubEnv::read(None), GrubEnv::Missing);
    assert_eq!(GrubEnv::read(Some(b"")), GrubEnv::Empty);
    assert_eq!(GrubEnv::read(Some(b"saved_entry=1\n")), GrubEnv::Broken(EnvError::NoSignature));
    let torn = GrubEnv::read(Some(b"# GRUB Environment Block\na=1\nb=2"));
    assert_eq!(torn, GrubEnv::Broken(EnvError::Torn { offset: 29 }));
    let zeroes = [SIGNATURE.as_bytes(), &[0; 200]].concat();
    assert!(matches!(GrubEnv::read(Some(&zeroes)), GrubEnv::Broken(EnvError::Torn { .. })));
    assert_eq!(torn.get("a"), None);
}

#[test]
fn comments_and_order_stay() {
    let text = format!("{SIGNATURE}# WARNING: Do not edit\nb=1\na=x\\\\y\\\nz\n{}", "#".repeat(60));
    let block = EnvBlock::parse(text.as_bytes()).unwrap();
    assert_eq!((block.get("a"), block.get("b")), (Some("x\\y\nz"), Some("1")));
    assert_eq!(block.bytes(), text.as_bytes());
    assert!(block.note().unwrap().contains("instead of 1024"));
    let changed = String::from_utf8(block.with("b", "22").unwrap().bytes()).unwrap();
    assert!(changed.contains("edit\nb=22\na=x") && changed.len() == text.len());
    assert_eq!(block.with("c", "3").unwrap().without("c").bytes(), text.as_bytes());
}

#[test]
fn a_full_block_and_a_bad_name_are_refused() {
    let full = fresh().with("a", &"x".repeat(USUAL_SIZE - SIGNATURE.len() - 3)).unwrap();
    assert_eq!(full.bytes().len(), USUAL_SIZE);
    assert!(matches!(full.with("a", &"x".repeat(USUAL_SIZE)), Err(EnvError::NoRoom { missing: 28, .. })));
    assert!(matches!(fresh().with("a=b", "1"), Err(EnvError::BadName { .. })));
}

/// grub-editenv is GRUB's own code; where it is not installed there is nothing to compare with.
#[test]
fn grub_editenv_reads_and_writes_the_same_bytes() {
    let tool = std::env::var("GRUB_EDITENV").unwrap_or_else(|_| "grub-editenv".to_owned());
    let file = tempfile::NamedTempFile::new().unwrap();
    let run = |arguments: &[&str]| Command::new(&tool).arg(file.path()).args(arguments).output();
    if run(&["create"]).is_err() {
        return;
    }
    let mut block = EnvBlock::parse(&std::fs::read(file.path()).unwrap()).unwrap();
    for (name, value) in
        [("saved_entry", "a>b c"), ("next_entry", r"back\slash"), ("saved_entry", "0"), ("x", "ü")]
    {
        run(&["set", &format!("{name}={value}")]).unwrap();
        block = block.with(name, value).unwrap();
        assert_eq!(std::fs::read(file.path()).unwrap(), block.bytes(), "{name}={value}");
    }
    run(&["unset", "next_entry"]).unwrap();
    assert_eq!(std::fs::read(file.path()).unwrap(), block.without("next_entry").bytes());
    std::fs::write(file.path(), block.with("y", "1").unwrap().bytes()).unwrap();
    let listed = String::from_utf8(run(&["list"]).unwrap().stdout).unwrap();
    assert!(listed.contains("y=1\n") && listed.contains("saved_entry=0\n"), "{listed}");
}

proptest! {
    #[test]
    fn what_is_set_is_read_back(name in "[a-z_]{1,9}", value in "\\PC{0,80}", bytes in any::<Vec<u8>>()) {
        let block = fresh().with(&name, &value).unwrap();
        let again = EnvBlock::parse(&block.bytes()).unwrap();
        prop_assert_eq!(again.get(&name), Some(value.as_str()));
        prop_assert_eq!(block.bytes().len(), USUAL_SIZE);
        let _ = GrubEnv::read(Some(&bytes));
    }
}
