//! What each actor of a rule does, for a bounded number of actors: a weighted sample, and a sketch
//! of those outside the sample with the most refusals.

use super::timeline::seconds;
use crate::summary::ActorSummary;
use diana_base::prng::mix;
use diana_limiter::time::Time;
use foldhash::fast::FixedState;
use std::cmp::Reverse;
use std::collections::HashMap;

/// The value of an actor.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Name {
    /// The value, as people read it.
    pub text: Box<str>,
    /// Whether the value is the address of requests that lack the rule's actor.
    pub is_address: bool,
}

/// What one actor does.
#[derive(Clone, Debug, Default)]
pub struct Actor {
    hash: u64,
    /// How many actors this one represents.
    weight: u64,
    name: Name,
    checked: u64,
    refused: u64,
    delayed: u64,
    /// The present unit, and the requests within it.
    unit: u64,
    in_unit: u64,
    /// The most requests within one unit, and the start of that unit.
    pub peak: u64,
    peak_at: Time,
    /// The first and the last refusal.
    refusals: Option<(Time, Time)>,
}

/// One request as a rule checked it.
#[derive(Clone, Copy, Debug)]
pub struct ActorCheck {
    /// The actor's hash.
    pub hash: u64,
    /// When the rule checked the request.
    pub at: Time,
    /// Whether the rule refuses the request.
    pub is_refused: bool,
    /// Whether the request waits for the rule.
    pub is_delayed: bool,
}

impl Actor {
    fn add(&mut self, checked: ActorCheck, unit_ns: u64) {
        self.checked = self.checked.saturating_add(1);
        self.delayed = self.delayed.saturating_add(checked.is_delayed.into());
        if checked.is_refused {
            self.refused = self.refused.saturating_add(1);
            let first = self.refusals.map_or(checked.at, |(first, _)| first);
            self.refusals = Some((first, checked.at));
        }
        if let Some(unit) = checked.at.as_ns().checked_div(unit_ns) {
            if unit != self.unit {
                (self.unit, self.in_unit) = (unit, 0);
            }
            self.in_unit = self.in_unit.saturating_add(1);
            self.raise(Time::from_ns(unit.saturating_mul(unit_ns)));
        }
    }

    fn raise(&mut self, at: Time) {
        if self.in_unit > self.peak {
            (self.peak, self.peak_at) = (self.in_unit, at);
        }
    }

    fn summary(&self) -> ActorSummary {
        ActorSummary {
            actor: self.name.text.to_string(),
            is_address: self.name.is_address,
            checked: self.checked,
            refused: self.refused,
            delayed: self.delayed,
            peak: self.peak,
            peak_s: seconds(self.peak_at),
            first_refusal_s: self.refusals.map(|(first, _)| seconds(first)),
            last_refusal_s: self.refusals.map(|(_, last)| seconds(last)),
        }
    }
}

/// The actors of a rule.
///
/// If the sample has too many actors, the busiest quarter stays, with a random half of the others.
/// Each actor of this half then represents twice as many, so that weighted sums over the sample
/// estimate sums over all actors without bias, and the busiest actors add no error.
#[derive(Clone, Debug)]
pub struct Actors {
    /// The length of the unit; 0 if the rule counts requests in flight.
    unit_ns: u64,
    /// The most actors of the sample.
    most: usize,
    /// How often the sample was halved. A new actor is in the sample if so many bits of its hash
    /// are zero.
    halved: u32,
    places: HashMap<u64, u32, FixedState>,
    sample: Vec<Actor>,
    sketch: Sketch,
}

impl Actors {
    /// No actors yet, and room for `most` of them.
    #[must_use]
    pub fn new(unit_ns: u64, most: usize) -> Actors {
        let sketch = Sketch::default();
        Actors { unit_ns, most, halved: 0, places: HashMap::default(), sample: Vec::new(), sketch }
    }

