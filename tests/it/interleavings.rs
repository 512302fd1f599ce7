//! Several workers at once: a seed chooses the order of their calls to the store, call by call.
//! Each worker is a thread with its own policy, as in a gateway. Only one thread runs at a time:
//! before every load and every swap it passes a baton on.
//!
//! ```text
//!   worker 0   load ······ swap ··············· load ··· swap ·····
//!   worker 1   ····· load ······ swap (lost) ······· load ···· …    the seed picks the next one
//! ```

mod adapting;
mod baton;
mod model;
mod parts;
mod priorities;

use crate::harness::{Random, START, at};
use baton::{Exchange, TestGateway};
use diana_base::time::{Span, Time};
use diana_limiter::cells::store::CasSemantics;
use diana_limiter::decide::{Outcome, Reason, RuleResult};
use diana_limiter::policy::Usage;
use model::{Client, Model, Spec};
use proptest::prelude::*;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};

/// Up to three groups of up to two rules, for two urls of which one contains the other.
fn specs() -> impl Strategy<Value = Vec<Spec>> {
    let rule = (1u64..6, prop::bool::weighted(0.2));
    let group = (any::<bool>(), 0usize..3, prop::collection::vec(rule, 1..=2));
    prop::collection::vec(group, 1..=3).prop_map(|groups| {
        let flat = |(api, actor, rules): (bool, usize, Vec<(u64, bool)>)| {
            rules.into_iter().map(move |(burst, shadow)| Spec { api, actor, burst, shadow })
        };
        groups.into_iter().flat_map(flat).collect()
    })
}

fn client() -> impl Strategy<Value = Client> {
    (0usize..2, 0usize..2, any::<bool>()).prop_map(|(user, ip, api)| Client { user, ip, api })
}

/// The requests of each of two to four workers.
fn plans() -> impl Strategy<Value = Vec<Vec<Client>>> {
    prop::collection::vec(prop::collection::vec(client(), 1..9), 2..=4)
}

fn rules() -> impl Strategy<Value = CasSemantics> {
    prop_oneof![Just(CasSemantics::Lenient), Just(CasSemantics::Strict)]
}

/// Adds the charges of `exchanges` to the model, and checks that no rule admitted too many.
fn charge_model(model: &mut Model, exchanges: &[Exchange]) {
    for Exchange { client, decision, .. } in exchanges {
        let passed = match decision.outcome {
            Outcome::Pass => true,
            Outcome::Reject(Reason::Rule(_)) => false,
            other => panic!("{other:?}"),
        };
        assert_eq!(decision.events.faults, 0, "the store is sound");
        for report in decision.checks.iter().filter(|_| passed) {
            let rule = report.rule().index();
            match report.result() {
                RuleResult::Admitted => model.charge(rule, *client),
                RuleResult::Shadowed => assert!(model.specs[rule].shadow),
                other => panic!("a request passed although a rule reports {other:?}"),
            }
        }
    }
    model.assert_within_burst();
}

/// Whether a request was refused after a lost swap: its loads had admitted it, so it may have been
/// charged.
fn is_late(exchanges: &&Exchange) -> bool {
    exchanges.decision.is_rejected() && exchanges.decision.events.swaps_lost > 0
}

