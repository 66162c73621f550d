//! Everything that begins with `$` or a backtick.

use super::{Computed, Form, Part, Quote, Reader, Sets, Stop, is_name, is_name_start};

impl Reader<'_> {
    /// Reads what `$` begins.
    pub(super) fn dollar(&mut self, quoted: bool, parts: &mut Vec<Part>) -> Result<(), Stop> {
        let at = self.at;
        match self.text.get(at + 1) {
            Some(b'{') => self.braces(quoted, parts),
            Some(b'(') if self.starts_with(b"$((") => self.arithmetic(parts),
            Some(b'(') => self.substitution(parts),
            Some(b'\'' | b'"') if !quoted => self.bash_quotes(parts),
            Some(b'\\') if self.starts_with(b"$\\\n") => Stop::foreign(at, "a `$` at the end of a line"),
            Some(byte) if is_name_start(*byte) => self.named(quoted, parts),
            Some(byte) if byte.is_ascii_digit() || b"@*#?$!-".contains(byte) => {
                self.at += 2;
                computed("a parameter of the shell", at, Sets::Nothing, parts)
            }
            Some(b'[') => Stop::foreign(at, "`$[…]`, which only bash knows"),
            Some(_) | None => {
                self.take(b'$', 1, if quoted { Quote::Double } else { Quote::Plain }, parts);
                Ok(())
            }
        }
    }

    fn named(&mut self, quoted: bool, parts: &mut Vec<Part>) -> Result<(), Stop> {
        let at = self.at;
        self.at += 1;
        let name = self.name();
        let goes_on = self.text.get(self.at + 2).is_some_and(|byte| is_name(*byte));
        if self.starts_with(b"\\\n") && goes_on {
            return Stop::foreign(at, "a variable name that goes on in the next line");
        }
        parts.push(Part::Variable { name, form: Form::Value, quoted });
        Ok(())
    }

    fn name(&mut self) -> String {
        let start = self.at;
        while self.peek().is_some_and(is_name) {
            self.at += 1;
        }
        String::from_utf8_lossy(self.text.get(start..self.at).unwrap_or_default()).into_owned()
    }

    /// `$'…'` and `$"…"`: bash gives them a meaning, dash reads a `$` and a quoted text.
    fn bash_quotes(&mut self, parts: &mut Vec<Part>) -> Result<(), Stop> {
        let at = self.at;
        self.at += 1;
        let mut inside = Vec::new();
        match self.peek() {
            Some(b'\'') => self.single_quoted(&mut inside)?,
            Some(_) | None => self.double_quoted(&mut inside)?,
        };
        let content = self.text.get(at + 1..self.at).unwrap_or_default();
        if content.iter().any(|byte| b"\\$`".contains(byte)) {
            return Stop::foreign(at, "`$'…'` or `$\"…\"`, which only bash knows");
        }
        computed("quotes that dash and bash read differently", at, Sets::Nothing, parts)
    }

    fn braces(&mut self, quoted: bool, parts: &mut Vec<Part>) -> Result<(), Stop> {
        let at = self.at;
        self.at += 2;
        let name = self.name();
        let form = self.form();
        match form.filter(|_| name.starts_with(|first: char| !first.is_ascii_digit())) {
            Some(form) => {
                self.at += 1;
                parts.push(Part::Variable { name, form, quoted });
                Ok(())
            }
            None => self.computed_braces(at, name, parts),
        }
    }

    /// What stands behind the name, if it is of a kind that can be followed; up to the closing brace.
    fn form(&mut self) -> Option<Form> {
        match self.text.get(self.at..).unwrap_or_default() {
            [b'}', ..] => Some(Form::Value),
            [b':', b'-', ..] => self.plain_operand(2).map(|text| Form::OrElse { colon: true, text }),
            [b'-', ..] => self.plain_operand(1).map(|text| Form::OrElse { colon: false, text }),
            [b':', b'+', ..] => self.plain_operand(2).map(|text| Form::IfSet { colon: true, text }),
            [b'+', ..] => self.plain_operand(1).map(|text| Form::IfSet { colon: false, text }),
            _ => None,
        }
    }

    /// The text after `:-` and its like, up to the brace, if nothing in it means anything to the shell.
    fn plain_operand(&mut self, operator: usize) -> Option<Vec<Part>> {
        let start = self.at + operator;
        let length = self.text.get(start..)?.iter().position(|byte| *byte == b'}')?;
        let operand = self.text.get(start..start + length)?;
        if operand.iter().any(|byte| b"\"'\\$`{~\n*?[".contains(byte)) {
            return None;
        }
        self.at = start;
        let mut parts = Vec::new();
        for byte in operand {
            self.take(*byte, 1, Quote::Double, &mut parts);
        }
        Some(parts)
    }

    fn computed_braces(&mut self, at: usize, name: String, parts: &mut Vec<Part>) -> Result<(), Stop> {
        let sets = match self.text.get(self.at..).unwrap_or_default() {
            [b'=', ..] | [b':', b'=', ..] => Sets::One(name),
            _ => Sets::Nothing,
        };
        self.skip_to_brace(at)?;
        let what = match sets {
            Sets::Nothing => "a parameter expansion",
            Sets::One(_) | Sets::Anything => "an expansion that also assigns",
        };
        computed(what, at, sets, parts)
    }

    fn skip_to_brace(&mut self, at: usize) -> Result<(), Stop> {
        loop {
            match self.peek() {
                Some(b'}') => break,
                Some(b'\'' | b'"' | b'\\' | b'$' | b'`' | b'{') => {
                    return Stop::foreign(at, "an expansion with quotes or expansions inside");
                }
                Some(_) => self.at += 1,
                None => return Stop::syntax(at, "`${` that is never closed"),
            }
        }
        self.at += 1;
        Ok(())
    }

    fn substitution(&mut self, parts: &mut Vec<Part>) -> Result<(), Stop> {
        let at = self.at;
        self.at += 2;
        let pending = std::mem::take(&mut self.here_documents);
        self.deeper(|reader| reader.list_until_parenthesis(at))?;
        self.here_documents = pending;
        computed("a command substitution", at, Sets::Nothing, parts)
    }

    fn arithmetic(&mut self, parts: &mut Vec<Part>) -> Result<(), Stop> {
        let at = self.at;
        self.at += 3;
        let mut open = 2_usize;
        while open > 0 {
            match self.peek() {
                Some(b'(') => open += 1,
                Some(b')') => open -= 1,
                Some(b'\'' | b'"' | b'`' | b'#' | b'\\') => {
                    return Stop::foreign(at, "arithmetic with quotes inside");
                }
                Some(_) => {}
                None => return Stop::syntax(at, "`$((` that is never closed"),
            }
            self.at += 1;
        }
        // `$((A=1))` assigns.
        computed("arithmetic", at, Sets::Anything, parts)
    }

    /// Reads to the closing backtick.
    pub(super) fn backticks(&mut self, parts: &mut Vec<Part>) -> Result<(), Stop> {
        let at = self.at;
        self.at += 1;
        loop {
            match self.peek() {
                Some(b'`') => break,
                Some(b'\\') => self.at += 2,
                Some(_) => self.at += 1,
                None => return Stop::syntax(at, "a backtick that is never closed"),
            }
        }
        self.at += 1;
        computed("a command substitution", at, Sets::Nothing, parts)
    }
}

fn computed(what: &'static str, at: usize, sets: Sets, parts: &mut Vec<Part>) -> Result<(), Stop> {
    parts.push(Part::Computed(Computed { what, sets, at }));
    Ok(())
}
