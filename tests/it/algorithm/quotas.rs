//! One cell under several quotas in turn: usage survives.

use super::models::{Bucket, Log, Queue, Reference, Slices};
use super::schedule::{Event, Run, astray, begins, onward, retry_after, within};
use super::subject::{
    LONGEST_FILL_NS, Rule, cases, concurrency, leaky_bucket, log, power, quotas, sliding_log, sliding_window,
    token_bucket, waiting_bucket, window,
};
use diana_base::time::{Span, Time};
use diana_limiter::algorithm::{Admission, Allowance, MAX_WAIT, Reservation};
use diana_limiter::policy::PlacedQuota;
use proptest::prelude::*;
use proptest::sample::select;

/// Rules whose states have one form, and the bound on what they admit together.
#[derive(Debug)]
pub struct Family {
    pub rules: Vec<Rule>,
    pub bound: Box<dyn Reference>,
}

impl Family {
    /// Buckets with these quotas and bursts.
    pub fn of_buckets(all: Vec<(Allowance, u64)>, full: bool) -> Family {
        let (quota, burst) =
            (fastest(all.iter().map(|one| one.0)), all.iter().map(|one| one.1).max().unwrap());
        let rule = |(quota, burst)| token_bucket((quota, Some(burst), full));
        let bound = Box::new(Bucket::new(quota, burst, full, Span::ZERO));
        Family { rules: all.into_iter().map(rule).collect(), bound }
    }
}

/// A cell of a family, which one of its quotas counts at a time.
#[derive(Clone)]
struct Shared {
    judges: Vec<PlacedQuota>,
    run: Run,
}

impl Shared {
    fn new(family: &Family, begin: u64) -> Shared {
        let judges: Vec<_> = family.rules.iter().map(|rule| rule.placed()).collect();
        let forms: Vec<String> = judges.iter().map(|judge| judge.quota.algorithm().form()).collect();
        assert!(forms.iter().all(|form| *form == forms[0]), "{forms:?}");
        let mut run = Run::new(&family.rules[0], begin);
        run.cell = vec![0; judges.iter().map(|judge| judge.size()).max().unwrap()];
        Shared { judges, run }
    }

    /// The cell as the quota at this place counts it.
    fn under(&mut self, place: usize) -> &mut Run {
        self.run.judge = self.judges[place % self.judges.len()];
        &mut self.run
    }
}

/// A log keeps 16 instants for 9 a unit and 32 for 23.
#[test]
fn a_refund_under_a_shorter_log_forgets_no_instant() {
    let log = |rpu| sliding_log(Allowance { rpu, unit: Span::from_ms(60_000) });
    let family = Family { rules: vec![log(23), log(9)], bound: Box::new(Log::new(log(23).quota)) };
    let mut shared = Shared::new(&family, 1_000_000_000);
    let charged = shared.under(0).ask(1);
    (0..22).for_each(|_| assert!(shared.under(0).ask(1).verdict.admits()));
    shared.under(1).refund(&charged);
    assert!(!shared.under(0).ask(1).verdict.admits());
    shared.under(0).refund(&charged);
    assert!(shared.under(0).ask(1).verdict.admits());
    assert!(!shared.under(0).ask(1).verdict.admits());
}

/// Whole milliseconds, as in every configuration.
fn in_ms(quota: Allowance) -> Allowance {
    Allowance { unit: Span::from_ms((quota.unit.as_ns() / 1_000_000).max(1)), ..quota }
}

/// Two to four of these.
fn several<T: std::fmt::Debug>(one: impl Strategy<Value = T>) -> impl Strategy<Value = Vec<T>> {
    prop::collection::vec(one, 2..5)
}

/// The fastest of these rates.
fn fastest(quotas: impl Iterator<Item = Allowance>) -> Allowance {
    let slower = |a: &Allowance, b: &Allowance| {
        let rate =
            |quota: &Allowance, other: &Allowance| u128::from(quota.rpu) * u128::from(other.unit.as_ns());
        rate(a, b).cmp(&rate(b, a))
    };
    quotas.max_by(slower).unwrap()
}

pub fn buckets() -> BoxedStrategy<Family> {
    let near = (1..=40_u64, select(vec![1_000, 1_001, 60_000]))
        .prop_map(|(rpu, ms)| Allowance { rpu, unit: Span::from_ms(ms) });
    let quota = prop_oneof![quotas().prop_map(in_ms).boxed(), near.boxed()];
    let one = (quota, prop_oneof![1..=9_u64, log(1_000_000)]).prop_map(|(quota, burst)| {
        let most = LONGEST_FILL_NS * u128::from(quota.rpu) / u128::from(quota.unit.as_ns());
        (quota, burst.min(u64::try_from(most).unwrap_or(u64::MAX)).max(1))
    });
    let fits = |(quota, burst): &(Allowance, u64)| {
        u128::from(*burst) * u128::from(quota.unit.as_ns()) <= LONGEST_FILL_NS * u128::from(quota.rpu)
    };
    (several(one.prop_filter("a fill time that is allowed", fits)), any::<bool>())
        .prop_map(|(all, full)| Family::of_buckets(all, full))
        .boxed()
}

