//! `GET rates`: what the rules have admitted and refused in each of the last seconds. Once a second
//! each worker's timer fires, and one of the workers samples the metrics: see
//! [`diana_inspect::rates`].

use super::{Answer, Object, Plugin, parameters};
use crate::Host;
use crate::metrics::{RATES, rule_series, store_series};
use diana_base::format;
use diana_base::time::{Span, Time};
use diana_inspect::rates::{COUNTERS, Rates, WINDOW, begin};
use diana_limiter::cells::Events;
use diana_limiter::cells::store::Fault;
use diana_limiter::inspect::rule_named;
use std::cell::Cell;

/// The most rules for which an answer has numbers.
const MAX_RULES: usize = 64;

/// The timers of the workers fire at most this long after the beginning of a second, each at
/// another time. The first worker samples, and the others then find its sample.
const SPREAD_MS: u32 = 200;

const SECOND: Span = Span::from_secs(1);

/// When a worker samples next.
#[derive(Debug)]
pub(in crate::plugin) struct Sampler {
    /// When the next sample is due, by the monotonic clock.
    next: Cell<Time>,
    /// How long after the beginning of a second.
    delay: Span,
}

impl Sampler {
    /// A sampler that is due at `now`.
    pub(in crate::plugin) fn new(now: Time, random: u64) -> Sampler {
        let delay = random.checked_rem(SPREAD_MS.into()).unwrap_or(0);
        Sampler { next: Cell::new(now), delay: Span::from_ns(delay.saturating_mul(1_000_000)) }
    }
}

impl<H: Host> Plugin<H> {
    /// When the timer has to fire for the next sample.
    pub(in crate::plugin) fn next_sample_at(&self) -> Option<Time> {
        self.sampler.as_ref().map(|sampler| sampler.next.get())
    }

    /// Whether rates are sampled.
    pub(crate) fn has_rates(&self) -> bool {
        self.sampler.is_some()
    }

    /// Begins to sample the rules, before the first request.
    pub(crate) fn begin_rates(&self) {
        if self.has_rates() {
            self.count_fault(begin(&self.store, second(self.now()), &self.series()));
        }
    }

    /// The present second if a sample is due. The next sample is then due a second later.
    pub(crate) fn due_sample(&self) -> Option<u64> {
        let (sampler, monotonic, now) = (self.sampler.as_ref()?, self.clock.monotonic(), self.now());
        if monotonic < sampler.next.get() {
            return None;
        }
        let within = now.as_ns().checked_rem(SECOND.as_ns()).unwrap_or(0);
        let rest = Span::from_ns(SECOND.as_ns().saturating_sub(within));
        sampler.next.set(monotonic.after(rest).after(sampler.delay));
        Some(second(now))
    }

    /// Counts a failure of the shared data.
    pub(crate) fn count_fault(&self, result: Result<(), Fault>) {
        if result.is_err() {
            self.metrics.events(&Events { faults: 1, ..Events::default() });
        }
    }

    #[cold]
    #[inline(never)]
    pub(super) fn rates(&self, query: &[u8]) -> Answer {
        if !self.has_rates() {
            return Err((404, "this host has no timer for rates".into()));
        }
        let (only, seconds) = (parameters(query)("rule"), parameters(query)("seconds"));
        let seconds = match seconds.as_deref().map(str::parse) {
            None => WINDOW,
            Some(Ok(seconds @ 1..=WINDOW)) => seconds,
            Some(_) => return Err((400, "expected `seconds` from 1 to 300".into())),
        };
        let policy = &self.configuration.policy;
        if only.is_some() {
            rule_named(policy, only.as_deref()).map_err(|why| (400, why))?;
        }
        let Ok(Some(rates)) = Rates::load(&self.store, seconds) else {
            return Err((503, "the shared data fails".into()));
        };
        let (mut shown, mut left_off, mut rules) = (0_usize, 0_u64, Vec::new());
        for (_, rule) in
            policy.rules().filter(|(_, rule)| only.as_deref().is_none_or(|only| rule.name() == only))
        {
            let id = rule_series(rule.name());
            let counts = rates.of(id);
            if !rates.knows(id) || counts.is_some() && shown >= MAX_RULES {
                left_off = left_off.saturating_add(1);
                continue;
            }
            let mut object = Object::default().text("rule", rule.name());
            if let Some(counts) = counts {
                shown = shown.saturating_add(1);
                for (result, counts) in RATES.iter().zip(&counts) {
                    object = numbers(object, (*result).into(), counts);
                }
            }
            rules.push(object);
        }
        let answer = Object::default()
            .number("at_ms", rates.end.saturating_mul(1_000))
            .number("seconds", u64::try_from(seconds).unwrap_or(0))
            .list("rules", rules.into_iter())
            .number("left_off", left_off);
        let waiting = self.metrics.waiting_requests().and_then(|id| self.host.read_metrics(&[id]));
        let waiting = waiting.and_then(|values| values.first().copied()).unwrap_or(0);
        let stores = self.worker.with(|worker| {
            let clusters = worker.clusters().iter().enumerate();
            let store = clusters.map(|(shard, cluster)| {
                let none = || <[Vec<u64>; COUNTERS]>::default().map(|_| vec![0; seconds]);
                let [calls, failed, ..] = rates.of(store_series(cluster)).unwrap_or_else(none);
                let object = Object::default()
                    .text("store", cluster)
                    .text("breaker", if worker.asks(shard) { "closed" } else { "open" });
                numbers(numbers(object, "calls", &calls), "failed", &failed)
            });
            store.collect::<Vec<Object>>()
        });
        Ok(answer.number("waiting", waiting).list("stores", stores.unwrap_or_default().into_iter()))
    }
}

/// The number of a second since 1970.
fn second(now: Time) -> u64 {
    now.as_ns().checked_div(SECOND.as_ns()).unwrap_or(0)
}

fn numbers(object: Object, key: &str, all: &[u64]) -> Object {
    let mut json = String::from("[");
    for (place, number) in all.iter().enumerate() {
        json.push_str(if place > 0 { "," } else { "" });
        format::number(&mut json, *number);
    }
    json.push(']');
    object.key(key, &json)
}
