//! Generated arrivals. They are relative to the state that they meet, so that they hit its edges.

use super::models::Reference;
use super::subject::{Rule, power};
use diana_base::time::{Span, Time};
use diana_limiter::algorithm::{Admission, Algorithm, Verdict};
use diana_limiter::policy::{PlacedQuota, Quota};
use proptest::prelude::*;

/// How the clock moves before a request.
#[derive(Clone, Debug)]
pub enum Gap {
    Still,
    /// Forward by up to a few units of time, on a logarithmic scale.
    On(f64),
    /// To the instant that the last verdict announced, plus this many nanoseconds.
    Retry(i64),
    MoreIn(i64),
    FullIn(i64),
    /// Back by up to a little more than clocks may differ.
    Lag(f64),
    /// Back by up to many units of time, on a logarithmic scale.
    Back(f64),
    /// Far ahead, by up to a thousand years.
    Ahead(f64),
}

/// The cost of a request.
#[derive(Clone, Debug)]
pub enum Cost {
    Of(u64),
    /// Up to the capacity, on a logarithmic scale.
    Some(f64),
    /// What remains, plus this much.
    Rest(u64),
    /// The capacity, plus this much.
    All(u64),
}

#[derive(Clone, Debug)]
pub struct Arrival {
    pub gap: Gap,
    pub cost: Cost,
}

/// Arrivals with a clock that only moves forward.
pub fn onward() -> impl Strategy<Value = Vec<Arrival>> {
    arrivals(on().boxed())
}

/// Arrivals with a clock that also steps back and far ahead.
pub fn astray() -> impl Strategy<Value = Vec<Arrival>> {
    let astray = prop_oneof![
        4 => on(),
        2 => (0.0..=1.0).prop_map(Gap::Back),
        1 => (0.0..=1.0).prop_map(Gap::Lag),
        1 => (0.0..=1.0).prop_map(Gap::Ahead),
    ];
    arrivals(astray.boxed())
}

fn on() -> impl Strategy<Value = Gap> {
    prop_oneof![
        3 => Just(Gap::Still),
        3 => (0.0..=1.0).prop_map(Gap::On),
        2 => (-1..=1_i64).prop_map(Gap::Retry),
        2 => (-1..=1_i64).prop_map(Gap::MoreIn),
        1 => (-1..=1_i64).prop_map(Gap::FullIn),
    ]
}

fn arrivals(gaps: BoxedStrategy<Gap>) -> impl Strategy<Value = Vec<Arrival>> {
    let cost = prop_oneof![
        1 => Just(Cost::Of(0)),
        3 => Just(Cost::Of(1)),
        3 => (0.0..=1.0).prop_map(Cost::Some),
        3 => (0..=1_u64).prop_map(Cost::Rest),
        1 => (0..=1_u64).prop_map(Cost::All),
    ];
    prop::collection::vec((gaps, cost).prop_map(|(gap, cost)| Arrival { gap, cost }), 0..24)
}

/// Instants to begin at: today, and both ends of the range that leaves room for the tests.
pub fn begins() -> impl Strategy<Value = u64> {
    prop_oneof![4 => Just(1_753_000_000_123_456_789), 1 => 1..1_000_000_000_u64, 1 => 1..LATEST]
}

/// Until this instant (in the year 2349), twice the longest fill time fits into the rest of a
/// `u64`.
const LATEST: u64 = u64::MAX - 205 * 365 * 86_400 * 1_000_000_000;

/// One request and its verdict.
#[derive(Clone, Copy, Debug)]
pub struct Event {
    /// The nanoseconds by which the clock has moved forward; steps back do not count.
    pub elapsed: u128,
    /// The number of clock steps back so far.
    pub steps: u128,
    pub cost: u64,
    pub verdict: Verdict,
}

impl Event {
    pub fn charged(&self) -> u64 {
        if self.verdict.admits() { self.cost } else { 0 }
    }

    /// The wait of the request.
    pub fn delay(&self) -> Span {
        match self.verdict.admission {
            Admission::Admit { delay } => delay,
            Admission::Refuse { .. } => Span::ZERO,
        }
    }

    /// The instant at which the request passes, like [`Event::elapsed`].
    fn goes(&self) -> u128 {
        self.elapsed + u128::from(self.delay().as_ns())
    }
}

/// One cell and its clock.
#[derive(Clone)]
pub struct Run {
    pub judge: PlacedQuota,
    pub cell: Vec<u8>,
    pub now: u64,
    scale: u64,
    capacity: u64,
    elapsed: u128,
    steps: u128,
    last: Option<Verdict>,
}

impl Run {
    pub fn new(rule: &Rule, now: u64) -> Run {
        let judge = rule.placed();
        let cell = vec![0; judge.size()];
        let (scale, capacity) = (rule.scale_ns, rule.capacity);
        Run { judge, cell, now, scale, capacity, elapsed: 0, steps: 0, last: None }
    }

    /// Counts by another algorithm over the same cells.
    pub fn count_by(&mut self, algorithm: Algorithm) {
        let quota = self.judge.quota;
        let judge = Quota::new(quota.configured(), algorithm).with_penalty(quota.penalty().copied());
        self.judge = judge.alone();
        self.cell.resize(self.judge.size().max(self.cell.len()), 0);
    }