/// At the end each cell holds exactly the charges of its admitted requests. Refused requests cost
/// nothing, and the rest of the quota is available to the last unit.
fn assert_exact(gateway: &TestGateway, model: &mut Model) {
    for client in Client::all() {
        for _ in 0..7 {
            let decision = gateway.ask_new_worker(client, START);
            let expected = model.decide(client);
            let report = |report: &diana_limiter::decide::RuleCheck| {
                (report.rule().index(), report.result(), report.verdict().unwrap().remaining)
            };
            let found = (decision.is_rejected(), decision.checks.iter().map(report).collect());
            assert_eq!(found, expected, "{client:?} in {:?}", model.specs);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn at_one_instant_every_rule_admits_its_burst_and_no_more(
        specs in specs(), plans in plans(), rules in rules(), seed: u64,
    ) {
        let mut model = Model::new(specs);
        let mut gateway = TestGateway::new(model.json("hour"), rules, plans.len());
        let exchanges = gateway.run(&plans, || START, &mut Random(seed));
        charge_model(&mut model, &exchanges);
        for Exchange { client, decision, .. } in &exchanges {
            if let Outcome::Reject(Reason::Rule(id)) = decision.outcome {
                let spec = &model.specs[id.index()];
                let rivals = plans.iter().flatten().filter(|other| spec.counts_alike(*client, **other)).count();
                prop_assert!(rivals as u64 > spec.burst, "refused though there was enough for everybody");
            }
        }
        assert_exact(&gateway, &mut model);
    }

    /// Rounds of requests at different instants: in any span no more pass than the initial rest
    /// plus refill.
    #[test]
    fn over_time_every_rule_keeps_its_bound(
        specs in specs(),
        rounds in prop::collection::vec((plans(), 0u64..1500), 2..6),
        rules in rules(),
        seed: u64,
    ) {
        let model = Model::new(specs);
        let mut gateway = TestGateway::new(model.json("second"), rules, 4);
        let (mut random, mut now_ms) = (Random(seed), 0);
        let mut admitted: HashMap<(usize, usize), Vec<Time>> = HashMap::new();
        for (plans, pause_ms) in rounds {
            now_ms += pause_ms;
            for Exchange { client, decision, now } in gateway.run(&plans, || at(now_ms), &mut random) {
                prop_assert_eq!(decision.events.faults, 0);
                let charged = |report: &&diana_limiter::decide::RuleCheck| report.result() == RuleResult::Admitted;
                for report in decision.checks.iter().filter(charged).filter(|_| !decision.is_rejected()) {
                    let rule = report.rule().index();
                    admitted.entry((rule, model.specs[rule].key(client))).or_default().push(now);
                }
            }
        }
        for ((rule, _), times) in admitted {
            assert_within_bound(&times, model.specs[rule].burst);
        }
    }

    /// A clock that advances at each reading, also between the calls of one request. A delayed
    /// worker has read an earlier time than the worker that charged in between.
    #[test]
    fn while_time_passes_every_rule_keeps_its_bound(
        specs in specs(), plans in plans(), rules in rules(), tick_ms in 0u64..400, seed: u64,
    ) {
        let model = Model::new(specs);
        let mut gateway = TestGateway::new(model.json("second"), rules, plans.len());
        let ticks = AtomicU64::new(0);
        let clock = || at(ticks.fetch_add(1, Ordering::SeqCst) * tick_ms);
        let mut admitted: HashMap<(usize, usize), Vec<Time>> = HashMap::new();
        for Exchange { client, decision, .. } in gateway.run(&plans, clock, &mut Random(seed)) {
            let charged = |report: &&diana_limiter::decide::RuleCheck| report.result() == RuleResult::Admitted;
            for report in decision.checks.iter().filter(charged).filter(|_| !decision.is_rejected()) {
                let (rule, charge) = (report.rule().index(), report.verdict().unwrap().charge);
                admitted.entry((rule, model.specs[rule].key(client))).or_default().push(charge.at);
            }
        }
        for ((rule, _), mut times) in admitted {
            times.sort();
            assert_within_bound(&times, model.specs[rule].burst);
        }
    }
}

/// A rule with a penalty, and rules whose late refusals undo its charges.
fn with_penalty(after: usize, is_shadow: bool) -> String {
    let mode = if is_shadow { "shadow" } else { "enforce" };
    format!(
        r#"{{"local": {{"max_actors": 1000}}, "limits": [{{"url": "/", "rules": [
            {{"actor": "user", "algo": "W", "rpu": 1, "unit": "hour", "mode": "{mode}",
                "penalty": {{"after": {after}, "for": "2h"}}}},
            {{"actor": "ip", "rpu": 5, "unit": "day"}}]}}]}}"#
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Each refusal counts exactly once, whichever swaps are lost. So exactly `after - 1` refusals
    /// of an actor are no penalty: no penalty begins early, and none is missed.
    #[test]
    fn each_refusal_counts_once_toward_the_penalty(
        after in 1usize..8, is_shadow: bool, plans in plans(), rules in rules(), seed: u64,
    ) {
        let mut gateway = TestGateway::new(with_penalty(after, is_shadow), rules, plans.len());
        let exchanges = gateway.run(&plans, || START, &mut Random(seed));
        for user in 0..2 {
            let own = exchanges.iter().filter(|exchange| exchange.client.user == user);
            let reports = own.flat_map(|exchange| exchange.decision.checks.iter());
            let refused: Vec<bool> = reports
                .filter(|report| report.rule().index() == 0 && report.result() != RuleResult::Admitted)
                .map(|report| report.verdict().unwrap().is_penalty())
                .collect();
            let by_quota = refused.iter().filter(|is_penalty| !**is_penalty).count();
            prop_assert_eq!(by_quota, refused.len().min(after - 1), "{:?}", refused);
            // Every worker sees a penalty that has begun.
            let client = Client { user, ip: 2, api: false };
            let decision = gateway.ask_new_worker(client, at(3_600_000));
            let verdict = decision.checks.first().unwrap().verdict();
            prop_assert_eq!(verdict.unwrap().is_penalty(), refused.len() >= after);
        }
    }
}

