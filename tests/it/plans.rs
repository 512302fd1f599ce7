//! Plans: all quotas of a rule count in one state, like a slow model, and a client that changes its
//! plan never gets more than its largest quota.

use crate::algorithm::models::{Bucket, Log, Reference, Slices};
use crate::algorithm::subject::cases;
use crate::harness::{Gateway, START, get, policy, store};
use diana_base::time::{Span, Time};
use diana_config::compile;
use diana_limiter::algorithm::Allowance;
use diana_limiter::cells::store::CasSemantics;
use diana_limiter::request::claims::ClaimValue;
use diana_limiter::request::{HeaderLines, Part, PartId, Source, Values};
use diana_limiter::session::{Session, Worker};
use diana_testing::shared_data::Simulated;
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
    let quota = Allowance { rpu, unit: Span::from_ms(ms) };
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

/// Quotas of one unit.
fn quotas(most: u64) -> impl Strategy<Value = Quotas> {
    let unit = prop::sample::select(vec![7_u64, 1_000, 60_000]);
    let plans = prop::collection::vec(prop::option::weighted(0.8, 1..=most), 1..5);
    (unit, 1..=most, plans).prop_map(|(unit, own, plans)| {
        let quotas = [Some(own)].into_iter().chain(plans);
        quotas.map(|rpu| rpu.map(|rpu| (rpu, unit))).collect()
    })
}

/// What one actor has used, of all quotas together.
enum Used {
    /// Units that a window or a log forgets: what a model with a large limit lacks.
    Counted(Box<dyn Reference>),
    /// The missing tokens of a bucket, times the nanoseconds of a unit; at the instant, which come
    /// at the rate of this `rpu`.
    Missing { tokens: u128, at: Time, rpu: u64, unit_ns: u64 },
}

/// More than the tests use; a log has room for it.
const PLENTY: u64 = 128;

impl Used {
    fn new(algo: &str, unit_ms: u64) -> Used {
        match algo {
            "TB" => Used::Missing { tokens: 0, at: START, rpu: 1, unit_ns: unit_ms * 1_000_000 },
            _ => Used::Counted(model(algo, (PLENTY, unit_ms))),
        }
    }

    /// What a request of this plan has left before and after it, by the definition: a refusal by a
    /// faster quota lets tokens come faster.
    fn step(&mut self, now: Time, quota: u64, cost: u64) -> (bool, u64) {
        match self {
            Used::Counted(model) => {
                let used = PLENTY - model.step(now, 0).remaining;
                let admits = used + cost <= quota;
                let _ = model.step(now, if admits { cost } else { 0 });
                (admits, quota.saturating_sub(if admits { used + cost } else { used }))
            }
            Used::Missing { tokens, at, rpu, unit_ns } => {
                let came = u128::from(now.since(*at).as_ns()) * u128::from(*rpu);
                let (unit, missing) = (u128::from(*unit_ns), tokens.saturating_sub(came));
                let most = u128::from(quota) * unit;
                let admits = missing + u128::from(cost) * unit <= most;
                *rpu = if admits { quota } else { (*rpu).max(quota) };
                *tokens = missing + if admits { u128::from(cost) * unit } else { 0 };
                *at = now;
                (admits, u64::try_from(most.saturating_sub(*tokens) / unit).unwrap())
            }
        }
    }
}

/// Costs of one unit, of a few, and of more than any quota of [`quotas`].
fn costs() -> impl Strategy<Value = u64> {
    prop_oneof![2 => Just(1_u64), 4 => 1..6_u64, 1 => 1..=15_u64]
}

const ALGORITHMS: [&str; 4] = ["TB", "W", "SW", "SL"];

proptest! {
    #![proptest_config(cases(100))]

    #[test]
    fn a_rule_with_plans_decides_like_its_model(
        algo in prop::sample::select(&ALGORITHMS[..]), quotas in quotas(12),
        arrivals in prop::collection::vec((0..5_usize, 0..3_usize, 0..2_usize, 100..900_u64, costs()), 1..120),
    ) {
        let host = Simulated::new(CasSemantics::Lenient);
        let mut gateway = Gateway::new(&document(algo, &quotas), store(&host));
        let unit_ms = quotas[0].unwrap().1;
        let (mut of_users, mut now) = ([(); 2].map(|()| Used::new(algo, unit_ms)), START);
        for (plan, worker, user, ms, cost) in arrivals {
            // No cached refusal: the model has none.
            now = now.after(Span::from_ms(ms));
            let decision = gateway.ask(worker, &costing(plan % quotas.len(), ["ann", "bob"][user], cost), now);
            let Some((rpu, ms)) = quotas[plan % quotas.len()] else {
                prop_assert!(!decision.is_rejected() && decision.checks.is_empty());
                continue;
            };
            let (admits, left) = of_users[user].step(now, rpu, cost);
            let [report] = decision.checks.iter().collect::<Vec<_>>()[..] else { panic!("{decision:?}") };
            let verdict = report.verdict().unwrap();
            prop_assert_eq!(report.rule().index(), 0);
            prop_assert_eq!((verdict.admits(), verdict.remaining), (admits, left));
            prop_assert_eq!(report.shown(), Allowance { rpu, unit: Span::from_ms(ms) });
        }
    }
}

