//! Several pointers in one pass.

use super::generate::{sizes, stream_with_pointers, with_pointers};
use super::{cases, chunks, one};
use crate::{Meter, Pointers, ResponseHead};
use proptest::prelude::*;

/// What a meter has read at each pointer: the number, and whether it is final in a response that
/// has not ended, and in one that has.
fn read(
    pointers: &Pointers,
    content_type: &'static str,
    body: &[u8],
    sizes: &[usize],
) -> Vec<(Option<u64>, bool, bool)> {
    let head = ResponseHead { status: 200, content_type: content_type.as_bytes(), content_encoding: b"" };
    let mut meter = Meter::new(pointers, head, 1_000_000);
    for chunk in chunks(body, sizes) {
        if !meter.is_done() {
            meter.push(chunk);
        }
    }
    (0..pointers.len())
        .map(|at| (meter.value(at), meter.is_final(at, false), meter.is_final(at, true)))
        .collect()
}

/// Each pointer is read as if it were alone.
fn check(
    content_type: &'static str,
    body: &[u8],
    pointers: &[String],
    sizes: &[usize],
) -> Result<(), TestCaseError> {
    let together = Pointers::parse(pointers.iter().map(String::as_str)).unwrap();
    let alone = pointers.iter().flat_map(|pointer| read(&one(pointer), content_type, body, &[usize::MAX]));
    prop_assert_eq!(read(&together, content_type, body, sizes), alone.collect::<Vec<_>>(), "{:?}", pointers);
    Ok(())
}

proptest! {
    #![proptest_config(cases(2_000))]

    #[test]
    fn pointers_of_a_document_do_not_disturb_each_other(
        (document, pointers) in with_pointers(1..9), end: prop::sample::Index, sizes in sizes(),
    ) {
        let body = document.as_bytes();
        for body in [body, &body[..end.index(body.len() + 1)]] {
            check("application/json", body, &pointers, &sizes)?;
        }
    }

    #[test]
    fn pointers_of_a_stream_do_not_disturb_each_other(
        (stream, pointers) in stream_with_pointers(), end: prop::sample::Index, sizes in sizes(),
    ) {
        for body in [&stream[..], &stream[..end.index(stream.len() + 1)]] {
            check("text/event-stream", body, &pointers, &sizes)?;
        }
    }
}