    /// A run after all `arrivals`.
    pub fn after(rule: &Rule, now: u64, arrivals: &[Arrival]) -> Run {
        let mut run = Run::new(rule, now);
        arrivals.iter().for_each(|arrival| _ = run.arrive(arrival));
        run.prepare();
        run
    }

    pub fn arrive(&mut self, arrival: &Arrival) -> Event {
        self.advance(&arrival.gap);
        self.arrive_now(arrival)
    }

    /// Like [`Run::arrive`], with a clock that is already moved.
    pub fn arrive_now(&mut self, arrival: &Arrival) -> Event {
        let event = self.request(arrival);
        if !event.verdict.admits() {
            self.count_refusal();
        }
        event
    }

    /// Counts a refusal, if the rule has a penalty.
    pub fn count_refusal(&mut self) {
        self.judge.count_refusal(&mut self.cell, Time::from_ns(self.now));
    }

    /// The verdict on a request that was refused and counted.
    pub fn penalize(&self, refusal: Verdict) -> Verdict {
        self.judge.penalize(&self.cell, Time::from_ns(self.now), refusal)
    }

    /// Like [`Run::arrive_now`], but counts no refusal.
    pub fn request(&mut self, arrival: &Arrival) -> Event {
        let rest = || self.look().remaining;
        let cost = match arrival.cost {
            Cost::Of(cost) => cost,
            Cost::Some(part) => power(self.capacity, part),
            Cost::Rest(more) => rest() + more,
            Cost::All(more) => self.capacity + more,
        };
        self.ask(cost)
    }

    pub fn advance(&mut self, gap: &Gap) {
        let promised = |promise: fn(&Verdict) -> Span, more: i64| match self.last.as_ref().map(promise) {
            Some(span) => self.now.saturating_add(span.as_ns()).saturating_add_signed(more).max(self.now),
            None => self.now,
        };
        let to = match gap {
            Gap::Still => self.now,
            Gap::On(part) => self.now.saturating_add(power(4 * self.scale, *part)),
            Gap::Retry(more) => promised(retry_after, *more),
            Gap::MoreIn(more) => promised(|verdict| verdict.more_in, *more),
            Gap::FullIn(more) => promised(|verdict| verdict.full_in, *more),
            Gap::Back(part) => self.now.saturating_sub(power(100 * self.scale, *part)).max(1),
            Gap::Lag(part) => self.now.saturating_sub(power(1_100_000_000, *part)).max(1),
            Gap::Ahead(part) => self.now.saturating_add(power(LATEST, *part)),
        };
        self.move_to(to.min(LATEST));
    }

    pub fn move_to(&mut self, now: u64) {
        self.elapsed += u128::from(now.saturating_sub(self.now));
        self.steps += u128::from(now < self.now);
        self.now = now;
    }

    pub fn prepare(&mut self) -> bool {
        self.judge.prepare(&mut self.cell, Time::from_ns(self.now))
    }

    pub fn ask(&mut self, cost: u64) -> Event {
        self.prepare();
        let verdict = self.judge.step(&mut self.cell, Time::from_ns(self.now), cost);
        self.last = Some(verdict);
        Event { elapsed: self.elapsed, steps: self.steps, cost, verdict }
    }

    pub fn refund(&mut self, event: &Event) {
        self.judge.refund(&mut self.cell, Time::from_ns(self.now), event.verdict.charge);
    }

    /// The verdict for a request `later` nanoseconds from now, if no other request comes.
    pub fn probe(&self, later: u64, cost: u64) -> Verdict {
        let mut copy = self.clone();
        copy.now += later;
        copy.ask(cost).verdict
    }

    pub fn look(&self) -> Verdict {
        self.probe(0, 0)
    }
}

pub fn retry_after(verdict: &Verdict) -> Span {
    match verdict.admission {
        Admission::Refuse { retry_after } => retry_after.unwrap_or(Span::ZERO),
        Admission::Admit { delay } => delay,
    }
}

/// The part of a verdict that a client can see.
pub fn visible(verdict: Verdict) -> (Admission, u64, Span, Span) {
    (verdict.admission, verdict.remaining, verdict.more_in, verdict.full_in)
}

/// Checks that between any two passing requests no more units pass than the model allows.
pub fn within(reference: &dyn Reference, events: &[Event]) -> Result<(), TestCaseError> {
    let mut events: Vec<Event> = events.iter().filter(|event| event.charged() > 0).copied().collect();
    events.sort_by_key(Event::goes);
    for (first, from) in events.iter().enumerate() {
        let (mut went, mut largest) = (0, 0);
        for (last, event) in events.iter().enumerate().skip(first) {
            went += u128::from(event.charged());
            largest = largest.max(event.charged());
            let lost = event.steps.abs_diff(from.steps) * reference.coarse_ns();
            // A waiting request passes at the next whole nanosecond after its turn.
            let rounded = u128::from(from.delay() > Span::ZERO);
            let most = reference.most(event.goes() - from.goes() + lost + rounded, largest);
            prop_assert!(went <= most, "{went} went from {first} to {last}, at most {most} may");
        }
    }
    Ok(())
}
