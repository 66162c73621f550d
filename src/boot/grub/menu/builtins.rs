//! GRUB's own commands, as far as they decide what boots.

use std::collections::BTreeSet;

use super::evaluate::{Evaluation, Kernel};
use super::syntax::Word;
use super::value::{GRUB_DIRECTORY, Value, Variables};
use super::{Beside, condition};
use crate::boot::grub::env::GrubEnv;

impl Evaluation<'_> {
    pub(super) fn builtin(&mut self, name: &str, rest: &[Word]) -> Option<bool> {
        match name {
            "true" => Some(true),
            "false" => Some(false),
            "[" | "test" => self.test(name, rest),
            "set" => self.assign_all(rest),
            "unset" => self.each_name(rest, |variables, name| variables.unset(name)),
            "export" => self.each_name(rest, Variables::export),
            "load_env" => self.load_env(rest),
            "save_env" | "setparams" => Some(true),
            "increment" | "decrement" => self.count(name, rest),
            "source" | "." => self.source(rest),
            _ => self.other(name, rest),
        }
    }

    fn test(&mut self, name: &str, rest: &[Word]) -> Option<bool> {
        let mut words = self.words(rest);
        if name == "[" {
            words.pop();
        }
        condition::holds(&words, &|file| self.exists(file))
    }

    /// What is known of files: the environment block, and those the caller has read.
    fn exists(&self, file: &str) -> Option<bool> {
        let name = file.strip_prefix(GRUB_DIRECTORY)?.strip_prefix('/')?;
        if name == "grubenv" {
            return Some(!matches!(self.env, GrubEnv::Missing | GrubEnv::Empty));
        }
        self.menu.beside.get(name).map(|beside| !matches!(beside, Beside::Absent))
    }

    fn assign_all(&mut self, rest: &[Word]) -> Option<bool> {
        for word in rest {
            let value = self.variables.joined(word);
            match value.text.split_once('=') {
                Some((name, text)) => {
                    let text = text.to_owned();
                    self.variables.set(name, Value { text, ..value.clone() });
                }
                None if rest.len() == 1 => {}
                None => self.give_up(format!("`set {}` is not understood", word.unexpanded())),
            }
        }
        Some(true)
    }

    /// `name=value` as a command of its own.
    pub(super) fn assigned(&mut self, word: &Value) -> bool {
        let Some((name, text)) = assignment(&word.text) else { return false };
        let value = Value { text: text.to_owned(), ..word.clone() };
        self.variables.set(name, value);
        true
    }

    fn each_name(&mut self, rest: &[Word], act: impl Fn(&mut Variables, &str)) -> Option<bool> {
        for name in self.words(rest) {
            match name.known() {
                Some(name) => act(&mut self.variables, name),
                None => self.give_up(format!("the variable `{}` is not known before GRUB runs", name.text)),
            }
        }
        Some(true)
    }

    fn load_env(&mut self, rest: &[Word]) -> Option<bool> {
        let words = self.words(rest);
        let Some(request) = EnvRequest::of(&words) else {
            self.give_up(
                "it loads an environment block from elsewhere than grubenv (GRUB 2.14 does so on btrfs)"
                    .to_owned(),
            );
            return None;
        };
        match self.env {
            GrubEnv::Block(block) => {
                for (name, text) in block.variables().filter(|(name, _)| request.wants(name)) {
                    self.variables.set(name, Value::stored(name, text));
                }
                Some(true)
            }
            GrubEnv::Missing | GrubEnv::Empty => Some(false),
            GrubEnv::Broken(error) => {
                self.give_up(error.to_string());
                None
            }
        }
    }

    fn count(&mut self, name: &str, rest: &[Word]) -> Option<bool> {
        let step = if name == "increment" { 1 } else { -1 };
        for word in self.words(rest) {
            let variable = word.text.as_str();
            let old = self.variables.get(variable);
            match old.known().and_then(|text| text.parse::<i64>().ok()).and_then(|old| old.checked_add(step))
            {
                Some(number) => self.variables.set(variable, Value::literal(number.to_string())),
                None => self.variables.forget(variable),
            }
        }
        Some(true)
    }

    fn source(&mut self, rest: &[Word]) -> Option<bool> {
        let file = rest.first().map(|word| self.variables.joined(word)).unwrap_or_default();
        let name = file.known().and_then(|file| file.strip_prefix(GRUB_DIRECTORY)?.strip_prefix('/'));
        match name.and_then(|name| self.menu.beside.get(name)) {
            Some(Beside::Script(statements)) => self.call(statements, Vec::new()),
            Some(Beside::Absent) => Some(false),
            Some(Beside::Broken(error)) => {
                self.give_up(format!("the file it reads in is not understood: {error}"));
                None
            }
            None => {
                let shown = file.text.replace(GRUB_DIRECTORY, "$prefix");
                self.give_up(format!("it reads in `{shown}`, which was not looked at"));
                None
            }
        }
    }

    fn other(&mut self, name: &str, rest: &[Word]) -> Option<bool> {
        if name == "blscfg" || name == "blsuki" {
            self.give_up("`blscfg`: its entries are files in loader/entries, not in grub.cfg".to_owned());
        } else if self.in_entry && INITRD.contains(&name) {
            let files = self.words(rest).into_iter().map(|word| word.text.replace(GRUB_DIRECTORY, "$prefix"));
            self.initrd = Some(files.filter(|file| !file.starts_with("--")).collect());
        } else if HARMLESS.contains(&name) || (self.in_entry && IN_ENTRIES.contains(&name)) {
            self.forget_answers(name, rest);
        } else if self.in_entry && LOADERS.contains(&name) {
            self.kernel = Kernel::None;
        } else {
            self.give_up(format!("the command `{name}` is not understood"));
        }
        None
    }

    /// Variables that a command fills in from what it finds on the machine.
    fn forget_answers(&mut self, name: &str, rest: &[Word]) {
        let words = self.words(rest);
        let mut answers = BTreeSet::from(["root".to_owned()]);
        for (place, word) in words.iter().enumerate() {
            let next = words.get(place + 1).map(|word| word.text.as_str()).unwrap_or_default();
            let named = match word.text.as_str() {
                "--set" | "-s" => next,
                text => text.strip_prefix("--set=").unwrap_or_default(),
            };
            answers.insert(named.rsplit(':').next().unwrap_or_default().to_owned());
        }
        if name.starts_with("search.") {
            answers.extend(words.get(1).map(|word| word.text.clone()));
        }
        if matches!(name, "read" | "getenv") {
            answers.extend(words.last().map(|word| word.text.clone()));
        }
        if name == "hwmatch" {
            answers.insert("match".to_owned());
        }
        answers.iter().filter(|name| !name.is_empty()).for_each(|name| self.variables.forget(name));
    }
}

