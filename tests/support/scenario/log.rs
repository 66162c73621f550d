//! What the program logs, thread by thread.

use std::cell::RefCell;
use std::sync::Once;

thread_local! {
    static LINES: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
}

struct Kept;

impl log::Log for Kept {
    fn enabled(&self, _: &log::Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &log::Record<'_>) {
        if record.level() <= log::Level::Info {
            LINES.with_borrow_mut(|lines| lines.push(record.args().to_string()));
        }
    }

    fn flush(&self) {}
}

/// What was logged since it was asked for last.
pub(crate) fn logged() -> String {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        log::set_logger(&Kept).unwrap();
        log::set_max_level(log::LevelFilter::Info);
    });
    LINES.take().join("\n")
}
