//! Bodies of responses, in chunks.
//!
//! ```text
//!   j 4 /usage/total_tokens ⏎ {"usage": {"total_tokens": 21}}
//!   `j` is a JSON document, `e` an event stream; the size of the chunks; the pointer; the body
//! ```

#[path = "../../../crates/response-meter/src/tests/model.rs"]
mod model;

use super::input::Input;
use diana_response_meter::{EventStream, JsonNumbers, Meter, Pointers, ResponseHead};

/// Any body has the number of the slow model, in chunks of any size.
pub fn run(bytes: &[u8]) {
    let mut input = Input(bytes);
    let is_json = input.byte() == b'j';
    let size = usize::from(input.byte().wrapping_sub(b'0')).max(1);
    let end = input.0.iter().position(|byte| *byte == b'\n').unwrap_or(input.0.len());
    let (text, body) = (input.bytes(end), input.0.get(1..).unwrap_or_default());
    let Ok(text) = std::str::from_utf8(text) else {
        return;
    };
    // With others, it is read as if it were alone.
    let Ok(pointers) = Pointers::parse([text, "/usage/total_tokens", "/a", "/0/a", "", text]) else {
        return assert!(!text.starts_with('/') || text.contains('~') || text.matches('/').count() > 64);
    };
    let expected = if is_json { model::number_in(body, text) } else { model::number_in_events(body, text) };
    for size in [size, 1, usize::MAX] {
        assert_eq!(read(is_json, &pointers, body, size), expected, "in chunks of {size}");
    }
    bounded(&pointers, text, body, size);
}

fn read(is_json: bool, pointers: &Pointers, body: &[u8], size: usize) -> Option<u64> {
    if is_json {
        let mut json = JsonNumbers::new(pointers);
        body.chunks(size).for_each(|chunk| json.push(chunk));
        json.value(0)
    } else {
        let mut events = EventStream::new(pointers);
        body.chunks(size).for_each(|chunk| events.push(chunk));
        events.value(0)
    }
}

/// A meter reads a longer body up to its limit.
fn bounded(pointers: &Pointers, text: &str, body: &[u8], size: usize) {
    let limit = body.len() / 2;
    let head = ResponseHead { status: 200, content_type: b"application/json", content_encoding: b"" };
    let mut meter = Meter::new(pointers, head, limit);
    body.chunks(size).for_each(|chunk| meter.push(chunk));
    // More follows, but nobody knows what: as if a byte followed that no document has.
    let mut cut = body[..limit].to_vec();
    cut.extend((limit < body.len()).then_some(0));
    assert_eq!(meter.value(0), model::number_in(&cut, text), "the first {limit} bytes");
    assert!(meter.is_done() || body.len() <= limit);
    assert!(
        !meter.is_final(0, true) || body.len() <= limit || meter.value(0).is_some(),
        "the rest is unknown"
    );
}
