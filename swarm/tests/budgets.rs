//! A short run of budgets, and mutants of the script that the checks must find. `cargo xtask swarm
//! --budgets --seeds 10000` is the long run.

use swarm::budgets::{Budget, CHARGES, Charge, compare, run, run_with};
use swarm::server::Server;

#[test]
fn no_budget_is_exceeded_by_more_than_its_bound() {
    for seed in 0..30 {
        let outcome = run(&Budget::draw(seed));
        assert!(outcome.is_ok(), "cargo xtask swarm --budgets --seed {seed}: {outcome:?}");
    }
}

/// The worst case is never too low, and without an estimate all streams count only at their ends.
#[test]
fn what_is_learned_lies_between_the_worst_case_and_nothing() {
    let [nothing, stated, _, learned] = CHARGES.map(|charge| compare(64, charge, 2).unwrap());
    assert_eq!((stated.0, nothing.1), (0.0, 0.0));
    assert!(learned.0 * 5.0 < nothing.0, "{learned:?} {nothing:?}");
    assert!(learned.1 * 5.0 < stated.1, "{learned:?} {stated:?}");
}

#[test]
fn mistakes_of_the_script_are_found() {
    const SOURCE: &str = include_str!("../../crates/global-redis/src/script.lua");
    for (right, wrong) in [
        // What is left is not charged, or not taken.
        ("then one = step(query, rest) end", "then one = step(query, 0) end"),
        ("then one = step(query, rest) end", "then one[OUTCOME], one[COST] = ADMITTED, cost end"),
        // Corrections take too little.
        ("rule.charge(final - cost)", "rule.charge(final - cost - 1)"),
        ("rule.refund(cost - final,", "rule.refund(cost - final + 1,"),
    ] {
        assert!(SOURCE.contains(right), "{right}");
        let mistaken = SOURCE.replace(right, wrong);
        let finds = |seed| {
            let budget = Budget {
                gateways: 2,
                charge: Charge::Stated,
                takes_rest: true,
                algo: "W",
                quota: 100_000,
                ..Budget::draw(seed)
            };
            assert!(run(&budget).is_ok(), "{budget:?}");
            run_with(&budget, Server::with_script(&mistaken)).is_err()
        };
        assert!((0..5).any(finds), "{wrong}");
    }
}
