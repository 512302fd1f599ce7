//! Plans: every quota of a rule counts like a slow model, and a client that changes its plan never
//! gets more than its largest quota.

use crate::algorithm::models::{Bucket, Log, Reference, Slices};
use crate::algorithm::subject::cases;
use crate::harness::{Gateway, START, get, policy, store};
use diana_base::time::{Span, Time};
use diana_config::compile;
use diana_limiter::algorithm::Quota;
use diana_limiter::cells::store::{Rules, Simulated};
use diana_limiter::request::{HeaderLines, Part, PartId, Source, Values};
use diana_limiter::session::{Session, Worker};
use proptest::prelude::*;
use std::cell::Cell;

/// The quotas of a rule: without a plan, and of the plans `p1`, `p2`, … `None` is unlimited.
type Quotas = Vec<Option<(u64, u64)>>;

fn document(algo: &str, quotas: &Quotas) -> String {
    let quota = |quota: &Option<(u64, u64)>| match quota {
        Some((rpu, ms)) => format!(r#"{{"rpu": {rpu}, "unit": "{ms}ms"}}"#),
        None => r#""unlimited""#.into(),
    };
    let plans: Vec<String> =
        (1..).zip(&quotas[1..]).map(|(plan, own)| format!(r#""p{plan}": {}"#, quota(own))).collect();
    let (rpu, ms) = quotas[0].unwrap();
    format!(
        r#"{{"plan": {{"header": "x-plan"}}, "limits": [{{"url": "/", "rules": [{{"name": "key", "actor": "user",
            "algo": "{algo}", "rpu": {rpu}, "unit": "{ms}ms", "cost": {{"header": "x-cost", "max": 100}}, "plans": {{{}}}}}]}}]}}"#,
        plans.join(", ")
    )
}

fn model(algo: &str, (rpu, ms): (u64, u64)) -> Box<dyn Reference> {
    let quota = Quota { rpu, unit: Span::from_ms(ms) };
    match algo {
        "TB" => Box::new(Bucket::new(quota, rpu, true, Span::ZERO)),
        "W" => Box::new(Slices::new(rpu, quota.unit, 1, 1)),
        "SW" => Box::new(Slices::new(rpu, quota.unit, 10, 10)),
        _ => Box::new(Log::new(quota)),
    }
}

fn on(plan: usize, user: &str) -> Values {
    let request = get("/", user);
    if plan == 0 { request } else { request.with(Part::Header("x-plan".into()), format!("p{plan}")) }
}

fn costing(plan: usize, user: &str, cost: u64) -> Values {
    on(plan, user).with(Part::Header("x-cost".into()), cost.to_string())
}

fn quotas(most: u64) -> impl Strategy<Value = Quotas> {
    let unit = prop::sample::select(vec![7_u64, 1_000, 60_000]);
    let quota = (1..=most, unit);
    let plans = prop::collection::vec(prop::option::weighted(0.8, quota.clone()), 1..5);
    (quota, plans).prop_map(|(own, plans)| [Some(own)].into_iter().chain(plans).collect())
}

/// Costs of one unit, of a few, and of more than any quota of [`quotas`].
fn costs() -> impl Strategy<Value = u64> {
    prop_oneof![2 => Just(1_u64), 4 => 1..6_u64, 1 => 1..=15_u64]
}

const ALGORITHMS: [&str; 4] = ["TB", "W", "SW", "SL"];

