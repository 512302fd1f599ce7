//! What one rule does to the requests of a log.

use super::Refused;
use super::actors::{ActorCheck, Actors, Name};
use super::distinct::Distinct;
use super::quotas::Variants;
use super::stream::{Event, Stream};
use super::timeline::{at, double, seconds};
use super::what_if::Trial;
use crate::caution::no_quotas;
use crate::engine::MAX_HELD;
use crate::number::count;
use crate::suggest::suggestion;
use crate::summary::{Quantile, RuleSummary};
use diana_config::RulePlace;
use diana_limiter::algorithm::Allowance;
use diana_limiter::decide::CountedActor;
use diana_limiter::policy::{ActorSource, Enforce};
use diana_limiter::time::{Span, Time};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::iter::repeat;

/// The actors that a summary shows.
const TOP: usize = 50;
/// Requests without the actor.
const WITHOUT: &str = "(without the actor)";
/// The shares of actors whose peaks a summary shows.
const SHARES: [f64; 7] = [0.5, 0.75, 0.9, 0.95, 0.99, 0.999, 1.0];

/// The configuration of a rule, for the tally.
#[derive(Clone, Debug)]
pub struct Described {
    /// The rule in its document.
    pub place: RulePlace,
    /// The configured quota.
    pub quota: Allowance,
    /// The burst of a token bucket.
    pub burst: Option<u64>,
    /// The part of its actors for which the rule refuses.
    pub enforce: Enforce,
    /// The rule with other quotas; `None` if no other quotas are tried.
    pub variants: Option<Variants>,
}

/// How much memory a rule may use.
#[derive(Clone, Copy, Debug)]
pub struct Room {
    /// Actors of the sample.
    pub actors: usize,
    /// Bytes of the stream.
    pub bytes: usize,
}

/// What the rules' summaries have to know about the log.
#[derive(Clone, Copy, Debug)]
pub struct LogShape {
    /// The length in seconds.
    pub length_s: f64,
    /// Whether all requests have one client address.
    pub has_one_address: bool,
    /// The number of intervals.
    pub intervals: usize,
}

/// One request, as a rule checked it.
#[derive(Clone, Copy, Debug)]
pub struct RuleOutcome<'a> {
    /// When.
    pub at: Time,
    /// The actor; `None` if the request lacks it and is refused.
    pub actor: Option<CountedActor<'a>>,
    /// Whether the rule refuses, or would refuse.
    pub is_refused: bool,
    /// Whether the request may take the rule's headroom.
    pub is_high_priority: bool,
    /// Whether the rule is in shadow for the request.
    pub is_shadow: bool,
    /// How long the rule makes the request wait.
    pub delay: Span,
    /// How long the request took.
    pub duration_ns: u64,
}

/// The counts of a rule.
#[derive(Clone, Debug)]
pub struct RuleTally {
    described: Described,
    room: Room,
    checked: u64,
    without_actor: u64,
    refused: u64,
    shadow_refused: u64,
    delayed: u64,
    longest_delay: Span,
    all_actors: Distinct,
    refused_actors: Distinct,
    refusals: Option<(Time, Time)>,
    intervals: Vec<u64>,
    actors: Actors,
    /// The requests in flight, by the end: of rules that count them.
    in_flight: BinaryHeap<Reverse<(Time, u64)>>,
    /// `None` if no other quotas are tried.
    stream: Option<Stream>,
    /// The instant from which on the stream had no room.
    full_at: Option<Time>,
    /// Whether all requests cost one unit.
    has_unit_cost: bool,
    /// Whether the rule counts by client address.
    by_address: bool,
    /// Whether some requests lack the actor and are refused for it.
    has_denied: bool,
    /// Whether some requests are counted by an override or a plan.
    has_others: bool,
}

impl RuleTally {
    /// A rule before the first request.
    #[must_use]
    pub fn new(described: Described, room: Room) -> RuleTally {
        let unit_ns = described.quota.unit.as_ns();
        let stream = described.variants.as_ref().map(|_| Stream::new(unit_ns == 0));
        RuleTally {
            room,
            checked: 0,
            without_actor: 0,
            refused: 0,
            shadow_refused: 0,
            delayed: 0,
            longest_delay: Span::ZERO,
            all_actors: Distinct::default(),
            refused_actors: Distinct::default(),
            refusals: None,
            intervals: Vec::new(),
            actors: Actors::new(unit_ns, room.actors),
            in_flight: BinaryHeap::new(),
            stream,
            full_at: None,
            has_unit_cost: true,
            by_address: false,
            has_denied: false,
            has_others: false,
            described,
        }
    }