/// The property above proves nothing if workers never interfere while they count refusals.
#[test]
fn workers_lose_swaps_while_they_count_refusals() {
    let client = Client { user: 0, ip: 0, api: false };
    let mut lost = 0;
    for seed in 0..100 {
        let mut gateway = TestGateway::new(with_penalty(9, false), CasSemantics::Strict, 3);
        let exchanges = gateway.run(&vec![vec![client; 4]; 3], || START, &mut Random(seed));
        let refused = exchanges.iter().filter(|exchange| exchange.decision.is_rejected());
        lost += refused.map(|exchange| exchange.decision.events.swaps_lost).sum::<u32>();
    }
    assert!(lost > 100, "{lost} lost");
}

/// Checks the bound: `burst`, plus `burst` per second.
fn assert_within_bound(admitted: &[Time], burst: u64) {
    for (first, start) in admitted.iter().enumerate() {
        for (last, end) in admitted.iter().enumerate().skip(first) {
            let count = (last - first + 1) as u64;
            let earned = u128::from(end.since(*start).as_ns()) * u128::from(burst);
            let taken = u128::from(count.saturating_sub(burst)) * u128::from(Span::from_secs(1).as_ns());
            assert!(taken <= earned, "{count} within {} at {burst}/s", end.since(*start));
        }
    }
}

/// The properties above prove nothing if workers never interfere. These seeds are fixed.
#[test]
fn workers_lose_swaps_and_refund() {
    let spec = |actor, burst| Spec { api: false, actor, burst, shadow: false };
    let (mut lost, mut late) = (0, 0);
    for seed in 0..100 {
        let mut model = Model::new(vec![spec(0, 7), spec(1, 5), spec(2, 2)]);
        let mut gateway = TestGateway::new(model.json("hour"), CasSemantics::Strict, 3);
        // The first groups have enough for all requests, the last one does not.
        let plan = |user: usize| vec![Client { user, ip: 0, api: false }; 2];
        let exchanges = gateway.run(&[plan(0), plan(1), plan(0)], || START, &mut Random(seed));
        charge_model(&mut model, &exchanges);
        assert_exact(&gateway, &mut model);
        lost += exchanges.iter().map(|exchanges| exchanges.decision.events.swaps_lost).sum::<u32>();
        late += exchanges.iter().filter(is_late).count();
    }
    assert!(lost > 100 && late > 20, "{lost} lost, {late} refused late");
}

