//! Tests of leases: however gateways spend them, the bound holds, and unused quota returns.

use super::redis::{Query, Reply, TestRedis, advance, begins, check, us, visible, whole_rules};
use crate::algorithm::models::Reference;
use crate::algorithm::quotas::{Family, buckets, counts};
use crate::algorithm::schedule::{Event, Run, onward, within};
use crate::algorithm::subject::{Rule, power, sliding_window, token_bucket, window};
use diana_base::time::{Span, Time};
use diana_limiter::algorithm::{Admission, Allowance, Charge, Parameters, Verdict};
use proptest::prelude::*;

pub const SECOND: u64 = 1_000_000;
pub const NOW: u64 = 1_753_000_000_123_456;

fn leasable_rules() -> impl Strategy<Value = Rule> {
    whole_rules().prop_filter("a kind that can be leased", |rule| {
        let parameters = rule.compile().parameters();
        parameters.kind < 4 && (parameters.kind > 1 || parameters.numbers[3] == 0)
    })
}

pub fn lease(key: &str, parameters: Parameters, cost: u64, lease: u64) -> Query {
    Query { lease, ..Query::of(key, parameters, cost) }
}

/// The units that arrive within a second, whatever was used.
fn arriving(parameters: Parameters) -> u64 {
    let [us, per, ..] = parameters.numbers;
    if parameters.kind == 1 { (u128::from(SECOND) * u128::from(per) / u128::from(us)) as u64 } else { 0 }
}

/// A rule that was asked once, and that leased all that it may.
struct LeasedRule {
    run: Run,
    key: String,
    parameters: Parameters,
    reply: Reply,
}

impl LeasedRule {
    /// The state after `arrivals` and an admitted request of cost 1.
    fn new(redis: &TestRedis, rule: &Rule, run: Run, part: f64) -> Option<LeasedRule> {
        let (mut run, key, parameters) = (run, redis.key(), rule.compile().parameters());
        let event = run.ask(1);
        let most = power(event.verdict.remaining, part);
        let reply = redis.ask(us(&run), lease(&key, parameters, 1, most));
        assert_eq!(reply.outcome == 0, event.verdict.admits());
        let (remaining, burst) = (event.verdict.remaining, rule.capacity);
        let leasable = if parameters.kind == 1 { remaining.min(burst - 1) } else { remaining };
        let leasable = leasable.min((remaining + arriving(parameters)) / 8);
        let expected = if reply.outcome == 0 { most.min(leasable) } else { 0 };
        assert_eq!(reply.leased, expected, "{rule:?} {reply:?}");
        (reply.leased > 0).then_some(LeasedRule { run, key, parameters, reply })
    }

    fn look(&self, redis: &TestRedis) -> Reply {
        redis.ask(us(&self.run), Query::of(&self.key, self.parameters, 0))
    }

    /// The rule's answer if the units had been queried one by one. A bucket answers for now, the
    /// other kinds for the time of the lease.
    fn spent(&mut self, leased_at: u64, cost: u64) -> Reply {
        let now = self.run.now;
        if self.parameters.kind != 1 {
            self.run.move_to(leased_at);
        }
        assert!(self.run.ask(cost).verdict.admits());
        self.run.move_to(now);
        let look = self.run.ask(0).verdict;
        let (outcome, wait, remaining, more_in, full_in) = visible(&look);
        Reply { outcome, wait, remaining, more_in, full_in, ..self.reply }
    }
}

#[test]
fn unused_quota_returns_and_used_quota_does_not() {
    let parts = (0.0..=1.0, 0.0..=1.0, 0.0..=1.0);
    check(150, (leasable_rules(), begins(), parts), |redis, (rule, begin, (part, used, late))| {
        let Some(mut leased_rule) = LeasedRule::new(redis, &rule, Run::new(&rule, begin), part) else {
            return Ok(());
        };
        let (at, Reply { leased, lasts, .. }) = (leased_rule.run.now, leased_rule.reply);
        // The reply does not include the leased units.
        let look = leased_rule.look(redis);
        prop_assert_eq!(look.visible(), leased_rule.reply.visible());
        let used = (used * (leased + 1) as f64) as u64;
        let first = used / 3;
        leased_rule.run.move_to(at + 1_000 * (late * lasts as f64) as u64);
        let return_lease = |of: (u64, u64)| {
            let now = us(&leased_rule.run);
            redis.return_lease(now, &leased_rule.key, leased_rule.parameters, &leased_rule.reply, of);
        };
        return_lease((first, 0));
        return_lease((used - first, leased - used));
        let look = leased_rule.look(redis);
        prop_assert_eq!(look.visible(), leased_rule.spent(at, used).visible());
        Ok(())
    });
}

