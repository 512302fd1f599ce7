//! The logger behind the `log` crate: writes lines to the host's log.
//!
//! The filter as it ships compiles debug lines out (`release_max_level_info`): a line that Envoy
//! drops would still cost a host call, about 150 ns.

use super::calls;
use log::{Level, LevelFilter, Log, Metadata, Record};

/// Writes to the host's log.
struct HostLog;

impl Log for HostLog {
    fn enabled(&self, _: &Metadata) -> bool {
        true
    }

    fn log(&self, record: &Record) {
        write(record.level(), &record.args().to_string());
    }

    fn flush(&self) {}
}

/// Has the `log` crate write to the host from now on. Repeated calls have no effect.
pub(super) fn install() {
    if log::set_logger(&HostLog).is_ok() {
        log::set_max_level(LevelFilter::Debug);
    }
}

/// Writes a line at the host's number for the level.
fn write(level: Level, line: &str) {
    let level = match level {
        Level::Trace => 0,
        Level::Debug => 1,
        Level::Info => 2,
        Level::Warn => 3,
        Level::Error => 4,
    };
    calls::log(level, line);
}
