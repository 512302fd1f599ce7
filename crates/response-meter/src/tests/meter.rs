//! `Meter`: which reader, how much of the body, and how much memory.

use super::generate::{sizes, with_pointer};
use super::model::number_in;
use super::{cases, chunks, read_json};
use crate::{Meter, Pointer, event_stream, json_number};
use proptest::prelude::*;

const JSON: &[u8] = br#"{"n":1}"#;
const EVENTS: &[u8] = b"data: {\"n\":2}\n\n";

/// The value of a body with these headers, if the meter reads it.
fn read(content_type: &str, encoding: Option<&str>, body: &[u8]) -> Option<Option<u64>> {
    let pointer = Pointer::parse("/n").unwrap();
    let mut meter = Meter::new(&pointer, content_type.as_bytes(), encoding.map(str::as_bytes), 1_000)?;
    meter.push(body);
    Some(meter.value())
}

#[test]
fn the_content_type_selects_the_reader() {
    let json = [
        "application/json",
        "Application/JSON;charset=utf-8",
        " application/json ; x=y",
        "application/problem+json",
        "application/vnd.api+JSON; ext=\"a;b\"",
    ];
    for content_type in json {
        assert_eq!(read(content_type, None, JSON), Some(Some(1)), "{content_type}");
        assert_eq!(read(content_type, None, EVENTS), Some(None), "{content_type}");
    }
    for content_type in ["text/event-stream", "Text/Event-Stream; charset=UTF-8", "text/event-stream;"] {
        assert_eq!(read(content_type, None, EVENTS), Some(Some(2)), "{content_type}");
        assert_eq!(read(content_type, None, JSON), Some(None), "{content_type}");
    }
    let others = [
        "",
        ";",
        "json",
        "application/",
        "application/jsonp",
        "application/x-json",
        "application/json+zip",
        "+json",
        "text/json",
        "image/svg+json",
        "text/event-streams",
        "text/html; application/json",
        "application",
    ];
    for content_type in others {
        assert_eq!(read(content_type, None, JSON), None, "{content_type}");
    }
}

#[test]
fn a_compressed_body_has_no_meter() {
    for encoding in ["identity", "Identity", "", " identity "] {
        assert_eq!(read("application/json", Some(encoding), JSON), Some(Some(1)), "{encoding}");
    }
    for encoding in ["gzip", "br", "identity, gzip", "deflate", "zstd", "x"] {
        assert_eq!(read("application/json", Some(encoding), JSON), None, "{encoding}");
        assert_eq!(read("text/event-stream", Some(encoding), EVENTS), None, "{encoding}");
    }
}

/// The meter's value for a JSON body, and whether the meter is done.
fn read_within(limit: usize, body: &[u8], pointer: &str, sizes: &[usize]) -> (Option<u64>, bool) {
    let mut meter = Meter::new(&Pointer::parse(pointer).unwrap(), b"application/json", None, limit).unwrap();
    chunks(body, sizes).into_iter().for_each(|chunk| meter.push(chunk));
    (meter.value(), meter.is_done())
}

#[test]
fn a_longer_body_is_read_up_to_the_limit() {
    let body = br#"{"a":1,"n":12}  "#;
    for (limit, expected) in [(0, None), (12, None), (13, None), (14, Some(12)), (1_000, Some(12))] {
        for sizes in [[1, 1], [3, 5], [13, 9], [14, 1], [1_000, 1]] {
            assert_eq!(read_within(limit, body, "/n", &sizes), (expected, true), "{limit}, {sizes:?}");
        }
    }
    assert_eq!(read_within(2, b"12", "", &[1]), (Some(12), false));
    assert_eq!(read_within(2, b"123", "", &[1]), (None, true), "a digit is not read");
    assert_eq!(read_within(2, b"123", "", &[3]), (None, true), "a digit is not read");
}

#[test]
fn an_event_stream_has_no_limit() {
    let mut meter = Meter::new(&Pointer::parse("/n").unwrap(), b"text/event-stream", None, 0).unwrap();
    for _ in 0..10_000 {
        meter.push(b"data: {\"text\":\"more\"}\n\n");
    }
    meter.push(EVENTS);
    assert_eq!((meter.value(), meter.is_done()), (Some(2), false));
}

/// A `Copy` type owns no memory, so the size of the meter is all that a response costs.
#[test]
fn memory_is_constant() {
    fn is_copy<T: Copy>() {}
    is_copy::<json_number::State>();
    is_copy::<event_stream::State>();
    assert!(size_of::<Meter>() <= 192, "{} bytes", size_of::<Meter>());
}

proptest! {
    #![proptest_config(cases(1_000))]

    #[test]
    fn a_limit_cuts_the_body(
        (document, pointer) in with_pointer(), limit: prop::sample::Index, sizes in sizes(),
    ) {
        let body = document.as_bytes();
        prop_assert_eq!(read_within(body.len(), body, &pointer, &sizes).0, read_json(body, &pointer, &sizes));
        let limit = limit.index(body.len());
        // More follows, but nobody knows what: as if a byte followed that no document has.
        let cut = [&body[..limit], &[0]].concat();
        prop_assert_eq!(read_within(limit, body, &pointer, &sizes).0, number_in(&cut, &pointer));
    }

    #[test]
    fn a_meter_that_is_done_stays_as_it_is(
        (document, pointer) in with_pointer(), at: prop::sample::Index, more in ".{0,8}",
    ) {
        let mut meter = Meter::new(&Pointer::parse(&pointer).unwrap(), b"application/json", None, 1_000_000).unwrap();
        meter.push(&document.as_bytes()[..at.index(document.len() + 1)]);
        if meter.is_done() {
            let before = meter.value();
            meter.push(more.as_bytes());
            prop_assert_eq!(meter.value(), before);
        }
    }
}