/// At most the leased quota counts as used. An account that comes too late changes nothing.
#[test]
fn an_account_changes_at_most_the_leased_quota() {
    check(60, (leasable_rules(), 0.0..=1.0), |redis, (rule, part)| {
        let Some(mut leased_rule) = LeasedRule::new(redis, &rule, Run::new(&rule, 1_000 * NOW), part) else {
            return Ok(());
        };
        let (at, reply, parameters) = (leased_rule.run.now, leased_rule.reply, leased_rule.parameters);
        let return_lease = |leased_rule: &LeasedRule, reply: &Reply, of| {
            redis.return_lease(us(&leased_rule.run), &leased_rule.key, parameters, reply, of)
        };
        for other in [reply.generation + 1, reply.generation + 16, reply.generation - 16] {
            return_lease(&leased_rule, &Reply { generation: other, ..reply }, (1, 1));
        }
        let kept = leased_rule.look(redis);
        prop_assert_eq!(kept.visible(), reply.visible());
        if parameters.kind == 1 {
            return_lease(&leased_rule, &reply, (reply.leased + 5, 7));
            let (look, expected) = (leased_rule.look(redis), leased_rule.spent(at, reply.leased));
            prop_assert_eq!(look.visible(), expected.visible());
        } else {
            leased_rule.spent(at, reply.leased);
        }
        // A second after its end. A slice takes back unused quota for as long as it counts.
        let counts = if parameters.kind == 3 { parameters.numbers[1] } else { SECOND };
        leased_rule.run.move_to(at + 1_000 * (reply.lasts + counts));
        let before = leased_rule.look(redis);
        return_lease(&leased_rule, &reply, (reply.leased, reply.leased));
        prop_assert_eq!(leased_rule.look(redis).visible(), before.visible());
        prop_assert_eq!(before.visible(), visible(&leased_rule.run.ask(0).verdict));
        Ok(())
    });
}

/// A gateway that died has spent its lease. In a window or slice it counts from the time of the
/// lease. In a bucket it counts from two seconds after the start of the second of the lease.
#[test]
fn a_lease_without_an_account_counts_as_spent() {
    check(100, (leasable_rules(), begins(), 0.0..=1.0), |redis, (rule, begin, part)| {
        let Some(mut leased_rule) = LeasedRule::new(redis, &rule, Run::new(&rule, begin), part) else {
            return Ok(());
        };
        let (at, reply) = (leased_rule.run.now, leased_rule.reply);
        let over = match leased_rule.parameters.kind {
            1 => (at / 1_000 / SECOND + 2) * SECOND,
            _ => at / 1_000 + reply.lasts,
        };
        let in_bucket = if leased_rule.parameters.kind == 1 { reply.leased } else { 0 };
        if in_bucket > 0 {
            prop_assert_eq!(reply.lasts, over - 750_000 - at / 1_000);
        }
        leased_rule.run.move_to(1_000 * (over - 1));
        let before = leased_rule.look(redis);
        prop_assert!(before.remaining <= rule.capacity - in_bucket);
        leased_rule.run.move_to(1_000 * over);
        let expected = leased_rule.spent(at, reply.leased);
        prop_assert_eq!(leased_rule.look(redis).visible(), expected.visible());
        leased_rule.run.move_to(1_000 * (over + expected.full_in));
        prop_assert_eq!(leased_rule.look(redis).remaining, rule.capacity);
        Ok(())
    });
}

