//! Rules that a store for all gateways counts: what it is asked about them, and which of several stores.
//!
//! It does not know: how a store is asked, or what an algorithm's numbers mean.

use super::group::Group;
use super::{CountKey, Policy, Rule, RuleQuery, rendezvous};
use crate::algorithm::Quota;
use crate::table::Hasher;
use crate::time::Span;
use siphasher::sip128::{Hasher128, SipHasher13};
use std::hash::Hasher as _;
use std::sync::Arc;

/// What happens to a request whose store is not to be had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnError {
    /// It is counted here, against a part of the limit.
    Local,
    /// The rule lets it pass.
    Allow,
    /// It is refused.
    Deny,
}

/// Rules of one limit that count the same actor in the same store.
#[derive(Debug)]
pub(crate) struct GlobalGroup {
    /// Whom they count.
    pub(crate) group: Arc<Group>,
    pub(crate) on_error: OnError,
    /// Which of the limit's groups counts in place of the store.
    pub(crate) fallback: Option<usize>,
    /// Which of them spends what was fetched ahead.
    pub(crate) leased: Option<usize>,
    /// The same in every gateway and in every build.
    pub(crate) name: u64,
    /// For each rule, how many before it mean just the same.
    pub(crate) ordinals: Vec<u64>,
}

impl GlobalGroup {
    /// Which store counts the actor of this key.
    pub(crate) fn shard(&self, policy: &Policy, key: &[u8]) -> usize {
        policy.shards.of(self.name, key)
    }

    /// How long the store's buckets of a group that fetches ahead take to refill by a piece. Meanwhile the refill stays in
    /// the store, as long as the bucket has room, and is then fetched at once.
    pub(crate) fn refill_time(&self, policy: &Policy, key: &[u8]) -> Span {
        let of = |(_, count): (&Rule, &super::Counter)| {
            let (parameters, Quota { rpu, unit }) = (count.algorithm.parameters(), count.quota);
            let reservation = count.lease.min(parameters.burst()? / 2);
            let ns = u128::from(unit.as_ns()).saturating_mul(reservation.into()).checked_div(rpu.into())?;
            u64::try_from(ns).ok().map(Span::from_ns)
        };
        let leased = self.leased.is_some();
        let rules = self.group.for_actor(&policy.rules, key).counters().filter(|_| leased);
        rules.filter_map(of).max().unwrap_or_default()
    }

    /// What to ask about each rule; how much ahead is for the first of several that ask.
    pub(crate) fn queries(
        &self,
        policy: &Policy,
        key: &[u8],
        cost: Option<u64>,
        ahead: bool,
    ) -> Vec<RuleQuery> {
        let rules =
            self.group.ids().zip(self.group.for_actor(&policy.rules, key).counters()).zip(&self.ordinals);
        let ask = |((id, (rule, count)), ordinal): ((_, (&Rule, &super::Counter)), &u64)| {
            let parameters = count.algorithm.parameters();
            // An actor's own quota is the rule's: another rule may give it the same.
            let name = [self.name, rule.primary.default.salt, count.salt, *ordinal | parameters.layout()];
            RuleQuery {
                rule: id,
                key: policy.shards.count_key(name, key),
                quota: count.quota,
                parameters,
                enforced: rule.enforced,
                cost: cost.unwrap_or(rule.cost),
                lease: if ahead { count.lease } else { 0 },
            }
        };
        rules.map(ask).collect()
    }
}

/// The stores among which all counts are spread, and the secret that they are named by.
#[derive(Debug)]
pub(crate) struct Shards {
    names: Vec<u64>,
    secret: SipHasher13,
}

impl Default for Shards {
    fn default() -> Shards {
        Shards::new(&[], "")
    }
}

impl Shards {
    /// The secret may be of any length: it is hashed to one of 128 bits.
    pub(crate) fn new(names: &[String], secret: &str) -> Shards {
        let mut hasher = SipHasher13::new();
        hasher.write(secret.as_bytes());
        let secret = SipHasher13::new_with_key(&hasher.finish128().as_bytes());
        Shards { names: names.iter().map(|name| Hasher::name(name.as_bytes())).collect(), secret }
    }

    /// Tells secrets apart, one in 65,536 excepted, and tells nothing else of them.
    pub(crate) fn fingerprint(&self) -> u16 {
        let mut hasher = self.secret;
        hasher.write(b"fingerprint");
        let [first, second, ..] = hasher.finish128().as_bytes();
        u16::from_be_bytes([first, second])
    }

    fn hash(&self, numbers: &[u64], key: &[u8]) -> CountKey {
        let mut hasher = self.secret;
        numbers.iter().for_each(|number| hasher.write(&number.to_le_bytes()));
        hasher.write(key);
        hasher.finish128().as_bytes()
    }

    /// Where the count of a rule and an actor is: nobody without the secret can tell whose it is.
    fn count_key(&self, rule: [u64; 4], key: &[u8]) -> CountKey {
        self.hash(&rule, key)
    }

    /// Which store counts the actor of this key in this group.
    fn of(&self, group: u64, key: &[u8]) -> usize {
        match self.names.as_slice() {
            [] | [_] => 0,
            names => {
                let key = self.hash(&[group], key);
                rendezvous::shard(names, key.first_chunk().map_or(0, |key| u64::from_le_bytes(*key)))
            }
        }
    }
}
