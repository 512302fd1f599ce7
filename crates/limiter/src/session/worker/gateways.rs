//! The number of gateways, which the stores count. Each gateway reports to every store once a
//! second that it lives, and each reply says how many gateways have reported lately.
//!
//! ```text
//!   tick ─► round due? ── one worker begins it ─► a query to each store, with the next call
//!   reply ─► most of this round ─┐
//!            the round before ───┼─► the largest is the number of gateways
//!            the one before that ┘
//! ```
//!
//! The workers share the rounds in the shared data, where the number outlives an outage and a
//! configuration. A store that starts empty counts too few gateways for a second, until all have
//! reported. Three rounds keep such a count from becoming the number.

use crate::algorithm::Parameters;
use crate::cells::Events;
use crate::cells::store::{Changed, Store, Update};
use crate::cells::table::Hasher;
use crate::global::{GlobalQuery, RuleQuery, RuleReply, StoreClient, Waiter};
use crate::policy::{CountKey, Policy, Replicas, RuleId};
use diana_base::time::{Span, Time};
use std::sync::Arc;

/// How often a gateway reports.
const EVERY: Span = Span::from_secs(1);

/// How long a report counts.
const EXPIRE: Span = Span::from_secs(3);

/// How often a worker tries to change the shared rounds before it waits for the next one.
const TRIES: u32 = 8;

/// The numbers of gateways and of calls in Redis are below 9e15.
const BITS: u32 = 52;

/// The count of gateways in one worker.
#[derive(Debug)]
pub(super) struct Gateways {
    replicas: Arc<Replicas>,
    /// What this gateway is called in the stores. Its workers share the seed.
    gateway: u64,
    /// The key of the shared rounds.
    shared: Vec<u8>,
    /// The key in the stores.
    key: CountKey,
    /// How long after a tick the next one is due.
    wait: Span,
    has_changed: bool,
}

/// The latest rounds, which all workers share.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Rounds {
    /// The number of the latest round, and when it began.
    latest: u64,
    begun: Time,
    /// The number of the last round with a reply.
    replied: u64,
    /// The most gateways by the replies of the last three rounds, the newest first.
    counts: [u64; 3],
}

impl Rounds {
    /// Any bytes are rounds.
    fn read(bytes: &[u8]) -> Rounds {
        let mut numbers = [0; 6];
        for (number, bytes) in numbers.iter_mut().zip(bytes.as_chunks().0) {
            *number = u64::from_le_bytes(*bytes);
        }
        let [latest, begun, replied, newest, second, third] = numbers;
        let latest = latest & (u64::MAX >> (u64::BITS - BITS));
        Rounds { latest, begun: Time::from_ns(begun), replied, counts: [newest, second, third] }
    }

    /// How long the next round is away; zero: it is due. A round from the future was begun before
    /// the clock stepped back.
    fn wait(&self, now: Time) -> Span {
        let wait = self.begun.after(EVERY).since(now);
        if wait > EVERY { Span::ZERO } else { wait }
    }

    /// Adds a reply to the shared `bytes`, or, without one, begins the next round if it is due.
    fn change(&mut self, bytes: Option<&[u8]>, reply: Option<u64>, now: Time) -> Changed<'static> {
        *self = Rounds::read(bytes.unwrap_or_default());
        match reply {
            Some(count) => self.count(count),
            None if self.wait(now) > Span::ZERO => return None,
            None => (self.latest, self.begun) = (self.latest.saturating_add(1), now),
        }
        let [newest, second, third] = self.counts;
        let numbers = [self.latest, self.begun.as_ns(), self.replied, newest, second, third];
        Some(numbers.map(u64::to_le_bytes).concat().into())
    }

    /// Adds a reply of the latest round.
    fn count(&mut self, count: u64) {
        let [newest, second, third] = self.counts;
        self.counts = match self.replied == self.latest {
            true => [newest.max(count), second, third],
            false => [count, newest, second],
        };
        self.replied = self.latest;
    }

    fn number(&self) -> u64 {
        let [newest, second, third] = self.counts;
        newest.max(second).max(third)
    }
}

