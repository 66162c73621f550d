//! Things in the files that are not what their author meant.

use super::evaluate::World;
use super::{ARGUMENT_VARIABLES, Notice, SourceFile};
use crate::boot::grub::shell::{self, Simple, Word};

impl World {
    /// Keeps something for people to know.
    pub(super) fn note(&mut self, file: &SourceFile, id: &'static str, at: usize, text: String) {
        let line = shell::line_of(&file.text, at);
        self.notices.push(Notice { id, path: file.path.clone(), line, text });
    }

    pub(super) fn note_second_word(&mut self, simple: &Simple, file: &SourceFile) {
        for (one, other) in simple.assignments.iter().zip(simple.assignments.iter().skip(1)) {
            let (Some(first), Some(second)) = (one.assignment(), other.assignment()) else { continue };
            if ARGUMENT_VARIABLES.contains(&first.name.as_str()) && !second.name.starts_with("GRUB_") {
                let text = format!(
                    "without quotes the value of {} ends here: `{}=` is another variable",
                    first.name, second.name
                );
                self.note(file, "unquoted-second-word", other.span.start, text);
            }
        }
    }

    pub(super) fn note_prefix(&mut self, simple: &Simple, file: &SourceFile) {
        let assigned = simple.assignments.iter().filter_map(Word::assignment);
        let Some(first) = assigned.into_iter().find(|one| ARGUMENT_VARIABLES.contains(&one.name.as_str()))
        else {
            return;
        };
        let word = simple.words.first().and_then(Word::literal).unwrap_or_default();
        let text = format!(
            "without quotes `{}` is a command, and {} is only set for it: grub-mkconfig runs it here, and ends if it fails",
            String::from_utf8_lossy(&word),
            first.name
        );
        self.note(file, "unquoted-second-word", simple.at, text);
    }
}
