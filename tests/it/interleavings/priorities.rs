//! Several workers, some of whose requests have a high priority: the others never take the
//! headroom.

use super::baton::{Exchange, TestGateway};
use super::model::Client;
use super::{plans, rules};
use crate::harness::{Random, START};
use diana_config::algorithm::KINDS;
use diana_limiter::cells::store::CasSemantics;
use diana_limiter::decide::{Decision, RuleCheck, RuleResult};
use proptest::prelude::*;

/// The first rule counts all requests and leaves `headroom` of its `rpu` to `/api`. The second rule
/// refuses late, and undoes charges of the first one.
fn json(kind: usize, rpu: u64, headroom: u64, per_ip: u64) -> String {
    let kind = &KINDS[kind];
    let unit = if kind.per_unit { r#", "unit": "hour""# } else { "" };
    format!(
        r#"{{"local": {{"max_actors": 1000}}, "limits": [
            {{"url": "/api", "priority": "high"}},
            {{"url": "/", "rules": [
                {{"algo": "{}", "rpu": {rpu}{unit}, "headroom": {headroom}}},
                {{"actor": "ip", "rpu": {per_ip}, "unit": "hour"}}]}}]}}"#,
        kind.short
    )
}

/// All kinds but the leaky bucket, whose requests wait.
fn kinds() -> impl Strategy<Value = usize> {
    let kinds: Vec<usize> = (0..KINDS.len()).filter(|kind| KINDS[*kind].short != "LB").collect();
    proptest::sample::select(kinds)
}

/// The report of the rule with headroom. A cached refusal of another rule does not ask it.
fn report(decision: &Decision) -> Option<&RuleCheck> {
    decision.checks.iter().find(|report| report.rule().index() == 0)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn requests_of_normal_priority_never_take_the_headroom(
        kind in kinds(), (rpu, headroom) in (2u64..12).prop_flat_map(|rpu| (Just(rpu), 1..rpu)),
        per_ip in 1u64..12, plans in plans(), rules in rules(), seed: u64,
    ) {
        let mut gateway = TestGateway::new(json(kind, rpu, headroom, per_ip), rules, plans.len());
        let exchanges = gateway.run(&plans, || START, &mut Random(seed));
        let passing = || exchanges.iter().filter(|exchange| !exchange.decision.is_rejected());
        let passed = passing().count() as u64;
        let others = passing().filter(|exchange| !exchange.client.api).count() as u64;
        prop_assert!(passed <= rpu && others <= rpu - headroom, "{} and {} of {}", passed, others, rpu);
        for Exchange { client, decision, .. } in &exchanges {
            prop_assert_eq!((decision.events.faults, decision.is_high_priority), (0, client.api));
            // A charge that is refunded later may refuse others in vain, but takes a request each.
            if report(decision).is_some_and(|report| report.result() == RuleResult::Refused) {
                let room = if client.api { rpu } else { rpu - headroom };
                prop_assert!(exchanges.len() as u64 > room, "refused though there was enough");
            }
        }
        // Refused requests are charged nowhere, and the headroom is there for those of high
        // priority.
        for is_high_priority in [false, true] {
            let client = Client { user: 0, ip: 7, api: is_high_priority };
            let decision = gateway.ask_new_worker(client, START);
            let result = report(&decision).unwrap().result();
            let room = (rpu - passed).saturating_sub(if is_high_priority { 0 } else { headroom });
            let is_first = u64::from(is_high_priority && (rpu - passed) > headroom);
            prop_assert_eq!(result == RuleResult::Admitted, room > is_first);
        }
    }
}

/// The property proves nothing if workers never interfere near the headroom.
#[test]
fn workers_lose_swaps_near_the_headroom() {
    let (mut lost, mut late) = (0, 0);
    for seed in 0..100 {
        let mut gateway = TestGateway::new(json(1, 8, 4, 99), CasSemantics::Strict, 3);
        let client = |api| Client { user: 0, ip: 0, api };
        let plan = vec![client(false), client(true), client(false)];
        let exchanges = gateway.run(&vec![plan; 3], || START, &mut Random(seed));
        for Exchange { client, decision, .. } in &exchanges {
            lost += decision.events.swaps_lost;
            late += u32::from(decision.is_rejected() && !client.api && decision.events.swaps_lost > 0);
        }
    }
    assert!(lost > 100 && late > 10, "{lost} lost, {late} refused late");
}
