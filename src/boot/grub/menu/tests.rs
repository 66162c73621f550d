//! Constructs the generated fixtures do not have, and the parser against arbitrary text.

use proptest::prelude::*;

use super::*;
use crate::boot::grub::env::GrubEnv;

fn env(variables: &[(&str, &str)]) -> GrubEnv {
    let mut text = "# GRUB Environment Block\n".to_owned();
    for (name, value) in variables {
        text.push_str(&format!("{name}={value}\n"));
    }
    text.push_str(&"#".repeat(1024 - text.len()));
    GrubEnv::read(Some(text.as_bytes()))
}

fn boots(menu: &Menu, env: &GrubEnv) -> NextEntry {
    match next_boot(menu, env) {
        NextBoot::Entry(entry) => *entry,
        NextBoot::Undetermined { why } => panic!("{why}"),
    }
}

fn parsed(text: &str) -> Menu {
    Menu::parse(text).unwrap()
}

fn undetermined(text: &str) -> String {
    match next_boot(&parsed(text), &GrubEnv::Missing) {
        NextBoot::Undetermined { why } => why,
        NextBoot::Entry(entry) => panic!("{entry:?}"),
    }
}

const TWO: &str = "menuentry 'A' --id a { linux /a ro }\nmenuentry 'B' --id b { linux /b ro }\n";

#[test]
fn case_037_the_stub_on_the_esp_is_told_from_a_menu() {
    let stub =
        "search.fs_uuid dd root hd0,gpt2\nset prefix=($root)'/boot/grub'\nconfigfile $prefix/grub.cfg\n";
    let found = is_stub(stub).unwrap();
    assert_eq!((found.target.as_str(), found.uuid.as_deref()), ("/boot/grub/grub.cfg", Some("dd")));
    let red_hat = "search --no-floppy --root-dev-only --fs-uuid --set=dev 55-66\nset prefix=($dev)/grub2\n\
                   export $prefix\nconfigfile $prefix/grub.cfg\n";
    let found = is_stub(red_hat).unwrap();
    assert_eq!((found.target.as_str(), found.uuid.as_deref()), ("/grub2/grub.cfg", Some("55-66")));
    assert_eq!(is_stub("menuentry 'Linux' {\n linux /vmlinuz root=UUID=dd ro\n}\n"), None);
    assert_eq!(is_stub("insmod blscfg\nblscfg\n"), None);
    assert_eq!(is_stub(""), None);
}

#[test]
fn the_initrd_of_the_entry_is_read() {
    let initrd = |entry: &str| {
        let text = format!("set timeout=1\nmenuentry A {{\n{entry}\n}}\n");
        boots(&parsed(&text), &GrubEnv::Missing).initrd
    };
    let files = |names: &[&str]| Some(names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>());
    assert_eq!(initrd("linux /k ro\ninitrd /ucode.img /i"), files(&["/ucode.img", "/i"]));
    assert_eq!(initrd("linux /k ro"), files(&[]));
    assert_eq!(initrd("linux /old\ninitrd /old\nlinux /k ro"), files(&[]));
    assert_eq!(initrd("linux /k\nif cmostest 1:2; then initrd /i; fi"), None);
}

#[test]
fn a_menu_with_a_custom_cfg_is_no_stub() {
    let generated = include_str!("../../../../tests/fixtures/grub-menu/bookworm-default/grub.cfg");
    assert_eq!(is_stub(generated), None);
    let none_left =
        generated.replace("menuentry ", "echo ").replace("submenu ", "echo ").replace(['{', '}'], "");
    assert_eq!(is_stub(&none_left), None);
}

