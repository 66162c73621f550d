//! The command line that a service has at its next start: its unit file, drop-ins, variables and environment files put
//! together as systemd does it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::environment;
use super::source::{Source, told};
use super::traced::Traced;
use super::unit::{self, Directive};
use crate::host::{Fs, UNIT_DIRECTORIES};

/// A word of a command line, and the file it stands in.
#[derive(Debug, Clone)]
pub struct Word<'a> {
    /// The word.
    pub text: Traced,
    /// Its file.
    pub source: &'a Source,
}

/// The unit file that counts and its drop-ins, in the order in which they are read; empty if there is none.
///
/// # Errors
/// Where one cannot be read.
pub fn unit_files(fs: &dyn Fs, unit: &str) -> Result<Vec<Source>, String> {
    let main = UNIT_DIRECTORIES.iter().map(|directory| Path::new(directory).join(unit));
    let mut paths: Vec<PathBuf> = main.into_iter().find(|path| fs.exists(path)).into_iter().collect();
    paths.extend(drop_ins(fs, unit)?);
    let read = paths.iter().map(|path| Source::read(fs, path));
    Ok(read.collect::<Result<Vec<_>, _>>()?.into_iter().flatten().collect())
}

/// A name in an earlier directory hides the same name in later ones; all are read in the order of their names.
fn drop_ins(fs: &dyn Fs, unit: &str) -> Result<Vec<PathBuf>, String> {
    let mut by_name = BTreeMap::new();
    for directory in UNIT_DIRECTORIES.iter().rev() {
        let directory = Path::new(directory).join(format!("{unit}.d"));
        let names = fs.list(&directory).map_err(told)?;
        for name in names.into_iter().filter(|name| name.ends_with(".conf")) {
            by_name.insert(name.clone(), directory.join(name));
        }
    }
    // What leads to /dev/null is masked.
    Ok(by_name
        .into_values()
        .filter(|path| fs.resolve(path).is_ok_and(|to| to != Path::new("/dev/null")))
        .collect())
}

/// Everything in `[Service]`, in order, with the file it is from.
fn service<'a>(units: &'a [Source]) -> Vec<(Directive, &'a Source)> {
    let directives =
        |source: &'a Source| unit::directives(&source.text).into_iter().map(move |found| (found, source));
    let all = units.iter().flat_map(directives);
    all.filter(|(directive, _)| directive.section == "Service").collect()
}

/// The environment files that the unit names, without the sign that lets them be absent.
#[must_use]
pub fn environment_files(units: &[Source]) -> Vec<PathBuf> {
    let mut paths = Vec::new();
    for (directive, _) in service(units).iter().filter(|(directive, _)| directive.key == "EnvironmentFile") {
        let value = directive.value.text();
        if value.is_empty() {
            paths.clear();
        } else {
            paths.push(PathBuf::from(value.trim_start_matches('-')));
        }
    }
    paths
}

/// The words behind the program's name, variables put in. `environments` are the contents of
/// [`environment_files`], in their order.
#[must_use]
pub fn words<'a>(units: &'a [Source], environments: &'a [Source]) -> Vec<Word<'a>> {
    let variables = variables(units, environments);
    let command = last_command(units);
    command.into_iter().skip(1).flat_map(|word| expanded(word, &variables)).collect()
}

/// The program that is started, without the signs that systemd knows before a path.
#[must_use]
pub fn program(units: &[Source]) -> Option<String> {
    let first = last_command(units).into_iter().next()?.text.text();
    Some(first.trim_start_matches(['-', '@', ':', '+', '!', '|']).to_owned())
}

type Variables<'a> = BTreeMap<String, (Traced, &'a Source)>;

/// Later files win over earlier ones, and files over the unit.
fn variables<'a>(units: &'a [Source], environments: &'a [Source]) -> Variables<'a> {
    let mut variables = Variables::new();
    for (directive, source) in service(units).iter().filter(|(directive, _)| directive.key == "Environment") {
        if directive.value.is_empty() {
            variables.clear();
        }
        let pairs = directive.value.words().into_iter().filter_map(|word| word.split_once('='));
        variables.extend(pairs.map(|(name, value)| (name.text(), (value, *source))));
    }
    for source in environments {
        let assigned = environment::assignments(&source.text).into_iter();
        variables.extend(assigned.map(|found| (found.name, (found.value, source))));
    }
    variables
}

/// An empty `ExecStart=` takes back all before it.
fn last_command(units: &[Source]) -> Vec<Word<'_>> {
    let mut starts = service(units).into_iter().filter(|(directive, _)| directive.key == "ExecStart");
    let Some((directive, source)) = starts.next_back() else { return Vec::new() };
    directive.value.words().into_iter().map(|text| Word { text, source }).collect()
}

/// `$NAME` alone becomes its words, `${NAME}` alone one word; within other text a variable is left as it is.
fn expanded<'a>(word: Word<'a>, variables: &Variables<'a>) -> Vec<Word<'a>> {
    let text = word.text.text();
    let Some(name) = text.strip_prefix('$') else { return vec![word] };
    let braced = name.strip_prefix('{').and_then(|name| name.strip_suffix('}'));
    let Some((value, source)) = variables.get(braced.unwrap_or(name)) else { return Vec::new() };
    let values = if braced.is_some() { vec![value.clone()] } else { value.words() };
    values.into_iter().map(|text| Word { text, source }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const KUBEADM: &str = "[Service]\nEnvironment=\"KUBELET_CONFIG_ARGS=--config=/var/lib/kubelet/config.yaml\"\n\
        EnvironmentFile=-/var/lib/kubelet/kubeadm-flags.env\nEnvironmentFile=-/etc/default/kubelet\nExecStart=\n\
        ExecStart=/usr/bin/kubelet $KUBELET_CONFIG_ARGS $KUBELET_KUBEADM_ARGS ${ONE} $NONE --last\n";

    #[test]
    fn variables_are_put_in_with_the_file_they_stand_in() {
        let units = [
            Source::new("/lib/kubelet.service", "[Service]\nExecStart=/usr/bin/kubelet --first\n"),
            Source::new("/lib/kubelet.service.d/10-kubeadm.conf", KUBEADM),
        ];
        assert_eq!(program(&units).as_deref(), Some("/usr/bin/kubelet"));
        assert_eq!(
            environment_files(&units),
            [Path::new("/var/lib/kubelet/kubeadm-flags.env"), Path::new("/etc/default/kubelet")]
        );
        let environments = [
            Source::new("/f.env", "KUBELET_KUBEADM_ARGS=\"--a=1 --b=2\"\nONE=x\n"),
            Source::new("/d.env", "ONE='--c d'\n"),
        ];
        let words: Vec<_> = words(&units, &environments)
            .into_iter()
            .map(|word| format!("{} {}", word.source.path.display(), word.text.text()))
            .collect();
        assert_eq!(
            words,
            [
                "/lib/kubelet.service.d/10-kubeadm.conf --config=/var/lib/kubelet/config.yaml",
                "/f.env --a=1",
                "/f.env --b=2",
                "/d.env --c d",
                "/lib/kubelet.service.d/10-kubeadm.conf --last"
            ]
        );
    }

    #[test]
    fn a_service_without_a_command_has_no_words() {
        let units = [
            Source::new("/u", "[Service]\nExecStart=/k --a\nExecStart=\n"),
            Source::new("/v", "[Unit]\nExecStart=/k\n"),
        ];
        assert!(words(&units, &[]).is_empty());
    }
}
