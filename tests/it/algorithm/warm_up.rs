//! Tests of `TB` with `warm_up`: the laws of all kinds, except that idleness takes quota away.

use super::models::Warming;
use super::schedule::{Arrival, Event, Gap, Run, astray, begins, onward, visible, within};
use super::subject::{cases, compile, log, power, warming_bucket, warming_buckets};
use diana_base::time::{Span, Time};
use diana_limiter::algorithm::{Admission, Allowance, Charge};
use proptest::prelude::*;

const BEGIN: u64 = 1_753_000_000_123_456_789;
const SECOND: u64 = 1_000_000_000;

fn run(rpu: u64, burst: u64, warm_up_secs: u64) -> Run {
    let quota = Allowance { rpu, unit: Span::from_secs(1) };
    let mut run = Run::new(&warming_bucket(quota, Some(burst), true, Span::from_secs(warm_up_secs)), BEGIN);
    run.prepare();
    run
}

/// Spends whatever is there, every millisecond for this many seconds. Returns how much passed.
fn drain(run: &mut Run, secs: u64) -> u64 {
    let begin = run.now;
    let mut passed = 0;
    for ms in 1..=secs * 1_000 {
        run.move_to(begin + ms * 1_000_000);
        let rest = run.look().remaining;
        assert!(run.ask(rest).verdict.admits());
        passed += rest;
    }
    passed
}

#[test]
fn a_cold_rule_admits_a_third_and_a_warm_one_all() {
    let mut run = run(300, 30, 30);
    let first = drain(&mut run, 1);
    assert!((110..=114).contains(&first), "{first} in the first second");
    // The burst, and half of the quota of 30 s.
    let warming = first + drain(&mut run, 29);
    assert!((4_520..=4_530).contains(&warming), "{warming} in the first 30 s");
    assert_eq!(drain(&mut run, 20), 6_000);
    // Half of the warm-up without requests changes nothing, all of it makes the rule cold.
    let idle = |run: &mut Run, secs| run.move_to(run.now + secs * SECOND + run.look().full_in.as_ns());
    idle(&mut run, 14);
    assert!((3_029..=3_030).contains(&drain(&mut run, 10)));
    idle(&mut run, 30);
    assert_eq!(drain(&mut run, 1), first);
}

/// Less than a third of the rate is traffic, but none for which a backend would have to warm up.
#[test]
fn few_requests_keep_a_rule_cold() {
    for (gap_ms, remaining) in [(40, 33), (5, 99)] {
        let mut run = run(100, 100, 10);
        for _ in 0..100_000 / gap_ms {
            assert!(run.ask(1).verdict.admits() || gap_ms == 5);
            run.move_to(run.now + gap_ms * 1_000_000);
        }
        run.move_to(run.now + run.look().full_in.as_ns());
        let verdict = run.ask(1).verdict;
        assert!(verdict.remaining.abs_diff(remaining) <= 1, "{} every {gap_ms} ms", verdict.remaining);
    }
}

/// A full bucket always admits a request, however cold: three tokens are enough.
#[test]
fn three_tokens_are_enough_for_any_rate() {
    for (rpu, unit) in [(1, 604_800_000), (999_999_937, 1), (1_000_000_000, 604_800_000), (7, 1_001)] {
        for secs in [1, 86_400] {
            let quota = Allowance { rpu, unit: Span::from_ms(unit) };
            let rule = warming_bucket(quota, Some(3), true, Span::from_secs(secs));
            let mut run = Run::new(&rule, BEGIN);
            run.prepare();
            let look = run.look();
            assert!((1..=2).contains(&look.remaining), "{rule:?}");
            let verdict = run.ask(look.remaining + 1).verdict;
            assert_eq!(verdict.admission, Admission::Refuse { retry_after: None });
            assert!(run.ask(1).verdict.admits());
        }
    }
}

