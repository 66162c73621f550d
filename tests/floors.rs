//! Each module imports only from those below it: the map in `src/lib.rs`, checked.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

use std::path::{Path, PathBuf};

/// From the top. Modules of one floor do not know each other.
const FLOORS: [&[&str]; 9] = [
    &["main"],
    &["cli"],
    &["migration"],
    &["plan", "verify"],
    &["checks"],
    &["facts"],
    &["config"],
    &["node", "kubelet"],
    &["boot", "report", "host"],
];

fn floor(module: &str) -> Option<usize> {
    FLOORS.iter().position(|modules| modules.contains(&module))
}

/// Facts are judged elsewhere: they know no findings, though those are on a floor below.
fn is_allowed(importer: &str, imported: &str) -> bool {
    if (importer, imported) == ("facts", "report") {
        return false;
    }
    importer == imported || floor(importer) < floor(imported)
}

fn sources(directory: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { sources(&path) } else { vec![path] }).collect()
}

/// `src/facts/os.rs` is of `facts`.
fn module_of(source: &Path, root: &Path) -> String {
    let first = source.strip_prefix(root).unwrap().components().next().unwrap();
    Path::new(first.as_os_str()).file_stem().unwrap().to_str().unwrap().to_owned()
}

/// The modules that a text names: after `crate::`, alone or in braces. Comments may name what they like.
fn named(text: &str) -> Vec<String> {
    let code: Vec<&str> = text.lines().filter(|line| !line.trim_start().starts_with("//")).collect();
    let code = code.join(" ").replace("cgroup2_migrate::", "crate::");
    code.split("crate::").skip(1).flat_map(first_names).collect()
}

fn first_names(rest: &str) -> Vec<String> {
    let Some(group) = rest.strip_prefix('{') else { return vec![identifier(rest)] };
    let mut depth = 0_i32;
    let is_inside = |letter: &char| {
        depth += i32::from(*letter == '{') - i32::from(*letter == '}');
        depth >= 0
    };
    let group: String = group.chars().take_while(is_inside).collect();
    let mut depth = 0_i32;
    let split = group.split(|letter: char| {
        depth += i32::from(letter == '{') - i32::from(letter == '}');
        depth == 0 && letter == ','
    });
    split.map(|name| identifier(name.trim())).collect()
}

fn identifier(text: &str) -> String {
    text.chars().take_while(|letter| letter.is_alphanumeric() || *letter == '_').collect()
}

#[test]
fn the_reader_of_imports_sees_them_all() {
    let text =
        "// crate::cli\nuse crate::{checks, facts::{a, b},\n    plan};\nlet x = crate::host::sha256(b);\n";
    assert_eq!(named(text), ["checks", "facts", "plan", "host"]);
    assert!(is_allowed("cli", "host") && is_allowed("boot", "boot"));
    assert!(!is_allowed("facts", "checks") && !is_allowed("plan", "verify"));
    assert!(is_allowed("checks", "report") && !is_allowed("facts", "report"));
}

#[test]
fn every_module_has_its_floor_and_imports_only_from_below() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    for source in sources(&root).iter().filter(|path| path.extension().is_some_and(|ending| ending == "rs")) {
        let module = module_of(source, &root);
        if module == "lib" {
            continue;
        }
        assert!(floor(&module).is_some(), "{module} is on no floor");
        let text = std::fs::read_to_string(source).unwrap();
        for imported in named(&text).iter().filter(|name| floor(name).is_some()) {
            assert!(is_allowed(&module, imported), "{}: {module} imports {imported}", source.display());
        }
    }
}