impl Gateways {
    /// `None` if the number of gateways is fixed.
    pub(super) fn new(policy: &Policy, hasher: &Hasher) -> Option<Box<Gateways>> {
        let replicas = policy.replicas()?;
        let stores = replicas.stores()?;
        let key = policy.shards.count_key([Hasher::name(b"gateways"), 0, 0, 0], b"");
        Some(Box::new(Gateways {
            replicas: Arc::clone(replicas),
            gateway: hasher.hash(b"gateway") >> (u64::BITS - BITS),
            // The key in the stores stands for the secret.
            shared: [&b"diana/gateways/"[..], &stores.to_le_bytes(), &key].concat(),
            key,
            wait: Span::ZERO,
            has_changed: false,
        }))
    }

    /// Takes the number that the gateway knows already.
    pub(super) fn load(&mut self, store: &dyn Store) {
        if let Ok(Some(found)) = store.load(&self.shared) {
            self.has_changed |= self.replicas.set(Rounds::read(&found.bytes).number());
        }
    }

    /// Reports to the stores if a round is due and no other worker is faster.
    pub(super) fn tick(
        &mut self,
        client: &mut StoreClient,
        store: &dyn Store,
        now: Time,
        events: &mut Events,
    ) {
        let shards = 0..client.options().clusters.len();
        if !shards.clone().any(|shard| client.is_available(shard)) {
            // Another worker, whose breakers are closed, begins the round.
            self.load(store);
            self.wait = EVERY;
            return;
        }
        let Some((round, is_begun)) = self.update(None, store, now, events) else {
            return;
        };
        for shard in shards.filter(|_| is_begun) {
            _ = client.ask(shard, Waiter::Gateways, self.query(round));
        }
    }

    /// A store has replied.
    pub(super) fn replied(&mut self, reply: &RuleReply, store: &dyn Store, now: Time, events: &mut Events) {
        // A store that does not even count this gateway is wrong.
        if let count @ 1.. = Replicas::MAX.saturating_sub(reply.verdict.remaining) {
            self.update(Some(count), store, now, events);
        }
    }

    /// Changes the shared rounds, and follows them. Returns the latest round, and whether this
    /// changed them. `None` if the store fails: the number that the worker knows stays.
    #[inline(never)]
    fn update(
        &mut self,
        reply: Option<u64>,
        store: &dyn Store,
        now: Time,
        events: &mut Events,
    ) -> Option<(u64, bool)> {
        let mut rounds = Rounds::default();
        let updated = store.update(&self.shared, TRIES, &mut |bytes| rounds.change(bytes, reply, now));
        let Ok(updated) = updated else {
            events.faults = events.faults.saturating_add(1);
            self.wait = EVERY;
            return None;
        };
        self.wait = rounds.wait(now);
        self.has_changed |= self.replicas.set(rounds.number());
        Some((rounds.latest, updated == Update::Stored))
    }

    fn query(&self, round: u64) -> GlobalQuery {
        GlobalQuery::Decide(vec![vec![RuleQuery {
            rule: RuleId::new(0),
            key: self.key,
            parameters: Parameters::gateway(Replicas::MAX, self.gateway, round, EXPIRE),
            enforced: false,
            cost: 0,
            peeks: false,
            least_rest: 0,
            lease: 0,
            penalty: None,
            headroom: 0,
            takes_grants: false,
        }]])
    }

    /// How soon after a tick the next one is due.
    pub(super) fn wants(&self) -> Span {
        self.wait
    }