proptest! {
    #![proptest_config(cases(100))]

    /// The model: one slow reference for each quota. The reference of the request's plan decides.
    /// An admitted request is charged to all references; to those without room for its cost, what
    /// they have left.
    #[test]
    fn a_rule_with_plans_decides_like_its_model(
        algo in prop::sample::select(&ALGORITHMS[..]), quotas in quotas(12),
        arrivals in prop::collection::vec((0..5_usize, 0..3_usize, 0..2_usize, 100..900_u64, costs()), 1..120),
    ) {
        let host = Simulated::new(Rules::Lenient);
        let mut gateway = Gateway::new(&document(algo, &quotas), store(&host));
        let models = || quotas.iter().map(|quota| quota.map(|quota| model(algo, quota))).collect::<Vec<_>>();
        let (mut of_users, mut now) = ([models(), models()], START);
        for (plan, worker, user, ms, cost) in arrivals {
            let plan = plan % quotas.len();
            // No cached refusal: the model has none.
            now = now.after(Span::from_ms(ms));
            let decision = gateway.ask(worker, &costing(plan, ["ann", "bob"][user], cost), now);
            let models = &mut of_users[user];
            let Some(own) = &mut models[plan] else {
                prop_assert!(!decision.is_rejected() && decision.reports.is_empty());
                continue;
            };
            let expected = own.step(now, cost);
            if expected.admits() {
                for (other, model) in models.iter_mut().enumerate().filter(|(other, _)| *other != plan) {
                    // Equal quotas are one.
                    if let Some(model) = model.as_mut().filter(|_| quotas[other] != quotas[plan]) {
                        let verdict = model.step(now, cost);
                        if !verdict.admits() {
                            let _ = model.step(now, verdict.remaining);
                        }
                    } else if let Some(model) = model {
                        prop_assert_eq!(model.step(now, cost).remaining, expected.remaining);
                    }
                }
            }
            let [report] = &*decision.reports else { panic!("{decision:?}") };
            let verdict = report.verdict.unwrap();
            prop_assert_eq!(report.rule.index(), 0);
            prop_assert_eq!(verdict.admission, expected.admission);
            prop_assert_eq!(verdict.remaining, expected.remaining);
            let (rpu, ms) = quotas[plan].unwrap();
            prop_assert_eq!(report.quota, Quota { rpu, unit: Span::from_ms(ms) });
        }
    }
}

proptest! {
    #![proptest_config(cases(30))]

    /// With reservations: in any span, all plans together get no more than the bound of the largest
    /// quota. The smaller quota may in addition give what it refills in 300 ms, because a worker
    /// counts what it spends from a reservation only when it releases the reservation. By `TB`, the
    /// part of a unit that a quota has left is no room, so both quotas may refill at once.
    #[test]
    fn changing_the_plan_gives_no_more_than_the_largest_quota(
        algo in prop::sample::select(vec!["TB", "W", "SW"]), free in 1..400_u64, more in 0..1_500_u64,
        unit_ms in prop::sample::select(vec![1_000_u64, 60_000]),
        bursts in prop::collection::vec((0..2_usize, 0..3_usize, 1..80_usize, 0..90_u64, 1..4_u64), 1..120),
    ) {
        let gold = free + more;
        let host = Simulated::new(Rules::Lenient);
        let json = document(algo, &vec![Some((free, unit_ms)), Some((gold, unit_ms))]);
        let mut gateway = Gateway::new(&json, store(&host));
        let (mut now, mut passed) = (START, Vec::new());
        for (plan, worker, times, ms, cost) in bursts {
            for _ in 0..times {
                let decision = gateway.ask(worker, &costing(plan, "ann", cost), now);
                passed.extend((!decision.is_rejected()).then_some((now, plan, cost)));
            }
            now = now.after(Span::from_ms(ms));
        }
        for from in (0..passed.len()).step_by(17) {
            let (mut of_all, mut of_free) = (0, 0);
            for (at, plan, cost) in &passed[from..] {
                let elapsed = u128::from(at.since(passed[from].0).as_ns());
                let missed = free * 300 / unit_ms + 1;
                let refilled = if algo == "TB" { elapsed * u128::from(free) / (u128::from(unit_ms) * 1_000_000) } else { 0 };
                let most = |rpu: u64| model(algo, (rpu, unit_ms)).most(elapsed, 3);
                of_all += u128::from(*cost);
                prop_assert!(of_all <= most(gold) + refilled + u128::from(missed), "{of_all} in {elapsed} ns");
                of_free += if *plan == 0 { u128::from(*cost) } else { 0 };
                prop_assert!(of_free <= most(free), "{of_free} of the smaller quota in {elapsed} ns");
            }
        }
    }
}

