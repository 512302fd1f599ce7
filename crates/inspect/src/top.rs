//! Which actors a rule refuses or charges most, over all workers of a gateway: a bounded summary
//! for each rule by Space-Saving.
//!
//! ```text
//!   decision ─► Summary of this worker ── once a second ─► merged into the shared summary
//!                                                          of this half window
//!   GET top  ◄── both half windows, merged
//! ```
//!
//! Space-Saving: Metwally, Agrawal, El Abbadi, "Efficient Computation of Frequent and Top-k
//! Elements in Data Streams", ICDT 2005. A summary has `K` = `ACTORS` counters. An actor without a
//! counter takes over the one with the least count, which becomes the error of the new count, so
//! that a count is never below the true one, and a count minus its error is never above it. An
//! actor without a counter has at most the least count, the floor.
//!
//! Merging: Cafaro, Pulimeno, Tempesta, "A parallel space saving algorithm for frequent items and
//! the Hurwitz zeta distribution", Information Sciences 329, 2016. If only one of two summaries has
//! an actor, the other one's floor is added to its count and error. In whichever order summaries of
//! `N` units in all are merged, the floor is at most `N` / `K`: Agarwal, Cormode, Huang, Phillips,
//! Wei, Yi, "Mergeable Summaries", ACM TODS 38, 2013, Theorem 1 with `k` = `K` − 1 counters.
//!
//! Clients choose the values of actors, and how many there are. A summary keeps at most 64 bytes of
//! each value, and of a [secret](NamedActor::is_secret) only a keyed hash.

use diana_base::format::{decimal, hex};
use diana_base::part;
use diana_base::sort;
use diana_base::time::{Span, Time};
use diana_limiter::actor::NamedActor;
use diana_limiter::cells::store::{Changed, Fault, Store, Update};
use diana_limiter::cells::table::Hasher;
use diana_limiter::decide::{CountedActor, Decision, Outcome, RuleResult};
use diana_limiter::policy::{ActorSource, Policy, RuleId};
use diana_limiter::session::Worker;
use std::cmp::Reverse;
use std::mem::take;

/// How many actors a summary has.
const ACTORS: usize = 64;

/// The most rules with summaries, in a worker and in the shared data.
const MAX_RULES: usize = 64;

/// Summaries are replaced after this span, so an answer covers one to two of it.
const HALF_WINDOW: Span = Span::from_secs(300);

/// The most bytes of one actor's value. Clients choose its length.
const MAX_VALUE: usize = 64;

/// The length of a value that is cut.
const CUT: u8 = u8::MAX;

/// How often a worker tries to merge its summary, if other workers do so at the same time. If it
/// does not succeed, it tries again a second later.
const ROUNDS: u32 = 16;

const DIRECTORY: &[u8] = b"diana/top";

/// Identifies the format of the values: a rule has other keys in each format.
const FORMAT: u8 = 1;

/// What actors are ranked by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// How many requests the rule has refused, or would have refused in shadow.
    Refused,
    /// How many units of its quota the rule has charged on arrival.
    Used,
}

impl By {
    /// The word in a question.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            By::Refused => "refused",
            By::Used => "used",
        }
    }
}

/// The actors of a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopActors {
    /// When the first of them was counted; the time of the question if there is none.
    pub since: Time,
    /// The actors, those with the highest counts first.
    pub actors: Vec<TopActor>,
    /// No other actor has a higher count.
    pub error_bound: u64,
}

/// An actor of a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopActor {
    /// The name and the value of each actor of the rule, in the rule's order; `ip` and the address
    /// of a client that lacks them. Empty if such requests share a count.
    pub values: Vec<(String, String)>,
    /// The customer's name, if a value is hidden and the request had a name.
    pub name: Option<String>,
    /// At least the true count.
    pub count: u64,
    /// At most this much of `count` is not the actor's.
    pub error: u64,
}

/// One counter of a summary.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Entry {
    /// A keyed hash of the actor.
    hash: u64,
    count: u64,
    error: u64,
    /// The actor: see [`write_actor`].
    actor: Vec<u8>,
}

/// Counts the most frequent actors.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Summary(Vec<Entry>);