/// Buckets whose requests wait for their tokens, but for some.
fn waiting_buckets() -> impl Strategy<Value = Family> {
    let waits = several(prop_oneof![1 => Just(0), 3 => log(MAX_WAIT.as_ns() / 1_000_000)]);
    (buckets(), waits, any::<bool>()).prop_map(|(mut family, waits, full)| {
        for (rule, ms) in family.rules.iter_mut().zip(waits.iter().cycle()) {
            *rule = waiting_bucket(rule.quota, Some(rule.capacity), full, Some(Span::from_ms(*ms)));
        }
        family
    })
}

fn queues() -> BoxedStrategy<Family> {
    let one = (quotas().prop_map(in_ms), 0..=9_u64, prop_oneof![Just(None), (0..9_000_u64).prop_map(Some)]);
    several(one)
        .prop_map(|all| {
            let rules: Vec<Rule> = all
                .into_iter()
                .map(|(quota, queue, wait)| leaky_bucket(quota, Some(queue), wait.map(Span::from_ms)))
                .collect();
            let bound = Queue::new(fastest(rules.iter().map(|rule| rule.quota)), 1_000_000_000, None);
            Family { rules, bound: Box::new(bound) }
        })
        .boxed()
}

/// Rules that count units of the same time.
pub fn counts() -> BoxedStrategy<Family> {
    let unit = || quotas().prop_map(|quota| in_ms(quota).unit);
    let few = || prop_oneof![2 => 1..=12_u64, 1 => 1..=128_u64];
    let many = || prop_oneof![2 => 1..=12_u64, 1 => log(Allowance::MAX_RPU)];
    let windows = || prop_oneof![2 => many().boxed(), 1 => log(Allowance::MAX_IN_WINDOW).boxed()];
    let most = |all: &[u64]| *all.iter().max().unwrap();
    prop_oneof![
        (unit(), several(windows())).prop_map(move |(unit, all)| Family {
            bound: Box::new(Slices::new(most(&all), unit, 1, 1)),
            rules: all.into_iter().map(|rpu| window(Allowance { rpu, unit })).collect(),
        }),
        (unit(), several(windows()), 2..=12_u64).prop_map(move |(unit, all, slices)| Family {
            bound: Box::new(Slices::new(most(&all), unit, slices, slices)),
            rules: all.into_iter().map(|rpu| sliding_window(Allowance { rpu, unit }, Some(slices))).collect(),
        }),
        (unit(), several(few())).prop_map(move |(unit, all)| Family {
            bound: Box::new(Log::new(Allowance { rpu: most(&all), unit })),
            rules: all.into_iter().map(|rpu| sliding_log(Allowance { rpu, unit })).collect(),
        }),
        (1_000..90_000_u64, several(many())).prop_map(move |(hold, all)| Family {
            bound: Box::new(Slices::new(most(&all), Span::from_ms(hold), 8, 9)),
            rules: all.into_iter().map(|rpu| concurrency(rpu, Some(Span::from_ms(hold)))).collect(),
        }),
    ]
    .boxed()
}

fn families() -> impl Strategy<Value = Family> {
    prop_oneof![3 => buckets(), 1 => queues(), 3 => counts()]
}

/// Missing tokens are rounded up when another rate takes them over.
fn later(span: Span) -> Span {
    Span::from_ns(span.as_ns().saturating_add(2))
}

/// Which quota each arrival asks.
fn turns() -> impl Strategy<Value = Vec<usize>> {
    prop::collection::vec(0..4_usize, 24)
}

/// A charge that may be refunded: after how many arrivals, and under which quota.
fn refunds() -> impl Strategy<Value = Vec<Option<(usize, usize)>>> {
    prop::collection::vec(prop::option::of((0..6_usize, 0..4_usize)), 24)
}