/// A quota of another plan that is used up does not keep a worker from reserving.
#[test]
fn a_busy_client_of_a_large_plan_is_served_from_reservations() {
    for algo in ["TB", "W", "SW"] {
        let host = Simulated::new(Rules::Lenient);
        let quotas = vec![Some((5, 3_600_000)), Some((100_000, 3_600_000))];
        let mut gateway = Gateway::new(&document(algo, &quotas), store(&host));
        (0..500).for_each(|_| assert!(!gateway.ask(0, &on(1, "ann"), START).is_rejected()));
        assert!(gateway.workers[0].holds_reservations(), "{algo}");
        assert!(gateway.ask(0, &on(0, "ann"), START).is_rejected(), "{algo}");
        assert!(gateway.ask(1, &on(0, "ann"), START).is_rejected(), "{algo}");
        assert!(!gateway.ask(1, &on(1, "ann"), START).is_rejected(), "{algo}");
    }
}

/// What a worker reserves for one plan is not left for another one, however little that one has.
#[test]
fn a_reservation_leaves_nothing_for_a_smaller_plan() {
    for algo in ["TB", "W", "SW"] {
        let host = Simulated::new(Rules::Lenient);
        let quotas = vec![Some((40, 86_400_000)), Some((100_000, 86_400_000))];
        let mut gateway = Gateway::new(&document(algo, &quotas), store(&host));
        (0..20).for_each(|_| assert!(!gateway.ask(0, &on(1, "ann"), START).is_rejected()));
        assert!(gateway.workers[0].holds_reservations(), "{algo}");
        assert!(gateway.ask(1, &on(0, "ann"), START).is_rejected(), "{algo}");
        let later = START.after(Span::from_ms(150));
        let Gateway { policy, store, workers, .. } = &mut gateway;
        workers[0].tick(policy, store, || later, true);
        let left = gateway.ask(1, &costing(0, "ann", 20), later);
        assert_eq!(left.reports[0].verdict.unwrap().remaining, 0, "{algo}");
        assert!(!left.is_rejected(), "{algo}: the other 20 are back");
    }
}

/// Units that a worker spends from a reservation count in every plan.
#[test]
fn spent_reservations_count_in_every_plan() {
    for algo in ["TB", "W", "SW"] {
        let host = Simulated::new(Rules::Lenient);
        let quotas = vec![Some((10, 1_000)), Some((100_000, 3_600_000))];
        let mut gateway = Gateway::new(&document(algo, &quotas), store(&host));
        // The small quota is used up, so it has no part in the reservation.
        (0..40).for_each(|_| assert!(!gateway.ask(0, &on(1, "ann"), START).is_rejected()));
        // One second later it has room, and the reservation is a new one.
        let later = START.after(Span::from_ms(1_000));
        (0..40).for_each(|_| assert!(!gateway.ask(0, &on(1, "ann"), later).is_rejected()));
        assert!(gateway.ask(1, &on(0, "ann"), later).is_rejected(), "{algo}");
        // The worker reserves while the small quota is used up, spends 30, and releases later.
        let (reserved, released) = (later.after(Span::from_ms(150)), later.after(Span::from_ms(1_090)));
        (0..30).for_each(|_| assert!(!gateway.ask(0, &on(1, "ann"), reserved).is_rejected()));
        let Gateway { policy, store, workers, .. } = &mut gateway;
        workers[0].tick(policy, store, || released, true);
        let left = gateway.ask(2, &on(0, "ann"), released);
        assert!(left.is_rejected(), "{algo}: the 30 units count once there is room for them: {left:?}");
    }
}

proptest! {
    #![proptest_config(cases(100))]

    /// A worker that spends reservations counts each request exactly once in each quota, also what
    /// its reservation of a quota did not cover.
    #[test]
    fn a_released_reservation_counts_each_request_once_in_every_plan(
        algo in prop::sample::select(vec!["TB", "W", "SW"]), free in 1..2_000_u64, more in 1..4_000_u64,
        asked in prop::collection::vec((0..2_usize, 1..60_usize, 1..4_u64), 1..60),
    ) {
        let gold = free + more;
        let host = Simulated::new(Rules::Lenient);
        let json = document(algo, &vec![Some((free, 86_400_000)), Some((gold, 86_400_000))]);
        let mut gateway = Gateway::new(&json, store(&host));
        let mut used = 0;
        for (plan, times, cost) in asked {
            for _ in 0..times {
                let passes = !gateway.ask(0, &costing(plan, "ann", cost), START).is_rejected();
                let quota = if plan == 0 { free } else { gold };
                prop_assert_eq!(passes, used + cost <= quota);
                used += if passes { cost } else { 0 };
            }
        }
        let Gateway { policy, store, workers, .. } = &mut gateway;
        workers[0].tick(policy, store, || START, true);
        for (plan, quota) in [(0, free), (1, gold)] {
            let decision = gateway.ask(1, &costing(plan, "ann", 1), START);
            let took = u64::from(!decision.is_rejected());
            let left = decision.reports[0].verdict.unwrap().remaining;
            prop_assert_eq!(left + took, quota.saturating_sub(used));
            used += took;
        }
    }
}