    /// The rule's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.described.place.name
    }

    /// Whether no request has had the rule's actor.
    #[must_use]
    pub fn lacks_actor(&self) -> bool {
        self.checked > 0 && self.without_actor == self.checked
    }

    /// Whether the rule found no two client addresses.
    #[must_use]
    pub fn has_one_address(&self) -> bool {
        !self.by_address || self.all_actors.count() <= 1
    }

    /// The client that the rule counts.
    #[must_use]
    pub fn client(&self, actor: Option<CountedActor>) -> Refused {
        let Some(actor) = actor else {
            return Refused { client: WITHOUT.into(), actor: (*self.described.place.actor).into() };
        };
        let Name { text, is_address } = named(&actor);
        let of_rule = &*self.described.place.actor;
        Refused { client: text, actor: if is_address { "ip" } else { of_rule }.into() }
    }

    /// The rule's intervals have doubled in length.
    pub fn double(&mut self, times: u32) {
        double(&mut self.intervals, times, |all, other| *all = all.saturating_add(*other));
    }

    /// Adds a request of the interval at `place`.
    pub fn add(&mut self, check: RuleOutcome, place: usize) {
        let RuleOutcome { at: now, actor, is_refused, is_shadow, is_high_priority, delay, duration_ns } =
            check;
        self.checked = self.checked.saturating_add(1);
        let has_actor = actor.as_ref().is_some_and(|actor| actor.source() == ActorSource::Actor);
        self.without_actor = self.without_actor.saturating_add((!has_actor).into());
        let is_delayed = delay > Span::ZERO;
        self.delayed = self.delayed.saturating_add(is_delayed.into());
        self.longest_delay = self.longest_delay.max(delay);
        if is_refused {
            self.refused = self.refused.saturating_add(1);
            self.shadow_refused = self.shadow_refused.saturating_add(is_shadow.into());
            let first = self.refusals.map_or(now, |(first, _)| first);
            self.refusals = Some((first, now));
            at(&mut self.intervals, place).into_iter().for_each(|count| *count = count.saturating_add(1));
        }
        let Some(actor) = actor else {
            self.has_denied = true;
            return;
        };
        let hash = actor.hash;
        self.all_actors.add(hash);
        if is_refused {
            self.refused_actors.add(hash);
        }
        let place = self.actors.add(ActorCheck { hash, at: now, is_refused, is_delayed }, || named(&actor));
        if self.described.quota.unit == Span::ZERO {
            self.fly(hash, now, duration_ns);
        }
        self.has_unit_cost &= actor.cost == 1;
        self.by_address |= actor.is_address();
        self.has_others |= !actor.has_own_quota;
        if let (Some(place), true, Some(stream), None) =
            (place, actor.has_own_quota, &mut self.stream, self.full_at)
        {
            stream.push(Event { place, at: now, cost: actor.cost, is_high_priority, duration_ns });
        }
        self.make_room(now);
    }

    /// Counts a request in flight, and ends those that are over.
    fn fly(&mut self, hash: u64, now: Time, duration_ns: u64) {
        while let Some(Reverse((ends, hash))) = self.in_flight.pop() {
            if ends > now && self.in_flight.len().saturating_add(1) < MAX_HELD {
                self.in_flight.push(Reverse((ends, hash)));
                break;
            }
            self.actors.in_flight(hash, ends, false);
        }
        self.actors.in_flight(hash, now, true);
        self.in_flight.push(Reverse((now.after(Span::from_ns(duration_ns)), hash)));
    }

    fn make_room(&mut self, now: Time) {
        let is_large = self.stream.as_ref().is_some_and(|stream| stream.bytes() > self.room.bytes);
        if !(self.actors.is_full() || is_large && self.full_at.is_none()) {
            return;
        }
        // Half of a few actors may be none of them.
        if !self.actors.is_full() && self.actors.len() < 64 {
            self.full_at = Some(now);
            return;
        }
        let moved = self.actors.halve();
        if let Some(stream) = &mut self.stream {
            *stream = stream.of(|place| moved.get(usize::try_from(place).ok()?).copied().flatten());
        }
    }

    /// The summary over a log, with the results of other quotas if they are tried. This may take
    /// seconds.
    #[must_use]
    pub fn summary(&self, log: LogShape) -> RuleSummary {
        let log_s = log.length_s;
        let RuleTally { described: Described { place, quota, burst, enforce, .. }, .. } = self;
        let (peaks, weights) = (self.actors.peaks(), self.actors.weights());
        let trial = self.trial(&weights);
        let highest = peaks.last().map_or(0, |(peak, _)| *peak);
        let trials = trial.as_ref().map(|trial| trial.run(*quota, highest)).unwrap_or_default();
        let mut summary = RuleSummary {
            name: place.name.clone(),
            place: place.place.clone(),
            url: place.url.clone(),
            actor: place.actor.clone(),
            algorithm: place.algorithm.into(),
            rpu: quota.rpu,
            unit_s: quota.unit.as_ns() as f64 / 1e9,
            burst: *burst,
            by_address: self.by_address,
            one_address: self.by_address && log.has_one_address,
            is_enforced: *enforce > Enforce::NOBODY,
            enforce: enforce.to_string(),
            checked: self.checked,
            without_actor: self.without_actor,
            refused: self.refused,
            shadow_refused: self.shadow_refused,
            delayed: self.delayed,
            longest_delay_s: self.longest_delay.as_ns() as f64 / 1e9,
            actors: self.all_actors.count(),
            refused_actors: self.refused_actors.count(),
            first_refusal_s: self.refusals.map(|(first, _)| seconds(first)),
            last_refusal_s: self.refusals.map(|(_, last)| seconds(last)),
            // Up to the end of the log, also without refusals there.
            refusals: self.intervals.iter().copied().chain(repeat(0)).take(log.intervals).collect(),
            top: self.actors.top(TOP),
            what_if: trials.what_if,
            least: trials.least,
            peaks: quantiles(&peaks),
            suggestion: None,
        };
        if self.has_unit_cost && no_quotas(&summary, log_s).is_none() {
            let refuses = |rpu, burst| share(trial.as_ref()?, rpu, burst);
            summary.suggestion = suggestion(&summary, log_s, &refuses);
        }
        summary
    }

    /// What the numbers of this rule leave out, one sentence each.
    #[must_use]
    pub fn notes(&self) -> Vec<String> {
        let name = &self.described.place.name;
        let mut notes = Vec::new();
        if self.actors.is_partial() {
            notes.push(format!(
                "Peaks and other quotas of rule `{name}` are estimates from {} of its actors, which include the busiest.",
                count(u64::try_from(self.actors.len()).unwrap_or(u64::MAX))
            ));
        }
        let leaves_out = [
            (self.has_others, "leave out requests with an override or a plan"),
            (self.has_denied, "leave out requests without the actor, which `missing: deny` refuses"),
            (self.adapts(), "stay the same over time, without `adapt`"),
        ];
        for (_, what) in leaves_out.iter().filter(|(is, _)| *is && self.stream.is_some()) {
            notes.push(format!("Other quotas of rule `{name}` {what}."));
        }
        if let Some(full_at) = self.full_at {
            let at = jiff::Timestamp::from_nanosecond(full_at.as_ns().into()).unwrap_or_default();
            notes.push(format!("Other quotas of rule `{name}` leave out requests after {at}."));
        }
        notes
    }

    fn adapts(&self) -> bool {
        self.described.variants.as_ref().is_some_and(Variants::is_adaptive)
    }

    fn trial<'a>(&'a self, weights: &'a [u64]) -> Option<Trial<'a>> {
        let (variants, stream) = (self.described.variants.as_ref()?, self.stream.as_ref()?);
        (!stream.is_empty()).then_some(Trial { variants, stream, weights })
    }
}

