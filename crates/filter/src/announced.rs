//! The record, in the shared data, of the configurations that are in the log. Every worker accepts
//! each configuration, but only the first one logs it.

use diana_base::time::{Span, Time};
use diana_limiter::cells::store::{Store, Update};
use diana_limiter::cells::table::Hasher;

const KEY: &[u8] = b"diana/announced";

/// All workers accept a configuration within this span of one another.
const REPEAT_AFTER: Span = Span::from_secs(10);

/// At most this many configurations are recorded: filters that share a `vm_id` accept theirs at
/// once.
const MAX_REMEMBERED: usize = 16;

/// After this many lost swaps the worker gives up without a log line.
const ROUNDS: u32 = 8;

/// Records that a configuration with these bytes was accepted. Returns whether this worker is the
/// first one that records it.
pub(super) fn record(store: &impl Store, bytes: &[u8], clock: impl Fn() -> Time) -> bool {
    let hash = Hasher::name(bytes);
    let update = store.update(KEY, ROUNDS, &mut |value| {
        let (now, mut announced) = (clock(), value.map(read).unwrap_or_default());
        if announced.iter().any(|(known, at)| *known == hash && now.since(*at) < REPEAT_AFTER) {
            return None;
        }
        announced.retain(|(known, _)| *known != hash);
        announced.insert(0, (hash, now));
        // A value must not grow: where keys are evicted, that may crash the worker in a full zone.
        announced.resize(MAX_REMEMBERED, (0, Time::from_ns(0)));
        Some(write(&announced).into())
    });
    update == Ok(Update::Stored)
}

fn read(bytes: &[u8]) -> Vec<(u64, Time)> {
    let (words, _) = bytes.as_chunks::<8>();
    let (pairs, _) = words.as_chunks::<2>();
    let number = |word: &[u8; 8]| u64::from_le_bytes(*word);
    pairs.iter().map(|[hash, at]| (number(hash), Time::from_ns(number(at)))).collect()
}

fn write(announced: &[(u64, Time)]) -> Vec<u8> {
    announced.iter().flat_map(|(hash, at)| [hash.to_le_bytes(), at.as_ns().to_le_bytes()]).flatten().collect()
}