proptest! {
    #![proptest_config(cases(400))]

    /// For any sequence of quotas, no more passes than under the largest burst and the fastest
    /// rate.
    #[test]
    fn alternating_quotas_admit_no_more_than_the_largest(
        family in families(), begin in begins(), arrivals in prop_oneof![onward().boxed(), astray().boxed()],
        turns in turns(), refunds in refunds(),
    ) {
        let mut shared = Shared::new(&family, begin);
        let mut events: Vec<Option<Event>> = Vec::new();
        for (at, arrival) in arrivals.iter().enumerate() {
            events.push(Some(shared.under(turns[at]).arrive(arrival)));
            for (earlier, refund) in refunds.iter().enumerate().take(at + 1) {
                let Some((after, place)) = refund else { continue };
                if let Some(event) = events[earlier].filter(|_| earlier + after == at) {
                    shared.under(*place).refund(&event);
                    events[earlier] = None;
                }
            }
        }
        let kept: Vec<Event> = events.into_iter().flatten().collect();
        within(&*family.bound, &kept)?;
    }

    /// Reading, refusing and ranking under a quota changes nothing that another quota sees, except
    /// that missing tokens come at the faster rate.
    #[test]
    fn an_operation_that_charges_nothing_changes_nothing_for_another_quota(
        family in families(), begin in begins(), arrivals in onward(), turns in turns(), (a, b) in (0..4_usize, 0..4_usize),
    ) {
        let mut shared = Shared::new(&family, begin);
        for (arrival, turn) in arrivals.iter().zip(&turns) {
            shared.under(*turn).arrive(arrival);
        }
        let mut looked = shared.clone();
        let run = looked.under(b);
        let _ = run.judge.rests_in(&run.cell, Time::from_ns(run.now));
        let rest = run.ask(0).verdict.remaining;
        prop_assert!(!run.ask(rest + 1).verdict.admits());
        let (before, after) = (shared.under(a).look(), looked.under(a).look());
        prop_assert!(after.remaining <= before.remaining && after.remaining + 1 >= before.remaining);
        prop_assert!(after.full_in <= later(before.full_in), "{:?} {:?}", before, after);
        let all = before.remaining + 1;
        let waits = [shared.under(a).probe(0, all), looked.under(a).probe(0, all)];
        if let [Admission::Refuse { retry_after: Some(wait) }, Admission::Refuse { retry_after: Some(then) }] =
            waits.map(|verdict| verdict.admission)
        {
            prop_assert!(then <= later(wait), "{:?} {:?}", wait, then);
        }
    }

    /// A refusal tells exactly when the same request passes, whichever quota charged the cell.
    #[test]
    fn waits_are_exact_under_any_quota(
        family in prop_oneof![7 => families(), 3 => waiting_buckets()], begin in begins(), arrivals in onward(), turns in turns(), place in 0..4_usize, part in 0.0..=1.0,
    ) {
        let mut shared = Shared::new(&family, begin);
        for (arrival, turn) in arrivals.iter().zip(&turns) {
            shared.under(*turn).arrive(arrival);
        }
        let capacity = family.rules[place % family.rules.len()].capacity;
        let run = shared.under(place);
        run.prepare();
        let rest = run.look().remaining;
        for cost in [1, power(capacity, part), rest, rest + 1, capacity] {
            let verdict = run.probe(0, cost);
            let wait = retry_after(&verdict).as_ns();
            if verdict.admits() {
                prop_assert!(cost <= rest);
            } else if cost <= capacity {
                prop_assert!(wait > 0 && cost > rest);
                prop_assert!(!run.probe(wait - 1, cost).admits());
                prop_assert!(run.probe(wait, cost).admits());
            }
        }
    }

    /// What one quota has left more than another is the difference of what they admit.
    #[test]
    fn a_raised_quota_frees_exactly_the_difference(
        family in prop_oneof![buckets(), counts()], begin in begins(), arrivals in onward(), (a, b) in (0..4_usize, 0..4_usize),
    ) {
        let mut shared = Shared::new(&family, begin);
        for arrival in &arrivals {
            shared.under(a).arrive(arrival);
        }
        let capacity = |place: usize| family.rules[place % family.rules.len()].capacity;
        let left = shared.under(a).look().remaining;
        let is_saved = family.rules[0].json.contains("empty");
        let raised = if is_saved { left.min(capacity(b)) } else { (left + capacity(b)).saturating_sub(capacity(a)) };
        let seen = shared.under(b).look().remaining;
        if capacity(b) >= capacity(a) || left > 0 {
            prop_assert!(seen <= raised && seen + 1 >= raised, "{} of {}", seen, raised);
        }
    }

    /// Workers hold reservations under one quota while others charge, and return them late.
    #[test]
    fn reservations_admit_no_more_under_alternating_quotas(
        family in buckets(), begin in begins(), arrivals in onward(), turns in turns(),
        held in prop::collection::vec((0..4_usize, 1..20_u64, 0.0..=1.0_f64, 0..3_usize), 24),
    ) {
        let mut shared = Shared::new(&family, begin);
        let (mut events, mut open): (Vec<Event>, Vec<(usize, Reservation, usize)>) = (Vec::new(), Vec::new());
        for (at, (arrival, (place, amount, part, later))) in arrivals.iter().zip(held).enumerate() {
            let event = shared.under(turns[at]).arrive(arrival);
            events.push(event);
            let run = shared.under(turns[at]);
            let now = Time::from_ns(run.now);
            let reserve = run.judge.quota;
            let reserve = reserve.as_reserve().expect("no waiting");
            if let Some(mut reservation) = reserve.reserve(&mut run.cell, now, amount) {
                // The worker spends at once, before the clock moves on.
                let spent = (amount as f64 * part) as u64;
                if spent > 0 && reservation.spend(spent) {
                    events.push(Event { cost: spent, verdict: run.look(), ..event });
                }
                open.push((at + later, reservation, place));
            }
            let now = Time::from_ns(shared.run.now);
            for (_, reservation, place) in open.extract_if(.., |(due, ..)| *due <= at) {
                let run = shared.under(place);
                let reserve = run.judge.quota;
                reserve.as_reserve().expect("no waiting").release(&mut run.cell, now, &reservation);
            }
        }
        within(&*family.bound, &events)?;
    }
}

