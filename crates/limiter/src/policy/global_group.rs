//! Rules that a global store counts: the questions about them, and the shard of each actor.

use super::group::Group;
use super::{CountKey, Policy, Rule, RuleQuery, rendezvous};
use crate::algorithm::Quota;
use crate::table::Hasher;
use diana_base::time::Span;
use siphasher::sip128::{Hasher128, SipHasher13};
use std::hash::Hasher as _;
use std::sync::Arc;

/// How a rule decides while its global store is down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnError {
    /// The gateway counts the request, against a part of the limit.
    Local,
    /// The rule lets the request pass.
    Allow,
    /// The rule refuses the request.
    Deny,
}

/// Rules of one limit that count the same actor in the same global store.
#[derive(Debug)]
pub(crate) struct GlobalGroup {
    /// The rules and their actor.
    pub(crate) group: Arc<Group>,
    pub(crate) on_error: OnError,
    /// The index of the limit's group that counts while the store is down.
    pub(crate) fallback: Option<usize>,
    /// The index of the limit's group that spends leased quota.
    pub(crate) leased: Option<usize>,
    /// The hash of what the group counts, the same in every gateway and every build.
    pub(crate) name: u64,
    /// For each rule, the number of global rules before it with the same meaning.
    pub(crate) ordinals: Vec<u64>,
}

impl GlobalGroup {
    /// The shard that counts the actor with this key.
    pub(crate) fn shard(&self, policy: &Policy, key: &[u8]) -> usize {
        policy.shards.of(self.name, key)
    }

    /// The time in which the store's bucket of a leased rule refills by one piece; zero without a
    /// lease. Until then, the refill stays in the store, as far as the bucket has room. Then one
    /// question fetches all of it.
    pub(crate) fn refill_time(&self, policy: &Policy, key: &[u8]) -> Span {
        let of = |(_, counter): (&Rule, &super::Counter)| {
            let (parameters, Quota { rpu, unit }) = (counter.algorithm.parameters(), counter.quota);
            let piece = counter.lease.min(parameters.burst()? / 2);
            let ns = u128::from(unit.as_ns()).saturating_mul(piece.into()).checked_div(rpu.into())?;
            u64::try_from(ns).ok().map(Span::from_ns)
        };
        let leased = self.leased.is_some();
        let rules = self.group.for_actor(&policy.rules, key).counters().filter(|_| leased);
        rules.filter_map(of).max().unwrap_or_default()
    }

    /// The question about each rule. With `fetches`, the question also asks for a lease.
    pub(crate) fn queries(
        &self,
        policy: &Policy,
        key: &[u8],
        cost: Option<u64>,
        fetches: bool,
    ) -> Vec<RuleQuery> {
        let rules =
            self.group.ids().zip(self.group.for_actor(&policy.rules, key).counters()).zip(&self.ordinals);
        let ask = |((id, (rule, counter)), ordinal): ((_, (&Rule, &super::Counter)), &u64)| {
            let parameters = counter.algorithm.parameters();
            // The rule is part of the name of an override's count: another rule may have the same
            // override.
            let name = [self.name, rule.primary.default.salt, counter.salt, *ordinal | parameters.layout()];
            RuleQuery {
                rule: id,
                key: policy.shards.count_key(name, key),
                quota: counter.quota,
                parameters,
                enforced: rule.enforced,
                cost: cost.unwrap_or(rule.cost),
                lease: if fetches { counter.lease } else { 0 },
            }
        };
        rules.map(ask).collect()
    }
}

/// The shards among which all counts are divided, and the secret that names counts.
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
    /// Shards with these names. The secret may have any length; its hash is a key of 128 bits.
    pub(crate) fn new(names: &[String], secret: &str) -> Shards {
        let mut hasher = SipHasher13::new();
        hasher.write(secret.as_bytes());
        let secret = SipHasher13::new_with_key(&hasher.finish128().as_bytes());
        Shards { names: names.iter().map(|name| Hasher::name(name.as_bytes())).collect(), secret }
    }

    /// A checksum of the secret, of 16 bits. Different secrets have different checksums, except for
    /// one in 65,536. The checksum tells nothing else about the secret.
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

    /// The name of the count of a rule and an actor. Nobody without the secret can tell whose count
    /// it is.
    fn count_key(&self, rule: [u64; 4], key: &[u8]) -> CountKey {
        self.hash(&rule, key)
    }

    /// The shard that counts the actor with this key in this group.
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
