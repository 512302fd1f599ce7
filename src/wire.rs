//! The wire form of protobuf's messages (protobuf.dev/programming-guides/encoding): fields, read and written.
//!
//! It does not know: any message. Whoever reads one knows its fields by their numbers.

/// What a field holds.
pub enum Wire<'a> {
    /// A whole number; a negative one in two's complement.
    Varint(u64),
    /// Eight bytes.
    Fixed64(u64),
    /// Text, a message, or bytes.
    Bytes(&'a [u8]),
    /// Four bytes.
    Fixed32(u32),
}

/// The fields of a message, by their numbers; `None` in place of what is malformed, after which the iteration ends.
pub struct Fields<'a>(pub &'a [u8]);

impl<'a> Fields<'a> {
    fn varint(&mut self) -> Option<u64> {
        let mut number = 0u64;
        for shift in (0..64).step_by(7) {
            let (byte, rest) = self.0.split_first()?;
            self.0 = rest;
            number |= u64::from(byte & 0x7f).checked_shl(shift)?;
            if byte & 0x80 == 0 {
                return Some(number);
            }
        }
        None
    }

    fn fixed<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (bytes, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*bytes)
    }

    fn field(&mut self) -> Option<(u64, Wire<'a>)> {
        let tag = self.varint()?;
        let wire = match tag & 7 {
            0 => Wire::Varint(self.varint()?),
            1 => Wire::Fixed64(u64::from_le_bytes(self.fixed()?)),
            2 => {
                let size = usize::try_from(self.varint()?).ok()?;
                let (bytes, rest) = self.0.split_at_checked(size)?;
                self.0 = rest;
                Wire::Bytes(bytes)
            }
            5 => Wire::Fixed32(u32::from_le_bytes(self.fixed()?)),
            _ => return None,
        };
        Some((tag >> 3, wire))
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = Option<(u64, Wire<'a>)>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let field = self.field();
        if field.is_none() {
            self.0 = &[];
        }
        Some(field)
    }
}

fn varint(to: &mut Vec<u8>, mut number: u64) {
    while number > 0x7f {
        to.push(number as u8 | 0x80);
        number >>= 7;
    }
    to.push(number as u8);
}

/// Appends a field that is a whole number; zero is one that is not there.
pub fn put_number(to: &mut Vec<u8>, field: u8, number: u64) {
    if number > 0 {
        varint(to, u64::from(field) << 3);
        varint(to, number);
    }
}

/// Appends a field that is text or a message.
pub fn put_bytes(to: &mut Vec<u8>, field: u8, bytes: &[u8]) {
    varint(to, u64::from(field) << 3 | 2);
    varint(to, bytes.len() as u64);
    to.extend_from_slice(bytes);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_is_written_is_read_back(fields in prop::collection::vec((1u8..=255, any::<u64>(), 0u32..64, ".{0,200}"), 0..9)) {
            let mut bytes = Vec::new();
            for (field, number, shift, text) in &fields {
                put_number(&mut bytes, *field, number >> shift);
                put_bytes(&mut bytes, *field, text.as_bytes());
            }
            let mut read = Fields(&bytes);
            for (field, number, shift, text) in &fields {
                if number >> shift > 0 {
                    let Some(Some((at, Wire::Varint(found)))) = read.next() else { panic!("no number") };
                    prop_assert_eq!((at, found), ((*field).into(), number >> shift));
                }
                let Some(Some((at, Wire::Bytes(found)))) = read.next() else { panic!("no bytes") };
                prop_assert_eq!((at, found), ((*field).into(), text.as_bytes()));
            }
            prop_assert!(read.next().is_none());
        }

        #[test]
        fn any_bytes_end(bytes: Vec<u8>) {
            prop_assert!(Fields(&bytes).count() <= bytes.len());
        }
    }

    #[test]
    fn fixed_numbers_are_little_endian() {
        let mut fields = Fields(b"\x0d\x01\0\0\0\x11\x02\0\0\0\0\0\0\0\x15\0");
        assert!(matches!(fields.next(), Some(Some((1, Wire::Fixed32(1))))));
        assert!(matches!(fields.next(), Some(Some((2, Wire::Fixed64(2))))));
        assert!(matches!(fields.next(), Some(None)), "cut off");
        assert!(fields.next().is_none());
    }

    #[test]
    fn a_varint_has_ten_bytes_at_most() {
        let read = |bytes: &[u8]| match Fields(bytes).next() {
            Some(Some((1, Wire::Varint(number)))) => Some(number),
            _ => None,
        };
        let longest = [&b"\x08"[..], &[0xff; 9], b"\x01"].concat();
        assert_eq!(read(&longest), Some(u64::MAX));
        assert_eq!(read(&[&b"\x08"[..], &[0x80; 10], b"\x01"].concat()), None);
    }
}
