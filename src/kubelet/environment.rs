//! systemd's environment files (`EnvironmentFile=`): assignments with quotes, backslashes and continued lines, read the
//! way systemd itself does. They are no shell.

use std::iter::Peekable;
use std::str::CharIndices;

use super::traced::Traced;

/// One assignment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Assignment {
    /// The variable.
    pub name: String,
    /// Its value.
    pub value: Traced,
}

/// Everything a file assigns, in order; later ones win. Lines without `=` mean nothing, as for systemd.
#[must_use]
pub fn assignments(text: &str) -> Vec<Assignment> {
    let mut letters = text.char_indices().peekable();
    let mut found = Vec::new();
    while let Some(&(_, letter)) = letters.peek() {
        match letter {
            '#' | ';' => skip_comment(&mut letters),
            letter if letter.is_whitespace() => drop(letters.next()),
            _ => found.extend(assignment(&mut letters)),
        }
    }
    found
}

type Letters<'a> = Peekable<CharIndices<'a>>;

/// A comment goes on after a backslash at the end of its line.
fn skip_comment(letters: &mut Letters<'_>) {
    while let Some((_, letter)) = letters.next() {
        match letter {
            '\\' => drop(letters.next()),
            '\n' | '\r' => return,
            _ => {}
        }
    }
}

fn assignment(letters: &mut Letters<'_>) -> Option<Assignment> {
    let mut name = String::new();
    while let Some((index, letter)) = letters.next() {
        match letter {
            '=' => {
                let value = value(letters, index + 1);
                return Some(Assignment { name: name.trim_end().to_owned(), value });
            }
            '\n' | '\r' => return None,
            _ => name.push(letter),
        }
    }
    None
}

/// Quoted pieces and blanks between them, then perhaps a piece without quotes, in which quotes mean nothing.
fn value(letters: &mut Letters<'_>, start: usize) -> Traced {
    let mut value = Traced::at(start);
    while let Some(&(_, letter)) = letters.peek() {
        match letter {
            '\n' | '\r' => return value,
            '\'' | '"' => quoted(letters, letter, &mut value),
            letter if letter.is_whitespace() => drop(letters.next()),
            _ => {
                unquoted(letters, &mut value);
                value.trim_end();
                return value;
            }
        }
    }
    value
}

fn unquoted(letters: &mut Letters<'_>, value: &mut Traced) {
    while let Some((start, letter)) = letters.next_if(|(_, letter)| !matches!(letter, '\n' | '\r')) {
        if letter != '\\' {
            value.push(letter, start, start + letter.len_utf8());
        } else if let Some((next, letter)) = letters.next().filter(|(_, letter)| *letter != '\n') {
            value.push(letter, start, next + letter.len_utf8());
        }
    }
}

fn quoted(letters: &mut Letters<'_>, quote: char, value: &mut Traced) {
    letters.next();
    while let Some((start, letter)) = letters.next() {
        match letter {
            letter if letter == quote => return,
            '\\' if quote == '"' => escaped(letters, start, value),
            _ => value.push(letter, start, start + letter.len_utf8()),
        }
    }
}

/// In double quotes a backslash takes the meaning from four signs, joins lines, and is otherwise itself.
fn escaped(letters: &mut Letters<'_>, start: usize, value: &mut Traced) {
    let Some((next, letter)) = letters.next() else { return };
    let end = next + letter.len_utf8();
    match letter {
        '\n' => {}
        '"' | '\\' | '`' | '$' => value.push(letter, start, end),
        _ => {
            value.push('\\', start, start + 1);
            value.push(letter, next, end);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Vec<(String, String)> {
        assignments(text).into_iter().map(|found| (found.name, found.value.text())).collect()
    }

    #[test]
    fn as_systemd_reads_them() {
        for (text, expected) in [
            ("A=b\n", "b"),
            ("  A =  b c  \n", "b c"),
            ("A=\"b c\"\n", "b c"),
            ("A='b \\ c'\n", "b \\ c"),
            ("A=\"b \\\n c\"\n", "b  c"),
            ("A=b \\\n  c\r\n", "b   c"),
            ("A=\"\\\"\\$x\\n\"\n", "\"$x\\n"),
            ("A=\"b\" 'c'\n", "bc"),
            ("A=it's\n", "it's"),
            ("A=b # no comment", "b # no comment"),
            ("A=", ""),
            ("A=\\", ""),
            ("A=\"b", "b"),
        ] {
            assert_eq!(read(text), [("A".to_owned(), expected.to_owned())], "{text:?}");
        }
    }

    #[test]
    fn comments_and_lines_that_mean_nothing() {
        let text = "# A=1\n; B=2\nnonsense\n\n# goes on \\\nC=3\nD=4\n";
        assert_eq!(read(text), [("D".to_owned(), "4".to_owned())]);
    }
}
