//! The files a kernel argument can come from. A plain search for the word: what a boot loader makes of its file is
//! for that loader's own reader.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::boot::kargs::Kargs;
use crate::host::Fs;

/// Where a word stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    /// The file.
    pub path: PathBuf,
    /// The line, counted from 1.
    pub line: usize,
}

const FILES: [&str; 5] = [
    "/etc/default/grub",
    "/etc/kernel/cmdline",
    "/boot/firmware/cmdline.txt",
    "/boot/grub/grub.cfg",
    "/boot/grub2/grub.cfg",
];
const DIRECTORIES: [(&str, &str); 2] = [("/etc/default/grub.d", ".cfg"), ("/boot/loader/entries", ".conf")];

/// The texts of the files that people and tools put kernel arguments in; those made by hand first.
#[must_use]
pub fn read_all(fs: &dyn Fs) -> Vec<(PathBuf, String)> {
    let listed = DIRECTORIES.into_iter().flat_map(|(directory, ending)| {
        let names = fs.list(Path::new(directory)).unwrap_or_default().into_iter();
        names.filter(move |name| name.ends_with(ending)).map(move |name| Path::new(directory).join(name))
    });
    let mut paths: Vec<PathBuf> = FILES.into_iter().map(PathBuf::from).chain(listed).collect();
    paths.sort_by_key(|path| path.starts_with("/boot"));
    paths
        .into_iter()
        .filter_map(|path| Some((path.clone(), String::from_utf8(fs.read(&path).ok()?).ok()?)))
        .collect()
}

/// The places where `word` stands, outside of comments.
#[must_use]
pub fn locate(word: &str, files: &[(PathBuf, String)]) -> Vec<Place> {
    let in_file = |(path, text): &(PathBuf, String)| -> Vec<Place> {
        let lines = text.lines().enumerate().filter(|(_, line)| holds(line, word));
        lines.map(|(index, _)| Place { path: path.clone(), line: index + 1 }).collect()
    };
    files.iter().flat_map(in_file).collect()
}

fn holds(line: &str, word: &str) -> bool {
    let bare = |text: &str| text.trim_matches(['"', '\'']).to_owned();
    let is_edge =
        |letter: Option<char>| letter.is_none_or(|letter| letter.is_whitespace() || "\"'=`".contains(letter));
    let word = bare(word);
    let stands_alone = |(at, _): (usize, &str)| {
        let (before, rest) = line.split_at_checked(at).unwrap_or_default();
        let after = rest.get(word.len()..).and_then(|rest| rest.chars().next());
        is_edge(before.chars().next_back()) && is_edge(after)
    };
    !line.trim_start().starts_with('#') && !word.is_empty() && line.match_indices(&word).any(stands_alone)
}

/// The places of a word, or, where the loader spelt it another way (without its quotes), of its name.
#[must_use]
pub fn locate_argument(word: &str, files: &[(PathBuf, String)]) -> Vec<Place> {
    let exact = locate(word, files);
    if !exact.is_empty() {
        return exact;
    }
    let kargs = Kargs::parse(word);
    let plain = kargs.iter().next().map(|arg| match &arg.value {
        Some(value) => format!("{}={value}", arg.key),
        None => arg.key.clone(),
    });
    plain.map(|plain| locate(&plain, files)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_whole_words_outside_of_comments() {
        let text = "# systemd.unified_cgroup_hierarchy=0\n\
                    GRUB_CMDLINE_LINUX=\"a systemd.unified_cgroup_hierarchy=0\"\n\
                    X=rd.systemd.unified_cgroup_hierarchy=0\n\
                    Y=systemd.unified_cgroup_hierarchy=00\n\
                    Z=systemd.unified_cgroup_hierarchy=0\n";
        let files = [(PathBuf::from("/etc/default/grub"), text.to_owned())];
        let lines = |word: &str| -> Vec<usize> {
            locate_argument(word, &files).iter().map(|place| place.line).collect()
        };
        assert_eq!(lines("systemd.unified_cgroup_hierarchy=0"), [2, 5]);
        assert_eq!(lines("\"systemd.unified_cgroup_hierarchy=0\""), [2, 5]);
        assert_eq!(lines("systemd.unified_cgroup_hierarchy=\"0\""), [2, 5]);
        assert!(lines("quiet").is_empty());
    }
}
