//! The allow list and the deny list. The deny list is checked first: a client on both is refused.

use crate::actor;
use crate::actor::NamedActor;
use crate::actor::address::{Network, Networks};
use crate::cells::table::Hasher;
use crate::request::Request;
use diana_base::map::KeySet;
use std::net::IpAddr;

/// The name of the deny list where rules are named. No rule has this name.
pub const DENY: &str = "deny";

/// The name of the allow list.
pub const ALLOW: &str = "allow";

/// One entry of a list.
#[derive(Debug)]
pub enum Member {
    /// All addresses of a network.
    Network(Network),
    /// One value of an actor, as [`actor::parse_key`] returns it.
    Actor(NamedActor, Vec<u8>),
}

/// The allow list and the deny list.
#[derive(Debug, Default)]
pub struct Lists {
    /// Requests that no rule limits.
    pub allow: List,
    /// Requests that are always refused.
    pub deny: List,
}

/// A list.
#[derive(Debug, Default)]
pub struct List {
    networks: Networks,
    pub(crate) actors: Vec<(NamedActor, KeySet)>,
}

impl FromIterator<Member> for List {
    fn from_iter<I: IntoIterator<Item = Member>>(members: I) -> List {
        let (mut networks, mut actors) = (Vec::new(), Vec::new());
        for member in members {
            match member {
                Member::Network(network) => networks.push(network),
                Member::Actor(named, value) => add(&mut actors, named, &value),
            }
        }
        List { networks: Networks::new(networks), actors }
    }
}

/// Adds a value to the set of its actor. There are few actors.
fn add(list: &mut Vec<(NamedActor, KeySet)>, named: NamedActor, value: &[u8]) {
    match list.iter_mut().find(|(other, _)| *other == named) {
        Some((_, values)) => {
            values.add(value);
        }
        None => {
            let mut values = KeySet::default();
            values.add(value);
            list.push((named, values));
        }
    }
}

impl List {
    /// A hash of all entries, whatever their order.
    #[inline]
    pub(super) fn canonical_hash(&self) -> u64 {
        let network = |network: Network| {
            let mut key = Vec::new();
            network.write_key(&mut key);
            Hasher::of(&key)
        };
        let actors = |(named, values): &(NamedActor, KeySet)| {
            Hasher::of(&(named.canonical_form(), Hasher::of_all(values.keys())))
        };
        Hasher::of_all(self.networks.merged().iter().map(network).chain(self.actors.iter().map(actors)))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.networks.is_empty() && self.actors.is_empty()
    }

    /// Whether the request's client or one of its actors is on the list.
    pub(crate) fn names(&self, request: &Request, client: impl Fn(&Request) -> Option<IpAddr>) -> bool {
        let is_listed = |address| self.networks.place(address).is_some();
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
