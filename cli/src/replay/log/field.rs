//! What the parts of a line mean, and how their text becomes a value of a record.

use super::record::{Record, Slot, Slots};
use super::time::{TimeFormat, decimal};
use diana_limiter::time::Time;
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

/// The slots of method and target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestLine {
    method: usize,
    target: usize,
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

    /// The request line.
    #[must_use]
    pub fn request_line(slots: &Slots) -> Field {
        match (slots.find(&Slot::Method), slots.find(&Slot::Target)) {
            (Some(method), Some(target)) => Field::RequestLine(RequestLine { method, target }),
            _ => Field::Unread,
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
                is_list && !text.ends_with(b",") && !text.ends_with(b":") && !text.ends_with(b" ")
            }
            _ => true,
        }
    }

    /// Puts the text of the field into the record. The error says what is wrong.
    pub fn put(&self, text: &[u8], to: &mut Incoming) -> Result<(), &'static str> {
        let record = &mut *to.record;
        let whole = |text: &[u8], why| decimal(text, 0).ok_or(why);
        match self {
            Field::Start(format) => to.start = Some(format.parse(text).ok_or("the start is not a time")?),
            Field::End(format) => to.end = Some(format.parse(text).ok_or("the time cannot be read")?),
            Field::Duration(shift) => {
                record.duration_ns = Some(decimal(text, *shift).ok_or("the duration is no number")?);
            }
            Field::Latency(shift) => {
                // nginx lists the times of several upstreams; the last one responded.
                let last = text.rsplit(|byte| b",: ".contains(byte)).next().unwrap_or_default();
                record.latency_ns = record.latency_ns.or_else(|| decimal(last, *shift));
            }
            Field::Status => {
                let status = whole(text, "the status is not a number")?;
                // A client that left before the response has status 0 in Envoy.
                record.status = u16::try_from(status).ok().filter(|status| *status > 0);
            }
            Field::Received => record.received = Some(whole(text, "the bytes received are no number")?),
            Field::Sent => record.sent = Some(whole(text, "the bytes sent are no number")?),
            Field::Value(slot) => record.set(*slot, text),
            Field::RequestLine(line) => line.put(text, record),
            Field::Unread => {}
        }
        Ok(())
    }
}

impl RequestLine {
    /// Text that is not a request line, for example from a client that does not speak HTTP, has no
    /// target.
    fn put(self, text: &[u8], record: &mut Record) {
        let mut words = text.splitn(2, |byte| *byte == b' ');
        if let (Some(method), Some(rest)) = (words.next(), words.next()) {
            // A target may contain spaces in nginx. HTTP/0.9 has no protocol.
            let target = match rest.iter().rposition(|byte| *byte == b' ') {
                Some(end) if rest.get(end..).is_some_and(|end| end.starts_with(b" HTTP/")) => {
                    rest.get(..end).unwrap_or_default()
                }
                _ => rest,
            };
            record.set(self.method, method);
            record.set(self.target, target);
        }
    }
}

/// A record while its line is read.
#[derive(Debug)]
pub struct Incoming<'a> {
    /// The record.
    pub record: &'a mut Record,
    /// The start of the request, if the line has it.
    pub start: Option<Time>,
    /// The end of the request, if the line has it.
    pub end: Option<Time>,
}

impl Incoming<'_> {
    /// Computes the start from the end. The error says what is missing.
    pub fn finish(self, target: Option<usize>) -> Result<(), &'static str> {
        let duration = self.record.duration_ns.unwrap_or(0);
        let started = |end: Time| Time::from_ns(end.as_ns().saturating_sub(duration));
        self.record.start = self.start.or(self.end.map(started)).ok_or("the line has no time")?;
        match target.and_then(|slot| self.record.get(slot)) {
            Some(target) if !target.is_empty() => Ok(()),
            _ => Err("the line has no path"),
        }
    }
}

/// Which values the lines of a log have.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Known {
    /// Whether the lines have the start of the request.
    pub start: bool,
    /// Whether the only time is in whole seconds.
    pub whole_seconds: bool,
    /// Whether the lines have the duration.
    pub duration: bool,
    /// Whether the lines have the latency of the upstream.
    pub latency: bool,
    /// Whether the lines have the status.
    pub status: bool,
    /// Whether the lines have the bytes of request bodies.
    pub received: bool,
    /// Whether the lines have the bytes of response bodies.
    pub sent: bool,
    /// Whether each slot has a value in the lines, by index.
    slots: Vec<bool>,
}

impl Known {
    /// Adds the value that a field has.
    pub fn add(&mut self, field: &Field) {
        match field {
            Field::Start(format) => {
                self.whole_seconds = !self.start && format.is_whole_seconds();
                self.start = true;
            }
            Field::End(format) => self.whole_seconds |= !self.start && format.is_whole_seconds(),
            Field::Duration(_) => self.duration = true,
            Field::Latency(_) => self.latency = true,
            Field::Status => self.status = true,
            Field::Received => self.received = true,
            Field::Sent => self.sent = true,
            Field::Value(slot) => self.add_slot(*slot),
            Field::RequestLine(line) => {
                self.add_slot(line.method);
                self.add_slot(line.target);
            }
            Field::Unread => {}
        }
    }

    fn add_slot(&mut self, slot: usize) {
        if self.slots.len() <= slot {
            self.slots.resize(slot.saturating_add(1), false);
        }
        self.slots.iter_mut().skip(slot).take(1).for_each(|known| *known = true);
    }

    /// Whether the lines have a value of this slot.
    #[must_use]
    pub fn has(&self, slot: usize) -> bool {
        self.slots.get(slot).copied().unwrap_or(false)
    }
}

impl TimeFormat {
    fn is_whole_seconds(&self) -> bool {
        match self {
            TimeFormat::WholeSeconds => true,
            TimeFormat::Strftime(format) => !format.contains('f'),
            _ => false,
        }
    }
}

/// The name of a header in lower case, as text.
#[must_use]
pub fn header_name(name: &str) -> Box<str> {
    name.to_ascii_lowercase().into()
}

/// The text of bytes of a log, for messages.
#[must_use]
pub fn shown(text: &[u8]) -> String {
    let text =
        str::from_utf8(text).map_or_else(|_| String::from_utf8_lossy(text).into_owned(), str::to_owned);
    text.chars().take(60).collect::<String>().escape_debug().to_string()
}
