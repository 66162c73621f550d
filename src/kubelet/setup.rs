//! Everything that decides how the kubelet of this host starts, read.

use std::path::{Path, PathBuf};

use super::command::{self, Word};
use super::document::Document;
use super::flags::{self, Flag};
use super::holders::{Form, Holder};
use super::marks;
use super::owner::Owner;
use super::source::{Source, told};
use super::version::Version;
use crate::host::Fs;

/// Environment files that kubelets have, by whoever made them, in the order in which kubeadm's unit puts them.
const ENVIRONMENTS: [&str; 3] =
    ["/var/lib/kubelet/kubeadm-flags.env", "/etc/default/kubelet", "/etc/sysconfig/kubelet"];

/// Configurations of k3s and RKE2; each has a directory of drop-ins beside it (background knowledge, not looked up).
const RANCHER: [&str; 2] = ["/etc/rancher/k3s/config.yaml", "/etc/rancher/rke2/config.yaml"];

const PATCHES: &str = "/etc/kubernetes/patches";

const MICROK8S: &str = "/var/snap/microk8s/current/args/kubelet";

/// What there is of it.
#[derive(Debug, Clone)]
pub struct Setup {
    /// Who writes the files.
    pub owner: Owner,
    /// The kubelet's release, where it is known.
    pub version: Option<Version>,
    /// The kubelet that its unit starts; `None` if that is another program, or there is no unit.
    pub program: Option<String>,
    /// The flags at its next start, in order; of one that runs those, too, that no file explains.
    pub flags: Vec<Flag>,
    /// Files that hold, or could hold, flags.
    pub holders: Vec<Holder>,
    /// The file of `--config` and the drop-ins of `--config-dir`, lowest first.
    pub files: Vec<ConfigFile>,
    /// Where drop-ins are read.
    pub drop_in_directory: Option<PathBuf>,
    /// Patches that kubeadm puts over the file at its next upgrade, in the directory that its documentation takes; it
    /// may be told of another.
    pub patches: Vec<PathBuf>,
    /// What could not be read.
    pub problems: Vec<String>,
}

/// One file of KubeletConfiguration.
#[derive(Debug, Clone)]
pub struct ConfigFile {
    /// The file.
    pub source: Source,
    /// What it says, or why that is not known.
    pub document: Result<Document, String>,
    /// It is a drop-in.
    pub is_drop_in: bool,
}

impl ConfigFile {
    /// Parses a file.
    #[must_use]
    pub fn new(source: Source, is_drop_in: bool) -> Self {
        Self { document: Document::parse(&source.text), source, is_drop_in }
    }
}

impl Setup {
    /// Reads it; `running` if `/proc` is that of the host.
    #[must_use]
    pub fn read(fs: &dyn Fs, running: bool) -> Self {
        let mut reader = Reader { fs, problems: Vec::new() };
        let owner = Owner::of(fs);
        let program = reader.program();
        let (mut flags, holders) = reader.flags();
        if running {
            let unexplained = marks::running_flags(fs).unwrap_or_default().into_iter();
            let known: Vec<String> = flags.iter().map(|flag| flag.name.clone()).collect();
            flags.extend(unexplained.filter(|flag| !known.contains(&flag.name)));
        }
        let drop_in_directory = drop_in_directory(fs, owner, &flags);
        let files = reader.config_files(owner, &flags, drop_in_directory.as_deref());
        let patches = reader.patches();
        Self {
            patches,
            owner,
            version: None,
            program,
            flags,
            holders,
            files,
            drop_in_directory,
            problems: reader.problems,
        }
    }

    /// True if a kubelet is set up here: a file or a flag of one is there.
    #[must_use]
    pub fn has_a_kubelet(&self) -> bool {
        !self.flags.is_empty() || !self.files.is_empty()
    }

    /// Every text in it.
    pub fn sources(&self) -> impl Iterator<Item = &Source> {
        self.holders.iter().map(|holder| &holder.source).chain(self.files.iter().map(|file| &file.source))
    }
}

/// The value of a flag that counts: the last one.
#[must_use]
pub fn value_of<'a>(flags: &'a [Flag], name: &str) -> Option<&'a str> {
    flags.iter().rev().find(|flag| flag.name == name)?.value.as_deref()
}

fn drop_in_directory(fs: &dyn Fs, owner: Owner, flags: &[Flag]) -> Option<PathBuf> {
    let by_flag = value_of(flags, "config-dir").map(PathBuf::from);
    let by_owner = owner.drop_in_directory().map(PathBuf::from).filter(|path| fs.exists(path));
    by_flag.or(by_owner).filter(|path| path.is_absolute())
}

struct Reader<'a> {
    fs: &'a dyn Fs,
    problems: Vec<String>,
}

