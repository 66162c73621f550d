//! One thing that was found, and what can be done about it.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// How much a finding weighs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Good to know.
    Note,
    /// May hurt; the migration goes on.
    Warning,
    /// The migration does not start, unless this id is accepted by name.
    Blocker,
}

/// What a person can do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Remedy {
    /// In words.
    pub text: String,
    /// A command that does it, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub argv: Option<Vec<String>>,
}

/// One finding. `id` is a stable word, part of the contract.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// Stable word, `boot-entry-mismatch`.
    pub id: String,
    /// Weight.
    pub severity: Severity,
    /// One line.
    pub title: String,
    /// What was found, where, and what was expected.
    pub detail: String,
    /// Files it is about.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<PathBuf>,
    /// Pods it is about, `namespace/name`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pods: Vec<String>,
    /// True for a blocker that `--accept ID` passes: going on is possible, and a person may know better.
    #[serde(default)]
    pub acceptable: bool,
    /// The way out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remedy: Option<Remedy>,
}

impl Finding {
    /// A finding with the parts every one has.
    #[must_use]
    pub fn new(severity: Severity, id: &str, title: impl Into<String>, detail: impl Into<String>) -> Self {
        Self {
            id: id.to_owned(),
            severity,
            title: title.into(),
            detail: detail.into(),
            files: Vec::new(),
            pods: Vec::new(),
            acceptable: false,
            remedy: None,
        }
    }

    /// True if the host is of a kind that is not supported at all; its id begins with `unsupported-`.
    #[must_use]
    pub fn is_unsupported(&self) -> bool {
        self.id.starts_with("unsupported-")
    }

    /// All of it in one line, for a message that has others beside it.
    #[must_use]
    pub fn line(&self) -> String {
        let remedy = self.remedy.as_ref().map(|remedy| format!("; {}", remedy.text)).unwrap_or_default();
        format!("{} [{}]: {}{remedy}", self.title, self.id, self.detail)
    }

    /// Lets a person go on despite it.
    #[must_use]
    pub fn acceptable(mut self) -> Self {
        self.acceptable = true;
        self
    }

    /// Adds a file it is about.
    #[must_use]
    pub fn about(mut self, path: impl Into<PathBuf>) -> Self {
        self.files.push(path.into());
        self
    }

    /// Adds a pod it is about.
    #[must_use]
    pub fn about_pod(mut self, pod: &str) -> Self {
        self.pods.push(pod.to_owned());
        self
    }

    /// Adds the way out, in words.
    #[must_use]
    pub fn remedy(mut self, text: impl Into<String>) -> Self {
        self.remedy = Some(Remedy { text: text.into(), argv: None });
        self
    }

    /// Adds the way out, in words and as a command.
    #[must_use]
    pub fn remedy_command(mut self, text: impl Into<String>, argv: &[&str]) -> Self {
        let argv = argv.iter().map(|word| (*word).to_owned()).collect();
        self.remedy = Some(Remedy { text: text.into(), argv: Some(argv) });
        self
    }
}
