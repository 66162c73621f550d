//! Lines that say what is being done, for work that takes minutes.

use std::io::{IsTerminal, Write};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

/// Says what begins now.
pub(crate) fn step(what: &str) {
    eprintln!("==> {what}");
}

/// Runs `work` and shows for how long already: on one line of a terminal, by a line each ten seconds elsewhere.
pub(crate) fn watched<T>(what: &str, work: impl FnOnce() -> T) -> T {
    step(what);
    let begin = Instant::now();
    let (finished, is_finished) = channel::<()>();
    let ticker = thread::spawn(move || {
        let on_terminal = std::io::stderr().is_terminal();
        let pause = Duration::from_secs(if on_terminal { 1 } else { 10 });
        while is_finished.recv_timeout(pause) == Err(RecvTimeoutError::Timeout) {
            show_elapsed(begin.elapsed(), on_terminal);
        }
    });
    let result = work();
    drop(finished);
    // The ticker only prints; were it to panic, the work would be no less done.
    let _ = ticker.join();
    eprintln!("{}    {} s", clear_line(), begin.elapsed().as_secs());
    result
}

fn show_elapsed(elapsed: Duration, on_terminal: bool) {
    let seconds = elapsed.as_secs();
    if on_terminal {
        eprint!("\r    {seconds} s ");
        // Progress that cannot be shown is not worth failing for.
        let _ = std::io::stderr().flush();
    } else {
        eprintln!("    ... {seconds} s");
    }
}

fn clear_line() -> &'static str {
    if std::io::stderr().is_terminal() { "\r\x1b[K" } else { "" }
}
