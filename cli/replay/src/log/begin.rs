//! What to pass as `--format` if no known format reads a log: the pattern that its lines begin
//! with.

use super::pattern::Numbers;
use super::record::{Record, Slots};
use super::{Format, envoy, nginx};

/// The beginning of nginx's `combined`, which other servers write alone.
const COMMON: &str = "$remote_addr - $remote_user [$time_local] \"$request\" $status $body_bytes_sent";

/// Formats that own formats often extend, the longest first, and a field for the rest of the line.
///
/// Istio's default format reads longer lines itself: the name of the route takes the rest.
const KNOWN: [(&str, &str, &str); 3] = [
    ("Envoy's default format", envoy::DEFAULT, "%MORE%"),
    ("nginx's `combined`", nginx::COMBINED, "$more"),
    ("the common log format", COMMON, "$more"),
];

/// What to pass as `--format` for these lines, which no known format reads.
pub fn advice<'l>(lines: impl Iterator<Item = &'l [u8]> + Clone, slots: &Slots) -> String {
    let reads = |pattern: &str| {
        let Ok(mut format) = Format::new(pattern, slots) else { return false };
        let mut record = Record::default();
        lines.clone().any(|line| format.fill(line, Numbers::Strict, &mut record).is_ok())
    };
    for (name, pattern, more) in KNOWN {
        if reads(pattern) {
            return format!("its lines have {name}: pass `--format '{pattern}'`");
        }
        let longer = format!("{pattern} {more}");
        if reads(&longer) {
            return format!(
                "its lines begin as in {name}: pass `--format '{longer}'`, with your own fields in place of `{more}` if the \
                 limits read them"
            );
        }
    }
    "pass `--format` with envoy, istio, nginx, json or a pattern such as '$msec \"$request\"'".into()
}
