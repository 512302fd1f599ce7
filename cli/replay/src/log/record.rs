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
    /// The value at this JSON pointer of the request's body.
    RequestJson(Box<str>),
    /// The number at this JSON pointer of the response's body.
    ResponseJson(Box<str>),
}

/// The values that a replay reads from each line, each once.
#[derive(Clone, Debug, Default)]
pub struct Slots {
    slots: Vec<Slot>,
    /// Pairs of a JSON pointer and the key of a JSON line that has its value.
    fields: Vec<(String, String)>,
}

impl Slots {
    /// No slots yet. `fields` are pairs of a JSON pointer and the key of a JSON line that has its
    /// value; other pointers have keys of their own names.
    #[must_use]
    pub fn with_fields(fields: &[(String, String)]) -> Slots {
        Slots { slots: Vec::new(), fields: fields.to_vec() }
    }

    /// The index of `slot`. A new slot is added.
    pub fn add(&mut self, slot: Slot) -> usize {
        self.find(&slot).unwrap_or_else(|| {
            self.slots.push(slot);
            self.slots.len().saturating_sub(1)
        })
    }

    /// The index of `slot`.
    #[must_use]
    pub fn find(&self, slot: &Slot) -> Option<usize> {
        self.slots.iter().position(|known| known == slot)
    }

    /// All slots, in the order of their indices.
    pub fn iter(&self) -> impl Iterator<Item = &Slot> {
        self.slots.iter()
    }

    /// The key that the user named for this JSON pointer.
    #[must_use]
    pub fn field(&self, pointer: &str) -> Option<&str> {
        self.fields.iter().find(|(known, _)| known == pointer).map(|(_, key)| key.as_str())
    }
}

/// The memory for values that a record keeps for the next line. Few lines need more.
const KEPT_BYTES: usize = 512;

/// No key. A value never begins here, because lines are shorter.
const NO_KEY: (u32, u32) = (u32::MAX, 0);
/// A key without a value.
const NO_VALUE: (u32, u32) = (u32::MAX, 1);

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
    /// Whether nginx wrote the line. nginx joins the lines of a header.
    pub is_nginx: bool,
    /// The index of the file.
    pub file: u32,
    /// The number of the line, from 1.
    pub line: u64,
    text: Vec<u8>,
    /// The start and the end of each value in `text`.
    values: Vec<(u32, u32)>,
}

impl Record {
    /// Empties the record, and keeps its memory unless that is large.
    pub fn clear(&mut self) {
        let Record { text, values, .. } = self;
        text.clear();
        text.shrink_to(KEPT_BYTES);
        values.clear();
        let (text, values) = (std::mem::take(text), std::mem::take(values));
        *self = Record { text, values, ..Record::default() };
    }

    /// The bytes of all values.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.text.len()
    }

    /// Sets a value. The value replaces an earlier one.
    pub fn set(&mut self, slot: usize, value: &[u8]) {
        let start = self.text.len();
        self.text.extend_from_slice(value);
        let end = u32::try_from(self.text.len()).unwrap_or(u32::MAX);
        if let Some(place) = self.place(slot) {
            *place = (u32::try_from(start).unwrap_or(u32::MAX), end);
        }
    }

    /// Notes that the line has the key of a slot, possibly without a value.
    pub fn note(&mut self, slot: usize) {
        if let Some(place) = self.place(slot).filter(|place| **place == NO_KEY) {
            *place = NO_VALUE;
        }
    }

    fn place(&mut self, slot: usize) -> Option<&mut (u32, u32)> {
        if self.values.len() <= slot {
            self.values.resize(slot.saturating_add(1), NO_KEY);
        }
        self.values.get_mut(slot)
    }

    /// The value of a slot.
    #[must_use]
    pub fn get(&self, slot: usize) -> Option<&[u8]> {
        let (start, end) = *self.values.get(slot).filter(|place| place.0 != NO_KEY.0)?;
        self.text.get(usize::try_from(start).ok()?..usize::try_from(end).ok()?)
    }

    /// Whether the line has the key of a slot, possibly without a value.
    #[must_use]
    pub fn has(&self, slot: usize) -> bool {
        self.values.get(slot).is_some_and(|place| *place != NO_KEY)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_has_no_key_or_no_value_or_the_last_value() {
        let mut slots = Slots::default();
        let (method, target) = (slots.add(Slot::Method), slots.add(Slot::Target));
        assert_eq!((slots.add(Slot::Method), slots.find(&Slot::Host)), (method, None));
        let mut record = Record::default();
        record.set(target, b"/a");
        record.set(target, b"/b");
        assert_eq!((record.get(method), record.has(method)), (None, false));
        record.note(target);
        assert_eq!((record.get(target), record.has(target)), (Some(&b"/b"[..]), true));
        record.note(method);
        assert_eq!((record.get(method), record.has(method)), (None, true));
        record.set(method, b"");
        assert_eq!(record.get(method), Some(&b""[..]));
        record.set(target, &[b'x'; 1 << 20]);
        record.clear();
        assert!(record.text.capacity() < 1 << 14, "a long line leaves its memory");
        assert_eq!((record.get(method), record.has(target)), (None, false));
    }
}
