//! Instants of a case: `2026-01-31T12:00:00Z`, `10:05` or `90s` after its start.

use crate::explain::request::parsed_instant;
use diana_base::time::{Span, Time};
use diana_document::{Errors, Node, Value};
use jiff::civil;
use jiff::tz::Offset;
use jiff::{Timestamp, ToSpan};

/// What the errors expect.
const EXPECTED: &str = "an instant such as `2026-01-31T12:00:00Z`, a time of day such as `10:05`, or a span after the start such as `90s`";

/// The instant at this node, of a case that begins at `start`. A time of day, in UTC, is the first
/// one from the start on.
pub fn of(node: &Node, start: Time) -> Option<Time> {
    let Value::Text(text) = node.value() else { return node.expected(EXPECTED) };
    match parsed(text, start) {
        Some(instant) if instant >= start => Some(instant),
        Some(_) => {
            node.fail("the instant is before the start of the case");
            None
        }
        None => node.expected(EXPECTED),
    }
}

/// The instant in a text.
pub fn parsed(text: &str, start: Time) -> Option<Time> {
    let text = text.trim();
    if let Some(span) = span(text.trim_start_matches('+')) {
        return Some(start.after(span));
    }
    match text.parse::<civil::Time>() {
        Ok(time) if text.contains(':') && !text.contains(['T', 'Z']) => of_day(time, start),
        _ => parsed_instant(text).ok().filter(|_| text.contains('T')),
    }
}

/// A span such as `90s` or `1h`. Plain numbers are no spans.
fn span(text: &str) -> Option<Span> {
    let (value, errors) = (Value::Text(text.into()), Errors::default());
    Node::root(&value, &errors).span(Span::ZERO..=Span::from_secs(100 * 366 * 86_400))
}

fn of_day(time: civil::Time, start: Time) -> Option<Time> {
    let begin = Offset::UTC.to_datetime(Timestamp::from_nanosecond(start.as_ns().into()).ok()?);
    let mut at = begin.date().to_datetime(time);
    if at < begin {
        at = at.checked_add(1.day()).ok()?;
    }
    let at = Offset::UTC.to_timestamp(at).ok()?;
    u64::try_from(at.as_nanosecond()).ok().map(Time::from_ns)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_is_an_instant_a_time_of_day_or_a_span() {
        let start = parsed_instant("2026-01-31T12:00:00Z").unwrap();
        let moment = |text: &str| parsed(text, start).map(|at| at.since(start).as_ns() / 1_000_000_000);
        for (text, seconds) in [
            ("90s", 90),
            ("+5m", 300),
            ("0", 0),
            ("12:00", 0),
            ("12:00:05", 5),
            ("11:59", 86_340),
            ("2026-01-31T13:00:00+01:00", 0),
            ("2026-02-01T12:00:00Z", 86_400),
        ] {
            assert_eq!(moment(text), Some(seconds), "{text}");
        }
        for text in ["", "noon", "25:00", "10", "-5m", "1.5s", "2026-01-31"] {
            assert_eq!(moment(text), None, "{text}");
        }
    }
}