/// One event in the life of a rule that several gateways lease.
#[derive(Clone, Debug)]
enum Act {
    /// Time passes, on the scale of the rule or in seconds.
    On(f64),
    Seconds(f64),
    /// A request under one of the quotas, with a lease of this size.
    Ask(usize, f64, f64),
    /// A gateway spends from its lease.
    Spend(usize, f64),
    /// The gateway accounts for its usage, and returns the rest if the flag is set.
    Account(usize, bool),
    /// The gateway dies.
    Die(usize),
    /// The last charge of a request is refunded.
    Refund,
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let part = || 0.0..=1.0;
    let act = prop_oneof![
        2 => part().prop_map(Act::On),
        3 => (0.0..=1.2).prop_map(Act::Seconds),
        4 => (any::<usize>(), part(), part()).prop_map(|(at, cost, lease)| Act::Ask(at, cost, lease)),
        5 => (any::<usize>(), part()).prop_map(|(index, part)| Act::Spend(index, part)),
        3 => (any::<usize>(), any::<bool>()).prop_map(|(index, rest)| Act::Account(index, rest)),
        1 => any::<usize>().prop_map(Act::Die),
        1 => Just(Act::Refund),
    ];
    prop::collection::vec(act, 0..40)
}

/// The lease of one gateway.
struct Lease {
    parameters: Parameters,
    reply: Reply,
    until: u64,
    left: u64,
    used: u64,
}

fn passed(elapsed_us: u64, cost: u64) -> Event {
    let verdict = Verdict {
        admission: Admission::Admit { delay: Span::ZERO },
        remaining: 0,
        more_in: Span::ZERO,
        full_in: Span::ZERO,
        charge: Charge { at: Time::ZERO, ..Charge::default() },
    };
    Event { elapsed: 1_000 * u128::from(elapsed_us), steps: 0, cost, verdict }
}

/// Quotas at which the seconds of a bucket's leases matter.
fn busy_rules() -> impl Strategy<Value = Rule> {
    let quota = (1..=300_u64, prop::sample::select(vec![100_u64, 1_000, 1_700, 5_000, 60_000]));
    let quota = quota.prop_map(|(rpu, ms)| Allowance { rpu, unit: Span::from_ms(ms) });
    let bucket =
        (quota, 1..=300_u64, any::<bool>()).prop_map(|(quota, burst, full)| (quota, Some(burst), full));
    let quota = bucket.clone().prop_map(|(quota, ..)| quota);
    prop_oneof![
        2 => bucket.prop_map(token_bucket),
        1 => quota.clone().prop_map(window),
        1 => quota.prop_map(|quota| sliding_window(quota, None)),
    ]
}

#[test]
fn no_more_pass_than_the_bound_says_whoever_spends_the_leases() {
    let rules = prop_oneof![3 => busy_rules().boxed(), 1 => leasable_rules().boxed()];
    check(170, (rules, acts()), |redis, (rule, acts)| {
        stays_within(&*rule.reference, std::slice::from_ref(&rule), redis, acts)
    });
}

/// As gateways with different documents do: all quotas of a rule count under one key.
#[test]
fn no_more_pass_under_alternating_quotas_whoever_spends_the_leases() {
    let families = prop_oneof![2 => busy_buckets(), 2 => buckets(), 1 => counts()];
    let families = families.prop_filter("kinds that can be leased", |family| {
        family.rules.iter().all(|rule| rule.compile().parameters().kind < 4)
    });
    check(170, (families, acts()), |redis, (family, acts)| {
        stays_within(&*family.bound, &family.rules, redis, acts)
    });
}

