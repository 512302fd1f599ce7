//! One request of a log, as far as a replay needs it. The memory is reused.

use diana_limiter::time::Time;

/// A value that a line may have, and that a policy or the report may read.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Slot {
    /// The method.
    Method,
    /// The request target with its query.
    Target,
    /// The requested host, possibly with a port.
    Host,
    /// The client address, possibly with a port.
    Address,
    /// The request header of this name, in lower case.
    Header(Box<str>),
    /// The response header of this name, in lower case.
    ResponseHeader(Box<str>),
    /// A host attribute, by its path with dots: `xds.route_name`.
    Attribute(Box<str>),
}

/// The values that a replay reads from each line, each once.
#[derive(Clone, Debug, Default)]
pub struct Slots(Vec<Slot>);

impl Slots {
    /// The index of `slot`. A new slot is added.
    pub fn add(&mut self, slot: Slot) -> usize {
        self.find(&slot).unwrap_or_else(|| {
            self.0.push(slot);
            self.0.len().saturating_sub(1)
        })
    }

    /// The index of `slot`.
    #[must_use]
    pub fn find(&self, slot: &Slot) -> Option<usize> {
        self.0.iter().position(|known| known == slot)
    }

    /// All slots, in the order of their indices.
    pub fn iter(&self) -> impl Iterator<Item = &Slot> {
        self.0.iter()
    }
}

/// No value. A value never begins here, because lines are shorter.
const NONE: (u32, u32) = (u32::MAX, 0);

/// One request of a log.
#[derive(Clone, Debug, Default)]
pub struct Record {
    /// When the request started.
    pub start: Time,
    /// How long it took, in nanoseconds.
    pub duration_ns: Option<u64>,
    /// How long the upstream took to begin its response, in nanoseconds.
    pub latency_ns: Option<u64>,
    /// The status of the response.
    pub status: Option<u16>,
    /// The bytes of the request's body.
    pub received: Option<u64>,
    /// The bytes of the response's body.
    pub sent: Option<u64>,
    /// The index of the file.
    pub file: u32,
    /// The number of the line, from 1.
    pub line: u64,
    text: Vec<u8>,
    /// Where each value stands in `text`: its start and its end.
    values: Vec<(u32, u32)>,
}

impl Record {
    /// Empties the record, and keeps its memory.
    pub fn clear(&mut self) {
        let Record { text, values, .. } = self;
        text.clear();
        values.clear();
        let (text, values) = (std::mem::take(text), std::mem::take(values));
        *self = Record { text, values, ..Record::default() };
    }

    /// Sets a value, unless the line has given it already.
    pub fn set(&mut self, slot: usize, value: &[u8]) {
        self.set_with(slot, |text| text.extend_from_slice(value));
    }

    /// Sets a value to what `write` appends, unless the line has given it already.
    pub fn set_with(&mut self, slot: usize, write: impl FnOnce(&mut Vec<u8>)) {
        if self.values.len() <= slot {
            self.values.resize(slot.saturating_add(1), NONE);
        }
        if let Some(value) = self.values.get_mut(slot).filter(|value| **value == NONE) {
            let start = self.text.len();
            write(&mut self.text);
            let end = u32::try_from(self.text.len()).unwrap_or(u32::MAX);
            *value = (u32::try_from(start).unwrap_or(u32::MAX), end);
        }
    }

    /// The value of a slot.
    #[must_use]
    pub fn get(&self, slot: usize) -> Option<&[u8]> {
        let (start, end) = *self.values.get(slot).filter(|value| **value != NONE)?;
        self.text.get(usize::try_from(start).ok()?..usize::try_from(end).ok()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_value_of_a_slot_stays() {
        let mut slots = Slots::default();
        let (method, target) = (slots.add(Slot::Method), slots.add(Slot::Target));
        assert_eq!((slots.add(Slot::Method), slots.find(&Slot::Host)), (method, None));
        let mut record = Record::default();
        record.set(target, b"/a");
        record.set(target, b"/b");
        assert_eq!((record.get(method), record.get(target)), (None, Some(&b"/a"[..])));
        record.set(method, b"");
        assert_eq!(record.get(method), Some(&b""[..]));
        record.clear();
        assert_eq!((record.get(method), record.get(target)), (None, None));
    }
}