impl Summary {
    /// The highest count of an actor without a counter.
    fn floor(&self) -> u64 {
        let least = || self.0.iter().map(|entry| entry.count).min();
        if self.0.len() < ACTORS { 0 } else { least().unwrap_or(0) }
    }

    fn find(&mut self, hash: u64) -> Option<&mut Entry> {
        self.0.iter_mut().find(|entry| entry.hash == hash)
    }

    /// Adds to an actor's count. `write` writes the actor if it is new.
    fn add(&mut self, hash: u64, by: u64, write: impl FnOnce(&mut Vec<u8>)) {
        if let Some(entry) = self.find(hash) {
            entry.count = entry.count.saturating_add(by);
            return;
        }
        let error = self.floor();
        if self.0.len() < ACTORS {
            self.0.push(Entry { hash, count: 0, error: 0, actor: Vec::new() });
        }
        // The new counter, whose count is 0, or the least one.
        if let Some(entry) = self.0.iter_mut().min_by_key(|entry| entry.count) {
            (entry.hash, entry.count, entry.error) = (hash, error.saturating_add(by), error);
            entry.actor.clear();
            write(&mut entry.actor);
        }
    }

    /// Adds the counts of another summary.
    #[cold]
    fn merge(&mut self, other: &Summary) {
        let (own_floor, other_floor) = (self.floor(), other.floor());
        let mut new = Vec::new();
        for entry in &mut self.0 {
            let same = other.0.iter().find(|other| other.hash == entry.hash);
            let (count, error) = same.map_or((other_floor, other_floor), |same| (same.count, same.error));
            entry.count = entry.count.saturating_add(count);
            entry.error = entry.error.saturating_add(error);
        }
        for entry in &other.0 {
            if self.find(entry.hash).is_none() {
                let (count, error) =
                    (entry.count.saturating_add(own_floor), entry.error.saturating_add(own_floor));
                new.push(Entry { count, error, ..entry.clone() });
            }
        }
        self.0.append(&mut new);
        sort::sort_by_key(&mut self.0, |entry| (Reverse(entry.count), entry.hash));
        self.0.truncate(ACTORS);
    }

    /// The value in the store, of the rule with this id, counted in this half window since `since`.
    fn encode(&self, id: u64, epoch: u64, since: Time) -> Vec<u8> {
        let mut to = [id, epoch, since.as_ns()].map(u64::to_le_bytes).concat();
        for Entry { hash, count, error, actor } in &self.0 {
            [hash, count, error].into_iter().for_each(|number| to.extend(number.to_le_bytes()));
            to.extend(u16::try_from(actor.len()).unwrap_or(u16::MAX).to_le_bytes());
            to.extend(actor);
        }
        to
    }

    /// `None` for the value of another rule, of another half window, or of another format.
    fn decode(bytes: &[u8], id: u64, epoch: u64) -> Option<(Time, Summary)> {
        let (header, rest) = bytes.split_at_checked(16)?;
        if header != [id, epoch].map(u64::to_le_bytes).concat() {
            return None;
        }
        let (since, mut rest) = number(rest)?;
        let mut entries = Vec::new();
        while !rest.is_empty() && entries.len() < ACTORS {
            let ((hash, after), two) = (number(rest)?, |bytes: &[u8]| bytes.first_chunk().copied());
            let ((count, after), is_new) = (number(after)?, |entry: &Entry| entry.hash != hash);
            let (error, after) = number(after)?;
            let length = usize::from(u16::from_le_bytes(two(after)?));
            let (actor, after) = part(after, 2..).split_at_checked(length)?;
            if !entries.iter().all(is_new) {
                return None;
            }
            entries.push(Entry { hash, count, error, actor: actor.to_vec() });
            rest = after;
        }
        rest.is_empty().then_some((Time::from_ns(since), Summary(entries)))
    }
}

fn number(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let (first, rest) = bytes.split_first_chunk()?;
    Some((u64::from_le_bytes(*first), rest))
}

