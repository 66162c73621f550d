//! Points at which a test can stop the program for good, as a power cut would. Compiled in only with the
//! feature `failpoints`, which no package is built with.
//!
//! A point is armed by writing its name (`before-regenerate`) into [`ARMED`]. Whoever reaches it takes the file
//! away, so that the next boot is not stopped again, says so on the console, and never goes on.

/// File that names the armed point.
#[cfg(feature = "failpoints")]
const ARMED: &str = "/etc/cgroup2-migrate-failpoint";

/// Stops here for good if this point is armed.
#[cfg(feature = "failpoints")]
pub fn reach(name: &str) {
    use std::io::Write as _;
    match std::fs::read_to_string(ARMED) {
        Ok(armed) if armed.trim() == name => {}
        Ok(_) | Err(_) => return,
    }
    let _ = std::fs::remove_file(ARMED);
    if let Ok(directory) = std::fs::File::open("/etc") {
        let _ = directory.sync_all();
    }
    if let Ok(mut console) = std::fs::OpenOptions::new().write(true).open("/dev/console") {
        let _ = writeln!(console, "cgroup2-migrate failpoint {name}");
    }
    loop {
        std::thread::park();
    }
}

/// Does nothing in this build.
#[cfg(not(feature = "failpoints"))]
pub fn reach(_name: &str) {}