#[test]
fn a_reservation_is_no_part_of_another_quota() {
    let quota = |rpu| Allowance { rpu, unit: Span::from_secs(60) };
    let rules: Vec<Rule> = [10, 20].map(|rpu| token_bucket((quota(rpu), None, true))).into();
    let bound = Box::new(Bucket::new(quota(20), 20, true, Span::ZERO));
    let mut shared = Shared::new(&Family { rules, bound }, 1_753_000_000_000_000_000);
    let now = Time::from_ns(shared.run.now);
    assert!(shared.under(0).ask(1).verdict.admits());
    let run = shared.under(0);
    let reserved = run.judge.quota.as_reserve().unwrap().reserve(&mut run.cell, now, 4).unwrap();
    let run = shared.under(1);
    assert!(run.judge.quota.as_reserve().unwrap().reserve(&mut run.cell, now, 4).is_none());
    assert_eq!(run.look().remaining, 15);
    assert!(run.ask(1).verdict.admits());
    let run = shared.under(0);
    run.judge.quota.as_reserve().unwrap().release(&mut run.cell, now, &reserved);
    assert_eq!(shared.under(1).look().remaining, 18, "the rest came back whatever the rate");
}

/// The `max_wait` of the slow bucket is 7/3 tokens, which take no whole number of nanoseconds at
/// the rate of the fast one.
#[test]
fn a_slow_bucket_that_waits_promises_the_instant_at_which_it_admits() {
    let per = |rpu, secs| Allowance { rpu, unit: Span::from_secs(secs) };
    let rules = vec![
        token_bucket((per(1_000, 1), Some(5_000), true)),
        waiting_bucket(per(7, 3), Some(1), true, Some(Span::from_secs(1))),
    ];
    let bound = Box::new(Bucket::new(rules[0].quota, 5_000, true, Span::ZERO));
    let mut shared = Shared::new(&Family { rules, bound }, 1_753_000_000_000_000_000);
    assert!(shared.under(0).ask(5_000).verdict.admits());
    let run = shared.under(1);
    let wait = 5_000_000_000 - 2_333_333;
    assert_eq!(retry_after(&run.probe(0, 1)), Span::from_ns(wait));
    assert!(!run.probe(wait - 1, 1).admits());
    assert!(run.probe(wait, 1).admits());
}

/// Waits for turns that a slow queue gave are not longer than one turn of a fast one.
#[test]
fn a_raised_rate_shortens_the_wait_for_the_next_turn() {
    let queue = |rpu| leaky_bucket(Allowance { rpu, unit: Span::from_secs(3_600) }, Some(1), None);
    let bound = Box::new(Queue::new(Allowance { rpu: 3_600, unit: Span::from_secs(3_600) }, 9, None));
    let mut shared =
        Shared::new(&Family { rules: vec![queue(2), queue(3_600)], bound }, 1_753_000_000_000_000_000);
    let delay = |event: Event| event.verdict.admits().then(|| event.delay());
    assert_eq!(delay(shared.under(0).ask(1)), Some(Span::ZERO));
    assert_eq!(delay(shared.under(1).ask(1)), Some(Span::from_secs(1)));
    assert_eq!(
        delay(shared.under(0).ask(1)),
        Some(Span::from_secs(2)),
        "the last turn was of the fast queue"
    );
    assert_eq!(delay(shared.under(0).ask(1)), None, "half an hour later");
    assert_eq!(delay(shared.under(1).ask(1)), None, "its queue has one place");
}
