//! Generated `grub.cfg` files and the entry GRUB boots from them.
//!
//! `fixtures/grub-menu/` holds what Debian's `grub-mkconfig` wrote (bookworm 2.06, trixie 2.12, forky 2.14;
//! with a stub for `grub-probe`), `ubuntu-switches` with the switches Ubuntu builds with, `german` with
//! translated titles. Each was also booted by real GRUBs (2.06, 2.12 and 2.14, under QEMU; `linux` made to echo its
//! line, `search`, `insmod` and the timeout taken out), and went where `booted.json` says. `fixtures/grub-defaults-measured.json` holds what real GRUBs booted.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]

use std::path::{Path, PathBuf};

use cgroup2_migrate::boot::grub::env::GrubEnv;
use cgroup2_migrate::boot::grub::menu::{Menu, NextBoot, NextEntry, next_boot};
use serde_json::Value;

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures")
}

fn json(path: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

fn menu_of(folder: &Path) -> Menu {
    let text = std::fs::read_to_string(folder.join("grub.cfg")).unwrap();
    let mut menu = Menu::parse(&text).unwrap();
    for name in menu.files_read_in() {
        menu = menu.beside(&name, std::fs::read_to_string(folder.join(&name)).ok().as_deref());
    }
    menu
}

fn strings(value: &Value) -> Vec<&str> {
    value.as_array().map(|all| all.iter().map(|one| one.as_str().unwrap()).collect()).unwrap_or_default()
}

fn assert_entry(entry: &NextEntry, expected: &Value, name: &str) {
    let linux = entry.linux.as_ref().unwrap();
    assert_eq!(entry.path, strings(&expected["path"]), "{name}");
    assert_eq!(entry.id, expected["id"], "{name}");
    assert_eq!(linux.kernel, expected["kernel"], "{name}");
    assert_eq!(linux.arguments, expected["arguments"], "{name}");
    assert_eq!(linux.unknown_variables, strings(&expected["unknown_variables"]), "{name}");
    assert_eq!(entry.chosen_by.to_string(), expected["chosen_by"], "{name}");
    assert_eq!(entry.fell_back, expected["fell_back"], "{name}");
    assert!(!entry.waits_for_key && !entry.asks_password, "{name}");
}

#[test]
fn every_generated_menu_gives_the_entry_that_boots() {
    let mut seen = 0;
    for folder in std::fs::read_dir(fixtures().join("grub-menu")).unwrap() {
        let folder = folder.unwrap().path();
        let name = folder.display().to_string();
        let expected = json(&folder.join("booted.json"));
        let menu = menu_of(&folder);
        let env = GrubEnv::read(std::fs::read(folder.join("grubenv")).ok().as_deref());
        assert_eq!(menu.all_linux_entries().len(), expected["linux_entries"], "{name}");
        match next_boot(&menu, &env) {
            NextBoot::Entry(entry) => assert_entry(&entry, &expected, &name),
            NextBoot::Undetermined { why } => {
                let wanted = expected["undetermined"].as_str().unwrap_or_else(|| panic!("{name}: {why}"));
                assert!(why.contains(wanted), "{name}: {why}");
            }
        }
        seen += 1;
    }
    assert!(seen >= 15, "only {seen} folders");
}

#[test]
fn defaults_lead_where_real_grubs_went() {
    let table = json(&fixtures().join("grub-defaults-measured.json"));
    for row in table["booted"].as_array().unwrap() {
        let default = row["default"].as_str().unwrap();
        let text = format!(
            "set timeout=0\nset default='{}'\n{}",
            default.replace('\'', r"'\''"),
            table["menu"].as_str().unwrap()
        );
        let NextBoot::Entry(entry) = next_boot(&Menu::parse(&text).unwrap(), &GrubEnv::Missing) else {
            panic!("{default}");
        };
        // Two entries have the title `Zero`; the second one said so.
        let expected = strings(&row["entry"]);
        match expected.as_slice() {
            ["second Zero"] => assert_eq!(entry.id, "zero-again", "{default}"),
            expected => assert_eq!(entry.path, expected, "{default}"),
        }
    }
}
