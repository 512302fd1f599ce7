//! Streams with bodies and responses, in a gateway with any events.

use super::input::Input;
use crate::host::bodies::{Setup, play};

/// Longer inputs take longer and find no more.
const MOST_BYTES: usize = 300;

/// Whatever happens to streams, each is settled once, to what it used.
pub fn run(bytes: &[u8]) {
    let mut input = Input(&bytes[..bytes.len().min(MOST_BYTES)]);
    let setup = Setup {
        workers: 1 + input.below(3),
        reenters: input.flag(),
        reports_held: input.flag(),
        one_in: 2 + input.below(10) as u64,
        seed: input.byte().into(),
    };
    play(setup, input.0);
}
