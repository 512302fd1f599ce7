//! Bodies of requests, in chunks.
//!
//! ```text
//!   4/model /params/name ⏎ {"model": "small", "params": {"name": "search"}}
//!   the size of the chunks; the pointers; the body
//! ```

#[path = "../../../crates/response-meter/src/tests/values_model.rs"]
mod model;

use super::input::Input;
use diana_response_meter::{JsonValue, JsonValues, Pointer, Pointers};

/// Any body has the values of the slow model, in chunks of any size.
pub fn run(bytes: &[u8]) {
    let mut input = Input(bytes);
    let size = usize::from(input.byte().wrapping_sub(b'0')).max(1);
    let end = input.0.iter().position(|byte| *byte == b'\n').unwrap_or(input.0.len());
    let (texts, body) = (input.bytes(end), input.0.get(1..).unwrap_or_default());
    let texts = std::str::from_utf8(texts).unwrap_or_default();
    let is_valid = |text: &&str| Pointer::parse(text).is_ok();
    let texts: Vec<&str> = texts.split(' ').filter(is_valid).take(JsonValues::MAX_POINTERS).collect();
    let pointers = Pointers::parse(texts.iter().copied()).expect("each is valid");
    let expected = model::values_in(body, &texts);
    for size in [size, 1, usize::MAX] {
        let mut values = JsonValues::new(&pointers);
        body.chunks(size).for_each(|chunk| values.push(chunk));
        let is_failed = values.is_failed();
        let found = values.finish().map(|values| values.into_iter().map(value).collect());
        assert_eq!(found, expected, "in chunks of {size}");
        assert!(!is_failed || found.is_none());
    }
}

fn value(value: JsonValue) -> model::Value {
    match value {
        JsonValue::Absent | JsonValue::Null => Ok(None),
        JsonValue::Text(text) | JsonValue::Literal(text) => Ok(Some(text.into_vec())),
        JsonValue::Unreadable => Err(()),
    }
}
