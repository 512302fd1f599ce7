//! The lease of one actor: claim a fetch, ask for the missing part, deposit it, account for it.

use super::query::{GlobalQuery, LeaseGrant, LeaseUsage, RuleQuery, RuleReply};
use crate::algorithm::lease;
use crate::cells::table::Hasher;
use crate::cells::{Context, Events, peek, update, update_or_create};
use crate::policy::{GroupIndex, KeyBuffer, Place, Policy, Quota, RuleGroup, RuleId};
use diana_base::prng::mix;
use diana_base::time::Time;
use diana_base::widened;
use std::cell::Cell;

/// A lease to refill or to account for. Refills are found by number, so only tests compare them.
#[derive(Clone, Debug)]
#[cfg_attr(test, derive(PartialEq, Eq))]
pub(crate) struct LeaseRefill {
    pub(crate) place: GroupIndex,
    pub(crate) hash: u64,
    pub(crate) key: KeyBuffer,
    /// The quotas of the request, one for each rule that applied: each quota has a lease of its
    /// own.
    pub(crate) quotas: Vec<(RuleId, Quota)>,
}

/// The result of depositing leased quota.
#[derive(Debug, Default)]
pub(crate) struct Deposited {
    /// When the quota expires, if the global store needs an account of it afterwards.
    pub(crate) until: Option<Time>,
    /// The quota to return at once, and the global store's shard.
    pub(crate) returned: Option<(usize, GlobalQuery)>,
}

impl LeaseRefill {
    /// The lease of the actor with this key, in the first global group of the first limit.
    #[cfg(test)]
    pub(crate) fn testing(key: &[u8], policy: &Policy) -> LeaseRefill {
        LeaseRefill {
            place: (0, 0),
            hash: Hasher::name(key),
            key: KeyBuffer::of_value(key),
            quotas: policy.rules().map(|(id, rule)| (id, rule.quota())).collect(),
        }
    }

    /// A number that identifies an actor of any group, and its quotas. The actor's hash is keyed,
    /// so that clients cannot choose colliding actors.
    pub(crate) fn number(&self) -> u64 {
        let (limit, group) = self.place;
        let hash = mix(self.hash.wrapping_add(Hasher::of(&self.quotas)));
        hash.rotate_left(32) ^ widened(limit.rotate_left(16) ^ group)
    }

    /// The query about each rule, without a request. With `fetches`, it asks for a lease.
    fn queries(&self, policy: &Policy, fetches: bool) -> Vec<RuleQuery> {
        let Some(global_group) = policy.global_group(self.place) else {
            return Vec::new();
        };
        // No quota of a calendar is leased, so the instant does not matter.
        let quotas = &mut self.quotas.iter().copied();
        global_group.idle_queries(policy, self.key.key(), quotas, (Time::ZERO, fetches))
    }

