//! Compares the key of an object with a name of a pointer while the key arrives, without a copy.

/// How much of a name the key has repeated. No part of the key is stored.
#[derive(Clone, Copy)]
pub(crate) struct Key {
    /// Bytes of the name that the key has repeated.
    at: usize,
    is_equal: bool,
    /// A high surrogate of an escape, whose low surrogate has to follow; 0 if there is none.
    high: u16,
}

impl Key {
    /// A string that needs no comparison, and equals no name.
    pub(crate) const SKIPPED: Key = Key { at: 0, is_equal: false, high: 0 };
    /// An empty key, to be compared.
    pub(crate) const EMPTY: Key = Key { at: 0, is_equal: true, high: 0 };

    /// Appends bytes of the key as they are, without escapes.
    pub(crate) fn push(&mut self, bytes: &[u8], name: &[u8]) {
        if self.is_equal && !bytes.is_empty() {
            let end = self.at.saturating_add(bytes.len());
            self.is_equal = self.high == 0 && name.get(self.at..end) == Some(bytes);
            self.at = end;
        }
    }

    /// Appends a code unit of UTF-16, from an escape. A lone surrogate equals nothing in a pointer.
    pub(crate) fn push_unit(&mut self, unit: u16, name: &[u8]) {
        if !self.is_equal {
            return;
        }
        let high = std::mem::take(&mut self.high);
        if high == 0 && matches!(unit, 0xd800..=0xdbff) {
            self.high = unit;
            return;
        }
        let units = if high == 0 { [unit, 0] } else { [high, unit] };
        match char::decode_utf16(units).next() {
            Some(Ok(letter)) => self.push(letter.encode_utf8(&mut [0; 4]).as_bytes(), name),
            _ => self.is_equal = false,
        }
    }

    /// Whether the key, which ends here, equals the name.
    pub(crate) fn equals(&self, name: &[u8]) -> bool {
        self.is_equal && self.high == 0 && self.at == name.len()
    }
}