#[test]
fn titles_keep_quotes_braces_and_letters() {
    let text = r#"menuentry 'It'\''s {här}' { linux /k a="b c" 'd"e' \x20 }
menuentry "say \"x\" \$y" --class os --unrestricted --id=two { linux16 /k2
 initrd /i }"#;
    let entries = parsed(text).all_linux_entries();
    assert_eq!(entries[0].path, ["It's {här}"]);
    assert_eq!(entries[0].lines[0].written, r#"a="b c" 'd"e' \x20"#);
    assert_eq!(entries[0].lines[0].arguments, r#""a=b c" d\"e x20"#);
    assert_eq!((entries[1].path[0].as_str(), entries[1].id.as_deref()), (r#"say "x" $y"#, Some("two")));
    assert_eq!(entries[1].lines[0].arguments, "");
}

#[test]
fn a_torn_file_is_an_error() {
    let whole = include_str!("../../../../tests/fixtures/grub-menu/bookworm-default/grub.cfg");
    assert!(matches!(Menu::parse(&whole[..whole.len() * 3 / 4]), Err(MenuError::OpenBrace { .. })));
    assert!(matches!(Menu::parse("menuentry 'x { }"), Err(MenuError::OpenQuote { line: 1, quote: '\'' })));
    assert!(matches!(Menu::parse("if true; then echo x"), Err(MenuError::Unexpected { .. })));
    assert!(matches!(Menu::parse("echo }\n}"), Err(MenuError::Unexpected { .. })));
    assert!(matches!(Menu::parse(&"a {\n".repeat(5000)), Err(MenuError::TooDeep { .. })));
}

#[test]
fn boot_counting_of_fedora_is_followed() {
    let text = format!(
        "if [ -f ${{config_directory}}/grubenv ]; then load_env -f ${{config_directory}}/grubenv\n\
         elif [ -s $prefix/grubenv ]; then load_env; fi\nset default=\"${{saved_entry}}\"\ninsmod increment\n\
         if [ -n \"${{boot_counter}}\" -a \"${{boot_success}}\" = \"0\" ]; then\n\
         if [ \"${{boot_counter}}\" = \"0\" -o \"${{boot_counter}}\" = \"-1\" ]; then\n\
         set default=1\nset boot_counter=-1\nelse\ndecrement boot_counter\nfi\nsave_env boot_counter\nfi\n{TWO}"
    );
    let menu = parsed(&text).built_by(Build::RedHat);
    assert_eq!(boots(&menu, &env(&[("boot_counter", "0"), ("boot_success", "0")])).path, ["B"]);
    assert_eq!(boots(&menu, &env(&[("boot_counter", "1"), ("boot_success", "0")])).path, ["A"]);
    assert_eq!(boots(&menu, &env(&[("saved_entry", "b"), ("boot_success", "1")])).path, ["B"]);
}

#[test]
fn case_027_a_saved_entry_of_bls_is_not_guessed() {
    let why = undetermined("load_env\nset default=\"${saved_entry}\"\ninsmod blscfg\nblscfg\n");
    assert!(why.contains("blscfg"), "{why}");
    assert!(parsed("blscfg").uses_blscfg());
}

#[test]
fn initrdless_first_try_of_ubuntu_is_followed() {
    let text = "load_env\nset partuuid=1\nfunction initrdfail {\n if [ -n \"${partuuid}\" ]; then set initrdfail=1; fi\n}\n\
                menuentry 'U' {\nif [ \"${initrdfail}\" = 1 ]; then\nlinux /k ro retry\nelse\nlinux /k ro\nfi\ninitrdfail\n}";
    assert_eq!(boots(&parsed(text), &env(&[])).linux.unwrap().arguments, "ro");
    assert_eq!(boots(&parsed(text), &env(&[("initrdfail", "1")])).linux.unwrap().arguments, "ro retry");
}

#[test]
fn what_only_the_machine_decides_is_undetermined() {
    let why = undetermined(&format!("if cmostest 1:2; then set default=1; else set default=0; fi\n{TWO}"));
    assert!(why.contains("default"), "{why}");
    let why =
        undetermined(&format!("if [ -e (hd0,1)/x ]; then\nmenuentry W {{ chainloader +1 }}\nfi\n{TWO}"));
    assert!(why.contains("`W`"), "{why}");
    let why = undetermined(&format!("{TWO}source $prefix/custom.cfg\n"));
    assert!(why.contains("$prefix/custom.cfg"), "{why}");
    let why = undetermined(&format!("frobnicate default\n{TWO}"));
    assert!(why.contains("frobnicate"), "{why}");
    let why = undetermined("menuentry A { if [ $root = x ]; then linux /k a; else linux /k b; fi }");
    assert!(why.contains("linux"), "{why}");
    let why = undetermined("function f { g }\nfunction g { f }\nf\nmenuentry A { linux /k }");
    assert!(why.contains("functions"), "{why}");
    let why = undetermined("submenu S { true }");
    assert!(why.contains("no entry"), "{why}");
}

#[test]
fn doubt_behind_the_default_does_not_matter() {
    let text =
        format!("set default=b\n{TWO}if [ $grub_platform = efi ]; then\nmenuentry F {{ fwsetup }}\nfi\n");
    assert_eq!(boots(&parsed(&text), &GrubEnv::Missing).path, ["B"]);
    let why = undetermined(&text.replace("default=b", "default=2"));
    assert!(why.contains("`F`"), "{why}");
    assert!(boots(&parsed(&text.replace("default=b", "default=3")), &GrubEnv::Missing).fell_back);
}

#[test]
fn custom_cfg_may_bring_entries_and_the_default() {
    let text = format!("set default=0\n{TWO}source $prefix/custom.cfg\n");
    let menu = parsed(&text).beside("custom.cfg", Some("menuentry C { linux /c }\nset default=2\n"));
    assert_eq!(boots(&menu, &GrubEnv::Missing).path, ["C"]);
    let broken = parsed(&text).beside("custom.cfg", Some("menuentry C {"));
    assert!(matches!(next_boot(&broken, &GrubEnv::Missing), NextBoot::Undetermined { .. }));
    assert_eq!(boots(&parsed(&text).beside("custom.cfg", None), &GrubEnv::Missing).path, ["A"]);
}

#[test]
fn builds_that_disagree_are_said_to() {
    let text = format!("set default='1>0'\n{TWO}submenu S {{ {TWO} }}");
    assert_eq!(boots(&parsed(&text), &GrubEnv::Missing).path, ["B"]);
    // Red Hat's GRUB takes no number with a rest.
    assert!(boots(&parsed(&text).built_by(Build::RedHat), &GrubEnv::Missing).fell_back);
    let both = parsed(&text).built_by(Build::Unknown);
    assert!(matches!(next_boot(&both, &GrubEnv::Missing), NextBoot::Undetermined { .. }));
    let agreed = parsed(&text.replace("'1>0'", "b")).built_by(Build::Unknown);
    assert_eq!(boots(&agreed, &GrubEnv::Missing).path, ["B"]);
}

#[test]
fn broken_grubenv_is_undetermined_and_a_missing_one_is_not() {
    let menu = parsed(&format!(
        "if [ -s $prefix/grubenv ]; then\nload_env\nfi\nset default=\"${{saved_entry}}\"\n{TWO}"
    ));
    assert_eq!(boots(&menu, &GrubEnv::Missing).chosen_by, ChosenBy::First);
    let torn = GrubEnv::read(Some(b"# GRUB Environment Block\nsaved_entry=b"));
    assert!(matches!(next_boot(&menu, &torn), NextBoot::Undetermined { .. }));
}

#[test]
fn a_menu_that_needs_a_person_says_so() {
    let text = format!("set superusers=root\nexport superusers\npassword root x\nset timeout=-1\n{TWO}");
    let entry = boots(&parsed(&text), &GrubEnv::Missing);
    assert!(entry.waits_for_key && entry.asks_password);
    let open = text.replace("--id a", "--unrestricted --id a");
    assert!(!boots(&parsed(&open), &GrubEnv::Missing).asks_password);
}

#[test]
fn an_entry_may_save_itself_as_default() {
    let text = "function savedefault {\n if [ -z \"${boot_once}\" ]; then\n saved_entry=\"${chosen}\"\n save_env saved_entry\n fi\n}\n\
                menuentry A {\nsavedefault\nlinux /k ro\n}";
    assert_eq!(boots(&parsed(text), &GrubEnv::Missing).linux.unwrap().arguments, "ro");
}

#[test]
fn the_same_line_for_both_firmwares_is_one_line() {
    let text = "menuentry A { if [ $grub_platform = efi ]; then linuxefi /k ro; else linux16 /k ro; fi }";
    assert_eq!(boots(&parsed(text), &GrubEnv::Missing).linux.unwrap().arguments, "ro");
}

#[test]
fn assignments_carry_what_they_come_from() {
    let menu = parsed(&format!("load_env\nx=\"${{saved_entry}}\"\ndefault=$x\n{TWO}"));
    let entry = boots(&menu, &env(&[("saved_entry", "b")]));
    assert_eq!(entry.chosen_by.to_string(), "saved_entry=b in grubenv");
}

#[test]
fn twice_the_same_unknown_may_still_be_empty() {
    let why = undetermined(&format!("if [ -n \"$net_a$net_a\" ]; then set default=1; fi\n{TWO}"));
    assert!(why.contains("default"), "{why}");
    let known = format!("if [ -n \"x$net_a\" ]; then set default=1; fi\n{TWO}");
    assert_eq!(boots(&parsed(&known), &GrubEnv::Missing).path, ["B"]);
}

#[test]
fn kernelopts_of_grubenv_are_filled_in() {
    let text = "load_env\nmenuentry A { linux /k root=x $kernelopts }";
    let line = boots(&parsed(text), &env(&[("kernelopts", "ro  quiet")])).linux.unwrap();
    assert_eq!((line.arguments.as_str(), line.written.as_str()), ("root=x ro quiet", "root=x $kernelopts"));
}

proptest! {
    #[test]
    fn any_text_is_parsed_or_refused(text in "\\PC*") {
        let _ = Menu::parse(&text).map(|menu| next_boot(&menu, &GrubEnv::Missing));
        let _ = is_stub(&text);
    }

    #[test]
    fn any_shuffled_script_is_parsed_or_refused(words in proptest::collection::vec(
        prop_oneof![
            Just("menuentry"), Just("submenu"), Just("'t'"), Just("{"), Just("}"), Just("\n"), Just(";"), Just("if"),
            Just("then"), Just("else"), Just("elif"), Just("fi"), Just("["), Just("]"), Just("$x"), Just("\"${x}\""),
            Just("set"), Just("x=1"), Just("default=1>0"), Just("linux"), Just("/k"), Just("function"), Just("f"),
            Just("!"), Just("-a"), Just("\\"), Just("\""), Just("load_env"), Just("export"), Just("default"), Just("("),
        ], 0..60)) {
        let _ = Menu::parse(&words.join(" ")).map(|menu| (
            next_boot(&menu, &GrubEnv::Missing),
            next_boot(&menu.clone().built_by(Build::Unknown), &env(&[("x", "a b"), ("default", "1")])),
            menu.all_linux_entries(),
        ));
    }
}
