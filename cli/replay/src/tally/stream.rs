//! The requests that a rule checked, in a few bytes each, to check them again by other quotas.

use diana_limiter::time::{Span, Time};

/// One request that a rule checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// The actor's place in the sample.
    pub place: u32,
    /// When the rule checked the request.
    pub at: Time,
    /// What the request costs.
    pub cost: u64,
    /// Whether the request may take the rule's headroom.
    pub is_high_priority: bool,
    /// How long the request took; 0 if the rule does not count requests in flight.
    pub duration_ns: u64,
}

/// Requests in the order of time.
#[derive(Clone, Debug, Default)]
pub struct Stream {
    bytes: Vec<u8>,
    last: Time,
    has_durations: bool,
}

const MS_NS: u64 = 1_000_000;

impl Stream {
    /// No requests.
    #[must_use]
    pub fn new(has_durations: bool) -> Stream {
        Stream { has_durations, ..Stream::default() }
    }

    /// Adds a request.
    pub fn push(&mut self, event: Event) {
        let Event { place, at, cost, is_high_priority, duration_ns } = event;
        self.number(u64::from(place) << 2 | u64::from(is_high_priority) << 1 | u64::from(cost != 1));
        let passed = at.since(self.last).as_ns();
        // Most logs have milliseconds.
        self.number(match passed.checked_rem(MS_NS) {
            Some(0) => passed.checked_div(MS_NS).unwrap_or(0) << 1,
            _ => passed << 1 | 1,
        });
        if cost != 1 {
            self.number(cost);
        }
        if self.has_durations {
            self.number(duration_ns);
        }
        self.last = self.last.max(at);
    }

    /// Appends a number, seven bits a byte, the lowest first (LEB128).
    fn number(&mut self, mut value: u64) {
        while value > 0x7f {
            self.bytes.push(0x80 | u8::try_from(value & 0x7f).unwrap_or(0));
            value >>= 7;
        }
        self.bytes.push(u8::try_from(value).unwrap_or(0));
    }

    /// The bytes in use.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Whether there are no requests.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// The requests of the actors to which `place` gives a place.
    #[must_use]
    pub fn of(&self, place: impl Fn(u32) -> Option<u32>) -> Stream {
        let mut some = Stream::new(self.has_durations);
        for event in self.iter() {
            if let Some(place) = place(event.place) {
                some.push(Event { place, ..event });
            }
        }
        some
    }

    /// All requests.
    #[must_use]
    pub fn iter(&self) -> Iter<'_> {
        Iter { bytes: &self.bytes, at: Time::ZERO, has_durations: self.has_durations }
    }
}

/// The requests of a stream.
#[derive(Clone, Debug)]
pub struct Iter<'a> {
    bytes: &'a [u8],
    at: Time,
    has_durations: bool,
}

impl Iter<'_> {
    fn number(&mut self) -> Option<u64> {
        let (mut value, mut shift) = (0u64, 0u32);
        loop {
            let (byte, rest) = self.bytes.split_first()?;
            self.bytes = rest;
            value |= u64::from(byte & 0x7f).checked_shl(shift)?;
            if byte & 0x80 == 0 {
                return Some(value);
            }
            shift = shift.saturating_add(7);
        }
    }
}

impl Iterator for Iter<'_> {
    type Item = Event;

    fn next(&mut self) -> Option<Event> {
        let head = self.number()?;
        let passed = self.number()?;
        let passed = if passed & 1 == 0 { (passed >> 1).saturating_mul(MS_NS) } else { passed >> 1 };
        self.at = self.at.after(Span::from_ns(passed));
        let cost = if head & 1 == 0 { 1 } else { self.number()? };
        let duration_ns = if self.has_durations { self.number()? } else { 0 };
        let (place, is_high_priority) = (u32::try_from(head >> 2).ok()?, head & 2 != 0);
        Some(Event { place, at: self.at, cost, is_high_priority, duration_ns })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn events_come_back(
            raw in prop::collection::vec((any::<u32>(), 0u64..1 << 40, 0u64..1 << 40, any::<u64>(), any::<bool>(), any::<bool>()), 0..50),
            has_durations: bool,
        ) {
            let (mut stream, mut events, mut at) = (Stream::new(has_durations), Vec::new(), 0u64);
            for (place, passed, cost, duration, in_ms, is_high_priority) in raw {
                at += if in_ms { passed % 1_000 * MS_NS } else { passed };
                let duration_ns = if has_durations { duration } else { 0 };
                let cost = if cost % 2 == 0 { 1 } else { cost };
                let event = Event { place, at: Time::from_ns(at), cost, is_high_priority, duration_ns };
                stream.push(event);
                events.push(event);
            }
            prop_assert_eq!(stream.is_empty(), events.is_empty());
            prop_assert!(stream.iter().eq(events.iter().copied()));
            let odd = |place: u32| (place % 2 == 1).then_some(place / 2);
            let halves = events.iter().filter_map(|event| Some(Event { place: odd(event.place)?, ..*event }));
            prop_assert!(stream.of(odd).iter().eq(halves));
        }
    }
}
