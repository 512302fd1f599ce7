//! Who is never limited and who is always refused.
//!
//! It does not know: rules. The deny list is asked first: who stands on both is refused.

use super::Policy;
use crate::actor::{self, Named, address::Network};
use crate::map::KeySet;
use crate::request::{Part, Request};
use std::net::IpAddr;

/// One entry of a list.
#[derive(Debug)]
pub enum Member {
    /// All addresses of a network.
    Network(Network),
    /// One value of an actor, as [`actor::parse_key`] gives it.
    Actor(Named, Vec<u8>),
}

/// The allow list and the deny list.
#[derive(Debug, Default)]
pub struct Lists {
    /// Never limited.
    pub allow: List,
    /// Always refused.
    pub deny: List,
}

/// A list that is asked in as many steps as it has kinds of entries, however many entries.
#[derive(Debug, Default)]
pub struct List {
    /// The first addresses of all networks, by their family (IPv4 or not) and the bits of their prefix.
    networks: Vec<((bool, u8), KeySet)>,
    actors: Vec<(Named, KeySet)>,
}

impl FromIterator<Member> for List {
    fn from_iter<I: IntoIterator<Item = Member>>(members: I) -> List {
        let mut list = List::default();
        for member in members {
            match member {
                Member::Network(network) => {
                    let first = network.first();
                    add(&mut list.networks, (first.is_ipv4(), network.prefix()), &bytes(first));
                }
                Member::Actor(named, value) => add(&mut list.actors, named, &value),
            }
        }
        list
    }
}

/// Adds a key to those of its kind; there are few kinds.
fn add<K: PartialEq>(list: &mut Vec<(K, KeySet)>, kind: K, key: &[u8]) {
    match list.iter_mut().find(|(known, _)| *known == kind) {
        Some((_, keys)) => {
            keys.add(key);
        }
        None => {
            let mut keys = KeySet::default();
            keys.add(key);
            list.push((kind, keys));
        }
    }
}

/// An address among those of its family.
fn bytes(address: IpAddr) -> [u8; 16] {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped().octets(),
        IpAddr::V6(address) => address.octets(),
    }
}

impl Policy {
    /// The values in lists and overrides that are looked for in one header each, with the header's name.
    pub fn header_values(&self) -> impl Iterator<Item = (&str, &[u8])> {
        let listed = [&self.lists.deny, &self.lists.allow].into_iter().flat_map(|list| &list.actors);
        let listed = listed.flat_map(|(named, values)| values.keys().map(move |key| (named, key)));
        let alone =
            self.limits.iter().flat_map(|limit| &limit.groups).filter_map(|group| match &*group.actors {
                [named] => Some((named, group.rules.clone())),
                _ => None,
            });
        let overridden = alone.flat_map(|(named, rules)| {
            let rules = self.rules.get(rules).unwrap_or_default().iter();
            rules.flat_map(move |rule| rule.primary.overrides.keys().map(move |key| (named, key)))
        });
        listed.chain(overridden).filter_map(|(named, key)| match self.parts.get(named.actor().header()?)? {
            // Behind the length of the value, see `actor::key`.
            Part::Header(name) => Some((&**name, key.get(4..)?)),
            _ => None,
        })
    }
}

impl List {
    pub(crate) fn is_empty(&self) -> bool {
        self.networks.is_empty() && self.actors.is_empty()
    }

    /// Whether the request's client, or one of its actors, stands on the list.
    pub(crate) fn names(&self, request: &Request, client: impl Fn(&Request) -> Option<IpAddr>) -> bool {
        let is_listed = |address: IpAddr| {
            let mut family = self.networks.iter().filter(|((v4, _), _)| *v4 == address.is_ipv4());
            family.any(|((_, prefix), firsts)| firsts.contains(&bytes(Network::of(address, *prefix).first())))
        };
        if !self.networks.is_empty() && client(request).is_some_and(is_listed) {
            return true;
        }
        let mut key = Vec::new();
        self.actors.iter().any(|(named, values)| {
            key.clear();
            actor::key(std::slice::from_ref(named), request, &mut key) && values.contains(&key)
        })
    }
}