/// One rule with a plan for an address, whose requests cost more than a unit, and one whose late
/// refusals undo its charges.
fn with_plan(cost: u64, free: u64, gold: u64) -> String {
    format!(
        r#"{{"plan": {{"actor": "ip", "members": {{"gold": "10.0.0.0"}}}}, "local": {{"max_actors": 1000}},
            "limits": [{{"url": "/", "rules": [
                {{"name": "all", "algo": "W", "rpu": {free}, "unit": "7d", "cost": {cost}, "plans": {{"gold": {{"rpu": {gold}}}}}}},
                {{"name": "user", "actor": "user", "rpu": 4, "unit": "7d"}}]}}]}}"#
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Each request counts in the quotas of both plans, as far as they have room, whatever swaps
    /// are lost. A charge that is refunded later may have taken room from another request. Then the
    /// smaller quota misses a part of that request, but never more than both quotas differ by.
    #[test]
    fn plans_and_costs_share_one_count(
        cost in 1u64..6, room in 0u64..16, more in 1u64..16, plans in plans(), rules in rules(), seed: u64,
    ) {
        let (free, gold) = (cost + room, cost + room + more);
        let mut gateway = TestGateway::new(with_plan(cost, free, gold), rules, plans.len());
        let exchanges = gateway.run(&plans, || START, &mut Random(seed));
        let passes = |exchange: &&Exchange| !exchange.decision.is_rejected();
        let passed = |user| {
            exchanges.iter().filter(passes).filter(|exchange| exchange.client.user == user).count() as u64
        };
        prop_assert!(passed(0) <= 4 && passed(1) <= 4);
        let of_free = exchanges.iter().filter(passes).filter(|exchange| exchange.client.ip == 1).count() as u64;
        let used = cost * (passed(0) + passed(1));
        prop_assert!(used <= gold && cost * of_free <= free);
        let left = |ip| {
            let decision = gateway.ask_new_worker(Client { user: 2, ip, api: false }, START);
            let took = if decision.is_rejected() { 0 } else { cost };
            (took, decision.checks.first().unwrap().verdict().unwrap().remaining + took)
        };
        let (took, left_of_gold) = left(0);
        prop_assert_eq!(left_of_gold, gold - used);
        let used = used + took;
        let left_of_free = left(1).1;
        let missed = if exchanges.iter().any(|exchange| is_late(&exchange)) { more } else { 0 };
        prop_assert!(left_of_free >= free.saturating_sub(used));
        prop_assert!(left_of_free <= (free + missed).saturating_sub(used).min(free));
    }
}

/// Workers settle requests on one cell at once: each correction is made exactly once, whatever
/// swaps are lost.
#[test]
fn settlements_of_several_workers_all_count() {
    let json = r#"{"url": "/", "rules": [
        {"name": "bytes", "rpu": 1000, "unit": "hour", "algo": "W", "cost": {"response_bytes": true, "estimate": 5}},
        {"name": "failed", "rpu": 1000, "unit": "hour", "charge": {"status": 401}},
        {"name": "kept", "rpu": 1000, "unit": "hour", "algo": "SW", "cost": 3, "refund": {"status": "5xx"}}]}"#;
    let client = Client { user: 0, ip: 0, api: false };
    let mut lost = 0;
    for seed in 0..60 {
        let mut gateway = TestGateway::new(json.into(), CasSemantics::Strict, 3);
        let mut random = Random(seed);
        // The responses of four requests of each worker: more than the estimate, less, or none.
        let usage = |random: &mut Random| match random.below(4) {
            0 => None,
            1 => Some((200, 2)),
            2 => Some((401, 40)),
            _ => Some((503, 0)),
        };
        let plans: Vec<Vec<Option<(u16, u64)>>> =
            (0..3).map(|_| (0..4).map(|_| usage(&mut random)).collect()).collect();
        let measured = |ended: &Option<(u16, u64)>| {
            let usage =
                |(status, response_bytes)| Usage { status: Some(status), response_bytes, ..Usage::default() };
            ended.map(usage).map(|usage| (usage, Span::ZERO))
        };
        let usages: Vec<Vec<Option<(Usage, Span)>>> =
            plans.iter().map(|plan| plan.iter().map(measured).collect()).collect();
        lost += gateway.settle(client, &usages, || START, &mut random);
        let all = || plans.iter().flatten();
        let bytes: u64 = all().map(|usage| usage.map_or(5, |(_, bytes)| bytes)).sum();
        let failed = all().filter(|usage| usage.is_some_and(|(status, _)| status == 401)).count() as u64;
        let kept = all().filter(|usage| usage.is_none_or(|(status, _)| status < 500)).count() as u64;
        let left: Vec<u64> = gateway
            .ask_new_worker(client, START)
            .checks
            .iter()
            .map(|report| report.verdict().unwrap().remaining)
            .collect();
        assert_eq!(left, [995 - bytes, 1000 - failed, 997 - 3 * kept], "{plans:?}");
    }
    assert!(lost > 60, "{lost} swaps were lost");
}
