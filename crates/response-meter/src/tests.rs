//! Tests of the readers against slow models, over documents and streams in any chunks.

mod events;
mod generate;
mod json;
mod meter;
mod model;
mod numbers;
mod several;
mod values;
mod values_model;

use crate::{EventStream, JsonNumbers, Pointers};
use proptest::prelude::ProptestConfig;
use proptest::test_runner::RngSeed;

/// Always the same cases; `$PROPTEST_RNG_SEED` selects others.
fn cases(cases: u32) -> ProptestConfig {
    let config = ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() };
    match config.rng_seed {
        RngSeed::Random => ProptestConfig { rng_seed: RngSeed::Fixed(7), ..config },
        RngSeed::Fixed(_) => config,
    }
}

/// The value of a document whose bytes come in chunks of these sizes, over and over.
fn read_json(document: &[u8], pointer: &str, sizes: &[usize]) -> Option<u64> {
    let mut json = JsonNumbers::new(&one(pointer));
    chunks(document, sizes).into_iter().for_each(|chunk| json.push(chunk));
    json.value(0)
}

/// The value of a stream whose bytes come in chunks of these sizes, over and over.
fn read_events(stream: &[u8], pointer: &str, sizes: &[usize]) -> Option<u64> {
    let mut events = EventStream::new(&one(pointer));
    chunks(stream, sizes).into_iter().for_each(|chunk| events.push(chunk));
    events.value(0)
}

/// This pointer alone.
fn one(pointer: &str) -> Pointers {
    Pointers::parse([pointer]).unwrap()
}

/// One size at least has to be above 0.
fn chunks<'b>(mut bytes: &'b [u8], sizes: &[usize]) -> Vec<&'b [u8]> {
    let mut chunks = Vec::new();
    for size in sizes.iter().cycle() {
        let (chunk, rest) = bytes.split_at((*size).min(bytes.len()));
        chunks.push(chunk);
        bytes = rest;
        if bytes.is_empty() {
            break;
        }
    }
    chunks
}

/// Every prefix of the body, in two chunks that are cut anywhere, and in chunks of a byte.
fn for_every_cut(body: &[u8], check: impl Fn(&[u8], &[usize])) {
    for end in 0..=body.len() {
        check(&body[..end], &[1]);
        // Cuts of the whole body, and of prefixes near their ends, which is where they differ.
        let first = if end == body.len() { 1 } else { end.saturating_sub(3).max(1) };
        for cut in first..=end.max(first) {
            check(&body[..end], &[cut, usize::MAX]);
        }
    }
}