/// The summaries of one worker that are not merged yet, by rule. After each decision call
/// [`WorkerTop::note`], and about once a second [`WorkerTop::publish`].
///
/// ```
/// # use diana_limiter::cells::store::{Fault, Memory};
/// # use diana_limiter::request::{Part, Values};
/// # use diana_limiter::session::{Session, Worker};
/// # use diana_limiter::time::Time;
/// use diana_inspect::top::{By, WorkerTop, top};
///
/// # let document = br#"{"url": "/", "rules": [
/// #     {"name": "a", "actor": "user", "rpu": 3, "unit": "hour"}
/// # ]}"#;
/// # let policy = diana_config::compile(document).expect("a valid document").policy;
/// # let store = Memory::new();
/// # let now = Time::from_ns(1_795_392_000_000_000_000);
/// # let mut worker = Worker::new(policy.clone(), &store, &[7; 16]);
/// # let values = Values::default()
/// #     .with(Part::Path, "/")
/// #     .with(Part::Header("x-user-id".into()), "ann");
/// # let request = policy.request(&values);
/// let mut counts = WorkerTop::default();
/// for _ in 0..5 {
///     let (_, _) = Session::start(&mut worker, &request, || now);
///     counts.note(&worker, &|| None);
/// }
/// counts.publish(&policy, &store, now)?;
/// let (rule, _) = policy.rules().next().expect("a rule");
/// let refused = top(&policy, &store, rule, By::Refused, now)?;
/// assert_eq!((refused.actors[0].count, &*refused.actors[0].values[0].1), (2, "ann"));
/// # Ok::<(), Fault>(())
/// ```
#[derive(Debug, Default)]
pub struct WorkerTop(Vec<[Summary; 2]>);

impl WorkerTop {
    /// Counts the actors of the worker's last decision. `name` reads the name of the customer from
    /// the request, to show it next to a hidden value.
    #[inline(never)]
    pub fn note<S: Store>(&mut self, worker: &Worker<S>, name: &dyn Fn() -> Option<String>) {
        let decision = worker.decision();
        if matches!(decision.outcome, Outcome::Query(_)) {
            return;
        }
        for check in decision.checks.iter().filter(|check| check.actor() != ActorSource::Missing) {
            let Some(by) = ranked(decision, check.result()) else {
                continue;
            };
            let Some(counted) = worker.counted_actor(check.rule()) else {
                debug_assert!(false, "a rule reports on its actor");
                continue;
            };
            let units = match by {
                By::Refused => 1,
                By::Used => counted.cost,
            };
            let rule = check.rule().index();
            if units == 0 || rule >= MAX_RULES {
                continue;
            }
            if self.0.len() <= rule {
                self.0.resize_with(rule.saturating_add(1), Default::default);
            }
            if let Some(summary) = self.0.get_mut(rule).and_then(|both| both.get_mut(by as usize)) {
                let hash = |value: &[u8]| worker.keyed_hash(value);
                summary.add(counted.hash, units, |to| {
                    if write_actor(&counted, &hash, to)
                        && let Some(name) = name()
                    {
                        write_value(name.as_bytes(), to);
                    }
                });
            }
        }
    }

    /// Merges what this worker has counted into the shared summaries. What cannot be merged now is
    /// kept for the next time.
    #[cold]
    pub fn publish(&mut self, policy: &Policy, store: &dyn Store, now: Time) -> Result<(), Fault> {
        let epoch = epoch(now);
        for (rule, both) in policy.rules().map(|(rule, _)| rule).zip(&mut self.0) {
            if both.iter().all(|summary| summary.0.is_empty()) {
                continue;
            }
            let id = id_of(policy, rule);
            let place = match place_of(store, id, epoch)? {
                Some(Some(place)) => place,
                // Other workers were faster: the next tick publishes both summaries.
                None => continue,
                Some(None) => {
                    // There are too many rules: nobody can ask for this one.
                    *both = Default::default();
                    continue;
                }
            };
            for (by, summary) in [By::Refused, By::Used].into_iter().zip(both) {
                let mut merge = |value: Option<&[u8]>| -> Changed<'static> {
                    let shared = value.and_then(|value| Summary::decode(value, id, epoch));
                    let (since, mut shared) = shared.unwrap_or_else(|| (now, Summary::default()));
                    shared.merge(summary);
                    Some(shared.encode(id, epoch, since).into())
                };
                if !summary.0.is_empty()
                    && store.update(&key(place, by, epoch), ROUNDS, &mut merge)? == Update::Stored
                {
                    take(summary);
                }
            }
        }
        Ok(())
    }
}

