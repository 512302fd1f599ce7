//! `Meter`: which reader, how much of the body, and how much memory.

use super::generate::{sizes, with_pointer};
use super::model::number_in;
use super::{cases, chunks, one, read_json};
use crate::{Meter, ResponseHead, event_stream, json_numbers, syntax};
use proptest::prelude::*;

const JSON: &[u8] = br#"{"n":1}"#;
const EVENTS: &[u8] = b"data: {\"n\":2}\n\n";

const HEAD: ResponseHead =
    ResponseHead { status: 200, content_type: b"application/json", content_encoding: b"" };

fn meter(pointer: &str, head: ResponseHead, limit: usize) -> Meter {
    Meter::new(&one(pointer), head, limit)
}

/// The number of a body with these headers, and whether it is that of the response, which has
/// ended.
fn read_as(status: u16, content_type: &str, encoding: &str, body: &[u8]) -> (Option<u64>, bool) {
    let (content_type, content_encoding) = (content_type.as_bytes(), encoding.as_bytes());
    let mut meter = meter("/n", ResponseHead { status, content_type, content_encoding }, 1_000);
    meter.push(body);
    (meter.value(0), meter.is_final(0, true))
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
        assert_eq!(read_as(200, content_type, "", JSON), (Some(1), true), "{content_type}");
        assert_eq!(read_as(200, content_type, "", EVENTS), (None, false), "{content_type}");
        assert_eq!(read_as(500, content_type, "", JSON), (Some(1), true), "{content_type}");
    }
    for content_type in ["text/event-stream", "Text/Event-Stream; charset=UTF-8", "text/event-stream;"] {
        assert_eq!(read_as(200, content_type, "", EVENTS), (Some(2), true), "{content_type}");
        assert_eq!(read_as(200, content_type, "", JSON), (None, true), "{content_type}");
    }
    let others = [
        "",
        ";",
        "json",
        "application/",
        "application/jsonp",
        "application/x-www-form-urlencoded,application/a+json",
        "application/x-www-form-urlencoded +json",
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
        // A client may ask for another format.
        assert_eq!(read_as(200, content_type, "", JSON), (None, false), "{content_type}");
        assert_eq!(read_as(200, content_type, "", b""), (None, true), "{content_type}");
        for status in [302, 404, 503] {
            assert_eq!(read_as(status, content_type, "", JSON), (None, true), "{content_type}");
        }
    }
}

#[test]
fn a_compressed_body_hides_its_number() {
    for encoding in ["identity", "Identity", "", " identity "] {
        assert_eq!(read_as(200, "application/json", encoding, JSON), (Some(1), true), "{encoding}");
    }
    for encoding in ["gzip", "br", "identity, gzip", "identity,identity", "deflate", "zstd", "x"] {
        for (content_type, body) in [("application/json", JSON), ("text/event-stream", EVENTS), ("", b"")] {
            assert_eq!(read_as(200, content_type, encoding, body), (None, false), "{encoding}");
            assert_eq!(read_as(500, content_type, encoding, body), (None, false), "{encoding}");
        }
    }
}

/// `HEAD` may cost as much as `GET`. A client asks for a part of a document by `range`.
#[test]
fn a_response_without_its_body_has_a_number_only_if_it_could_have_a_body() {
    for status in [204, 205, 304] {
        assert_eq!(read_as(status, "application/json", "gzip", b""), (None, true), "{status}");
    }
    for (content_type, is_final) in [("application/json", false), ("text/plain", true)] {
        assert_eq!(read_as(200, content_type, "", b""), (None, is_final), "{content_type}");
    }
    assert_eq!(read_as(206, "application/json", "", JSON), (None, false));
    assert_eq!(read_as(206, "multipart/byteranges", "", b""), (None, false));
}

#[test]
fn a_response_that_has_not_ended_may_have_a_number() {
    for (content_type, body, ends_early) in [
        ("application/json", JSON, true),
        ("application/json", br#"{"m":1}"#, false),
        ("text/event-stream", EVENTS, false),
        ("text/event-stream", b"", false),
        ("text/html", b"", false),
    ] {
        let mut meter = meter("/n", ResponseHead { content_type: content_type.as_bytes(), ..HEAD }, 1_000);
        meter.push(body);
        assert_eq!(meter.is_final(0, false), ends_early, "{content_type}");
    }
    let mut lost = meter("/n", ResponseHead { content_type: b"text/event-stream", ..HEAD }, 1_000);
    lost.push(EVENTS);
    lost.lose();
    lost.push(EVENTS);
    assert!(!lost.is_final(0, true), "a part is missing");
    let mut lost = meter("/n", HEAD, 1_000);
    lost.push(b"{");
    lost.lose();
    lost.push(br#""m":1}"#);
    assert!(!lost.is_final(0, true), "a part is missing");
}

/// The meter's value for a JSON body, and whether the meter is done.
fn read_within(limit: usize, body: &[u8], pointer: &str, sizes: &[usize]) -> (Option<u64>, bool) {
    let mut meter = meter(pointer, HEAD, limit);
    chunks(body, sizes).into_iter().for_each(|chunk| meter.push(chunk));
    (meter.value(0), meter.is_done())
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
    let mut meter = meter("/n", ResponseHead { content_type: b"text/event-stream", ..HEAD }, 0);
    for _ in 0..10_000 {
        meter.push(b"data: {\"text\":\"more\"}\n\n");
    }
    meter.push(EVENTS);
    assert_eq!((meter.value(0), meter.is_done()), (Some(2), false));
}

/// A `Copy` type owns no memory, so the size of the meter, and of these for each pointer, is all
/// that a response costs.
#[test]
fn memory_is_constant() {
    fn is_copy<T: Copy>() {}
    is_copy::<syntax::Syntax>();
    is_copy::<event_stream::State>();
    is_copy::<(json_numbers::Cursor, event_stream::Past)>();
    assert!(size_of::<(json_numbers::Cursor, event_stream::Past)>() <= 96);
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
        let mut meter = meter(&pointer, HEAD, limit);
        meter.push(body);
        prop_assert_eq!(meter.is_final(0, true), meter.value(0).is_some(), "nothing is known of the rest");
    }

    #[test]
    fn a_meter_that_is_done_stays_as_it_is(
        (document, pointer) in with_pointer(), at: prop::sample::Index, more in ".{0,8}",
    ) {
        let mut meter = meter(&pointer, HEAD, 1_000_000);
        meter.push(&document.as_bytes()[..at.index(document.len() + 1)]);
        if meter.is_done() {
            let before = (meter.value(0), meter.is_final(0, true));
            meter.push(more.as_bytes());
            prop_assert_eq!((meter.value(0), meter.is_final(0, true)), before);
        }
    }
}
