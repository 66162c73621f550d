//! What the kubelet of this host is told on its command line: the one that runs, or the one that would be started.

use std::path::Path;

use crate::host::{Fs, UNIT_DIRECTORIES};

/// Arguments that packages and installers keep outside the unit.
const ARGUMENT_FILES: [&str; 4] = [
    "/etc/sysconfig/kubelet",
    "/etc/default/kubelet",
    "/var/lib/kubelet/kubeadm-flags.env",
    "/var/snap/microk8s/current/args/kubelet",
];

const UNIT: &str = "kubelet.service";

/// The value of a flag, and who gives it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Told {
    pub(super) value: String,
    pub(super) by: String,
}

/// Where arguments stand.
struct Source {
    words: Vec<String>,
    by: String,
}

/// All arguments of the kubelet that can be found, the surest first.
pub(super) struct Flags(Vec<Source>);

impl Flags {
    /// What cannot be read says nothing: the running kubelet may have ended, a unit may be gone.
    pub(super) fn read(fs: &dyn Fs) -> Self {
        let mut sources = running(fs);
        let mut texts: Vec<String> = ARGUMENT_FILES.map(str::to_owned).to_vec();
        texts.extend(unit_files(fs));
        // The last one wins, as with systemd's own drop-ins.
        sources.extend(texts.iter().rev().filter_map(|path| text(fs, path)));
        Self(sources)
    }

    /// Values of a flag, the surest first.
    pub(super) fn told(&self, flag: &str) -> Vec<Told> {
        let of = |source: &Source| {
            let value = value(&source.words, flag)?;
            Some(Told { value, by: format!("{flag} of {}", source.by) })
        };
        self.0.iter().filter_map(of).collect()
    }
}

fn running(fs: &dyn Fs) -> Vec<Source> {
    let names = fs.list(Path::new("/proc")).unwrap_or_default();
    names.iter().filter(|name| name.parse::<u32>().is_ok()).filter_map(|pid| kubelet(fs, pid)).collect()
}

fn kubelet(fs: &dyn Fs, pid: &str) -> Option<Source> {
    let process = Path::new("/proc").join(pid);
    let name = fs.read(&process.join("comm")).ok()?;
    (name.trim_ascii() == b"kubelet").then_some(())?;
    let line = fs.read(&process.join("cmdline")).ok()?;
    let words = line.split(|byte| *byte == 0).map(|word| String::from_utf8_lossy(word).into_owned());
    Some(Source { words: words.collect(), by: format!("the running kubelet (process {pid})") })
}

/// The unit and its drop-ins, those that win last.
fn unit_files(fs: &dyn Fs) -> Vec<String> {
    let mut files = Vec::new();
    for directory in UNIT_DIRECTORIES.iter().rev() {
        files.push(format!("{directory}/{UNIT}"));
        let drop_ins = format!("{directory}/{UNIT}.d");
        let names = fs.list(Path::new(&drop_ins)).unwrap_or_default();
        let names = names.iter().filter(|name| name.ends_with(".conf"));
        files.extend(names.map(|name| format!("{drop_ins}/{name}")));
    }
    files
}

fn text(fs: &dyn Fs, path: &str) -> Option<Source> {
    let bytes = fs.read(Path::new(path)).ok()?;
    let text = String::from_utf8_lossy(&bytes).into_owned();
    let lines = text.lines().filter(|line| !line.trim_start().starts_with(['#', ';']));
    let words =
        lines.flat_map(|line| line.split(|letter: char| letter.is_whitespace() || "\"'".contains(letter)));
    let words = words.filter(|word| !word.is_empty() && *word != "\\").map(without_variable);
    Some(Source { words: words.collect(), by: path.to_owned() })
}

/// `--a=b` of `EXTRA_ARGS=--a=b`.
fn without_variable(word: &str) -> String {
    let start = word.find("=--").filter(|_| !word.starts_with('-')).map_or(0, |equals| equals + 1);
    word.get(start..).unwrap_or_default().to_owned()
}

/// The last one counts. What only systemd or a shell could fill in is not known.
fn value(words: &[String], flag: &str) -> Option<String> {
    let after = words.iter().skip(1).map(Some).chain([None]);
    let of = |(word, next): (&String, Option<&String>)| match word.strip_prefix(flag)? {
        "" => next.cloned(),
        rest => rest.strip_prefix('=').map(str::to_owned),
    };
    let values = words.iter().zip(after).filter_map(of);
    values.filter(|value| !value.is_empty() && !value.contains(['$', '%'])).last()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::fs::RootedFs;
    use crate::node::client::tree;

    fn told(files: &[(&str, &str)], flag: &str) -> Vec<(String, String)> {
        let tree = tree(files);
        let told = Flags::read(&RootedFs::new(tree.path())).told(flag);
        told.into_iter().map(|told| (told.value, told.by)).collect()
    }

    #[test]
    fn the_running_kubelet_comes_first_and_its_last_word_counts() {
        let found = told(
            &[
                ("proc/812/comm", "kubelet\n"),
                ("proc/812/cmdline", "/usr/bin/kubelet\0--kubeconfig\0/old\0--v=2\0--kubeconfig=/new\0"),
                ("proc/9/comm", "kubelet-exporter\n"),
                ("proc/9/cmdline", "kubelet-exporter\0--kubeconfig=/else\0"),
                ("etc/default/kubelet", "KUBELET_EXTRA_ARGS=--kubeconfig=/third\n"),
            ],
            "--kubeconfig",
        );
        let values: Vec<&str> = found.iter().map(|(value, _)| value.as_str()).collect();
        assert_eq!(values, ["/new", "/third"]);
        assert_eq!(found[0].1, "--kubeconfig of the running kubelet (process 812)");
    }

    #[test]
    fn units_as_kubeadm_and_people_write_them() {
        let unit = "[Service]\nExecStart=/usr/bin/kubelet \\\n  --kubeconfig /by/hand \\\n  --v=2\n";
        assert_eq!(
            told(&[("usr/lib/systemd/system/kubelet.service", unit)], "--kubeconfig")[0].0,
            "/by/hand"
        );
        let drop_in = "[Service]\n# Environment=\"A=--kubeconfig=/comment\"\n\
            Environment=\"KUBELET_KUBECONFIG_ARGS=--bootstrap-kubeconfig=/b --kubeconfig=/etc/kubernetes/kubelet.conf\"\n\
            ExecStart=\nExecStart=/usr/bin/kubelet $KUBELET_KUBECONFIG_ARGS\n";
        let found = told(
            &[
                ("usr/lib/systemd/system/kubelet.service", unit),
                ("etc/systemd/system/kubelet.service.d/10-kubeadm.conf", drop_in),
            ],
            "--kubeconfig",
        );
        assert_eq!(found[0].0, "/etc/kubernetes/kubelet.conf");
        assert_eq!(found[1].0, "/by/hand");
    }

    #[test]
    fn what_a_shell_would_have_to_fill_in_is_not_known() {
        let unit = "ExecStart=/usr/bin/kubelet --hostname-override=%H\nEnvironment=A=--hostname-override=$(hostname -f)\n";
        assert!(told(&[("etc/systemd/system/kubelet.service", unit)], "--hostname-override").is_empty());
        let arguments = "KUBELET_KUBEADM_ARGS=\"--node-ip=10.0.0.1 --hostname-override=w0.example\"\n";
        let found = told(&[("var/lib/kubelet/kubeadm-flags.env", arguments)], "--hostname-override");
        assert_eq!(found[0].0, "w0.example");
    }
}