struct EnvRequest {
    names: Vec<String>,
}

impl EnvRequest {
    /// `None` if it is about another file than `grubenv`.
    fn of(words: &[Value]) -> Option<Self> {
        let own = |file: &str| file == format!("{GRUB_DIRECTORY}/grubenv");
        let mut names = Vec::new();
        let mut words = words.iter();
        while let Some(word) = words.next() {
            match word.known()? {
                "--skip-sig" | "-s" => {}
                "--file" | "-f" => words.next().and_then(Value::known).filter(|file| own(file)).map(drop)?,
                text => match text.strip_prefix("--file=") {
                    Some(file) if own(file) => {}
                    Some(_) => return None,
                    None => names.push(text.to_owned()),
                },
            }
        }
        Some(Self { names })
    }

    fn wants(&self, name: &str) -> bool {
        self.names.is_empty() || self.names.iter().any(|wanted| wanted == name)
    }
}

fn assignment(word: &str) -> Option<(&str, &str)> {
    let (name, value) = word.split_once('=')?;
    let starts_well = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    (starts_well && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_'))
        .then_some((name, value))
}

/// Commands that change nothing that decides what boots, apart from the variable they answer into.
const HARMLESS: &[&str] = &[
    "insmod",
    "loadfont",
    "terminal",
    "terminal_input",
    "terminal_output",
    "serial",
    "background_image",
    "background_color",
    "echo",
    "play",
    "sleep",
    "search",
    "search.fs_uuid",
    "search.fs_label",
    "search.file",
    "search.fs_file",
    "hwmatch",
    "cmostest",
    "keystatus",
    "password",
    "password_pbkdf2",
    "videoinfo",
    "cls",
    "clear",
    "smbios",
    "probe",
    "regexp",
    "read",
    "getenv",
    "cryptomount",
    "loopback",
    "ls",
    "lsmod",
    "cat",
    "cpuid",
    "fwsetup",
    "rmmod",
    "date",
    "outb",
    "outw",
    "outl",
    "inb",
    "inw",
    "inl",
    "trust",
    "verify_detached",
    "terminfo",
    "badram",
    "cutmem",
    "gettext",
    "gptsync",
    "parttool",
    "acpi",
];

/// Commands that load the initial ramdisk; a second one takes the place of the first.
const INITRD: &[&str] = &["initrd", "initrd16", "initrdefi"];

/// Commands of entries that load parts beside the kernel, or none.
const IN_ENTRIES: &[&str] = &[
    "devicetree",
    "fdt",
    "module",
    "module2",
    "xen_module",
    "drivemap",
    "ntldr_options",
    "boot",
    "halt",
    "reboot",
    "exit",
    "videomode",
    "set_gfxpayload",
    "tpm_record_pcrs",
];

/// Other loaders than Linux.
const LOADERS: &[&str] = &[
    "chainloader",
    "multiboot",
    "multiboot2",
    "xen_hypervisor",
    "ntldr",
    "linux32",
    "freedos",
    "plan9",
    "truecrypt",
    "xnu_kernel",
    "xnu_kernel64",
    "kfreebsd",
    "knetbsd",
    "kopenbsd",
    "memtest",
    "appleloader",
    "uki",
];