    /// Whether the number may have changed since the last call.
    pub(super) fn take_changed(&mut self) -> bool {
        std::mem::take(&mut self.has_changed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::algorithm::{Admission, Charge, Verdict};
    use crate::cells::store::Memory;
    use crate::global::LeaseGrant;

    fn at(ms: u64) -> Time {
        Time::from_ns(1_800_000_000_000_000_000).after(Span::from_ms(ms))
    }

    fn numbers(counts: &[(u64, u64)]) -> Vec<u64> {
        let mut rounds = Rounds::default();
        let number = |(round, count): &(u64, u64)| {
            rounds.latest = *round;
            rounds.count(*count);
            rounds.number()
        };
        counts.iter().map(number).collect()
    }

    #[test]
    fn the_number_rises_at_once_and_falls_after_three_rounds() {
        assert_eq!(numbers(&[(1, 1), (2, 3), (3, 3), (4, 2), (5, 2), (6, 2)]), [1, 3, 3, 3, 3, 2]);
    }

    #[test]
    fn an_empty_store_does_not_become_the_number() {
        // Two outages, each with a store that starts empty.
        assert_eq!(numbers(&[(1, 9), (2, 9), (20, 1), (21, 4), (22, 9), (40, 2)]), [9; 6]);
    }

    #[test]
    fn the_store_that_counts_most_gateways_decides_a_round() {
        assert_eq!(numbers(&[(1, 2), (1, 5), (1, 3)]), [2, 5, 5]);
        assert_eq!(numbers(&[(1, 5), (2, 2), (2, 3), (3, 2), (4, 2), (5, 2)]), [5, 5, 5, 5, 3, 2]);
    }

    #[test]
    fn any_bytes_are_rounds() {
        for bytes in [&[][..], &[255; 7], &[255; 48], &[1; 99]] {
            let mut rounds = Rounds::read(bytes);
            assert!(rounds.latest < 1 << BITS && rounds.wait(at(0)) <= EVERY);
            let written = rounds.change(Some(bytes), Some(4), at(0)).unwrap();
            assert_eq!(Rounds::read(&written), rounds);
            for round in 1..=3 {
                rounds.latest = round;
                rounds.count(4);
            }
            assert_eq!(rounds.number(), 4);
        }
    }

    /// A reply that `remaining` units are left.
    fn reply(remaining: u64) -> RuleReply {
        let (admission, span) = (Admission::Admit { delay: Span::ZERO }, Span::ZERO);
        let charge = Charge::default();
        let verdict = Verdict { admission, remaining, more_in: span, full_in: span, charge };
        RuleReply { verdict, charge: [0; 5], grant: LeaseGrant::default() }
    }

    #[test]
    fn whatever_a_store_replies_is_a_number_of_gateways() {
        let store = Memory::new();
        let replicas = Arc::new(Replicas::counted(1));
        let mut gateways = Gateways {
            replicas: Arc::clone(&replicas),
            gateway: 1,
            shared: b"shared".to_vec(),
            key: [0; 16],
            wait: Span::ZERO,
            has_changed: false,
        };
        let round = std::cell::Cell::new(0);
        let mut after = |remaining| {
            round.set(round.get() + 1);
            let begin =
                &mut |bytes: Option<&[u8]>| Rounds::default().change(bytes, None, at(round.get() * 1_000));
            assert_eq!(store.update(b"shared", 1, begin), Ok(Update::Stored));
            gateways.replied(&reply(remaining), &store, at(0), &mut Events::default());
            (replicas.number(), gateways.take_changed())
        };
        assert_eq!(after(Replicas::MAX), (1, false), "not even this gateway");
        assert_eq!(after(u64::MAX), (1, false));
        assert_eq!(after(Replicas::MAX - 3), (3, true));
        for _ in 0..4 {
            assert_eq!(after(Replicas::MAX + 1), (3, false), "such a reply is none");
        }
        assert_eq!(after(0), (Replicas::MAX, true));
        // Another worker finds the number, also after all stores are gone.
        let other = Arc::new(Replicas::counted(1));
        gateways.replicas = Arc::clone(&other);
        gateways.load(&store);
        assert_eq!(other.number(), Replicas::MAX);
    }

    #[test]
    fn a_round_is_due_after_a_second_and_after_the_clock_stepped_back() {
        let rounds = Rounds { begun: at(0), ..Rounds::default() };
        assert_eq!(
            [0, 400, 1_000, 5_000].map(|ms| rounds.wait(at(ms))),
            [1_000, 600, 0, 0].map(Span::from_ms)
        );
        assert_eq!(Rounds { begun: at(1), ..rounds }.wait(at(0)), Span::ZERO);
        assert_eq!(Rounds::default().wait(at(0)), Span::ZERO);
    }
}
