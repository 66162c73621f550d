//! Assignments: what their values become.

use std::ops::Range;

use super::evaluate::{LiveByte, Origin, REFUSED, Reason, Site, Text, VOLATILE, Val, World};
use crate::boot::grub::shell::{Assignment, Form, Part, Quote, Word};

impl World {
    pub(super) fn assign(&mut self, word: &Word, redirected: bool, argument: bool) {
        let Some(assignment) = word.assignment() else { return };
        let name = assignment.name.as_str();
        if self.read_only.contains(name) || REFUSED.contains(&name) {
            return self.refused(word.span.start);
        }
        let value = if redirected {
            Err(Reason::new("an assignment with a redirection", self.file, word.span.start))
        } else {
            self.expand(&assignment, word, argument)
        };
        match value {
            Ok(live) => self.assign_text(&assignment, word, live),
            Err(reason) => self.put(name, Val::Opaque(reason)),
        }
    }

    fn assign_text(&mut self, assignment: &Assignment<'_>, word: &Word, added: Vec<LiveByte>) {
        let name = assignment.name.as_str();
        let mut live = match (assignment.append, self.lookup(name)) {
            (false, _) | (true, Val::Unset) => Vec::new(),
            (true, Val::Text(text)) => text.live,
            (true, Val::Opaque(reason)) => return self.put(name, Val::Opaque(reason)),
        };
        live.extend(added);
        let site = self.site(assignment, word);
        let value = if VOLATILE.contains(&name) {
            Val::Opaque(Reason::new("a variable with a meaning to the shell", self.file, word.span.start))
        } else {
            Val::Text(Text { live, site })
        };
        self.put(name, value);
    }

    fn site(&self, assignment: &Assignment<'_>, word: &Word) -> Site {
        let length: usize = assignment.value.iter().map(|part| usize::from(is_plain(part))).sum();
        let plain = word.span.end - assignment.value_start == length;
        Site {
            file: self.file,
            word: word.span.clone(),
            value_start: assignment.value_start,
            tail: word.tail,
            plain,
        }
    }

    fn expand(
        &self,
        assignment: &Assignment<'_>,
        word: &Word,
        argument: bool,
    ) -> Result<Vec<LiveByte>, Reason> {
        let mut live: Vec<LiveByte> = Vec::new();
        let mut home = true;
        for part in assignment.value {
            let added = self.expand_part(part, word, argument, home)?;
            home = matches!(part, Part::Byte { byte: b':' | b'=', quote: Quote::Plain, .. });
            live.extend(added);
        }
        Ok(live)
    }

    /// `home` says that a `~` here would be a home directory.
    fn expand_part(
        &self,
        part: &Part,
        word: &Word,
        argument: bool,
        home: bool,
    ) -> Result<Vec<LiveByte>, Reason> {
        let refuse = |why: &str, at: usize| Err(Reason::new(why, self.file, at));
        match part {
            Part::Byte { byte: b'~', quote: Quote::Plain, span } if home => {
                refuse("a `~` that becomes a directory", span.start)
            }
            Part::Byte { byte, quote: Quote::Plain, span } if argument && b"*?[{~".contains(byte) => {
                refuse("a pattern without quotes", span.start)
            }
            Part::Byte { byte, span, .. } => Ok(vec![self.literal(*byte, span, word)]),
            Part::Variable { name, form, quoted } => {
                let live = self.substitute(name, form, word)?;
                if argument && !quoted && live.iter().any(|live| b" \t\n*?[".contains(&live.byte)) {
                    return refuse("a value that some shells split here", word.span.start);
                }
                Ok(live)
            }
            Part::Computed(computed) => refuse(computed.what, computed.at),
        }
    }

    fn literal(&self, byte: u8, span: &Range<usize>, word: &Word) -> LiveByte {
        let origin = Origin { file: self.file, span: span.clone(), assignment: word.span.start };
        LiveByte { byte, origin: Some(origin) }
    }

    fn substitute(&self, name: &str, form: &Form, word: &Word) -> Result<Vec<LiveByte>, Reason> {
        let value = match self.lookup(name) {
            Val::Text(text) => Some(text.live),
            Val::Unset => None,
            Val::Opaque(reason) => return Err(reason),
        };
        let counts = |colon: bool| value.as_ref().is_some_and(|live| !colon || !live.is_empty());
        let text = |parts: &[Part]| parts.iter().filter_map(|part| self.literal_part(part, word)).collect();
        Ok(match form {
            Form::Value => value.unwrap_or_default(),
            Form::OrElse { colon, .. } if counts(*colon) => value.unwrap_or_default(),
            Form::IfSet { colon, .. } if !counts(*colon) => Vec::new(),
            Form::OrElse { text: other, .. } | Form::IfSet { text: other, .. } => text(other),
        })
    }

    fn literal_part(&self, part: &Part, word: &Word) -> Option<LiveByte> {
        match part {
            Part::Byte { byte, span, .. } => Some(self.literal(*byte, span, word)),
            Part::Variable { .. } | Part::Computed(_) => None,
        }
    }
}

fn is_plain(part: &Part) -> bool {
    matches!(part, Part::Byte { quote: Quote::Plain, .. })
}
