//! What holds for every gateway, whatever happens to it.
//!
//! It does not know: which of its parts sees to it.

use super::faults::Kind;
use super::gateway::{Fate, Gateway};
use super::play::{Setup, in_flight, play};
use diana::store::Rules;
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

/// Always the same cases; `$PROPTEST_RNG_SEED` tries others.
fn cases() -> ProptestConfig {
    let config = ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() };
    match config.rng_seed {
        RngSeed::Random => ProptestConfig { rng_seed: RngSeed::Fixed(6), ..config },
        RngSeed::Fixed(_) => config,
    }
}

fn setups(kinds: &'static [Kind]) -> impl Strategy<Value = Setup> {
    let rules = prop_oneof![3 => Just(Rules::Lenient), 1 => Just(Rules::Strict)];
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

/// No more are in flight than there are permits.
fn permits_hold(gateway: &Gateway) {
    assert!(in_flight(gateway, "/permits") <= 2);
    assert!(in_flight(gateway, "/all") <= 3);
}

/// Of each user's day, and of all turns of a queue, no more went than may.
fn quotas_hold(gateway: &Gateway) {
    let noted = gateway.world.noted.borrow();
    for (path, most) in [("/quota", 5), ("/all", 9), ("/held", 1)] {
        for user in ["ann", "bob"] {
            let own = |user: &str| path == "/held" || user == "ann" || user == "bob";
            let of = noted.iter().filter(|noted| noted.path == path && noted.went.is_some() && own(user));
            let count = of.filter(|noted| path == "/held" || noted.user == user).count();
            assert!(count <= most, "{count} of {user} at {path}");
        }
    }
    for (path, gap_ms) in [("/queue", 100), ("/all", 50)] {
        let first = noted.iter().filter(|noted| noted.path == path).map(|noted| noted.came).min();
        let mut went: Vec<u64> =
            noted.iter().filter(|noted| noted.path == path).filter_map(|n| n.went).collect();
        went.sort_unstable();
        for (turn, went) in went.iter().enumerate() {
            // nginx tells the time in whole milliseconds.
            let due = first.unwrap() / 1_000_000 + gap_ms * turn as u64;
            assert!(
                went / 1_000_000 >= due,
                "turn {turn} at {path} came {} ms early",
                due - went / 1_000_000
            );
        }
    }
}

/// Nobody waits for ever, once faults have ceased.
fn nobody_is_left(gateway: &Gateway) {
    gateway.fail(Kind::Nothing);
    gateway.settle();
    gateway.no_crash();
}

/// After all have ended, all permits and turns are back.
fn all_is_back(gateway: &Gateway) {
    gateway.end_all();
    gateway.pass(10_000);
    let ask = |path: &str| {
        let request = gateway.request(0, path, "carol");
        gateway.fate(request)
    };
    let asked: Vec<Fate> = (0..3).map(|_| ask("/permits")).collect();
    assert_eq!(asked, [Fate::Upstream, Fate::Upstream, Fate::Answered(429)]);
    assert_eq!(ask("/queue"), Fate::Upstream, "nobody is before it");
    let waits = if gateway.world.rules == Rules::Lenient { Fate::Paused } else { Fate::Answered(429) };
    assert_eq!(ask("/queue"), waits);
    gateway.settle();
    nothing_is_owed(gateway);
}

fn nothing_is_owed(gateway: &Gateway) {
    gateway.end_all();
    assert_eq!(gateway.owing(), 0);
    gateway.no_crash();
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn nothing_is_lost_and_nothing_is_given_twice(
        setup in setups(&[Kind::Nothing, Kind::LostSwaps]), bytes in bytes(),
    ) {
        let gateway = play(setup, &bytes, permits_hold);
        nobody_is_left(&gateway);
        quotas_hold(&gateway);
        all_is_back(&gateway);
        assert_eq!(gateway.counter("diana.store_errors"), 0);
    }

    #[test]
    fn whatever_fails_nobody_waits_for_ever(setup in setups(&[Kind::Any]), bytes in bytes()) {
        let gateway = play(setup, &bytes, |_| {});
        nobody_is_left(&gateway);
        nothing_is_owed(&gateway);
    }

    /// Those of the store's own faults that have written cost charges, and give nobody anything.
    #[test]
    fn a_store_that_fails_refuses_nobody_in_error(setup in setups(&[Kind::Store]), bytes in bytes()) {
        let setup = Setup { one_in: 1, ..setup };
        let gateway = play(setup, &bytes, |_| {});
        let noted = gateway.world.noted.borrow().clone();
        let passes = |fate: &Fate| matches!(fate, Fate::Upstream | Fate::Served | Fate::Reset);
        for noted in noted {
            prop_assert!(passes(&noted.fate), "{noted:?}");
        }
        gateway.no_crash();
    }
}
