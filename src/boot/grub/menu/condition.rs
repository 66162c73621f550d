//! `test` and `[`, with three answers: yes, no, and "that only shows on the machine" (`None`).

use super::value::Value;

/// Asks about a file that a condition names.
pub(super) type Files<'a> = &'a dyn Fn(&str) -> Option<bool>;

/// The answer to the words between `[` and `]`.
pub(super) fn holds(words: &[Value], files: Files<'_>) -> Option<bool> {
    let mut reader = Reader { words, position: 0, files };
    let answer = reader.any();
    // Words left over: a form this reader does not know, so it claims nothing.
    if reader.position == words.len() { answer } else { None }
}

struct Reader<'a> {
    words: &'a [Value],
    position: usize,
    files: Files<'a>,
}

impl<'a> Reader<'a> {
    fn at(&self, ahead: usize) -> Option<&'a Value> {
        self.words.get(self.position + ahead)
    }

    fn is(&self, ahead: usize, text: &str) -> bool {
        self.at(ahead).and_then(Value::known) == Some(text)
    }

    fn any(&mut self) -> Option<bool> {
        let mut answer = self.all();
        while self.is(0, "-o") {
            self.position += 1;
            answer = or(answer, self.all());
        }
        answer
    }

    fn all(&mut self) -> Option<bool> {
        let mut answer = self.one();
        while self.is(0, "-a") {
            self.position += 1;
            answer = and(answer, self.one());
        }
        answer
    }

    fn one(&mut self) -> Option<bool> {
        if self.is(0, "!") && self.at(1).is_some() {
            self.position += 1;
            return self.one().map(|answer| !answer);
        }
        if self.is(0, "(") {
            self.position += 1;
            let answer = self.any();
            self.position += 1;
            return answer;
        }
        if let Some(answer) = self.compared() {
            self.position += 3;
            return answer;
        }
        self.single()
    }

    fn compared(&self) -> Option<Option<bool>> {
        let (left, sign, right) = (self.at(0)?, self.at(1)?.known()?, self.at(2)?);
        let texts = || Some((left.comparable()?, right.comparable()?));
        Some(match sign {
            "=" | "==" => texts().map(|(left, right)| left == right),
            "!=" => texts().map(|(left, right)| left != right),
            "-eq" | "-ne" | "-lt" | "-le" | "-gt" | "-ge" => {
                texts().and_then(|(left, right)| numbers(sign, left, right))
            }
            _ => return None,
        })
    }

    fn single(&mut self) -> Option<bool> {
        let Some(first) = self.at(0) else { return Some(false) };
        let Some(operand) = self.at(1).filter(|_| is_question(first)) else {
            self.position += 1;
            return is_nonempty(first);
        };
        self.position += 2;
        match first.text.as_str() {
            "-n" => is_nonempty(operand),
            "-z" => is_nonempty(operand).map(|nonempty| !nonempty),
            _ => operand.known().and_then(self.files),
        }
    }
}

fn is_question(word: &Value) -> bool {
    matches!(word.known(), Some("-n" | "-z" | "-s" | "-f" | "-e" | "-d"))
}

/// A text with something known in it is not empty, whatever the rest may be.
fn is_nonempty(value: &Value) -> Option<bool> {
    if let Some(text) = value.known() {
        return Some(!text.is_empty());
    }
    let mut names: Vec<_> = value.unknown.iter().collect();
    // The longer ones first: `$net` is also the beginning of `$net_default_ip`.
    names.sort_by_key(|name| std::cmp::Reverse(name.len()));
    let known = names.iter().fold(value.text.clone(), |text, name| text.replace(&format!("${name}"), ""));
    (!known.is_empty()).then_some(true)
}

fn numbers(sign: &str, left: &str, right: &str) -> Option<bool> {
    let (left, right) = (left.parse::<i64>().ok()?, right.parse::<i64>().ok()?);
    match sign {
        "-eq" => Some(left == right),
        "-ne" => Some(left != right),
        "-lt" => Some(left < right),
        "-le" => Some(left <= right),
        "-gt" => Some(left > right),
        "-ge" => Some(left >= right),
        _ => None,
    }
}

fn and(one: Option<bool>, other: Option<bool>) -> Option<bool> {
    match (one, other) {
        (Some(false), _) | (_, Some(false)) => Some(false),
        (Some(true), Some(true)) => Some(true),
        (None, _) | (_, None) => None,
    }
}

fn or(one: Option<bool>, other: Option<bool>) -> Option<bool> {
    and(one.map(|answer| !answer), other.map(|answer| !answer)).map(|answer| !answer)
}
