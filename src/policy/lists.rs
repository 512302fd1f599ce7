//! Who is never limited and who is always refused.
//!
//! It does not know: rules. The deny list is asked first: who stands on both is refused.

use crate::actor::{self, Named, address::Network};
use crate::request::Request;
use std::collections::HashSet;
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
    /// The prefix lengths in `networks`, each once: IPv4 or not, and bits.
    prefixes: Vec<(bool, u8)>,
    networks: HashSet<Network>,
    actors: Vec<(Named, HashSet<Vec<u8>>)>,
}

impl FromIterator<Member> for List {
    fn from_iter<I: IntoIterator<Item = Member>>(members: I) -> List {
        let mut list = List::default();
        for member in members {
            match member {
                Member::Network(network) => list.add_network(network),
                Member::Actor(named, value) => list.add_value(named, value),
            }
        }
        list
    }
}

impl List {
    fn add_network(&mut self, network: Network) {
        let prefix = (network.first().is_ipv4(), network.prefix());
        if !self.prefixes.contains(&prefix) {
            self.prefixes.push(prefix);
        }
        self.networks.insert(network);
    }

    fn add_value(&mut self, named: Named, value: Vec<u8>) {
        match self.actors.iter_mut().find(|(known, _)| *known == named) {
            Some((_, values)) => drop(values.insert(value)),
            None => self.actors.push((named, HashSet::from([value]))),
        }
    }

    /// Whether the request's client, or one of its actors, stands on the list.
    pub(super) fn names(&self, request: &Request, client: impl Fn(&Request) -> Option<IpAddr>) -> bool {
        let is_listed = |address: IpAddr| {
            let family = self.prefixes.iter().filter(|(v4, _)| *v4 == address.is_ipv4());
            family.map(|(_, prefix)| Network::of(address, *prefix)).any(|net| self.networks.contains(&net))
        };
        if !self.prefixes.is_empty() && client(request).is_some_and(is_listed) {
            return true;
        }
        let mut key = Vec::new();
        self.actors.iter().any(|(named, values)| {
            key.clear();
            actor::key(std::slice::from_ref(named), request, &mut key) && values.contains(&key)
        })
    }
}