/// Whatever the gateways do with their leases, no more passes than `bound` allows.
fn stays_within(
    bound: &dyn Reference,
    rules: &[Rule],
    redis: &TestRedis,
    acts: Vec<Act>,
) -> Result<(), TestCaseError> {
    let (key, mut last) = (redis.key(), None);
    let (mut now, mut leases, mut events): (u64, Vec<Lease>, Vec<Event>) = (NOW, Vec::new(), Vec::new());
    for act in acts {
        match act {
            Act::On(part) => now += power(rules[0].scale_ns / 250, part),
            Act::Seconds(part) => now += (part * SECOND as f64) as u64,
            Act::Ask(at, cost, part) => {
                let rule = &rules[at % rules.len()];
                let parameters = rule.compile().parameters();
                let look = redis.ask(now, Query::of(&key, parameters, 0));
                let cost = power(look.remaining, cost / 2.0);
                let reply = redis.ask(now, lease(&key, parameters, cost, power(rule.capacity, part)));
                if reply.outcome == 0 {
                    events.push(passed(now - NOW, cost));
                    let (until, left) = (now + reply.lasts, reply.leased);
                    leases.push(Lease { parameters, reply, until, left, used: 0 });
                    last = Some((parameters, reply.charge));
                }
            }
            Act::Spend(index, part) if !leases.is_empty() => {
                let index = index % leases.len();
                let lease = &mut leases[index];
                let cost = if now < lease.until { ((lease.left + 1) as f64 * part) as u64 } else { 0 };
                let cost = cost.min(lease.left);
                (lease.left, lease.used) = (lease.left - cost, lease.used + cost);
                events.push(passed(now - NOW, cost));
            }
            Act::Account(index, rest) if !leases.is_empty() => {
                let index = index % leases.len();
                let lease = &mut leases[index];
                let left = if rest { std::mem::take(&mut lease.left) } else { 0 };
                let used = std::mem::take(&mut lease.used);
                redis.return_lease(now, &key, lease.parameters, &lease.reply, (used, left));
            }
            Act::Die(index) if !leases.is_empty() => drop(leases.swap_remove(index % leases.len())),
            Act::Refund => {
                if let Some((parameters, charge)) = last.take() {
                    redis.refund(now, &key, parameters, charge);
                    let came = |event: &Event| event.elapsed == 1_000 * u128::from(charge[1] - NOW);
                    let at = events.iter().rposition(|event| came(event) && event.cost == charge[0]);
                    events.remove(at.unwrap());
                }
            }
            _ => {}
        }
    }
    within(bound, &events)?;
    // In the end all quota returns.
    let of = Query::of(&key, rules[0].compile().parameters(), 0);
    let look = redis.ask(now + 3 * SECOND, of.clone());
    let full = redis.ask(now + 3 * SECOND + look.full_in, of);
    prop_assert_eq!((full.remaining, full.full_in), (rules[0].capacity, 0));
    Ok(())
}

/// Buckets of two to four such quotas.
fn busy_buckets() -> BoxedStrategy<Family> {
    let one = (1..=300_u64, prop::sample::select(vec![100_u64, 1_000, 1_700, 5_000, 60_000]), 1..=300_u64);
    let one = one.prop_map(|(rpu, ms, burst)| (Allowance { rpu, unit: Span::from_ms(ms) }, burst));
    (prop::collection::vec(one, 2..5), any::<bool>())
        .prop_map(|(quotas, full)| Family::of_buckets(quotas, full))
        .boxed()
}

/// After a lease and its return, no more is left than in a bucket without leases.
#[test]
fn leases_leave_no_trace_after_their_return() {
    check(60, (leasable_rules(), begins(), onward(), 0.0..=1.0), |redis, (rule, begin, arrivals, part)| {
        let (mut run, key, parameters) = (Run::new(&rule, begin), redis.key(), rule.compile().parameters());
        for arrival in &arrivals {
            advance(&mut run, arrival);
            let event = run.arrive_now(arrival);
            let reply = redis.ask(us(&run), lease(&key, parameters, event.cost, power(rule.capacity, part)));
            prop_assert_eq!(reply.outcome, visible(&event.verdict).0);
            prop_assert_eq!(reply.remaining + reply.leased, event.verdict.remaining);
            if reply.leased > 0 {
                redis.return_lease(us(&run), &key, parameters, &reply, (0, reply.leased));
            }
            let look = redis.ask(us(&run), Query::of(&key, parameters, 0));
            prop_assert_eq!(look.visible(), visible(&run.ask(0).verdict));
        }
        Ok(())
    });
}