/// A window may end while a worker spends a reservation of it. What the reservation did not cover
/// counts in the next window, once.
#[test]
fn what_a_reservation_did_not_cover_counts_once() {
    let begin = START.as_ns().next_multiple_of(1_000_000_000);
    let at = |ms: u64| Time::from_ns(begin + ms * 1_000_000);
    let left_of = |free: u64, spent: [(u64, u64); 2]| {
        let host = Simulated::new(Rules::Lenient);
        let quotas = vec![Some((free, 1_000)), Some((100_000, 3_600_000))];
        let mut gateway = Gateway::new(&document("W", &quotas), store(&host));
        for (ms, times) in spent {
            (0..times).for_each(|_| assert!(!gateway.ask(0, &costing(1, "ann", 3), at(ms)).is_rejected()));
            assert!(gateway.workers[0].holds_reservations());
        }
        let Gateway { policy, store, workers, .. } = &mut gateway;
        workers[0].tick(policy, store, || at(1_012), true);
        gateway.ask(1, &costing(0, "ann", 1), at(1_012)).reports[0].verdict.unwrap().remaining + 1
    };
    // Nothing is spent in the second window.
    assert_eq!(left_of(1_000, [(950, 20), (960, 20)]), 1_000);
    assert_eq!(left_of(1_000, [(950, 20), (1_010, 8)]), 1_000 - 8 * 3);
    // 13 requests have 39 units. The last one has one unit, and lacks two.
    assert_eq!(left_of(40, [(950, 13), (960, 1)]), 40 - 2);
    assert_eq!(left_of(40, [(950, 14), (960, 2)]), 40 - 2 - 2 * 3);
}

/// Rules of one actor may cost differently: each quota counts the cost of its own rule.
#[test]
fn what_a_reservation_did_not_cover_costs_by_its_own_rule() {
    let json = r#"{"plan": {"header": "x-plan"}, "limits": [{"url": "/", "rules": [
        {"name": "bytes", "actor": "user", "algo": "W", "rpu": "1M", "unit": "day", "cost": 50},
        {"name": "key", "actor": "user", "algo": "W", "rpu": 100, "unit": "day",
            "plans": {"gold": {"rpu": "1M"}}}]}]}"#;
    let host = Simulated::new(Rules::Lenient);
    let mut gateway = Gateway::new(json, store(&host));
    (0..40).for_each(|_| {
        assert!(
            !gateway
                .ask(0, &get("/", "ann").with(Part::Header("x-plan".into()), "gold"), START)
                .is_rejected()
        )
    });
    assert!(gateway.workers[0].holds_reservations());
    let Gateway { policy, store, workers, .. } = &mut gateway;
    workers[0].tick(policy, store, || START, true);
    let decision = gateway.ask(1, &on(0, "ann"), START);
    assert_eq!(decision.reports[1].verdict.unwrap().remaining, 59);
}

/// Counts how often the plan is read.
struct CountsReads<'a>(&'a Values, Cell<usize>);

impl Source for CountsReads<'_> {
    fn lines<'s>(&'s self, id: PartId, part: &'s Part) -> HeaderLines<'s> {
        self.1.set(self.1.get() + usize::from(*part == Part::Header("x-plan".into())));
        self.0.lines(id, part)
    }
}

