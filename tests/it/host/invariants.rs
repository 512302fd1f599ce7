//! The invariants of every gateway under any sequence of events and faults.

use super::faults::FaultKind;
use super::gateway::Fate;
use super::laws::{
    everything_is_refunded, no_request_waits_for_ever, nothing_is_left, permits_hold, quotas_hold,
};
use super::play::{Setup, play};
use diana_limiter::cells::store::CasSemantics;
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

/// Always the same cases; `$PROPTEST_RNG_SEED` selects others.
fn cases() -> ProptestConfig {
    let config = ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() };
    match config.rng_seed {
        RngSeed::Random => ProptestConfig { rng_seed: RngSeed::Fixed(6), ..config },
        RngSeed::Fixed(_) => config,
    }
}

fn setups(kinds: &'static [FaultKind]) -> impl Strategy<Value = Setup> {
    let rules = prop_oneof![3 => Just(CasSemantics::Lenient), 1 => Just(CasSemantics::Strict)];
    (rules, 1..4_usize, any::<bool>(), prop::sample::select(kinds), 2..12_u64, any::<u64>()).prop_map(
        |(rules, workers, reenters, kind, one_in, seed)| Setup {
            rules,
            workers,
            reenters,
            kind,
            one_in,
            seed,
        },
    )
}

fn bytes() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(any::<u8>(), 0..400)
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn nothing_is_lost_and_nothing_is_refunded_twice(
        setup in setups(&[FaultKind::Nothing, FaultKind::LostSwaps]), bytes in bytes(),
    ) {
        let gateway = play(setup, &bytes, permits_hold);
        no_request_waits_for_ever(&gateway);
        quotas_hold(&gateway);
        everything_is_refunded(&gateway);
        assert_eq!(gateway.counter("diana.shared_data_errors"), 0);
    }

    #[test]
    fn whatever_fails_nobody_waits_for_ever(setup in setups(&[FaultKind::Any]), bytes in bytes()) {
        let gateway = play(setup, &bytes, |_| {});
        no_request_waits_for_ever(&gateway);
        nothing_is_left(&gateway);
    }

    /// Faults of the store that have written cost charges and admit nobody.
    #[test]
    fn a_store_that_fails_refuses_nobody_in_error(setup in setups(&[FaultKind::Store]), bytes in bytes()) {
        let setup = Setup { one_in: 1, ..setup };
        let gateway = play(setup, &bytes, |_| {});
        let records = gateway.world.records.borrow().clone();
        let passes = |fate: &Fate| matches!(fate, Fate::Upstream | Fate::Served | Fate::Reset);
        for record in records {
            prop_assert!(passes(&record.fate), "{record:?}");
        }
        gateway.no_crash();
    }
}