    /// Adds a request. `name` renders the actor. Returns the actor's place in the sample, if the
    /// actor is in the sample.
    pub fn add(&mut self, checked: ActorCheck, name: impl Fn() -> Name) -> Option<u32> {
        let place = match self.places.get(&checked.hash) {
            Some(place) => *place,
            None if mix(checked.hash).trailing_zeros() < self.halved => {
                self.sketch.add(checked, self.unit_ns, name);
                return None;
            }
            None => {
                let place = u32::try_from(self.sample.len()).unwrap_or(u32::MAX);
                let weight = 1u64.checked_shl(self.halved).unwrap_or(u64::MAX);
                self.sample.push(Actor { hash: checked.hash, weight, name: name(), ..Actor::default() });
                self.places.insert(checked.hash, place);
                place
            }
        };
        let unit_ns = self.unit_ns;
        self.at(place)?.add(checked, unit_ns);
        Some(place)
    }

    fn at(&mut self, place: u32) -> Option<&mut Actor> {
        self.sample.get_mut(usize::try_from(place).ok()?)
    }

    /// A request of the actor at this place is in flight from now on, or no longer. Only for a rule
    /// that counts requests in flight.
    pub fn in_flight(&mut self, hash: u64, at: Time, begins: bool) {
        let place = self.places.get(&hash).copied();
        if let Some(actor) = place.and_then(|place| self.at(place)) {
            actor.in_unit = match begins {
                true => actor.in_unit.saturating_add(1),
                false => actor.in_unit.saturating_sub(1),
            };
            actor.raise(at);
        }
    }

    /// Whether the sample has more actors than there is room for.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.sample.len() > self.most
    }

    /// Halves the sample, except for the busiest quarter. Returns the new place of each actor, by
    /// the old one.
    pub fn halve(&mut self) -> Vec<Option<u32>> {
        let bit = 1u64.checked_shl(self.halved).unwrap_or(0);
        self.halved = self.halved.saturating_add(1);
        let mut busiest: Vec<u64> = self.sample.iter().map(|actor| actor.checked).collect();
        let quarter = self.sample.len() / 4;
        let (_, least, _) = match busiest.len() {
            0 => return Vec::new(),
            _ => busiest.select_nth_unstable_by_key(quarter, |checked| Reverse(*checked)),
        };
        let least = *least;
        self.places.clear();
        let mut moved = Vec::with_capacity(self.sample.len());
        for mut actor in std::mem::take(&mut self.sample) {
            let is_busy = actor.checked > least;
            if !is_busy && mix(actor.hash) & bit != 0 {
                self.sketch.take(actor);
                moved.push(None);
                continue;
            }
            actor.weight = actor.weight.saturating_mul(if is_busy { 1 } else { 2 });
            let place = u32::try_from(self.sample.len()).unwrap_or(u32::MAX);
            self.places.insert(actor.hash, place);
            self.sample.push(actor);
            moved.push(Some(place));
        }
        moved
    }

    /// Whether the sample lacks some of the actors.
    #[must_use]
    pub fn is_partial(&self) -> bool {
        self.halved > 0
    }

    /// How many actors each actor of the sample represents.
    #[must_use]
    pub fn weights(&self) -> Vec<u64> {
        self.sample.iter().map(|actor| actor.weight).collect()
    }

    /// The number of actors in the sample.
    #[must_use]
    pub fn len(&self) -> usize {
        self.sample.len()
    }

    /// The peaks of all actors in the sample with their weights, in ascending order.
    #[must_use]
    pub fn peaks(&self) -> Vec<(u64, u64)> {
        let mut peaks: Vec<(u64, u64)> = self.sample.iter().map(|actor| (actor.peak, actor.weight)).collect();
        // The sketch represents no further actors, but may have the highest peak.
        peaks.extend(self.sketch.actors.iter().map(|actor| (actor.peak, 0)));
        peaks.sort_unstable();
        peaks
    }

    /// The actors with the most refusals, then with the highest peaks.
    #[must_use]
    pub fn top(&self, most: usize) -> Vec<ActorSummary> {
        let mut all: Vec<&Actor> = self.sample.iter().chain(&self.sketch.actors).collect();
        all.sort_by_key(|actor| (Reverse((actor.refused, actor.peak, actor.checked)), &actor.name));
        all.into_iter().take(most).map(Actor::summary).collect()
    }
}

