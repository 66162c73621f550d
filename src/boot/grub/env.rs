//! GRUB's environment block (`grubenv`): a file of fixed size that GRUB itself writes in place, so what is
//! written must never make it longer or shorter.

use std::collections::BTreeMap;

const SIGNATURE: &str = "# GRUB Environment Block\n";
/// What `grub-editenv create` makes. GRUB itself reads any size.
const USUAL_SIZE: usize = 1024;

/// Why a block cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EnvError {
    /// Another beginning.
    #[error(
        "read grubenv: it does not begin with `# GRUB Environment Block`; make a new one with grub-editenv create"
    )]
    NoSignature,
    /// A variable without an end, or padding that is none.
    #[error("read grubenv: it is torn at byte {offset}; make a new one with grub-editenv create")]
    Torn {
        /// Where the line that is not whole begins.
        offset: usize,
    },
    /// Not UTF-8.
    #[error("read grubenv: it is no text")]
    NotText,
    /// A value that does not fit.
    #[error(
        "set {name} in grubenv: {missing} bytes too long for a block of {size} bytes; unset variables that are not needed"
    )]
    NoRoom {
        /// The variable.
        name: String,
        /// What is lacking.
        missing: usize,
        /// Of the block.
        size: usize,
    },
    /// A name that would not be read back.
    #[error("set a variable in grubenv: `{name}` is no name for one")]
    BadName {
        /// The name.
        name: String,
    },
}

/// The environment block as found on disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GrubEnv {
    /// No such file.
    Missing,
    /// A file of no bytes: GRUB treats it as missing.
    Empty,
    /// A file GRUB does not read, or not to its end.
    Broken(EnvError),
    /// A block.
    Block(EnvBlock),
}

impl GrubEnv {
    /// From the content of the file, or `None` if there is none.
    #[must_use]
    pub fn read(bytes: Option<&[u8]>) -> Self {
        match bytes {
            None => Self::Missing,
            Some([]) => Self::Empty,
            Some(bytes) => EnvBlock::parse(bytes).map_or_else(Self::Broken, Self::Block),
        }
    }

    /// The value of a variable; `None` as well if there is no block.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        match self {
            Self::Block(block) => block.get(name),
            Self::Missing | Self::Empty | Self::Broken(_) => None,
        }
    }
}

/// A whole block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EnvBlock {
    size: usize,
    lines: Vec<Line>,
    variables: BTreeMap<String, String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Line {
    Comment(String),
    Variable { name: String, value: String },
}

impl EnvBlock {
    /// Reads a block.
    ///
    /// # Errors
    /// [`EnvError`] if GRUB would not read all of it.
    pub fn parse(bytes: &[u8]) -> Result<Self, EnvError> {
        let text = std::str::from_utf8(bytes).map_err(|_| EnvError::NotText)?;
        let mut rest = text.strip_prefix(SIGNATURE).ok_or(EnvError::NoSignature)?;
        let mut lines = Vec::new();
        while !is_padding(rest) {
            let torn = EnvError::Torn { offset: text.len() - rest.len() };
            let (line, behind) = split_line(rest).ok_or(torn.clone())?;
            lines.push(Line::parse(line).ok_or(torn)?);
            rest = behind;
        }
        Ok(Self::of(bytes.len(), lines))
    }

    fn of(size: usize, lines: Vec<Line>) -> Self {
        let variables = lines.iter().filter_map(|line| match line {
            Line::Variable { name, value } => Some((name.clone(), value.clone())),
            Line::Comment(_) => None,
        });
        Self { size, variables: variables.collect(), lines }
    }

    /// The value of a variable.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        self.variables.get(name).map(String::as_str)
    }

    /// All variables, by name.
    pub fn variables(&self) -> impl Iterator<Item = (&str, &str)> {
        self.variables.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// A sentence if the size is not the usual one: GRUB reads it, other tools may not.
    #[must_use]
    pub fn note(&self) -> Option<String> {
        (self.size != USUAL_SIZE).then(|| format!("grubenv is {} bytes instead of {USUAL_SIZE}", self.size))
    }

    /// The same block with a variable set, in its old place or behind the others.
    ///
    /// # Errors
    /// [`EnvError::NoRoom`] if the block is too small, [`EnvError::BadName`].
    pub fn with(&self, name: &str, value: &str) -> Result<Self, EnvError> {
        if name.is_empty() || name.starts_with('#') || name.contains(['=', '\n', '\\']) {
            return Err(EnvError::BadName { name: name.to_owned() });
        }
        let new = Line::Variable { name: name.to_owned(), value: value.to_owned() };
        let mut lines = self.lines.clone();
        match lines.iter_mut().find(|line| line.names(name)) {
            Some(line) => *line = new,
            None => lines.push(new),
        }
        let changed = Self::of(self.size, lines);
        match changed.used().checked_sub(self.size).filter(|missing| *missing > 0) {
            Some(missing) => Err(EnvError::NoRoom { name: name.to_owned(), missing, size: self.size }),
            None => Ok(changed),
        }
    }

    /// The same block without a variable.
    #[must_use]
    pub fn without(&self, name: &str) -> Self {
        let lines = self.lines.iter().filter(|line| !line.names(name)).cloned().collect();
        Self::of(self.size, lines)
    }

    fn used(&self) -> usize {
        SIGNATURE.len() + self.lines.iter().map(|line| line.text().len()).sum::<usize>()
    }

    /// The file, of the same size as it was read.
    #[must_use]
    pub fn bytes(&self) -> Vec<u8> {
        let mut text = SIGNATURE.to_owned();
        self.lines.iter().for_each(|line| text.push_str(&line.text()));
        let mut bytes = text.into_bytes();
        bytes.resize(self.size.max(bytes.len()), b'#');
        bytes
    }
}

impl Line {
    fn parse(line: &str) -> Option<Self> {
        if line.starts_with('#') {
            return Some(Self::Comment(line.to_owned()));
        }
        let (name, value) = line.split_once('=')?;
        // GRUB looks for the sign beyond the line's end; a name with a line in it is a torn block.
        (!name.contains('\n')).then(|| Self::Variable { name: name.to_owned(), value: unescaped(value) })
    }

    fn names(&self, wanted: &str) -> bool {
        match self {
            Self::Variable { name, .. } => name == wanted,
            Self::Comment(_) => false,
        }
    }

    fn text(&self) -> String {
        match self {
            Self::Comment(text) => format!("{text}\n"),
            Self::Variable { name, value } => {
                format!("{name}={}\n", value.replace('\\', "\\\\").replace('\n', "\\\n"))
            }
        }
    }
}

fn is_padding(rest: &str) -> bool {
    rest.bytes().all(|byte| byte == b'#')
}

/// The line without its end, and what follows; a backslash takes the next character with it.
fn split_line(text: &str) -> Option<(&str, &str)> {
    let mut escaped = false;
    for (offset, character) in text.char_indices() {
        match character {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '\n' => return Some((text.get(..offset)?, text.get(offset + 1..)?)),
            _ => {}
        }
    }
    None
}

fn unescaped(value: &str) -> String {
    let mut plain = String::with_capacity(value.len());
    let mut characters = value.chars();
    while let Some(character) = characters.next() {
        match character {
            '\\' => plain.extend(characters.next()),
            _ => plain.push(character),
        }
    }
    plain
}

#[cfg(test)]
mod tests;
