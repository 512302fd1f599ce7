//! Drives sessions of the engine on a virtual clock and prints everything that a host can observe,
//! so that `cargo xtask same-decisions` can compare two commits.
//!
//! ```text
//!   seed ─ document, traffic ─► Case (JSON) ─► Gateway ─► one line for each event
//!                                              the only part that calls the engine
//! ```
#![forbid(unsafe_code)]

pub mod case;
pub mod document;
mod gateway;
pub mod ledger;
mod random;
mod shown;
pub mod traffic;

pub use gateway::{accepts, trace};

use case::Case;
use random::Random;

/// The case of a seed. Its document is accepted.
#[must_use]
pub fn generate(seed: u64) -> Case {
    let mut random = Random::new(seed);
    let document = document::random(&mut random, &|document| accepts(document));
    traffic::random(&mut random, seed, document)
}