/// The actors outside the sample that are refused most: a space-saving sketch (Metwally et al.
/// 2005). A new actor replaces the one with the fewest refusals and takes over their number, so
/// that numbers of refusals are at most too high.
#[derive(Clone, Debug, Default)]
struct Sketch {
    places: HashMap<u64, usize, FixedState>,
    actors: Vec<Actor>,
}

const SKETCH: usize = 512;

impl Sketch {
    fn add(&mut self, checked: ActorCheck, unit_ns: u64, name: impl Fn() -> Name) {
        if let Some(actor) = self.places.get(&checked.hash).and_then(|place| self.actors.get_mut(*place)) {
            return actor.add(checked, unit_ns);
        }
        if checked.is_refused {
            let mut actor = Actor { hash: checked.hash, name: name(), ..Actor::default() };
            actor.add(checked, unit_ns);
            self.take(actor);
        }
    }

    fn take(&mut self, mut actor: Actor) {
        if actor.refused == 0 {
            return;
        }
        if self.actors.len() < SKETCH {
            self.places.insert(actor.hash, self.actors.len());
            self.actors.push(actor);
            return;
        }
        let least = self.actors.iter_mut().enumerate().min_by_key(|(_, known)| known.refused);
        if let Some((place, known)) = least {
            self.places.remove(&known.hash);
            actor.refused = actor.refused.saturating_add(known.refused);
            actor.checked = actor.checked.max(actor.refused);
            self.places.insert(actor.hash, place);
            *known = actor;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const UNIT_NS: u64 = 1_000_000;

    fn name(text: impl ToString) -> Name {
        Name { text: text.to_string().into(), is_address: false }
    }

    fn checked(hash: u64, at: u64, is_refused: bool) -> ActorCheck {
        ActorCheck { hash, at: Time::from_ns(at * 1_000), is_refused, is_delayed: false }
    }

    #[test]
    fn an_actor_has_a_peak_and_refusals() {
        let mut actors = Actors::new(UNIT_NS, 10);
        for (at, is_refused) in
            [(0, false), (900, true), (1_000, false), (1_500, true), (1_900, true), (5_000, false)]
        {
            assert_eq!(actors.add(checked(7, at, is_refused), || name("ann")), Some(0));
        }
        let [ann] = &actors.top(5)[..] else { panic!("one actor") };
        assert_eq!((&*ann.actor, ann.checked, ann.refused, ann.peak, ann.peak_s), ("ann", 6, 3, 3, 1e-3));
        assert_eq!((ann.first_refusal_s, ann.last_refusal_s), (Some(900e-6), Some(1_900e-6)));
        assert_eq!((actors.peaks(), actors.is_partial()), (vec![(3, 1)], false));
    }

    #[test]
    fn requests_in_flight_have_a_peak() {
        let mut actors = Actors::new(0, 10);
        for (at, begins) in [(1, true), (2, true), (3, false), (4, true), (5, true), (6, false)] {
            if begins {
                actors.add(checked(7, at, false), || name("ann"));
            }
            actors.in_flight(7, Time::from_ns(at), begins);
        }
        assert_eq!(actors.peaks(), [(3, 1)]);
    }

    #[test]
    fn the_sample_is_bounded_and_the_most_refused_stay_known() {
        let mut actors = Actors::new(UNIT_NS, 1_000);
        for round in 0..20_000u64 {
            let own = || name(round);
            actors.add(checked(mix(round), round, false), own);
            // Ten actors are refused again and again, others once.
            actors.add(checked(mix(round % 10), round, true), || name(round % 10));
            if round % 5 == 0 {
                actors.add(checked(mix(round), round, true), own);
            }
            if actors.is_full() {
                let before = actors.len();
                let moved = actors.halve();
                assert_eq!((moved.len(), moved.iter().flatten().count()), (before, actors.len()));
            }
        }
        assert!(actors.len() <= 1_000 && actors.is_partial());
        // The weights represent all 20,000 actors, give or take a few percent.
        let all: u64 = actors.weights().iter().sum();
        assert!((17_000..23_000).contains(&all), "{all}");
        let mut top: Vec<u64> = actors.top(10).iter().map(|actor| actor.actor.parse().unwrap()).collect();
        top.sort_unstable();
        assert_eq!(top, [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
    }
}
