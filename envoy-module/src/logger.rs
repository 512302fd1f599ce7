//! The logger behind the `log` crate: writes lines to Envoy's log.

use crate::abi::{Exports, envoy, log_level};
use crate::calls;
use log::{Level, LevelFilter, Log, Metadata, Record};

/// Writes to Envoy's log.
struct EnvoyLog;

fn number(level: Level) -> u32 {
    match level {
        Level::Trace => log_level::TRACE,
        Level::Debug => log_level::DEBUG,
        Level::Info => log_level::INFO,
        Level::Warn => log_level::WARN,
        Level::Error => log_level::ERROR,
    }
}

fn takes(envoy: &Exports, level: Level) -> bool {
    // SAFETY: a plain number.
    unsafe { (envoy.log_enabled)(number(level)) }
}

impl Log for EnvoyLog {
    fn enabled(&self, metadata: &Metadata) -> bool {
        envoy().is_some_and(|envoy| takes(envoy, metadata.level()))
    }

    fn log(&self, record: &Record) {
        if let Some(envoy) = envoy()
            && takes(envoy, record.level())
        {
            let place = (record.file().unwrap_or_default(), record.line().unwrap_or(0));
            calls::log(envoy, number(record.level()), &record.args().to_string(), place);
        }
    }

    fn flush(&self) {}
}

/// Makes the `log` crate write to Envoy from now on. Repeated calls have no effect.
pub fn install() {
    if log::set_logger(&EnvoyLog).is_ok() {
        log::set_max_level(LevelFilter::Debug);
    }
}
