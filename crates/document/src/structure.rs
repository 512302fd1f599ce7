//! Reads the wire form of `google.protobuf.Struct`, in which Envoy passes a configuration that is
//! YAML in its own file. `docs/internals/design/documents.md` says why by hand; the encoding is
//! that of protobuf.dev/programming-guides/encoding.
//!
//! ```text
//!   Struct     1: repeated Entry
//!   Entry      1: string key, 2: Value
//!   ListValue  1: repeated Value
//!   Value      1: null, 2: double, 3: string, 4: bool, 5: Struct, 6: ListValue
//! ```

use super::value::Value;

/// The deepest nesting that is read. No real configuration nests deeper.
const MAX_DEPTH: u32 = 64;

/// Reads a whole `Struct`; `None` if the bytes are no valid one.
pub(super) fn parse(bytes: &[u8]) -> Option<Value> {
    object(bytes, MAX_DEPTH)
}

fn object(bytes: &[u8], depth: u32) -> Option<Value> {
    let mut object = Vec::new();
    for field in Fields(bytes) {
        let (1, Wire::Bytes(entry)) = field? else { return None };
        let (mut key, mut entry_value) = (String::new(), Value::Null);
        for field in Fields(entry) {
            match field? {
                (1, Wire::Bytes(text)) => key = std::str::from_utf8(text).ok()?.into(),
                (2, Wire::Bytes(bytes)) => entry_value = value(bytes, depth.checked_sub(1)?)?,
                _ => return None,
            }
        }
        object.push((key, entry_value));
    }
    Some(Value::Object(object))
}

fn value(bytes: &[u8], depth: u32) -> Option<Value> {
    let mut value = Value::Null;
    for field in Fields(bytes) {
        value = match field? {
            (1, Wire::Varint(_)) => Value::Null,
            (2, Wire::Fixed64(bits)) => Value::of_double(f64::from_bits(bits)),
            (3, Wire::Bytes(text)) => Value::Text(std::str::from_utf8(text).ok()?.into()),
            (4, Wire::Varint(flag)) => Value::Bool(flag != 0),
            (5, Wire::Bytes(bytes)) => object(bytes, depth)?,
            (6, Wire::Bytes(bytes)) => list(bytes, depth)?,
            _ => return None,
        };
    }
    Some(value)
}

fn list(bytes: &[u8], depth: u32) -> Option<Value> {
    let mut list = Vec::new();
    for field in Fields(bytes) {
        let (1, Wire::Bytes(item)) = field? else { return None };
        list.push(value(item, depth.checked_sub(1)?)?);
    }
    Some(Value::List(list))
}

enum Wire<'a> {
    Varint(u64),
    Fixed64(u64),
    Bytes(&'a [u8]),
}

/// The fields of a message. Yields `None` for the first malformed field and then ends.
struct Fields<'a>(&'a [u8]);

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

    fn field(&mut self) -> Option<(u64, Wire<'a>)> {
        let tag = self.varint()?;
        let wire = match tag & 7 {
            0 => Wire::Varint(self.varint()?),
            1 => {
                let (bits, rest) = self.0.split_first_chunk()?;
                self.0 = rest;
                Wire::Fixed64(u64::from_le_bytes(*bits))
            }
            2 => {
                let size = usize::try_from(self.varint()?).ok()?;
                let (bytes, rest) = self.0.split_at_checked(size)?;
                self.0 = rest;
                Wire::Bytes(bytes)
            }
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A field of bytes, as an encoder would write it.
    fn tagged(tag: u8, body: &[u8]) -> Vec<u8> {
        let (mut bytes, mut size) = (vec![tag], body.len());
        while size > 0x7f {
            bytes.push(size as u8 | 0x80);
            size >>= 7;
        }
        bytes.push(size as u8);
        bytes.extend(body);
        bytes
    }

    fn encode(value: &Value) -> Vec<u8> {
        let double = |number: f64| [&[0x11][..], &number.to_le_bytes()].concat();
        let item = |item: &Value| tagged(0x0a, &encode(item));
        match value {
            Value::Null => vec![0x08, 0],
            Value::Whole(number) => double(*number as f64),
            Value::Number(number) => double(*number),
            Value::Text(text) => tagged(0x1a, text.as_bytes()),
            Value::Bool(flag) => vec![0x20, u8::from(*flag)],
            Value::Object(entries) => tagged(0x2a, &encode_object(entries)),
            Value::List(items) => tagged(0x32, &items.iter().flat_map(item).collect::<Vec<_>>()),
        }
    }

    fn encode_object(entries: &[(String, Value)]) -> Vec<u8> {
        let entry = |(key, value): &(String, Value)| {
            tagged(0x0a, &[tagged(0x0a, key.as_bytes()), tagged(0x12, &encode(value))].concat())
        };
        entries.iter().flat_map(entry).collect()
    }

    fn values() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::Bool),
            (0u64..1 << 53).prop_map(Value::Whole),
            "[a-zé]{0,200}".prop_map(Value::Text),
        ];
        leaf.prop_recursive(4, 40, 5, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..5).prop_map(Value::List),
                prop::collection::vec(("[a-z]{1,8}", inner), 0..5).prop_map(Value::Object),
            ]
        })
    }

    #[test]
    fn the_bytes_that_envoy_hands_over() {
        // `{"limits": [], "mode": "shadow"}` in protobuf's encoding.
        let bytes = b"\x0a\x0c\x0a\x06limits\x12\x02\x32\x00\x0a\x10\x0a\x04mode\x12\x08\x1a\x06shadow";
        let expected = vec![
            ("limits".to_string(), Value::List(Vec::new())),
            ("mode".to_string(), Value::Text("shadow".into())),
        ];
        assert_eq!(parse(bytes), Some(Value::Object(expected)));
        assert_eq!(parse(&bytes[..bytes.len() - 1]), None);
    }

    #[test]
    fn values_nested_too_deeply_are_refused() {
        let nest = |depth| (0..depth).fold(Value::Null, |inner, _| Value::List(vec![inner]));
        let object = |depth| encode_object(&[("a".into(), nest(depth))]);
        assert!(parse(&object(60)).is_some());
        assert!(parse(&object(100)).is_none());
    }

    #[test]
    fn a_varint_has_ten_bytes_at_most() {
        let null = |number: &[u8]| {
            let value = tagged(0x12, &[&[0x08], number].concat());
            parse(&tagged(0x0a, &value))
        };
        let expected = Some(Value::Object(vec![(String::new(), Value::Null)]));
        assert_eq!(null(&[&[0xff; 9][..], b"\x01"].concat()), expected);
        assert_eq!(null(&[&[0x80; 10][..], b"\x01"].concat()), None);
    }

    proptest! {
        #[test]
        fn encoded_values_are_read_back(object in prop::collection::vec(("[a-z]{1,8}", values()), 0..6)) {
            prop_assert_eq!(parse(&encode_object(&object)), Some(Value::Object(object)));
        }

        #[test]
        fn any_bytes_are_read_without_harm(bytes: Vec<u8>, tail in prop::collection::vec(0u8..0x40, 0..60)) {
            let _ = parse(&bytes);
            let _ = parse(&tail);
        }
    }
}