proptest! {
    #![proptest_config(cases(30))]

    /// With reservations: in any span, all plans together get no more than the bound of the largest
    /// quota.
    #[test]
    fn changing_the_plan_gives_no_more_than_the_largest_quota(
        algo in prop::sample::select(vec!["TB", "W", "SW"]), free in 1..400_u64, more in 0..1_500_u64,
        unit_ms in prop::sample::select(vec![1_000_u64, 60_000]),
        bursts in prop::collection::vec((0..2_usize, 0..3_usize, 1..80_usize, 0..90_u64, 1..4_u64), 1..120),
    ) {
        let gold = free + more;
        let host = Simulated::new(CasSemantics::Lenient);
        let json = document(algo, &vec![Some((free, unit_ms)), Some((gold, unit_ms))]);
        let mut gateway = Gateway::new(&json, store(&host));
        let (mut now, mut passed) = (START, Vec::new());
        for (plan, worker, times, ms, cost) in bursts {
            for _ in 0..times {
                let decision = gateway.ask(worker, &costing(plan, "ann", cost), now);
                passed.extend((!decision.is_rejected()).then_some((now, cost)));
            }
            now = now.after(Span::from_ms(ms));
        }
        for from in (0..passed.len()).step_by(17) {
            let mut of_all = 0;
            for (at, cost) in &passed[from..] {
                let elapsed = u128::from(at.since(passed[from].0).as_ns());
                of_all += u128::from(*cost);
                let most = model(algo, (gold, unit_ms)).most(elapsed, 3);
                prop_assert!(of_all <= most, "{of_all} of {most} in {elapsed} ns");
            }
        }
    }
}

/// A quota of another plan that is used up does not keep a worker from reserving.
#[test]
fn a_busy_client_of_a_large_plan_is_served_from_reservations() {
    for algo in ["TB", "W", "SW"] {
        let host = Simulated::new(CasSemantics::Lenient);
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
        let host = Simulated::new(CasSemantics::Lenient);
        let quotas = vec![Some((40, 86_400_000)), Some((100_000, 86_400_000))];
        let mut gateway = Gateway::new(&document(algo, &quotas), store(&host));
        (0..20).for_each(|_| assert!(!gateway.ask(0, &on(1, "ann"), START).is_rejected()));
        assert!(gateway.workers[0].holds_reservations(), "{algo}");
        assert!(gateway.ask(1, &on(0, "ann"), START).is_rejected(), "{algo}");
        let later = START.after(Span::from_ms(150));
        gateway.workers[0].tick(|| later, true);
        let left = gateway.ask(1, &costing(0, "ann", 20), later);
        assert_eq!(left.checks.first().unwrap().verdict().unwrap().remaining, 0, "{algo}");
        assert!(!left.is_rejected(), "{algo}: the other 20 are back");
    }
}

proptest! {
    #![proptest_config(cases(100))]

    /// A worker that spends reservations counts each request exactly once, whatever its plan.
    #[test]
    fn a_released_reservation_counts_each_request_once_in_every_plan(
        algo in prop::sample::select(vec!["TB", "W", "SW"]), free in 1..2_000_u64, more in 1..4_000_u64,
        asked in prop::collection::vec((0..2_usize, 1..60_usize, 1..4_u64), 1..60),
    ) {
        let gold = free + more;
        let host = Simulated::new(CasSemantics::Lenient);
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
        gateway.workers[0].tick(|| START, true);
        for (plan, quota) in [(0, free), (1, gold)] {
            let decision = gateway.ask(1, &costing(plan, "ann", 1), START);
            let took = u64::from(!decision.is_rejected());
            let left = decision.checks.first().unwrap().verdict().unwrap().remaining;
            prop_assert_eq!(left + took, quota.saturating_sub(used));
            used += took;
        }
    }
}

/// Rules of one actor may cost differently: each quota counts the cost of its own rule.
#[test]
fn a_released_reservation_counts_by_the_cost_of_its_own_rule() {
    let json = r#"{"plan": {"header": "x-plan"}, "limits": [{"url": "/", "rules": [
        {"name": "bytes", "actor": "user", "algo": "W", "rpu": "1M", "unit": "day", "cost": 50},
        {"name": "key", "actor": "user", "algo": "W", "rpu": 100, "unit": "day",
            "plans": {"gold": {"rpu": "1M"}}}]}]}"#;
    let host = Simulated::new(CasSemantics::Lenient);
    let mut gateway = Gateway::new(json, store(&host));
    (0..40).for_each(|_| {
        assert!(
            !gateway
                .ask(0, &get("/", "ann").with(Part::Header("x-plan".into()), "gold"), START)
                .is_rejected()
        )
    });
    assert!(gateway.workers[0].holds_reservations());
    gateway.workers[0].tick(|| START, true);
    let decision = gateway.ask(1, &on(0, "ann"), START);
    assert_eq!(decision.checks.get(1).unwrap().verdict().unwrap().remaining, 59);
}

/// Counts how often the plan is read.
struct CountsReads<'a>(&'a Values, Cell<usize>);

impl Source for CountsReads<'_> {
    fn lines<'s>(&'s self, id: PartId, part: &'s Part) -> HeaderLines<'s> {
        self.1.set(self.1.get() + usize::from(*part == Part::Header("x-plan".into())));
        self.0.lines(id, part)
    }

    fn claim(&self, token: &[u8], path: &str) -> Option<ClaimValue> {
        self.0.claim(token, path)
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
        let host = Simulated::new(CasSemantics::Lenient);
        let values = get("/api", "ann").with(Part::Header("x-plan".into()), "p1");
        let source = CountsReads(&values, Cell::new(0));
        let mut worker = Worker::new(policy.clone(), store(&host), &[7; 16]);
        let request = policy.request(&source);
        let _ = Session::start(&mut worker, &request, || START);
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
        policy(&json).fingerprints()
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
    let host = Simulated::new(CasSemantics::Lenient);
    let mut gateway = Gateway::new(&json, store(&host));
    let mut left = |user: &str, now: Time| {
        let decision = gateway.ask(0, &get("/", user), now);
        decision.checks.first().map(|report| report.verdict().unwrap().remaining)
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
