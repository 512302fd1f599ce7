//! Tests of gateways that count in one Redis with the script: which requests ask Redis, and what a
//! penalty in Redis looks like to a gateway.

use super::redis::{Call, TestRedis};
use crate::harness::{at, get};
use crate::host::wire::{Command, commands, list};
use diana_base::time::{Span, Time};
use diana_config::{Configuration, compile};
use diana_limiter::algorithm::Admission;
use diana_limiter::cells::store::CasSemantics;
use diana_limiter::cells::store::SharedDataStore;
use diana_limiter::decide::{Decision, Outcome, RuleCheck};
use diana_limiter::global::{CallResult, Completion};
use diana_limiter::request::{Part, Values};
use diana_limiter::session::{Session, Worker};
use diana_testing::shared_data::Simulated;

/// A gateway with one worker.
pub struct Gateway<'r> {
    worker: Worker<SharedDataStore<Simulated>>,
    redis: &'r TestRedis,
    /// Calls so far. While Redis is down, none of them is made.
    pub calls: usize,
    pub is_down: bool,
    /// The last tick of its timer, in ms.
    ticked: u64,
}

/// What a client sees: whether it passes, whether a penalty refuses it, and its wait in seconds.
#[derive(Debug, PartialEq, Eq)]
enum Seen {
    Pass,
    Quota(u64),
    Penalty(u64),
}

/// What the first report says, also in shadow.
fn seen(decision: &Decision) -> Seen {
    let verdict = decision.checks.first().unwrap().verdict().unwrap();
    let secs = |span: Span| span.as_ns().div_ceil(1_000_000_000);
    match verdict.admission {
        Admission::Admit { .. } => Seen::Pass,
        Admission::Refuse { retry_after } if verdict.is_penalty() => {
            Seen::Penalty(secs(retry_after.unwrap()))
        }
        Admission::Refuse { retry_after } => Seen::Quota(secs(retry_after.unwrap())),
    }
}

