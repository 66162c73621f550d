//! Shows a guest's console while it is written.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// Prints what comes on a console until it is dropped.
pub(crate) struct ConsoleTail {
    stop: Arc<AtomicBool>,
    printer: Option<JoinHandle<()>>,
}

impl ConsoleTail {
    /// Begins with what comes from now on.
    pub(crate) fn start(console: PathBuf) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let printer = thread::spawn(move || {
            let mut shown = read(&console).len();
            while !stopped.load(Ordering::Relaxed) {
                thread::sleep(Duration::from_millis(300));
                shown += print_lines(read(&console).get(shown..).unwrap_or_default());
            }
        });
        Self { stop, printer: Some(printer) }
    }
}

impl Drop for ConsoleTail {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(printer) = self.printer.take() {
            // It only prints.
            let _ = printer.join();
        }
    }
}

fn read(console: &PathBuf) -> Vec<u8> {
    fs::read(console).unwrap_or_default()
}

/// Prints whole lines; gives the length of what was dealt with.
fn print_lines(new: &[u8]) -> usize {
    let Some(last_break) = new.iter().rposition(|byte| *byte == b'\n') else { return 0 };
    let whole = String::from_utf8_lossy(new.get(..=last_break).unwrap_or_default()).into_owned();
    for line in whole.lines().map(plain).filter(|line| !line.is_empty()) {
        println!("    console | {line}");
    }
    last_break + 1
}

/// A line without the escape sequences GRUB draws with.
fn plain(line: &str) -> String {
    let mut text = String::new();
    let mut characters = line.chars();
    while let Some(character) = characters.next() {
        if character == '\x1b' {
            // A sequence ends with its first letter.
            let _ = characters.by_ref().find(|character| character.is_ascii_alphabetic());
        } else if !character.is_control() {
            text.push(character);
        }
    }
    text.trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escape_sequences_are_dropped() {
        assert_eq!(
            plain("\x1b[H\x1b[J\x1b[1;1H  Booting `Debian GNU/Linux'\r"),
            "Booting `Debian GNU/Linux'"
        );
    }

    #[test]
    fn half_a_line_waits() {
        assert_eq!(print_lines(b"whole\nhal"), 6);
        assert_eq!(print_lines(b"hal"), 0);
    }
}
