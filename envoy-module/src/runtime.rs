//! Envoy's runtime value `diana.enforce`: the largest part of their actors, in percent, for which
//! rules and deny lists refuse. Envoy shows its runtime to modules on the main thread only, and
//! announces no change, so the main thread reads the value once a second.
//!
//! ```text
//!   timer ─► main thread reads ─► HUNDREDTHS ─► worker: the next request compiles its documents
//! ```

use crate::abi::{Bytes, Exports};
use diana_limiter::policy::Enforce;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// How often the main thread reads the value.
pub const READ_EVERY: Duration = Duration::from_secs(1);

/// 100 %, in hundredths of a percent.
const WHOLE: u32 = 10_000;

/// The value, in hundredths of a percent.
static HUNDREDTHS: AtomicU32 = AtomicU32::new(WHOLE);

/// The value, in hundredths of a percent.
pub fn hundredths() -> u32 {
    HUNDREDTHS.load(Ordering::Relaxed)
}

/// The part of the actors that the value allows.
pub fn max_enforce() -> Enforce {
    let part = Enforce::parse(&text(hundredths()));
    debug_assert!(part.is_some(), "a part beyond the whole");
    part.unwrap_or(Enforce::EVERYBODY)
}

/// Reads the value, and logs a change. Returns whether this Envoy has a runtime for modules. Only
/// on the main thread.
pub fn read(envoy: &Exports) -> bool {
    let Some(read) = envoy.get_runtime_number else {
        return false;
    };
    // SAFETY: the key lives through the call.
    let percent = unsafe { read(Bytes::of(b"diana.enforce"), 100.0) };
    let value = hundredths_of(percent);
    if HUNDREDTHS.swap(value, Ordering::Relaxed) != value {
        log::warn!(
            "runtime `diana.enforce`: from now on, rules and `deny` refuse for at most {} of their actors",
            text(value)
        );
    }
    true
}

/// A percentage in hundredths, clamped to 0 and 100 %. NaN counts as 100 %.
fn hundredths_of(percent: f64) -> u32 {
    if percent.is_nan() {
        return WHOLE;
    }
    // The conversion saturates, and the number is at most the whole.
    (percent.clamp(0.0, 100.0) * 100.0).round() as u32
}

fn text(hundredths: u32) -> String {
    format!("{}.{:02}%", hundredths / 100, hundredths % 100)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_number_is_a_part() {
        let cases =
            [(0.0, "0%"), (-3.0, "0%"), (0.256, "0.26%"), (5.0, "5%"), (1e30, "100%"), (f64::NAN, "100%")];
        for (percent, part) in cases {
            assert_eq!(Enforce::parse(&text(hundredths_of(percent))).unwrap().to_string(), part, "{percent}");
        }
    }
}
