//! A JSON value.

use serde::de::{self, Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use std::fmt;

/// A JSON value that keeps duplicate keys and the order of keys.
///
/// ```
/// use diana_document::{Value, parse};
///
/// let value = parse(br#"{ "b": 1, "a": [5.0, -1.5], "b": null }"#)?;
/// assert!(matches!(&value, Value::Object(entries) if entries.len() == 3));
/// assert_eq!(value.to_string(), r#"{"b":1,"a":[5,-1.5],"b":null}"#);
/// # Ok::<(), diana_document::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// `null`
    Null,
    /// `true` or `false`
    Bool(bool),
    /// A number without a fraction, from 0 to 2⁶⁴−1. `1e3` and `5.0` are such numbers, because
    /// Envoy's `google.protobuf.Struct` holds all numbers as doubles.
    Whole(u64),
    /// Any other number.
    Number(f64),
    /// Text.
    Text(String),
    /// A list.
    List(Vec<Value>),
    /// An object in document order, with duplicate keys.
    Object(Vec<(String, Value)>),
}

impl Value {
    /// The value of a double. Doubles represent every whole number up to 2⁵³.
    pub(super) fn of_double(number: f64) -> Value {
        let whole = number >= 0.0 && number.fract() == 0.0 && number <= 9_007_199_254_740_992.0;
        if whole { Value::Whole(number as u64) } else { Value::Number(number) }
    }
}

/// A number in JSON syntax with the fewest digits: `1e300`, `-1`. Uses `serde_json`, because the
/// standard library's formatter would add a second, large implementation to the module.
pub(super) fn digits(number: f64) -> String {
    let digits = serde_json::Number::from_f64(number).map_or("null".into(), |number| number.to_string());
    digits.strip_suffix(".0").unwrap_or(&digits).replace('+', "")
}

/// Text as a JSON string.
fn escaped(text: &str) -> String {
    serde_json::to_string(text).unwrap_or_default()
}

/// Compact JSON, the same in every build.
impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Null => f.write_str("null"),
            Value::Bool(flag) => write!(f, "{flag}"),
            Value::Whole(number) => write!(f, "{number}"),
            Value::Number(number) => f.write_str(&digits(*number)),
            Value::Text(text) => f.write_str(&escaped(text)),
            Value::List(items) => {
                f.write_str("[")?;
                for (at, item) in items.iter().enumerate() {
                    write!(f, "{}{item}", if at > 0 { "," } else { "" })?;
                }
                f.write_str("]")
            }
            Value::Object(entries) => {
                f.write_str("{")?;
                for (at, (key, value)) in entries.iter().enumerate() {
                    write!(f, "{}{}:{value}", if at > 0 { "," } else { "" }, escaped(key))?;
                }
                f.write_str("}")
            }
        }
    }
}

impl<'de> Deserialize<'de> for Value {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(ValueVisitor)
    }
}

struct ValueVisitor;

impl<'de> Visitor<'de> for ValueVisitor {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E: de::Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E: de::Error>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_u64<E: de::Error>(self, value: u64) -> Result<Value, E> {
        Ok(Value::Whole(value))
    }

    fn visit_i64<E: de::Error>(self, value: i64) -> Result<Value, E> {
        Ok(u64::try_from(value).map_or(Value::Number(value as f64), Value::Whole))
    }

    fn visit_f64<E: de::Error>(self, value: f64) -> Result<Value, E> {
        Ok(Value::of_double(value))
    }

    fn visit_str<E: de::Error>(self, value: &str) -> Result<Value, E> {
        Ok(Value::Text(value.into()))
    }

    fn visit_string<E: de::Error>(self, value: String) -> Result<Value, E> {
        Ok(Value::Text(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = seq.next_element()? {
            list.push(item);
        }
        Ok(Value::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let mut object = Vec::new();
        while let Some(entry) = map.next_entry()? {
            object.push(entry);
        }
        Ok(Value::Object(object))
    }
}