/// What a report counts for.
fn ranked(decision: &Decision, result: RuleResult) -> Option<By> {
    match result {
        RuleResult::Refused | RuleResult::Shadowed => Some(By::Refused),
        RuleResult::Admitted if !decision.is_rejected() => Some(By::Used),
        RuleResult::Admitted | RuleResult::Uncounted => None,
    }
}

/// The actors of a rule, by what all workers have published. None if there are more than
/// `MAX_RULES` rules and this one is left out.
#[cold]
#[inline(never)]
pub fn top(policy: &Policy, store: &dyn Store, rule: RuleId, by: By, now: Time) -> Result<TopActors, Fault> {
    let (id, epoch) = (id_of(policy, rule), epoch(now));
    let (mut since, mut all) = (now, Summary::default());
    let directory = store.load(DIRECTORY)?;
    let place = directory.and_then(|found| directory_of(&found.bytes).iter().position(|one| one.id == id));
    for epoch in [epoch.saturating_sub(1), epoch] {
        if let Some(place) = place
            && let Some(found) = store.load(&key(place, by, epoch))?
            && let Some((began, summary)) = Summary::decode(&found.bytes, id, epoch)
        {
            since = since.min(began);
            all.merge(&summary);
        }
    }
    let actors = policy.actors_of(rule);
    let read = |entry: &Entry| {
        let (values, name) = read_actor(actors, policy.address(), &entry.actor);
        TopActor { values, name, count: entry.count, error: entry.error }
    };
    Ok(TopActors { since, actors: all.0.iter().map(read).collect(), error_bound: all.floor() })
}

/// The number of a half window.
fn epoch(now: Time) -> u64 {
    now.as_ns().checked_div(HALF_WINDOW.as_ns()).unwrap_or(0)
}

/// A rule is the same in two configurations if it has the same name and counts the same actors.
fn id_of(policy: &Policy, rule: RuleId) -> u64 {
    let forms: Vec<&str> = policy.actors_of(rule).iter().map(NamedActor::canonical_form).collect();
    Hasher::of(&(FORMAT, policy.rule_name(rule), forms))
}

/// A rule in the directory of shared summaries. Its position is the place of its keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Listed {
    id: u64,
    /// The last half window in which it was counted.
    epoch: u64,
}

fn directory_of(bytes: &[u8]) -> Vec<Listed> {
    let (numbers, _) = bytes.as_chunks::<8>();
    let (pairs, _) = numbers.as_chunks::<2>();
    let listed = |[id, epoch]: &[[u8; 8]; 2]| Listed {
        id: u64::from_le_bytes(*id),
        epoch: u64::from_le_bytes(*epoch),
    };
    pairs.iter().take(MAX_RULES).map(listed).collect()
}

/// The place of a rule's keys. A new rule gets a free place, or that of a rule that was not counted
/// in both half windows. `None` if there is none.
#[cold]
fn place_of(store: &dyn Store, id: u64, epoch: u64) -> Result<Option<Option<usize>>, Fault> {
    let mut place = None;
    let mut enter = |value: Option<&[u8]>| -> Changed<'static> {
        let mut all = value.map(directory_of).unwrap_or_default();
        let known = all.iter().position(|one| one.id == id);
        let faded = || all.iter().position(|one| one.epoch.saturating_add(1) < epoch);
        place = known.or_else(faded).or_else(|| (all.len() < MAX_RULES).then_some(all.len()));
        let (place, own) = (place?, Listed { id, epoch });
        match all.get_mut(place) {
            Some(known) if *known == own => return None,
            Some(other) => *other = own,
            None => all.push(own),
        }
        let bytes = all.iter().flat_map(|one| [one.id.to_le_bytes(), one.epoch.to_le_bytes()]);
        Some(bytes.flatten().collect::<Vec<u8>>().into())
    };
    let update = store.update(DIRECTORY, ROUNDS, &mut enter)?;
    Ok((update != Update::Conflict).then_some(place))
}

fn key(place: usize, by: By, epoch: u64) -> Vec<u8> {
    let half = if epoch.is_multiple_of(2) { "0" } else { "1" };
    let place = decimal(u64::try_from(place).unwrap_or(0));
    [DIRECTORY, b"/", place.as_bytes(), b"/", by.name().as_bytes(), b"/", half.as_bytes()].concat()
}

