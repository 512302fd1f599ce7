//! A simulated Envoy drives the module with events in any order that Envoy may have. The fuzzer
//! does the same for longer: `cargo xtask fuzz native_module`.
#![allow(
    clippy::arithmetic_side_effects,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::string_slice,
    clippy::unreachable,
    clippy::unwrap_used
)]

mod bodies;
mod bridge;
mod envoy;
mod sweeping;

use proptest::prelude::*;
use proptest::test_runner::RngSeed;

/// A fixed seed, unless `PROPTEST_RNG_SEED` sets another one.
fn config() -> ProptestConfig {
    let config = ProptestConfig { cases: 600, max_shrink_iters: 4000, ..ProptestConfig::default() };
    match config.rng_seed {
        RngSeed::Random => ProptestConfig { rng_seed: RngSeed::Fixed(17), ..config },
        RngSeed::Fixed(_) => config,
    }
}

#[test]
fn the_module_does_what_envoy_demands() {
    envoy::load();
    proptest!(config(), |(bytes in proptest::collection::vec(any::<u8>(), 0..500))| envoy::play(&bytes));
}
