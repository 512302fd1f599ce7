//! What the parts of a line mean, and how their text becomes a value of a record.

use super::incoming::{Incoming, Instant, Rank};
use super::record::{Slot, Slots};
use super::time::{TimeFormat, decimal};
use crate::printable::printable;
use std::str;

/// The meaning of one part of a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Field {
    /// When the request started.
    Start(TimeFormat),
    /// When the request ended.
    End(TimeFormat),
    /// How long the request took, in units of 10⁻⁹ s times ten to this power.
    Duration(u32),
    /// How long the upstream took to begin its response, in the same units.
    Latency(u32),
    /// The status.
    Status,
    /// The bytes of the request's body.
    Received,
    /// The bytes of the response's body.
    Sent,
    /// A value that the replay reads.
    Value(usize),
    /// Method, target and protocol, separated by spaces.
    RequestLine(RequestLine),
    /// A value that the replay does not read.
    Unread,
}

/// The slots of method and target, each with its rank among the fields of its slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestLine {
    method: (usize, Rank),
    target: (usize, Rank),
}

/// Milliseconds, as a power of ten nanoseconds.
pub const MILLIS: u32 = 6;
/// Seconds, as a power of ten nanoseconds.
pub const SECONDS: u32 = 9;

impl Field {
    /// A value that the replay reads, if it is among `slots`.
    #[must_use]
    pub fn value(slots: &Slots, slot: &Slot) -> Field {
        slots.find(slot).map_or(Field::Unread, Field::Value)
    }

    /// The request line, with the ranks of its method and its target.
    #[must_use]
    pub fn request_line(slots: &Slots, method: Rank, target: Rank) -> Field {
        match (slots.find(&Slot::Method), slots.find(&Slot::Target)) {
            (Some(method_slot), Some(target_slot)) => Field::RequestLine(RequestLine {
                method: (method_slot, method),
                target: (target_slot, target),
            }),
            _ => Field::Unread,
        }
    }

    /// The format of the time in this field.
    #[must_use]
    pub fn time(&self) -> Option<&TimeFormat> {
        match self {
            Field::Start(format) | Field::End(format) => Some(format),
            _ => None,
        }
    }

    /// Whether the field gives a slot a value.
    #[must_use]
    pub fn gives(&self, slot: usize) -> bool {
        match self {
            Field::Value(own) => *own == slot,
            Field::RequestLine(line) => line.method.0 == slot || line.target.0 == slot,
            _ => false,
        }
    }

    /// Whether `text` may be the text of this field, so that a pattern may end the field here.
    #[must_use]
    pub fn accepts(&self, text: &[u8]) -> bool {
        match self {
            Field::Duration(_) | Field::Status | Field::Received | Field::Sent => {
                text == b"-" || text.iter().all(|byte| byte.is_ascii_digit() || *byte == b'.')
            }
            // nginx lists several upstreams: `0.100, 0.200 : -`.
            Field::Latency(_) => {
                let is_list = text.iter().all(|byte| byte.is_ascii_digit() || b".,:- ".contains(byte));
                let is_inside = |around: &[u8]| matches!(around, [b',' | b':', b' ', _] | [_, b' ', b':']);
                let separates = |around: &[u8]| around.get(1) != Some(&b' ') || is_inside(around);
                let is_whole = !text.ends_with(b",") && !text.ends_with(b":") && !text.ends_with(b" ");
                is_list && is_whole && text.windows(3).all(separates)
            }
            _ => true,
        }
    }

    /// Whether the field is a number without which a request can be replayed.
    #[must_use]
    pub fn is_number(&self) -> bool {
        matches!(self, Field::Duration(_) | Field::Latency(_) | Field::Status | Field::Received | Field::Sent)
    }

    /// Offers the record the text of the field; `None` if the field has no value. A number that
    /// cannot be read is no value.
    pub fn put(&self, rank: Rank, text: Option<&[u8]>, to: &mut Incoming) {
        let instant = |text, format: &TimeFormat, is_end| Instant {
            time: format.parse(text),
            is_end,
            is_whole: format.is_whole_seconds(),
        };
        let number = |shift| text.and_then(|text| decimal(text, shift));
        match self {
            Field::Start(format) => to.time.offer(rank, text.map(|text| instant(text, format, false))),
            Field::End(format) => to.time.offer(rank, text.map(|text| instant(text, format, true))),
            Field::Duration(shift) => to.duration_ns.offer(rank, number(*shift)),
            Field::Latency(shift) => {
                // nginx lists the times of several upstreams; the last one responded.
                let last = text.and_then(|text| text.rsplit(|byte| b",: ".contains(byte)).next());
                to.latency_ns.offer(rank, last.and_then(|last| decimal(last, *shift)));
            }
            Field::Status => {
                // A client that left before the response has status 0 in Envoy.
                let status = number(0).and_then(|status| u16::try_from(status).ok());
                to.status.offer(rank, status.filter(|status| *status > 0));
            }
            Field::Received => to.received.offer(rank, number(0)),
            Field::Sent => to.sent.offer(rank, number(0)),
            Field::Value(slot) => to.offer(*slot, rank, text),
            Field::RequestLine(line) => line.put(text, to),
            Field::Unread => {}
        }
    }
}

impl RequestLine {
    /// Text that is not a request line, for example from a client that does not speak HTTP, has no
    /// target.
    fn put(self, text: Option<&[u8]>, to: &mut Incoming) {
        let words = text.and_then(|text| {
            let space = text.iter().position(|byte| *byte == b' ')?;
            let (method, rest) = text.split_at_checked(space)?;
            Some((method, rest.get(1..)?))
        });
        let target = words.map(|(_, rest)| {
            // A target may contain spaces in nginx. HTTP/0.9 has no protocol.
            match rest.iter().rposition(|byte| *byte == b' ') {
                Some(end) if rest.get(end..).is_some_and(|end| end.starts_with(b" HTTP/")) => {
                    rest.get(..end).unwrap_or_default()
                }
                _ => rest,
            }
        });
        let ((method, method_rank), (slot, rank)) = (self.method, self.target);
        to.offer(method, method_rank, words.map(|(method, _)| method));
        to.offer(slot, rank, target);
    }
}

/// The name of a header in lower case, as text.
#[must_use]
pub fn header_name(name: &str) -> Box<str> {
    name.to_ascii_lowercase().into()
}

/// The beginning of a line of a log, for messages.
#[must_use]
pub fn shown(line: &[u8]) -> String {
    const MOST: usize = 100;
    let text = String::from_utf8_lossy(line);
    let mut shown = printable(&text.chars().take(MOST).collect::<String>());
    if text.chars().nth(MOST).is_some() {
        shown.push('…');
    }
    shown
}