/// Writes an actor: how it was found, and then each value behind its length, cut to [`MAX_VALUE`]
/// bytes. A hash takes the place of a secret. Returns whether there is a secret.
fn write_actor(counted: &CountedActor, hash: &dyn Fn(&[u8]) -> u64, to: &mut Vec<u8>) -> bool {
    to.push(counted.source() as u8);
    let mut has_secret = false;
    for (named, value) in counted.named_values() {
        match named.is_secret() && counted.source() == ActorSource::Actor {
            false => write_value(value, to),
            true => {
                has_secret = true;
                let mut text = String::from("#");
                hash(value).to_be_bytes().into_iter().for_each(|byte| hex(&mut text, byte));
                write_value(text.as_bytes(), to);
            }
        }
    }
    has_secret
}

fn write_value(value: &[u8], to: &mut Vec<u8>) {
    let length = if value.len() > MAX_VALUE { CUT } else { u8::try_from(value.len()).unwrap_or(CUT) };
    to.push(length);
    to.extend_from_slice(part(value, ..value.len().min(MAX_VALUE)));
}

/// The names and the texts of an actor as in [`TopActor::values`], if a value is hidden.
#[cold]
pub fn hidden<S: Store>(counted: &CountedActor, worker: &Worker<S>) -> Option<Vec<(String, String)>> {
    let mut bytes = Vec::new();
    let is_hidden = write_actor(counted, &|value| worker.keyed_hash(value), &mut bytes);
    let actors: Vec<NamedActor> = counted.named_values().map(|(named, _)| named.clone()).collect();
    is_hidden.then(|| read_actor(&actors, worker.policy().address(), &bytes).0)
}

/// Reads what [`write_value`] has written, and returns what follows it.
fn read_value<'b>(bytes: &'b [u8], text: &dyn Fn(&[u8]) -> String) -> Option<(String, &'b [u8])> {
    let (length, after) = bytes.split_first()?;
    let is_cut = *length == CUT;
    let size = if is_cut { MAX_VALUE } else { usize::from(*length) };
    let (value, after) = after.split_at_checked(size)?;
    // Drops a character that the cut has split.
    let whole = str::from_utf8(value).map_err(|why| (why.error_len(), why.valid_up_to()));
    let value = match whole {
        Err((None, end)) if is_cut => part(value, ..end),
        _ => value,
    };
    let mut text = text(value);
    text.extend(is_cut.then_some('…'));
    Some((text, after))
}