#[test]
fn the_plan_is_read_once_and_only_for_a_rule_with_plans() {
    let rule = |more: &str| format!(r#"{{"actor": "user", "rpu": 9, "unit": "day"{more}}}"#);
    let with = r#", "plans": {"p1": {"rpu": 50}}"#;
    for (of_api, reads) in [(with, 1), ("", 0)] {
        let json = format!(
            r#"{{"plan": {{"header": "x-plan"}}, "limits": [
                {{"url": "/api", "rules": [{}, {}]}}, {{"url": "/other", "rules": [{}]}}]}}"#,
            rule(of_api),
            rule(of_api).replace("user", "ip"),
            rule(with)
        );
        let policy = policy(&json);
        let host = Simulated::new(Rules::Lenient);
        let values = get("/api", "ann").with(Part::Header("x-plan".into()), "p1");
        let source = CountsReads(&values, Cell::new(0));
        let mut worker = Worker::new(&policy, &[7; 16]);
        let request = policy.request(&source);
        let _ = Session::start(&policy, &mut worker, &store(&host), &request, || START);
        assert_eq!(source.1.get(), reads);
    }
}

/// Two spellings of the same plans count the same; another plan's name or source is another rule.
#[test]
fn the_order_and_the_number_of_a_plan_mean_nothing() {
    let of = |plan: &str, plans: &str| {
        let json = format!(
            r#"{{"plan": {plan}, "limits": [{{"url": "/", "rules": [
                {{"actor": "user", "rpu": 9, "unit": "day", "plans": {{{plans}}}}}]}}]}}"#
        );
        policy(&json).meanings()
    };
    let header = r#"{"header": "x-plan"}"#;
    let both = [r#""gold": {"rpu": 50}"#, r#""silver": {"rpu": 20}"#];
    let one = of(header, &both.join(", "));
    assert_eq!(one, of(r#"{"header": "X-Plan"}"#, &[both[1], both[0]].join(", ")));
    assert_ne!(one, of(r#"{"header": "x-other"}"#, &both.join(", ")));
    assert_ne!(one, of(header, &both.join(", ").replace("gold", "lead")));
    assert_ne!(one, of(header, &both.join(", ").replace("20", "21")));
    assert_ne!(one, of(header, &both.join(", ").replace(r#"{"rpu": 20}"#, r#""unlimited""#)));
    let members =
        |members: &str| of(&format!(r#"{{"actor": "user", "members": {{{members}}}}}"#), &both.join(", "));
    let listed = members(r#""gold": ["a", "b"], "silver": "c""#);
    assert_eq!(listed, members(r#""silver": ["c"], "gold": ["b", "a", "b"]"#));
    assert_ne!(listed, members(r#""gold": ["a"], "silver": ["b", "c"]"#));
}

#[test]
fn a_hundred_thousand_members_are_on_their_plans() {
    let keys =
        |from: usize| (from..from + 50_000).map(|n| format!(r#""key-{n}""#)).collect::<Vec<_>>().join(",");
    let json = format!(
        r#"{{"plan": {{"actor": "user", "members": {{"p1": [{}], "p2": [{}]}}}},
            "limits": [{{"url": "/", "rules": [{{"actor": "user", "rpu": 1, "unit": "day",
            "plans": {{"p1": {{"rpu": 10}}, "p2": "unlimited"}}}}]}}]}}"#,
        keys(0),
        keys(50_000)
    );
    let host = Simulated::new(Rules::Lenient);
    let mut gateway = Gateway::new(&json, store(&host));
    let mut left = |user: &str, now: Time| {
        let decision = gateway.ask(0, &get("/", user), now);
        decision.reports.first().map(|report| report.verdict.unwrap().remaining)
    };
    for n in [0, 1, 49_999] {
        assert_eq!(left(&format!("key-{n}"), START), Some(9));
    }
    for n in [50_000, 99_999] {
        assert_eq!(left(&format!("key-{n}"), START), None);
    }
    for user in ["key-100000", "p1", "KEY-1"] {
        assert_eq!(left(user, START), Some(0));
    }
}

#[test]
fn a_plan_without_a_rule_is_a_warning() {
    let json = r#"{"plan": {"header": "x-plan"}, "limits": []}"#;
    let warnings = compile(json.as_bytes()).unwrap().warnings;
    assert_eq!(warnings[0].to_string(), "plan: no rule has `plans`, so `plan` changes nothing");
}
