//! `EventStream`: server-sent events.

use super::generate::{sizes, stream};
use super::model::number_in_events;
use super::{cases, chunks, for_every_cut, one, read_events};
use crate::EventStream;
use proptest::prelude::*;

const STREAMS: [(&str, &str, Option<u64>); 16] = [
    (
        "data: {\"choices\":[{\"delta\":{\"content\":\"é\"}}],\"usage\":null}\n\ndata: {\"choices\":[],\"usage\":{\"total_tokens\":21}}\n\ndata: [DONE]\n\n",
        "/usage/total_tokens",
        Some(21),
    ),
    (
        "event: message_start\ndata: {\"message\":{\"usage\":{\"output_tokens\":1}}}\n\nevent: ping\ndata: {\"type\":\"ping\"}\n\nevent: message_delta\ndata: {\"usage\":{\"output_tokens\":15}}\n\nevent: message_stop\ndata: {\"type\":\"message_stop\"}\n\n",
        "/usage/output_tokens",
        Some(15),
    ),
    (
        "data: {\"usageMetadata\":{\"totalTokenCount\":5}}\r\n\r\ndata: {\"usageMetadata\":{\"totalTokenCount\":9}}\r\n\r\n",
        "/usageMetadata/totalTokenCount",
        Some(9),
    ),
    ("data: {\"a\":1}\r\rdata: {\"a\":2}\r\r", "/a", Some(2)),
    ("data: {\"a\":1}\n\ndata: {\"a\":null}\n\ndata: {\"a\":-1}\n\ndata: {}\n\n", "/a", Some(1)),
    ("data: {\"a\":\ndata: 1}\n\n", "/a", Some(1)),
    ("data: {\"a\":\"\ndata: \",\"a\":1}\n\n", "/a", None),
    ("data: {\"a\":1\ndata\ndata:2}\n\n", "/a", Some(1)),
    ("data: 1\ndata: 2\n\n", "", Some(1)),
    ("data: {\"a\":\n: comment\nid: 4\ndata:7}\n\n", "/a", Some(7)),
    ("\u{feff}data: {\"a\":1}\n\n", "/a", Some(1)),
    ("\u{feff}\u{feff}data: {\"a\":1}\n\n", "/a", None),
    ("\n\u{feff}data: {\"a\":1}\n\n", "/a", None),
    ("data:{\"a\":1}", "/a", Some(1)),
    (
        "data : {\"a\":1}\n\n data: {\"a\":2}\n\ndata2: {\"a\":3}\n\nDATA: {\"a\":4}\n\ndat: {\"a\":5}\n\n",
        "/a",
        None,
    ),
    ("data: {\"a\":1\n\ndata: ,\"a\":2}\n\n", "/a", None),
];

#[test]
fn streams_have_their_numbers_whatever_the_chunks() {
    for (stream, pointer, expected) in STREAMS {
        assert_eq!(read_events(stream.as_bytes(), pointer, &[usize::MAX]), expected, "{stream:?}");
        for_every_cut(stream.as_bytes(), |prefix, sizes| {
            let whole =
                if prefix.len() == stream.len() { expected } else { number_in_events(prefix, pointer) };
            let text = String::from_utf8_lossy(prefix);
            assert_eq!(read_events(prefix, pointer, sizes), whole, "`{pointer}` in {text:?} by {sizes:?}");
        });
    }
}

/// A stream that the client ends may have another number, and so may an event that is cut or whose
/// number is no number.
#[test]
fn a_stream_is_final_at_its_end() {
    for (stream, pointer, is_final) in [
        ("data: {\"a\":1}\n\n", "/a", true),
        ("data: {\"b\":1}\n\ndata: [DONE]\n\n", "/a", true),
        ("data: [DONE]", "/a", true),
        // As after `HEAD`.
        ("", "/a", false),
        ("data: {\"a\":null}\n\n", "/a", true),
        ("data: {\"a\":\"1\"}\n\n", "/a", false),
        ("data: {\"a\":\"1\"}\n\ndata: {\"b\":1}\n\n", "/a", false),
        ("data: {\"a\":1}\n\ndata: {\"a\":\"2\"}\n\n", "/a", false),
        ("data: {\"a\":\"1\"}\n\ndata: {\"a\":2}\n\n", "/a", true),
        ("data: {\"a\":[2]}", "/a", false),
        ("data: {\"a\":2", "/a", false),
        ("data: {\"a\":2}", "/a", true),
        ("data: {\"b\":2", "/a", false),
        ("data: {\"b\":2}", "/a", true),
    ] {
        for_every_cut(stream.as_bytes(), |prefix, sizes| {
            let mut events = EventStream::new(&one(pointer));
            chunks(prefix, sizes).into_iter().for_each(|chunk| events.push(chunk));
            assert!(!events.is_final(0, false), "{stream}");
            if prefix.len() == stream.len() {
                assert_eq!(events.is_final(0, true), is_final, "{stream}");
            }
        });
    }
}

#[test]
fn all_ends_of_lines_mean_the_same() {
    for (stream, pointer, expected) in STREAMS.into_iter().filter(|(stream, ..)| !stream.contains('\r')) {
        for end in ["\r", "\r\n"] {
            let stream = stream.replace('\n', end);
            assert_eq!(read_events(stream.as_bytes(), pointer, &[1]), expected, "{stream:?}");
        }
    }
}

proptest! {
    #![proptest_config(cases(2_000))]

    #[test]
    fn a_stream_has_the_number_of_the_model(
        (stream, pointer) in stream(), end: prop::sample::Index, sizes in sizes(),
    ) {
        let cut = &stream[..end.index(stream.len() + 1)];
        for stream in [&stream, cut] {
            prop_assert_eq!(read_events(stream, &pointer, &sizes), number_in_events(stream, &pointer));
        }
    }

    #[test]
    fn any_lines_have_the_number_of_the_model(
        lines in "(data|data:|d|: |:|1|\\{\"a\":|2|\\}|\\[|\r|\n|\r\n|\u{feff}){0,16}", sizes in sizes(),
    ) {
        for pointer in ["", "/a"] {
            let stream = lines.as_bytes();
            prop_assert_eq!(read_events(stream, pointer, &sizes), number_in_events(stream, pointer));
        }
    }
}