#[test]
fn a_warm_up_has_limits() {
    let quota = Allowance { rpu: 1, unit: Span::from_secs(1) };
    let mistakes =
        |json: &str| compile("TB", json, quota).map(|algorithm| algorithm.canonical_form()).unwrap_err();
    for json in [r#"{"warm_up": "999ms"}"#, r#"{"warm_up": "2d"}"#, r#"{"warm_up": 30}"#] {
        assert_eq!(mistakes(json).len(), 1, "{json}");
    }
    assert_eq!(
        mistakes(r#"{"warm_up": "30s", "burst": 2}"#),
        ["warm_up: a request of a cold rule takes 3 tokens: `burst` has to be at least 3"]
    );
    assert!(mistakes(r#"{"warm_up": "30s", "max_wait": "1s"}"#)[0].contains("`max_wait`"));
    // The default of `burst` is `rpu`, but enough for a cold request.
    let default = compile("TB", r#"{"warm_up": "30s", "max_wait": "0s"}"#, quota).unwrap();
    assert_eq!(default.canonical_form(), "TB 1 in 1000000000 ns, 3 from full, warm in 30000000000 ns");
}

/// How long a bucket that starts empty rests.
const SAVED_FOR: Span = Span::from_secs(7 * 86_400);

proptest! {
    #![proptest_config(cases(300))]

    #[test]
    fn a_warming_bucket_answers_like_its_model(
        mut rule in warming_buckets(), begin in begins(),
        arrivals in prop_oneof![onward().boxed(), astray().boxed()],
    ) {
        let mut run = Run::new(&rule, begin);
        for arrival in &arrivals {
            let event = run.arrive(arrival);
            let expected = rule.reference.step(Time::from_ns(run.now), event.cost);
            prop_assert_eq!(visible(event.verdict), visible(expected), "{:?}", arrival);
        }
    }

    #[test]
    fn refusals_and_looks_change_nothing(
        rule in warming_buckets(), begin in begins(), arrivals in astray(),
    ) {
        let mut run = Run::new(&rule, begin);
        for arrival in &arrivals {
            run.advance(&arrival.gap);
            run.prepare();
            let before = run.cell.clone();
            prop_assert_eq!(run.ask(0).verdict.admission, Admission::Admit { delay: Span::ZERO });
            prop_assert_eq!(run.ask(u64::MAX).verdict.admission, Admission::Refuse { retry_after: None });
            let event = run.arrive(&Arrival { gap: Gap::Still, cost: super::schedule::Cost::Rest(1) });
            prop_assert!(!event.verdict.admits());
            prop_assert_eq!(&run.cell, &before);
            let event = run.arrive(&Arrival { gap: Gap::Still, cost: arrival.cost.clone() });
            prop_assert_eq!(event.verdict.charge.cost, event.charged());
            prop_assert_eq!(run.cell != before, event.charged() > 0);
        }
    }

    #[test]
    fn retry_after_remaining_and_more_in_are_exact(
        rule in warming_buckets(), begin in begins(), arrivals in astray(), part in 0.0..=1.0,
    ) {
        let run = Run::after(&rule, begin, &arrivals);
        let look = run.look();
        let rest = look.remaining;
        let some = power(rule.capacity, part);
        for cost in [1, some, rest, rest + 1, rule.capacity, rule.capacity + 1] {
            match run.probe(0, cost).admission {
                Admission::Admit { .. } => prop_assert!(cost <= rest),
                Admission::Refuse { retry_after: None } => {
                    // Without requests the rule only gets colder.
                    for later in [1, look.full_in.as_ns(), look.full_in.as_ns() + rule.scale_ns] {
                        prop_assert!(!run.probe(later, cost).admits());
                    }
                }
                Admission::Refuse { retry_after: Some(wait) } => {
                    prop_assert!(wait > Span::ZERO && cost > rest);
                    prop_assert!(!run.probe(wait.as_ns() - 1, cost).admits());
                    prop_assert!(run.probe(wait.as_ns(), cost).admits());
                }
            }
        }
        let more = look.more_in.as_ns();
        if more == 0 {
            prop_assert_eq!(run.probe(look.full_in.as_ns(), 0).remaining, rest);
        } else {
            prop_assert_eq!(run.probe(more - 1, 0).remaining, rest);
            prop_assert_eq!(run.probe(more, 0).remaining > rest, true);
        }
        let (mut one_by_one, ones) = (run.clone(), rest.min(20));
        prop_assert!(one_by_one.ask(rest - ones).verdict.admits());
        for left in (0..ones).rev() {
            let verdict = one_by_one.ask(1).verdict;
            prop_assert!(verdict.admits());
            prop_assert_eq!(verdict.remaining, left);
        }
        prop_assert!(!one_by_one.ask(1).verdict.admits());
    }

    /// Any clock, any bytes: the bound of any span holds, and no actor is locked out.
    #[test]
    fn the_bound_holds_from_any_bytes_and_by_any_clock(
        rule in warming_buckets(), begin in begins(), arrivals in astray(),
        noise in prop::collection::vec(any::<u8>(), 64), is_noise in any::<bool>(),
    ) {
        let mut run = Run::new(&rule, begin);
        if is_noise {
            run.cell.iter_mut().zip(&noise).for_each(|(to, from)| *to = *from);
        }
        let before = run.cell.clone();
        prop_assert_eq!(run.prepare(), run.cell != before);
        prop_assert!(!run.prepare());
        let mut events = Vec::new();
        for arrival in &arrivals {
            events.push(run.arrive(arrival));
            prop_assert!(run.probe(rule.longest_lockout_ns, 1).admits());
            prop_assert!(run.look().remaining <= run.judge.quota.algorithm().shown(rule.quota).rpu);
        }
        within(&*rule.reference, &events)?;
    }

    /// The bound of the first span after a rule became cold.
    #[test]
    fn a_cold_rule_admits_no_more_than_its_own_bound(
        rpu in 1..2_000_u64, burst in 3..3_000_u64, secs in 1..100_u64, arrivals in onward(),
    ) {
        let mut run = run(rpu, burst, secs);
        let begin = run.now;
        let (mut passed, whole) = (0_u128, u128::from(secs * rpu));
        for arrival in &arrivals {
            passed += u128::from(run.arrive(arrival).charged());
            let came = u128::from(burst) * 1_000_000_000 + u128::from(run.now - begin) * u128::from(rpu);
            let price = match 2 * passed <= whole {
                true => 3 * passed * 1_000_000_000 - 2 * passed * passed * 1_000_000_000 / whole,
                false => passed * 1_000_000_000 + whole * 500_000_000,
            };
            let idle = run.look().full_in == Span::ZERO;
            prop_assert!(price <= came + 1_000_000_000, "{passed} for {price} of {came}");
            if idle {
                break;
            }
        }
    }

    #[test]
    fn an_immediate_refund_leaves_no_trace(
        rule in warming_buckets(), begin in begins(), before in astray(), cost in log(1_000_000_000),
        later in 0..=1_000_000_000_000_000_u64, scale in 0..50_u32, after in onward(),
    ) {
        let mut without = Run::after(&rule, begin, &before);
        let mut with = without.clone();
        let event = with.ask(cost.min(without.look().remaining));
        // If no other request came, the refund restores the cell at any time.
        with.move_to(with.now + (later >> scale));
        with.refund(&event);
        for arrival in &after {
            let event = with.arrive(arrival);
            without.move_to(with.now);
            prop_assert_eq!(visible(event.verdict), visible(without.ask(event.cost).verdict));
        }
    }

    /// Refunded requests leave the bound of the others, and a prepared cell that is no warmer.
    #[test]
    fn kept_charges_stay_within_the_bound_whatever_is_refunded(
        rule in warming_buckets(), begin in begins(), arrivals in astray(),
        returns in prop::collection::vec(prop_oneof![1 => Just(None), 2 => (0..6_usize).prop_map(Some)], 24),
    ) {
        let mut run = Run::after(&rule, begin, &[]);
        let mut events: Vec<(bool, Event)> = Vec::new();
        for (index, arrival) in arrivals.iter().enumerate() {
            let event = run.arrive(arrival);
            events.push((true, event));
            for (earlier, after) in returns.iter().enumerate().take(index + 1) {
                if after.is_some_and(|after| earlier + after == index) {
                    run.refund(&events[earlier].1);
                    events[earlier].0 = false;
                    prop_assert!(!run.prepare());
                }
            }
        }
        let kept: Vec<Event> = events.iter().filter(|(kept, _)| *kept).map(|(_, event)| *event).collect();
        within(&*rule.reference, &kept)?;
        prop_assert!(run.probe(rule.longest_lockout_ns, 1).admits());
    }

    #[test]
    fn once_a_bucket_rests_a_new_one_goes_unnoticed(
        rule in warming_buckets(), begin in begins(), arrivals in astray(), later in onward(),
    ) {
        let mut run = Run::after(&rule, begin, &arrivals);
        run.prepare();
        let rests_in = run.judge.rests_in(&run.cell, Time::from_ns(run.now));
        if rests_in < SAVED_FOR && (1 << 60..1 << 63).contains(&run.now) {
            // A nanosecond later, because how cold a bucket is has a fraction as well.
            run.move_to(run.now + rests_in.as_ns() + 1);
            let mut new = run.clone();
            new.cell.fill(0);
            for arrival in &later {
                let event = run.arrive(arrival);
                new.move_to(run.now);
                prop_assert_eq!(visible(event.verdict), visible(new.ask(event.cost).verdict));
            }
        }
    }

    #[test]
    fn no_input_panics(
        rule in warming_buckets(), noise in prop::collection::vec(any::<u8>(), 0..64),
        calls in prop::collection::vec((any::<u64>(), any::<u64>(), any::<u64>(), any::<bool>()), 1..9),
    ) {
        let algorithm = rule.compile();
        let mut cell = noise;
        for (now, cost, at, is_long) in calls {
            if is_long {
                cell.resize(algorithm.size(), 0);
            }
            let (stamp, at) = ((cost as u32, at as u32), Time::from_ns(at));
            let (charge, now) = (Charge { cost, at, booked_at: at, stamp }, Time::from_ns(now));
            algorithm.prepare(&mut cell, now);
            _ = algorithm.rests_in(&cell, now);
            let _ = algorithm.step(&mut cell, now, cost);
            algorithm.refund(&mut cell, now, charge);
        }
    }

    /// The bound that the documentation states is the price from cold, in its closed form.
    #[test]
    fn the_documented_price_is_that_of_the_model(rpu in 1..5_000_u64, secs in 1..5_000_u64, n in 1..9_999_u64) {
        let (quota, warm_up) = (Allowance { rpu, unit: Span::from_secs(1) }, Span::from_secs(secs));
        let per = i128::from(rpu) / i128::from(gcd(rpu, SECOND));
        let price = Warming::new(quota, 3, true, warm_up).price(i128::from(warm_up.as_ns()) * per, n);
        let (n, whole) = (i128::from(n), i128::from(secs * rpu));
        let token = i128::from(SECOND / gcd(rpu, SECOND));
        let stated = match 2 * n <= whole {
            true => 3 * n * token - 2 * n * n * token / whole,
            false => n * token + whole * token / 2,
        };
        prop_assert!((price - stated).abs() <= 1, "{price} is not {stated}");
    }
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}