impl<'r> Gateway<'r> {
    fn new(rule: &str, redis: &'r TestRedis) -> Gateway<'r> {
        let rule = format!(r#"{{"name": "login", "actor": "user", "scope": "global", {rule}}}"#);
        Gateway::with_limits(&format!(r#"{{"url": "/", "rules": [{rule}]}}"#), redis)
    }

    /// One of two gateways with these limits.
    pub fn with_limits(limits: &str, redis: &'r TestRedis) -> Gateway<'r> {
        let json = format!(
            r#"{{"plan": {{"header": "x-plan"}}, "limits": [{limits}],
                "store": {{"redis": {{"cluster": "a", "secret": "a secret of the tests only",
                    "replicas": 2}}}}}}"#
        );
        let Configuration { policy, store, .. } = compile(json.as_bytes()).unwrap();
        let shared = SharedDataStore::probe(Simulated::new(CasSemantics::Lenient)).unwrap();
        let worker = Worker::new(policy, shared, &[7; 16]).with_global_store(store.unwrap(), 1);
        Gateway { worker, redis, calls: 0, is_down: false, ticked: 0 }
    }

    pub fn ask(&mut self, ms: u64, request: &Values) -> Decision {
        let (now, policy) = (at(ms), self.worker.policy().clone());
        let request = policy.request(request);
        let (mut session, decision) = Session::start(&mut self.worker, &request, || now);
        if !matches!(decision.outcome, Outcome::Query(_)) {
            return decision.clone();
        }
        let completions = self.serve(ms);
        let [completion] = &completions[..] else { panic!("{completions:?}") };
        session.answer(&mut self.worker, completion, || now).unwrap().clone()
    }

    /// Makes the calls that are due, and returns the completions for requests.
    fn serve(&mut self, ms: u64) -> Vec<Completion> {
        let Gateway { worker, redis, calls, is_down, .. } = self;
        let (now, mut all) = (at(ms), Vec::new());
        while let Some(call) = worker.next_call(Time::ZERO) {
            *calls += 1;
            let mut reply = Vec::new();
            for Command { keys, number, arguments, .. } in commands(&call.message.body) {
                let mut numbers = redis.numbers(now.as_ns() / 1_000, &Call { keys, commands: arguments });
                numbers[0] = number;
                reply.extend(list(&numbers));
            }
            let result = match is_down {
                true => CallResult::NotMade,
                false => CallResult::Response { status: 200, body: &reply },
            };
            let mut completions = worker.call_done(call.id, result, Time::ZERO);
            worker.absorb(&mut completions, || now);
            all.extend(completions);
        }
        all
    }

    /// Lets the worker do its own tasks, if they are due.
    pub fn tick(&mut self, ms: u64) {
        let since = Span::from_ms(ms - self.ticked);
        if self.worker.wants().is_some_and(|span| span <= since) {
            self.ticked = ms;
            self.worker.tick(|| at(ms), false);
            assert_eq!(self.serve(ms), [], "nobody waits");
        }
    }

    fn sees(&mut self, ms: u64, user: &str) -> Seen {
        seen(&self.ask(ms, &get("/", user)))
    }
}

const TEN_MINUTES: &str = r#""algo": "W", "rpu": 2, "unit": "10s", "penalty": {"after": 3, "for": "10m"}"#;

#[test]
fn refusals_by_all_gateways_begin_one_penalty() {
    let redis = TestRedis::start();
    let [mut one, mut two] = [Gateway::new(TEN_MINUTES, &redis), Gateway::new(TEN_MINUTES, &redis)];
    assert_eq!([one.sees(0, "ann"), two.sees(0, "ann")], [Seen::Pass, Seen::Pass]);
    // Refusals that count are not cached.
    assert_eq!([one.sees(1, "ann"), one.sees(2, "ann")], [Seen::Quota(10), Seen::Quota(10)]);
    assert_eq!(one.calls, 3);
    assert_eq!(two.sees(2, "ann"), Seen::Penalty(600));
    assert_eq!(two.sees(50, "ann"), Seen::Penalty(600), "from the cache");
    assert_eq!(two.calls, 2);
    assert_eq!([one.sees(500_002, "ann"), one.sees(500_002, "bob")], [Seen::Penalty(100), Seen::Pass]);
    assert_eq!([one.sees(600_001, "ann"), two.sees(600_002, "ann")], [Seen::Penalty(1), Seen::Pass]);
}

#[test]
fn a_rule_without_a_penalty_caches_its_refusals() {
    let redis = TestRedis::start();
    let mut gateway = Gateway::new(r#""algo": "W", "rpu": 2, "unit": "10s""#, &redis);
    for ms in 0..5 {
        gateway.sees(ms, "ann");
    }
    assert_eq!(gateway.calls, 3);
}

/// One of several groups refuses: in Redis, in the worker, or because its lease is used up.
#[test]
fn a_cached_refusal_reports_the_rules_of_the_first_one() {
    let redis = TestRedis::start();
    // A lease that is used up does not report.
    for (first, second, rules) in [
        (r#""scope": "global""#, r#""scope": "global""#, 3),
        (r#""scope": "local""#, r#""scope": "global", "lease": "10%""#, 2),
        (r#""scope": "global", "lease": "50%""#, r#""scope": "global", "lease": "10%""#, 3),
    ] {
        let limits = format!(
            r#"{{"url": "/", "rules": [
                {{"name": "own", "actor": "user", "rpu": 2, "unit": "day", {first}}},
                {{"name": "all", "rpu": 100, "unit": "day", {second}}},
                {{"name": "key", "actor": "device", "rpu": 1, "unit": "day", "mode": "shadow", {second}}}]}}"#
        );
        let mut gateway = Gateway::with_limits(&limits, &redis);
        let mut refused = Vec::new();
        for ms in 0..8 {
            let request = get("/", first).with(Part::Header("x-device-id".into()), first);
            let decision = gateway.ask(ms, &request);
            if decision.is_rejected() {
                let shown = |report: &RuleCheck| {
                    (report.rule(), report.result(), report.verdict().map(|verdict| verdict.remaining))
                };
                refused.push((decision.checks.iter().map(shown).collect::<Vec<_>>(), decision.events.cached));
            }
        }
        let (reports, cached) = refused.remove(0);
        assert_eq!((reports.len(), cached), (rules, 0), "{first}, {second}");
        assert!(refused.len() > 2);
        refused.iter().for_each(|other| assert_eq!(*other, (reports.clone(), 1), "{first}, {second}"));
        if rules == 3 {
            let calls = gateway.calls;
            let other = gateway.ask(9, &get("/", first).with(Part::Header("x-device-id".into()), "new"));
            assert_eq!((other.checks.len(), other.events.cached, gateway.calls), (2, 1, calls));
        }
    }
}

/// A rule for all, whose wait is short, ends no refusal of another rule.
#[test]
fn a_wait_that_is_over_leaves_the_refusals_of_other_rules() {
    let redis = TestRedis::start();
    let limits = r#"{"url": "/", "rules": [
        {"name": "own", "actor": "user", "rpu": 2, "unit": "day", "scope": "global"},
        {"name": "all", "rpu": 1, "unit": "5ms", "scope": "global"}]}"#;
    let mut gateway = Gateway::with_limits(limits, &redis);
    for (ms, is_refused) in [(0, false), (10, false), (11, true)] {
        assert_eq!(gateway.ask(ms, &get("/", "ann")).is_rejected(), is_refused, "{ms} ms");
    }
    let calls = gateway.calls;
    let later = gateway.ask(30, &get("/", "ann"));
    assert!(later.is_rejected());
    assert_eq!((later.checks.len(), later.events.cached, gateway.calls), (1, 1, calls));
}

#[test]
fn a_rule_in_shadow_counts_in_redis_and_refuses_nobody() {
    let redis = TestRedis::start();
    let mut gateway = Gateway::new(&format!(r#"{TEN_MINUTES}, "mode": "shadow""#), &redis);
    let expected = [Seen::Pass, Seen::Pass, Seen::Quota(10), Seen::Quota(10), Seen::Penalty(600)];
    for (ms, expected) in (0..).zip(expected) {
        let decision = gateway.ask(ms, &get("/", "ann"));
        assert!(!decision.is_rejected());
        assert_eq!(seen(&decision), expected);
    }
}

/// All quotas of a rule have one penalty. What another plan used is no refusal.
#[test]
fn a_penalty_is_that_of_the_rule_whatever_the_plan() {
    let redis = TestRedis::start();
    let mut gateway = Gateway::new(&format!(r#"{TEN_MINUTES}, "plans": {{"gold": {{"rpu": 9}}}}"#), &redis);
    let gold = get("/", "ann").with(Part::Header("x-plan".into()), "gold");
    for ms in 0..9 {
        assert_eq!(seen(&gateway.ask(ms, &gold)), Seen::Pass);
    }
    assert_eq!([gateway.sees(10, "ann"), gateway.sees(11, "ann")], [Seen::Quota(10), Seen::Quota(10)]);
    assert_eq!([gateway.sees(12, "ann"), gateway.sees(200, "ann")], [Seen::Penalty(600), Seen::Penalty(600)]);
    let calls = gateway.calls;
    assert_eq!((gateway.sees(201, "ann"), gateway.calls), (Seen::Penalty(600), calls), "from the cache");
    assert_eq!(seen(&gateway.ask(300, &gold)), Seen::Penalty(600));
}

/// In Redis and without it.
#[test]
fn a_plan_and_no_plan_do_not_add_up() {
    let redis = TestRedis::start();
    for algo in ["TB", "W", "SW", "SL"] {
        for is_down in [false, true] {
            let rule = format!(
                r#""algo": "{algo}", "rpu": 6, "unit": "day", "cost": {{"header": "x-cost", "max": 99}},
                    "plans": {{"gold": {{"rpu": 20}}}}"#
            );
            let mut gateway = Gateway::new(&rule, &redis);
            gateway.is_down = is_down;
            let user = format!("{algo} {is_down}");
            let ask = |gateway: &mut Gateway, ms, plan: &str, cost: u64| {
                let request = get("/", &user).with(Part::Header("x-plan".into()), plan);
                let request = request.with(Part::Header("x-cost".into()), cost.to_string());
                !gateway.ask(ms, &request).is_rejected()
            };
            // Down, the gateway has half of each quota.
            let one = if is_down { 1 } else { 2 };
            assert!(ask(&mut gateway, 0, "gold", 2 * one) && ask(&mut gateway, 1, "gold", 3 * one));
            assert!(!ask(&mut gateway, 2, "free", 1), "{algo}, {is_down}");
            assert!(ask(&mut gateway, 3, "gold", 5 * one) && !ask(&mut gateway, 4, "gold", 1));
        }
    }
}

/// While Redis is down, a gateway counts refusals alone, against its part of the quota.
#[test]
fn without_redis_each_gateway_counts_refusals_alone() {
    let redis = TestRedis::start();
    let mut gateway = Gateway::new(TEN_MINUTES, &redis);
    gateway.is_down = true;
    assert_eq!(gateway.sees(0, "ann"), Seen::Pass);
    assert_eq!([gateway.sees(1, "ann"), gateway.sees(2, "ann")], [Seen::Quota(10), Seen::Quota(10)]);
    assert_eq!([gateway.sees(3, "ann"), gateway.sees(4, "ann")], [Seen::Penalty(600), Seen::Penalty(600)]);
    assert_eq!(gateway.sees(300_000, "ann"), Seen::Penalty(301));
}

/// Of six tokens, a cold request takes almost three. Alone, a gateway has half of them.
#[test]
fn gateways_warm_a_rule_up_together() {
    let redis = TestRedis::start();
    let rule = r#""rpu": 20, "unit": "10s", "burst": 6, "warm_up": "30s""#;
    let [mut one, mut two] = [Gateway::new(rule, &redis), Gateway::new(rule, &redis)];
    assert_eq!([one.sees(0, "ann"), two.sees(0, "ann")], [Seen::Pass, Seen::Pass]);
    assert_eq!([one.sees(1, "ann"), two.sees(1, "ann")], [Seen::Quota(2), Seen::Quota(2)]);
    // Together they use the bucket up, until the rule is warm.
    for ms in (2_000..62_000).step_by(500) {
        for gateway in [&mut one, &mut two] {
            gateway.ask(ms, &get("/", "ann"));
        }
    }
    let mut alone = Gateway::new(rule, &redis);
    assert_eq!(alone.sees(63_000, "ann"), Seen::Pass);
    let rest = |decision: Decision| decision.checks.first().unwrap().verdict().unwrap().remaining;
    assert_eq!(rest(alone.ask(65_000, &get("/", "ann"))), 5, "a warm request takes one of six");
    alone.is_down = true;
    assert_eq!([alone.sees(65_001, "ann"), alone.sees(65_002, "ann")], [Seen::Pass, Seen::Quota(3)]);
}
