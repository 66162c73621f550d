//! Where log lines go: to the journal with its fields when systemd runs us, to standard error otherwise.

use std::io::Write as _;

use log::{LevelFilter, Log, Metadata, Record};
use systemd_journal_logger::{JournalLog, connected_to_journal};

struct StandardError;

impl Log for StandardError {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &Record<'_>) {
        let level = record.level().as_str().to_ascii_lowercase();
        let text = super::output::visible(&record.args().to_string());
        let _ = writeln!(std::io::stderr().lock(), "{level}: {text}");
    }

    fn flush(&self) {}
}

/// Starts logging. Warnings are always shown, `-v` adds what was read and which programs are run, `-vv` everything.
/// Other crates are heard from only when they warn.
pub fn log_to(verbose: u8) {
    let level = match verbose {
        0 => LevelFilter::Warn,
        1 => LevelFilter::Info,
        _ => LevelFilter::Debug,
    };
    let installed = connected_to_journal()
        && JournalLog::new()
            .is_ok_and(|journal| journal.with_syslog_identifier("cgroup2-migrate".into()).install().is_ok());
    if !installed {
        let _ = log::set_logger(&StandardError);
    }
    log::set_max_level(level);
}
