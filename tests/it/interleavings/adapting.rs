//! Limits that move: whatever swaps are lost, all workers together count each request once.

use super::baton::TestGateway;
use super::model::Client;
use super::{Random, START, at, rules};
use diana_base::time::Span;
use diana_limiter::policy::Usage;
use proptest::prelude::*;
use std::sync::atomic::{AtomicU64, Ordering};

/// A rule that admits all requests, with one interval for the whole test.
const JSON: &str = r#"{"url": "/", "rules": [{"rpu": 100, "unit": "second",
    "adapt": {"signal": "latency_p90", "target": "1ms", "min": 100, "max": 100, "every": "10m"}}]}"#;

/// The begin of an interval, in ms after the start.
fn begin_ms() -> u64 {
    let since = START.as_ns() / 1_000_000 % 600_000;
    600_000 - since
}

fn response(status: u16, ms: u64) -> (Usage, Span) {
    (Usage { status: Some(status), ..Usage::default() }, Span::from_ms(ms))
}

/// How a request ends: its status and latency, or no response.
fn ends() -> impl Strategy<Value = Option<(Usage, Span)>> {
    let response = (200u16..600, 1u64..1_000).prop_map(|(status, ms)| response(status, ms));
    prop::option::weighted(0.8, response)
}

fn numbers(bytes: &[u8]) -> impl Iterator<Item = u64> {
    bytes.chunks_exact(8).map(|chunk| u64::from_le_bytes(chunk.try_into().unwrap()))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn each_request_and_response_is_shared_once(
        plans in prop::collection::vec(prop::collection::vec(ends(), 1..9), 2..=4), rules in rules(), seed: u64,
    ) {
        let mut gateway = TestGateway::new(JSON.into(), rules, plans.len());
        // Sharing is due after each quarter of the interval, and a worker stops within it.
        let readings = AtomicU64::new(0);
        let passed_ms = || (readings.fetch_add(1, Ordering::SeqCst) * 20_000).min(599_000);
        let clock = || at(begin_ms() + passed_ms());
        let client = Client { user: 0, ip: 0, api: false };
        gateway.settle(client, &plans, clock, &mut Random(seed));
        // A worker that retires has one chance, in which the others may be faster once each.
        gateway.retire(plans.len(), at(begin_ms() + 599_000), &mut Random(seed));
        let bytes = gateway.adaptive_bytes();
        // After the state and the interval's end: errors, requests let through, refused, in flight,
        // stalled;
        // then 272 buckets of latencies.
        let (head, latencies) = bytes[28..].split_at(40);
        let [errors, admitted, refused] = [0, 1, 2].map(|index| numbers(head).nth(index).unwrap());
        let samples: u64 = latencies
            .chunks_exact(4)
            .map(|chunk| u64::from(u32::from_le_bytes(chunk.try_into().unwrap())))
            .sum();
        let all = || plans.iter().flatten();
        let answered = || all().flatten();
        prop_assert_eq!(admitted, all().count() as u64);
        prop_assert_eq!(refused, 0);
        prop_assert_eq!(samples, answered().count() as u64);
        prop_assert_eq!(errors, answered().filter(|(usage, _)| usage.status >= Some(500)).count() as u64);
    }
}

/// The property above proves nothing if workers never interfere.
#[test]
fn workers_lose_swaps_while_they_share() {
    let client = Client { user: 0, ip: 0, api: false };
    let mut lost = 0;
    for seed in 0..100 {
        let mut gateway = TestGateway::new(JSON.into(), diana_limiter::cells::store::CasSemantics::Strict, 3);
        let plans = vec![vec![Some(response(200, 1)); 4]; 3];
        gateway.settle(client, &plans, || START, &mut Random(seed));
        lost += gateway.retire(3, START, &mut Random(seed));
    }
    assert!(lost > 20, "{lost} lost");
}
