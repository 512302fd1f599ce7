//! Properties of gateways that count together, whatever happens to them and to their calls.

use super::laws::*;
use super::play::{Setup, play};
use crate::host::callouts::{self, CallFault, CallFaults};
use crate::host::faults::FaultKind;
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

/// Always the same cases; `$PROPTEST_RNG_SEED` selects others.
fn cases() -> ProptestConfig {
    let config = ProptestConfig { cases: 100, failure_persistence: None, ..ProptestConfig::default() };
    match config.rng_seed {
        RngSeed::Random => ProptestConfig { rng_seed: RngSeed::Fixed(8), ..config },
        RngSeed::Fixed(_) => config,
    }
}

/// Setups in which calls have only these faults.
fn setups(faults: &'static [CallFault], longest_us: u64) -> impl Strategy<Value = Setup> {
    let size = (1..3_usize, 1..4_usize, 1..4_usize, 1..3_usize);
    let call_faults = (1..8_u64, any::<bool>(), any::<u64>());
    (size, any::<bool>(), call_faults, 2..12_u64, 0..longest_us + 1).prop_map(
        move |(
            (gateways, workers, shards, in_flight),
            reenters,
            (fault, cancels, seed),
            one_in,
            longest_us,
        )| {
            let call_faults =
                CallFaults { faults, one_in: fault, longest_us, cancels, outlives: false, seed };
            Setup {
                gateways,
                workers,
                shards,
                in_flight,
                reenters,
                kind: FaultKind::Nothing,
                one_in,
                goes_down: false,
                reloads: true,
                call_faults,
            }
        },
    )
}

fn bytes() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(any::<u8>(), 0..400)
}

proptest! {
    #![proptest_config(cases())]

    /// Every reply comes in time, even if late or twice, and scripts get lost.
    #[test]
    fn if_no_reply_is_lost_all_counts_are_exact(
        setup in setups(&[CallFault::Twice, CallFault::NoScript], 8_000), bytes in bytes(), reloads: bool,
    ) {
        let gateways = play(Setup { reloads, ..setup }, &bytes, nobody_waits_too_long);
        nobody_goes_uncounted(&gateways);
        requests_pass_again(&gateways);
        stores_hold(&gateways);
        nobody_goes_uncounted(&gateways);
        nobody_is_charged_in_vain(&gateways);
        permits_are_back(&gateways);
    }

    #[test]
    fn whatever_faults_calls_have_quotas_and_timeouts_hold(
        setup in setups(callouts::ALL, 90_000), bytes in bytes(),
    ) {
        let gateways = play(Setup { goes_down: true, ..setup }, &bytes, nobody_waits_too_long);
        requests_pass_again(&gateways);
        stores_hold(&gateways);
        nobody_goes_uncounted(&gateways);
        degraded_is_bounded(&gateways);
    }

    /// Swaps of the gateway's own data are lost.
    #[test]
    fn lost_swaps_lose_nothing(setup in setups(&[CallFault::Twice], 8_000), bytes in bytes()) {
        let gateways = play(Setup { kind: FaultKind::LostSwaps, ..setup }, &bytes, nobody_waits_too_long);
        requests_pass_again(&gateways);
        stores_hold(&gateways);
        nobody_goes_uncounted(&gateways);
        nobody_is_charged_in_vain(&gateways);
        permits_are_back(&gateways);
    }

    #[test]
    fn whatever_fails_nobody_waits_for_ever(
        setup in setups(callouts::ALL, 90_000), bytes in bytes(), outlives: bool,
        kind in prop::sample::select(vec![FaultKind::Any, FaultKind::Release, FaultKind::Timer, FaultKind::Store]),
    ) {
        // A host that takes a plugin away from its streams, unlike Envoy, must let them go: nothing
        // asks again.
        let outlives = outlives && matches!(kind, FaultKind::Timer | FaultKind::Store);
        let call_faults = CallFaults { outlives, ..setup.call_faults.clone() };
        let gateways = play(Setup { kind, goes_down: true, call_faults, ..setup }, &bytes, |_| {});
        requests_pass_again(&gateways);
        stores_hold(&gateways);
    }
}