/// The share of the requests that a quota refuses.
fn share(trial: &Trial, rpu: u64, burst: Option<u64>) -> Option<f64> {
    let refused = trial.check(rpu, burst, trial.stream)?;
    Some(refused.requests as f64 / trial.requests() as f64)
}

/// The actor's value, as people read it.
fn named(actor: &CountedActor) -> Name {
    let values = actor.values().join(", ");
    let text = match actor.source() {
        ActorSource::Shared | ActorSource::Missing => WITHOUT.into(),
        ActorSource::Actor if values.is_empty() => "(all requests)".into(),
        ActorSource::Actor | ActorSource::Address => values.chars().take(200).collect::<String>().into(),
    };
    Name { text, is_address: actor.source() == ActorSource::Address }
}

/// Quantiles of peaks with weights, in ascending order.
fn quantiles(peaks: &[(u64, u64)]) -> Vec<Quantile> {
    let all: u64 = peaks.iter().map(|(_, weight)| weight).sum();
    let mut below = 0u64;
    let mut shares = SHARES.into_iter().peekable();
    let mut quantiles = Vec::new();
    for (peak, weight) in peaks {
        below = below.saturating_add(*weight);
        // The last share is that of the last peak.
        while let Some(share) = shares.next_if(|share| *share < 1.0 && below as f64 >= share * all as f64) {
            quantiles.push(Quantile { share, peak: *peak });
        }
    }
    quantiles.extend(peaks.last().map(|(peak, _)| Quantile { share: 1.0, peak: *peak }));
    quantiles
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_in_flight_are_bounded() {
        let document = br#"{"url": "/", "rules": [{"name": "open", "algo": "C", "rpu": 3}]}"#;
        let place = diana_config::rule_places(document).unwrap().remove(0);
        let quota = Allowance { rpu: 3, unit: Span::ZERO };
        let described = Described { place, quota, burst: None, enforce: Enforce::EVERYBODY, variants: None };
        let mut tally = RuleTally::new(described, Room { actors: 9, bytes: 0 });
        for number in 0..=MAX_HELD as u64 {
            tally.fly(number, Time::from_ns(number), u64::MAX);
        }
        assert_eq!(tally.in_flight.len(), MAX_HELD);
    }

    #[test]
    fn quantiles_go_by_weight() {
        let peaks = |weighted: &[(u64, u64)]| -> Vec<u64> {
            quantiles(weighted).iter().map(|quantile| quantile.peak).collect()
        };
        assert_eq!(peaks(&[]), [0; 0]);
        assert_eq!(peaks(&[(7, 1)]), [7; 7]);
        let hundred: Vec<(u64, u64)> = (1..=100).map(|peak| (peak, 1)).collect();
        assert_eq!(peaks(&hundred), [50, 75, 90, 95, 99, 100, 100]);
        assert_eq!(peaks(&[(1, 98), (5, 1), (9, 1), (20, 0)]), [1, 1, 1, 1, 5, 9, 20]);
    }
}