/// The names and the texts that [`write_actor`] has written, and the customer's name behind them.
#[cold]
#[inline(never)]
fn read_actor(
    actors: &[NamedActor],
    address: &NamedActor,
    bytes: &[u8],
) -> (Vec<(String, String)>, Option<String>) {
    let Some((source, mut rest)) = bytes.split_first() else {
        return Default::default();
    };
    let plain = |value: &[u8]| String::from_utf8_lossy(value).into_owned();
    let by_address = [address.clone()];
    let actors = match *source {
        source if source == ActorSource::Actor as u8 => actors,
        source if source == ActorSource::Address as u8 => &by_address,
        _ => &[],
    };
    let mut all = Vec::new();
    for named in actors {
        let text = |value: &[u8]| if named.is_secret() { plain(value) } else { named.text(value) };
        let Some((text, after)) = read_value(rest, &text) else { break };
        all.push((named.place(), (named.name().to_owned(), text)));
        rest = after;
    }
    sort::sort_by_key(&mut all, |(place, _)| *place);
    let name = read_value(rest, &plain).map(|(name, _)| name);
    (all.into_iter().map(|(_, one)| one).collect(), name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    /// A stream of units by actor, and the parts that workers count apart.
    #[derive(Clone, Debug)]
    struct Stream(Vec<(usize, u64, u64)>);

    /// Few actors that come often among many that come once, in up to five summaries.
    fn stream() -> impl Strategy<Value = Stream> {
        let actor = prop_oneof![0u64..8, 0u64..150, 0u64..1_000];
        prop::collection::vec((0usize..5, actor, prop_oneof![Just(1u64), 1u64..200]), 0..1_500)
            .prop_map(Stream)
    }

    fn check(found: &Summary, truth: &BTreeMap<u64, u64>, total: u64) -> Result<(), TestCaseError> {
        let floor = found.floor();
        prop_assert!(floor <= total / ACTORS as u64, "the floor {} of {} units", floor, total);
        prop_assert!(found.0.len() <= ACTORS && (truth.len() > ACTORS || found.0.len() == truth.len()));
        for entry in &found.0 {
            let truth = truth.get(&entry.hash).copied().unwrap_or(0);
            prop_assert!(
                entry.count >= truth && entry.count - entry.error <= truth,
                "{:?}, {}",
                entry,
                truth
            );
            prop_assert!(entry.error <= floor, "{:?}", entry);
            prop_assert_eq!(&*entry.actor, &entry.hash.to_le_bytes());
        }
        for (actor, count) in truth {
            prop_assert!(*count <= floor || found.0.iter().any(|entry| entry.hash == *actor));
        }
        Ok(())
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(400))]

        /// Whichever worker counts, and in whatever order summaries merge: no count is below the
        /// truth, or above it by more than its error, or its error above a 64th of all.
        #[test]
        fn a_count_is_within_its_error(Stream(units) in stream(), every in 1usize..400) {
            let mut workers = vec![Summary::default(); 5];
            let (mut shared, mut truth, mut total) = (Summary::default(), BTreeMap::new(), 0);
            for (place, (worker, actor, by)) in units.into_iter().enumerate() {
                workers[worker].add(actor, by, |to| to.extend(actor.to_le_bytes()));
                *truth.entry(actor).or_default() += by;
                total += by;
                if place % every == 0 {
                    shared.merge(&take(&mut workers[worker]));
                }
            }
            workers.iter().for_each(|worker| shared.merge(worker));
            check(&shared, &truth, total)?;
            prop_assert!(shared.0.is_sorted_by_key(|entry| Reverse(entry.count)));
        }

        #[test]
        fn one_summary_is_within_its_error(Stream(units) in stream()) {
            let (mut summary, mut truth, mut total) = (Summary::default(), BTreeMap::new(), 0);
            for (_, actor, by) in units {
                summary.add(actor, by, |to| to.extend(actor.to_le_bytes()));
                *truth.entry(actor).or_default() += by;
                total += by;
            }
            check(&summary, &truth, total)?;
            let since = Time::from_ns(5);
            prop_assert_eq!(Summary::decode(&summary.encode(7, 9, since), 7, 9), Some((since, summary.clone())));
            prop_assert_eq!(Summary::decode(&summary.encode(7, 9, since), 7, 8), None);
            prop_assert_eq!(Summary::decode(&summary.encode(6, 9, since), 7, 9), None);
        }

        #[test]
        fn any_value_is_read(bytes: Vec<u8>) {
            let value = [&[0; 16][..], &bytes].concat();
            _ = Summary::decode(&bytes, 0, 0);
            if let Some((since, summary)) = Summary::decode(&value, 0, 0) {
                prop_assert_eq!(summary.encode(0, 0, since), value);
            }
            prop_assert!(directory_of(&bytes).len() <= MAX_RULES);
        }
    }

    #[test]
    fn values_are_cut_at_64_bytes() {
        for (length, written, cut) in [(63, 64, 63), (64, 65, 64), (65, 65, CUT), (1_000_000, 65, CUT)] {
            let mut to = Vec::new();
            write_value(&vec![b'x'; length], &mut to);
            assert_eq!((to.len(), to[0]), (written, cut), "{length}");
        }
    }

    #[test]
    fn a_rule_takes_the_place_of_one_that_has_faded() {
        use diana_limiter::cells::store::Memory;
        let store = Memory::new();
        for id in 0..70 {
            let place = place_of(&store, id, 10).unwrap();
            assert_eq!(place.unwrap(), usize::try_from(id).ok().filter(|place| *place < MAX_RULES));
        }
        assert_eq!(place_of(&store, 3, 11), Ok(Some(Some(3))));
        assert_eq!(place_of(&store, 65, 11), Ok(Some(None)), "the last half window counts");
        assert_eq!(
            (place_of(&store, 65, 12), place_of(&store, 3, 12)),
            (Ok(Some(Some(0))), Ok(Some(Some(3))))
        );
        assert_eq!(place_of(&store, 0, 12), Ok(Some(Some(1))));
    }
}
