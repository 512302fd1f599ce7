//! Instants as people read them, in UTC, and the places of ticks on an axis of time.

use jiff::Timestamp;
use maud::{Markup, html};

/// Shown for an instant outside the calendar's range.
const UNKNOWN: &str = "unknown";

/// Seconds since the Unix epoch in one of the forms of `strftime`.
fn formatted(seconds: f64, form: &str) -> Option<String> {
    if !seconds.is_finite() {
        return None;
    }
    // A cast of a float saturates; `from_second` refuses instants outside the calendar's range.
    let timestamp = Timestamp::from_second(seconds.floor() as i64).ok()?;
    Some(timestamp.strftime(form).to_string())
}

/// An instant to the second: `2026-03-02 14:05:09`.
pub fn instant(seconds: f64) -> String {
    formatted(seconds, "%Y-%m-%d %H:%M:%S").unwrap_or_else(|| UNKNOWN.to_owned())
}

/// The start of an interval of `length_s` seconds, with its weekday: `Mon 2026-03-02 14:05`, with
/// seconds if the interval is shorter than a minute.
pub fn start_of_interval(seconds: f64, length_s: f64) -> String {
    let form = if length_s < 60.0 { "%a %Y-%m-%d %H:%M:%S" } else { "%a %Y-%m-%d %H:%M" };
    formatted(seconds, form).unwrap_or_else(|| UNKNOWN.to_owned())
}

/// An instant that browsers can read, or a dash.
pub fn element(seconds: Option<f64>) -> Markup {
    match seconds.and_then(|seconds| Some((seconds, formatted(seconds, "%Y-%m-%dT%H:%M:%SZ")?))) {
        Some((seconds, machine)) => html! { time datetime=(machine) { (instant(seconds)) } },
        None => html! { span .none { "–" } },
    }
}

/// An instant without its year, for narrow columns, or a dash. The year is in the attribute.
pub fn brief(seconds: Option<f64>) -> Markup {
    let parts =
        |seconds| Some((formatted(seconds, "%Y-%m-%dT%H:%M:%SZ")?, formatted(seconds, "%-d %b %H:%M:%S")?));
    match seconds.and_then(parts) {
        Some((machine, text)) => html! { time datetime=(machine) { (text) } },
        None => html! { span .none { "–" } },
    }
}

/// A place on an axis of time.
#[derive(Debug, PartialEq)]
pub struct Tick {
    /// From 0, the start of the axis, to 1.
    pub place: f64,
    /// A date, or a time of day.
    pub label: String,
}

/// At most `most` ticks from `start` to `end`, at round times.
pub fn ticks(start: f64, end: f64, most: usize) -> Vec<Tick> {
    const STEPS: [u32; 18] = [
        1, 5, 15, 60, 300, 900, 1_800, 3_600, 10_800, 21_600, 43_200, 86_400, 172_800, 604_800, 1_209_600,
        2_592_000, 7_776_000, 31_536_000,
    ];
    const DAY: f64 = 86_400.0;
    let length = end - start;
    if !(length.is_finite() && length > 0.0) {
        return Vec::new();
    }
    let fits = |step: &f64| length / step < most as f64;
    let Some(step) = STEPS.into_iter().map(f64::from).find(fits) else { return Vec::new() };
    let first = (start / step).ceil();
    (0..most)
        .map(|index| (first + index as f64) * step)
        .take_while(|at| *at <= end)
        .filter_map(|at| {
            let is_midnight = at.rem_euclid(DAY) == 0.0;
            let form = if is_midnight || step >= DAY {
                "%a %-d %b"
            } else if step < 60.0 {
                "%H:%M:%S"
            } else {
                "%H:%M"
            };
            Some(Tick { place: (at - start) / length, label: formatted(at, form)? })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Monday, 2 March 2026.
    const MONDAY: f64 = 1_772_409_600.0;

    #[test]
    fn instants_are_in_utc() {
        assert_eq!(instant(MONDAY + 0.9), "2026-03-02 00:00:00");
        assert_eq!(start_of_interval(MONDAY + 3_661.0, 60.0), "Mon 2026-03-02 01:01");
        assert_eq!(
            element(Some(-1.0)).into_string(),
            "<time datetime=\"1969-12-31T23:59:59Z\">1969-12-31 23:59:59</time>"
        );
    }

    #[test]
    fn what_no_calendar_has_is_unknown() {
        for seconds in [f64::NAN, f64::INFINITY, -1e300, 1e300] {
            assert_eq!(instant(seconds), UNKNOWN);
            assert!(element(Some(seconds)).into_string().contains('–'));
        }
        assert!(ticks(0.0, f64::NAN, 8).is_empty() && ticks(1.0, 1.0, 8).is_empty());
        assert!(ticks(0.0, 1e300, 8).is_empty());
    }

    #[test]
    fn ticks_stand_at_round_times() {
        let labels = |start, end| ticks(start, end, 8).into_iter().map(|tick| tick.label).collect::<Vec<_>>();
        let week = labels(MONDAY, MONDAY + 6.9 * 86_400.0);
        assert_eq!([&week[0], &week[6], &week.len().to_string()], ["Mon 2 Mar", "Sun 8 Mar", "7"]);
        assert_eq!(labels(MONDAY + 82_800.0, MONDAY + 90_000.0)[..3], ["23:00", "23:30", "Tue 3 Mar"][..]);
        assert_eq!(labels(MONDAY + 10.0, MONDAY + 13.0), ["00:00:10", "00:00:11", "00:00:12", "00:00:13"]);
        let places = ticks(MONDAY + 43_200.0, MONDAY + 3.0 * 86_400.0, 8);
        assert!(places.iter().all(|tick| (0.0..=1.0).contains(&tick.place)), "{places:?}");
    }
}
