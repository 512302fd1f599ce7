//! The allow list and the deny list. The deny list is checked first: a client on both is refused.

use crate::actor;
use crate::actor::NamedActor;
use crate::actor::address::Network;
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

/// A list. A lookup takes one step for each kind of entry, however many entries there are.
#[derive(Debug, Default)]
pub struct List {
    /// The first addresses of all networks, by family (whether IPv4) and by prefix length in bits.
    networks: Vec<((bool, u8), KeySet)>,
    pub(crate) actors: Vec<(NamedActor, KeySet)>,
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

/// Adds a key to the set of its kind. There are few kinds.
fn add<K: PartialEq>(list: &mut Vec<(K, KeySet)>, kind: K, key: &[u8]) {
    match list.iter_mut().find(|(other, _)| *other == kind) {
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

/// The bytes of an address, unique within its family.
fn bytes(address: IpAddr) -> [u8; 16] {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped().octets(),
        IpAddr::V6(address) => address.octets(),
    }
}

impl List {
    /// A hash of all entries, whatever their order.
    pub(super) fn canonical_hash(&self) -> u64 {
        let networks =
            |(kind, firsts): &((bool, u8), KeySet)| Hasher::of(&(kind, Hasher::of_all(firsts.keys())));
        let actors = |(named, values): &(NamedActor, KeySet)| {
            Hasher::of(&(named.canonical_form(), Hasher::of_all(values.keys())))
        };
        Hasher::of_all(self.networks.iter().map(networks).chain(self.actors.iter().map(actors)))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.networks.is_empty() && self.actors.is_empty()
    }

    /// Whether the request's client or one of its actors is on the list.
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
