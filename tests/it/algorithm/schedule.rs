//! Who comes when: arrivals told relative to the state they meet, so that they hit its edges.

use super::models::Reference;
use super::subject::{Rule, power};
use diana::algorithm::{Admission, Algorithm, Verdict};
use diana::time::{Span, Time};
use proptest::prelude::*;
use std::rc::Rc;

/// How the clock moves before a request comes.
#[derive(Clone, Debug)]
pub enum Gap {
    Still,
    /// On, by up to a few units of time, on a logarithmic scale.
    On(f64),
    /// To the instant the last verdict promised, and by so much more or less.
    Retry(i64),
    MoreIn(i64),
    FullIn(i64),
    /// Back, by up to a little more than clocks may differ.
    Lag(f64),
    /// Back, by up to many units of time, on a logarithmic scale.
    Back(f64),
    /// Far ahead, by up to a thousand years.
    Ahead(f64),
}

/// What a request costs.
#[derive(Clone, Debug)]
pub enum Cost {
    Of(u64),
    /// Up to the capacity, on a logarithmic scale.
    Some(f64),
    /// What remains, and so much more.
    Rest(u64),
    /// All that can ever be had, and so much more.
    All(u64),
}

#[derive(Clone, Debug)]
pub struct Arrival {
    pub gap: Gap,
    pub cost: Cost,
}

/// The clock goes on.
pub fn onward() -> impl Strategy<Value = Vec<Arrival>> {
    arrivals(on().boxed())
}

/// The clock steps back and far ahead as well.
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

/// Instants to begin at: today, and the ends of what a clock can tell without reaching the end of time.
pub fn begins() -> impl Strategy<Value = u64> {
    prop_oneof![4 => Just(1_753_000_000_123_456_789), 1 => 1..1_000_000_000_u64, 1 => 1..LATEST]
}

/// As late as this (the year 2349) the longest fill fits twice into what is left of a `u64`.
const LATEST: u64 = u64::MAX - 205 * 365 * 86_400 * 1_000_000_000;

/// One request as it went.
#[derive(Clone, Copy, Debug)]
pub struct Event {
    /// Nanoseconds the clock had gone on by then; what it stepped back is not taken off.
    pub elapsed: u128,
    /// How often the clock had stepped back by then.
    pub steps: u128,
    pub cost: u64,
    pub verdict: Verdict,
}

impl Event {
    pub fn charged(&self) -> u64 {
        if self.verdict.admits() { self.cost } else { 0 }
    }

    /// How long it has to wait for its turn.
    pub fn delay(&self) -> Span {
        match self.verdict.admission {
            Admission::Admit { delay } => delay,
            Admission::Refuse { .. } => Span::ZERO,
        }
    }

    /// When it goes, as [`Event::elapsed`].
    fn goes(&self) -> u128 {
        self.elapsed + u128::from(self.delay().as_ns())
    }
}

/// One cell and its clock.
#[derive(Clone)]
pub struct Run {
    pub algorithm: Rc<dyn Algorithm>,
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
        let algorithm = rule.compile();
        let cell = vec![0; algorithm.size()];
        let (scale, capacity) = (rule.scale_ns, rule.capacity);
        Run { algorithm, cell, now, scale, capacity, elapsed: 0, steps: 0, last: None }
    }

    /// A run that all of `arrivals` have been through.
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

    /// The same, of a clock that has been moved.
    pub fn arrive_now(&mut self, arrival: &Arrival) -> Event {
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
        self.algorithm.prepare(&mut self.cell, Time::from_ns(self.now))
    }

    pub fn ask(&mut self, cost: u64) -> Event {
        self.prepare();
        let verdict = self.algorithm.step(&mut self.cell, Time::from_ns(self.now), cost);
        self.last = Some(verdict);
        Event { elapsed: self.elapsed, steps: self.steps, cost, verdict }
    }

    pub fn give_back(&mut self, event: &Event) {
        self.algorithm.refund(&mut self.cell, Time::from_ns(self.now), event.verdict.charge);
    }

    /// What a request would be told `later` nanoseconds from now, if nobody else came.
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

/// All of a verdict that is said to the client.
pub fn said(verdict: Verdict) -> (Admission, u64, Span, Span) {
    (verdict.admission, verdict.remaining, verdict.more_in, verdict.full_in)
}

/// In every window from one request that goes to another no more went than may.
pub fn within(reference: &dyn Reference, events: &[Event]) -> Result<(), TestCaseError> {
    let mut events: Vec<Event> = events.iter().filter(|event| event.charged() > 0).copied().collect();
    events.sort_by_key(Event::goes);
    for (first, from) in events.iter().enumerate() {
        let (mut went, mut largest) = (0, 0);
        for (last, event) in events.iter().enumerate().skip(first) {
            went += u128::from(event.charged());
            largest = largest.max(event.charged());
            let lost = event.steps.abs_diff(from.steps) * reference.coarse_ns();
            // Who waits goes at the whole nanosecond after its turn.
            let rounded = u128::from(from.delay() > Span::ZERO);
            let most = reference.most(event.goes() - from.goes() + lost + rounded, largest);
            prop_assert!(went <= most, "{went} went from {first} to {last}, at most {most} may");
        }
    }
    Ok(())
}