    /// The group that spends the lease, and the hash of the cell that holds it.
    fn cell<'a>(&self, policy: &'a Policy, hasher: &Hasher) -> Option<(&'a RuleGroup, u64)> {
        let leased = policy.global_group(self.place)?.leased?;
        let group = policy.group((self.place.0, leased))?;
        let actor = hasher.hash(self.key.key().bytes());
        let quotas = self.quotas.iter().map(|(rule, quota)| (*rule, quota));
        Some((group, group.cell(&policy.rules, actor, quotas)))
    }

    /// Where the lease of each rule lies in the cell.
    fn places(&self, group: &RuleGroup) -> impl Iterator<Item = Place> {
        self.quotas.iter().map(|(rule, _)| group.place(*rule))
    }

    /// Claims the fetch. Returns whether no other worker of the gateway is fetching. If each worker
    /// fetched a piece at once, requests could be refused for want of quota that returns a moment
    /// later.
    pub(crate) fn claim(&self, context: &Context, events: &mut Events) -> bool {
        let Some((group, hash)) = self.cell(context.policy, context.hasher) else {
            return false;
        };
        let places = || self.places(group);
        let is_claimed = |cell: &[u8], now| places().any(|place| lease::is_claimed(place.count(cell), now));
        let stored = peek(group, hash, context).ok().flatten();
        if stored.is_some_and(|entry| is_claimed(&entry.cell(), (context.clock)())) {
            return false;
        }
        let claims = Cell::new(false);
        let is_done = update_or_create(group, hash, context, events, &|cell, now| {
            claims.set(!is_claimed(cell, now));
            if claims.get() {
                places().for_each(|place| lease::claim(place.count_mut(cell), now));
            }
        });
        is_done && claims.get()
    }

    /// Gives up the claim.
    pub(crate) fn release(&self, context: &Context, events: &mut Events) {
        let Some((group, hash)) = self.cell(context.policy, context.hasher) else {
            return;
        };
        update(group, hash, context, events, &|cell, _| {
            self.places(group).for_each(|place| lease::release(place.count_mut(cell)));
        });
    }

    /// Deposits fetched quota in the shared data for all workers, as far as the lease has room. A
    /// global store leases the same amount for every rule of a group, or nothing.
    pub(crate) fn deposit(
        &self,
        replies: &[RuleReply],
        since: Time,
        context: &Context,
        events: &mut Events,
    ) -> Deposited {
        let is_granted = replies.iter().all(|reply| reply.grant.amount > 0);
        let Some((group, hash)) = self.cell(context.policy, context.hasher).filter(|_| is_granted) else {
            return Deposited::default();
        };
        let queries = self.queries(context.policy, true);
        debug_assert_eq!(queries.len(), replies.len(), "one reply for each rule");
        let returned = Cell::new(Vec::new());
        let is_done = update_or_create(group, hash, context, events, &|cell, now| {
            let rules = self.places(group).zip(replies).zip(&queries);
            let put = rules.map(|((place, reply), query)| {
                let LeaseGrant { amount, generation, lasts } = reply.grant;
                let (piece, verdict) = (query.lease, reply.verdict);
                let deposit = lease::Deposit { amount, piece, generation, since, lasts, verdict };
                let [displaced, surplus] = lease::deposit(place.count_mut(cell), now, &deposit);
                [if query.parameters.takes_back() { displaced } else { Default::default() }, surplus]
            });
            returned.set(put.collect());
        });
        // If it is unknown whether the write succeeded, the quota may be in the cell.
        let returned = if is_done { returned.take() } else { Vec::new() };
        let takes_back = queries.iter().any(|query| query.parameters.takes_back());
        let until = replies.iter().map(|reply| since.after(reply.grant.lasts)).max().filter(|_| takes_back);
        Deposited {
            until,
            returned: accounts(&queries, returned).map(|returned| (self.shard(context.policy), returned)),
        }
    }

    /// The query that returns leased quota, unused.
    pub(crate) fn unused(&self, policy: &Policy, replies: &[RuleReply]) -> Option<(usize, GlobalQuery)> {
        let queries = self.queries(policy, false);
        debug_assert_eq!(queries.len(), replies.len(), "one reply for each rule");
        let accounts: Vec<LeaseUsage> =
            queries.iter().zip(replies).filter_map(|(query, reply)| query.unused(reply)).collect();
        (!accounts.is_empty()).then(|| (self.shard(policy), GlobalQuery::ReturnLease(accounts)))
    }

    /// The shard that counts the actor.
    pub(crate) fn shard(&self, policy: &Policy) -> usize {
        policy.global_group(self.place).map_or(0, |global_group| global_group.shard(policy, self.key.key()))
    }

    /// The query that asks only for the missing part of a piece.
    pub(crate) fn query(&self, context: &Context) -> Option<GlobalQuery> {
        let mut queries = self.queries(context.policy, true);
        let (group, hash) = self.cell(context.policy, context.hasher)?;
        if let Some(entry) = peek(group, hash, context).ok()? {
            let (cell, now) = (entry.cell(), (context.clock)());
            for (query, place) in queries.iter_mut().zip(self.places(group)) {
                query.lease = lease::room(place.count(&cell), now, query.lease);
            }
        }
        queries.iter().all(|query| query.lease > 0).then(|| GlobalQuery::Decide(vec![queries]))
    }

    /// The account of leased quota, if the global store needs one. With `all`, quota that has not
    /// expired returns as well.
    pub(crate) fn account(&self, context: &Context, events: &mut Events, all: bool) -> Option<GlobalQuery> {
        let (group, hash) = self.cell(context.policy, context.hasher)?;
        let queries = self.queries(context.policy, false);
        if !queries.iter().any(|query| query.parameters.takes_back()) {
            return None;
        }
        let spent = Cell::new(Vec::new());
        let is_done = update(group, hash, context, events, &|cell, now| {
            let usage = |place: Place| lease::account(place.count_mut(cell), now, all);
            spent.set(self.places(group).map(usage).collect());
        });
        if !is_done {
            // The usage may still be in the cell. The next account would report it again.
            return None;
        }
        let spent = spent.take();
        debug_assert_eq!(queries.len(), spent.len(), "the lease of each rule");
        let spent = queries.iter().zip(spent);
        let spent = spent
            .map(|(query, spent)| if query.parameters.takes_back() { spent } else { Default::default() });
        accounts(&queries, spent.collect())
    }
}

/// The account of each rule's lease. `None` if nothing was used or is left.
fn accounts(queries: &[RuleQuery], spent: Vec<[lease::Spending; 2]>) -> Option<GlobalQuery> {
    let account = |(query, spent): (&RuleQuery, [lease::Spending; 2])| {
        spent.map(|lease::Spending { generation, used, left }| {
            query.account(generation, if query.parameters.wants_usage() { used } else { 0 }, left)
        })
    };
    let all = queries.iter().zip(spent).flat_map(account);
    let accounts: Vec<_> = all.filter(|account| account.used > 0 || account.left > 0).collect();
    (!accounts.is_empty()).then_some(GlobalQuery::ReturnLease(accounts))
}
