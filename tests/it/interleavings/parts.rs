//! Rules by named segments, under conditions, that warm up: whatever the order of calls, as many
//! requests pass as if they came one after the other.

use super::baton::TestGateway;
use super::{Random, START, rules};
use diana_limiter::cells::store::CasSemantics;
use diana_limiter::request::{Part, Values};
use diana_limiter::session::Session;
use proptest::prelude::*;
use std::sync::Mutex;

/// At one instant, a cold bucket of 60 tokens admits nine or ten requests of two units, not thirty.
const JSON: &str = r#"{"limits": [{
    "url": "/tenants/{tenant}/**", "query": {"kind": "write"}, "body_size": {"max": "1k"},
    "rules": [
        {"name": "warming", "actor": {"segment": "tenant"}, "rpu": 60, "unit": "second", "warm_up": "1d", "cost": 2},
        {"name": "all", "rpu": 25, "unit": "hour", "algo": "W"}]}]}"#;

/// A request: its tenant, and whether the query and the size of the body match.
type Request = (usize, bool, bool);

fn values((tenant, is_write, is_small): Request) -> Values {
    let kind = if is_write { "write" } else { "read" };
    Values::default()
        .with(Part::Path, format!("/tenants/t{tenant}/orders?kind={kind}"))
        .with(Part::BodySize, if is_small { "10" } else { "5000" })
}

fn matches((_, is_write, is_small): Request) -> bool {
    is_write && is_small
}

/// The requests that passed.
fn passed(plans: &[Vec<Request>], rules: CasSemantics, random: &mut Random) -> (Vec<Request>, u32) {
    let mut gateway = TestGateway::new(JSON.into(), rules, plans.len());
    let passed = Mutex::new(Vec::new());
    let lost = gateway.each(plans.len(), random, |me, worker, _| {
        let ask = |request: &Request| {
            let values = values(*request);
            let policy = worker.policy().clone();
            let (_, decision) = Session::start(worker, &policy.request(&values), || START);
            if !decision.is_rejected() {
                passed.lock().unwrap().push(*request);
            }
            decision.events.swaps_lost
        };
        plans[me].iter().map(ask).sum::<u32>()
    });
    (passed.into_inner().unwrap(), lost.into_iter().sum())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn as_many_pass_as_one_after_the_other(
        plans in prop::collection::vec(
            prop::collection::vec((0usize..2, prop::bool::weighted(0.8), prop::bool::weighted(0.8)), 1..20),
            2..=4,
        ),
        rules in rules(),
        seed: u64,
    ) {
        let (found, _) = passed(&plans, rules, &mut Random(seed));
        let in_turn: Vec<Request> = plans.iter().flatten().copied().collect();
        let (expected, _) = passed(std::slice::from_ref(&in_turn), rules, &mut Random(seed));
        let count = |all: &[Request], is_meant: &dyn Fn(&Request) -> bool| all.iter().filter(|one| is_meant(one)).count();
        let others = |request: &Request| !matches(*request);
        prop_assert_eq!(count(&found, &others), count(&in_turn, &others), "other requests always pass");
        let all = |request: &Request| matches(*request);
        let counted = count(&found, &all);
        prop_assert!(counted <= 25);
        // The rule on all requests may end before the tenants' rules do, or after them.
        if counted < 25 && count(&expected, &all) < 25 {
            for tenant in 0..2 {
                let own = |request: &Request| matches(*request) && request.0 == tenant;
                prop_assert_eq!(count(&found, &own), count(&expected, &own));
            }
        }
    }
}

/// The property above proves nothing if workers never interfere, or if no rule refuses.
#[test]
fn workers_lose_swaps_and_tenants_are_refused() {
    let (mut lost, mut refused) = (0, 0);
    for seed in 0..50 {
        let plans = vec![vec![(0, true, true); 8]; 3];
        let (passed, swaps) = passed(&plans, CasSemantics::Strict, &mut Random(seed));
        (lost, refused) = (lost + swaps, refused + 24 - passed.len());
    }
    assert!(lost > 50 && refused > 100, "{lost} lost, {refused} refused");
}