impl Reader<'_> {
    fn source(&mut self, path: &Path) -> Option<Source> {
        self.take(Source::read(self.fs, path)).flatten()
    }

    fn take<T>(&mut self, read: Result<T, String>) -> Option<T> {
        read.map_err(|problem| self.problems.push(problem)).ok()
    }

    fn sources(&mut self, paths: impl IntoIterator<Item = PathBuf>) -> Vec<Source> {
        paths.into_iter().filter_map(|path| self.source(&path)).collect()
    }

    /// Every place is looked at, whoever owns this node: what is left over is flipped with the rest.
    fn flags(&mut self) -> (Vec<Flag>, Vec<Holder>) {
        let units = self.units("kubelet.service");
        let named = self.sources(command::environment_files(&units));
        let known = ENVIRONMENTS.map(PathBuf::from).into_iter();
        let other = self.sources(
            known.filter(|path| named.iter().all(|source| source.path != *path)).collect::<Vec<_>>(),
        );
        let mut flags: Vec<Flag> = if units.is_empty() {
            other.iter().flat_map(of_environment).collect()
        } else {
            of_words(command::words(&units, &named))
        };
        let mut holders = held(Form::Unit, units);
        holders.extend(held(Form::Environment, named));
        holders.extend(held(Form::Environment, other));
        let embedded = self.embedded();
        flags.extend(embedded.iter().filter_map(|holder| self.take(holder.flags())).flatten());
        holders.extend(embedded);
        (flags, holders)
    }

    /// Not that of a wrapper: it would answer with a release of its own.
    fn program(&mut self) -> Option<String> {
        let program = command::program(&self.units("kubelet.service"))?;
        let path = Path::new(&program);
        (path.is_absolute() && path.ends_with("kubelet")).then_some(program)
    }

    fn units(&mut self, unit: &str) -> Vec<Source> {
        self.take(command::unit_files(self.fs, unit)).unwrap_or_default()
    }

    /// Kubelets within other programs.
    fn embedded(&mut self) -> Vec<Holder> {
        let names = self.take(marks::units(self.fs).map_err(told)).unwrap_or_default();
        let embedding = names.iter().filter(|name| name.starts_with("k3s") || name.starts_with("rke2"));
        let units: Vec<Source> = embedding.flat_map(|name| self.units(name)).collect();
        let mut holders = held(Form::EmbeddingUnit, units);
        for config in RANCHER.map(PathBuf::from) {
            let directory = config.with_extension("yaml.d");
            let names = self.names(&directory);
            let more =
                names.into_iter().filter(|name| name.ends_with(".yaml")).map(|name| directory.join(name));
            holders.extend(held(Form::Rancher, self.sources(std::iter::once(config).chain(more))));
        }
        holders.extend(held(Form::Lines, self.sources([PathBuf::from(MICROK8S)])));
        holders
    }

    fn patches(&mut self) -> Vec<PathBuf> {
        let names = self.names(Path::new(PATCHES)).into_iter();
        let ours = names.filter(|name| name.starts_with("kubeletconfiguration"));
        ours.map(|name| Path::new(PATCHES).join(name)).collect()
    }

    fn names(&mut self, directory: &Path) -> Vec<String> {
        self.take(self.fs.list(directory).map_err(told)).unwrap_or_default()
    }

    fn config_files(&mut self, owner: Owner, flags: &[Flag], drop_ins: Option<&Path>) -> Vec<ConfigFile> {
        let path = value_of(flags, "config").or(owner.config_file()).map(PathBuf::from);
        let main = path.filter(|path| path.is_absolute()).and_then(|path| self.source(&path));
        let mut files: Vec<ConfigFile> =
            main.into_iter().map(|source| ConfigFile::new(source, false)).collect();
        let Some(directory) = drop_ins else { return files };
        let names = self.names(directory);
        // In the order of their names; others are not read.
        let paths = names.into_iter().filter(|name| name.ends_with(".conf")).map(|name| directory.join(name));
        files.extend(
            self.sources(paths.collect::<Vec<_>>()).into_iter().map(|source| ConfigFile::new(source, true)),
        );
        files
    }
}

fn held(form: Form, sources: Vec<Source>) -> Vec<Holder> {
    sources.into_iter().map(|source| Holder { form, source }).collect()
}

fn of_environment(source: &Source) -> Vec<Flag> {
    let holder = Holder { form: Form::Environment, source: source.clone() };
    holder.flags().unwrap_or_default()
}

/// Words of one file in a row are read together: a flag and its value may be two of them.
fn of_words(words: Vec<Word<'_>>) -> Vec<Flag> {
    let runs = words.chunk_by(|one, next| one.source.path == next.source.path);
    runs.flat_map(|run| {
        let texts: Vec<_> = run.iter().map(|word| word.text.clone()).collect();
        run.first().map(|first| flags::among(&texts, first.source)).unwrap_or_default()
    })
    .collect()
}
