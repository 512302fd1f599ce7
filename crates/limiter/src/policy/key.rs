//! Whom a group counts in a request: the key of its actor, and what is counted in the place of an
//! actor that the request lacks. Only this file knows the first byte of a key.

use crate::actor::NamedActor;
use crate::request::Request;

/// How a rule treats requests without the actor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Missing {
    /// The rule counts them by client IP.
    Ip,
    /// The rule does not apply to them.
    Skip,
    /// The rule counts all of them together.
    Share,
    /// The rule refuses them.
    Deny,
}

impl Missing {
    /// The word in the configuration.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Missing::Ip => "ip",
            Missing::Skip => "skip",
            Missing::Share => "share",
            Missing::Deny => "deny",
        }
    }
}

/// How a rule found the actor that it counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ActorSource {
    /// The request has the actor.
    Actor,
    /// The request lacks the actor, and is counted by client IP.
    Address,
    /// The request lacks the actor, and is counted with all such requests.
    Shared,
    /// The request lacks the actor, and the rule says `missing: deny`.
    Missing,
}

impl ActorSource {
    /// The word for access logs.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            ActorSource::Actor => "actor",
            ActorSource::Address => "ip",
            ActorSource::Shared => "shared",
            ActorSource::Missing => "missing",
        }
    }
}

/// The key of an actor of a group: what the group counted, and then the value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ActorKey<'a>(&'a [u8]);

/// The first byte of a key. It keeps apart a value, an address in place of a value, and requests
/// that share one count.
const BY_VALUE: u8 = 0;
const BY_ADDRESS: u8 = 1;
const SHARED: u8 = 2;

impl<'a> ActorKey<'a> {
    /// The key of an actor that is known by its hash alone. It has no override.
    pub(crate) const UNKNOWN: ActorKey<'static> = ActorKey(&[]);

    /// Whether the actor is known by its hash alone.
    pub(crate) fn is_unknown(self) -> bool {
        self.0.is_empty()
    }

    /// How the rules found the actor.
    pub(crate) fn source(self) -> ActorSource {
        debug_assert!(!self.is_unknown(), "nobody asks how an unknown actor was found");
        match self.0.first() {
            Some(&BY_ADDRESS) => ActorSource::Address,
            Some(&SHARED) => ActorSource::Shared,
            _ => ActorSource::Actor,
        }
    }

    /// Whether the key tells one client from others, by the actor or by the address.
    pub(crate) fn is_of_one_client(self) -> bool {
        matches!(self.0.first(), Some(&(BY_VALUE | BY_ADDRESS)))
    }

    /// The value: that of the actor, or the address in its place. Empty if requests share a count.
    pub(crate) fn value(self) -> &'a [u8] {
        diana_base::part(self.0, 1..)
    }

    /// The value, if the request has the actor. Overrides are found by this value.
    #[inline]
    pub(crate) fn own_value(self) -> Option<&'a [u8]> {
        self.0.strip_prefix(&[BY_VALUE])
    }

    /// The bytes to hash: equal for equal actors of a group, and for no others.
    pub(crate) fn bytes(self) -> &'a [u8] {
        self.0
    }
}

/// The memory of a key, reused by later requests.
#[derive(Clone, Debug, Default)]
#[cfg_attr(test, derive(PartialEq, Eq))]
pub(crate) struct KeyBuffer(Vec<u8>);

/// The most bytes of a key's memory that are kept for later requests: clients choose its length.
const KEPT: usize = 1_024;

impl KeyBuffer {
    /// The key of a value of the actor.
    pub(crate) fn of_value(value: &[u8]) -> KeyBuffer {
        KeyBuffer([&[BY_VALUE], value].concat())
    }

    /// The key of this address in the place of an actor.
    pub(crate) fn of_address(value: &[u8]) -> KeyBuffer {
        KeyBuffer([&[BY_ADDRESS], value].concat())
    }

    /// The key.
    pub(crate) fn key(&self) -> ActorKey<'_> {
        ActorKey(&self.0)
    }

    /// Makes this the key of an actor's value, which `write` appends. Returns what `write` does:
    /// whether the request has the actor. If not, the buffer is empty.
    pub(crate) fn write_value(&mut self, write: impl FnOnce(&mut Vec<u8>) -> bool) -> bool {
        debug_assert!(self.0.is_empty(), "the key of an earlier request");
        self.0.push(BY_VALUE);
        let has_actor = write(&mut self.0);
        if !has_actor {
            self.0.clear();
        }
        has_actor
    }

    /// Makes this the key of the client's address, or, if the address is unknown, of all such
    /// requests together.
    pub(crate) fn write_address(&mut self, address: &NamedActor, request: &Request) {
        self.0.push(BY_ADDRESS);
        if !address.actor().write(request, &mut self.0) {
            self.0.clear();
            self.write_shared();
        }
    }

    /// Makes this the key of all requests that lack the actor.
    pub(crate) fn write_shared(&mut self) {
        self.0.push(SHARED);
    }

    /// What `read` makes of the key that the client's address has in the place of an actor. `None`
    /// if the address is unknown. The buffer stays as it is.
    pub(crate) fn read_address<T>(
        &mut self,
        address: &NamedActor,
        request: &Request,
        read: impl FnOnce(ActorKey) -> T,
    ) -> Option<T> {
        let start = self.0.len();
        self.0.push(BY_ADDRESS);
        let is_known = address.actor().write(request, &mut self.0);
        let read = is_known.then(|| read(ActorKey(diana_base::part(&self.0, start..))));
        self.0.truncate(start);
        read
    }

    /// The memory behind the key. Whoever appends to it has to remove that again.
    pub(crate) fn scratch(&mut self) -> &mut Vec<u8> {
        &mut self.0
    }

    /// Empties the buffer for another request.
    pub(crate) fn clear(&mut self) {
        self.0.clear();
        self.0.shrink_to(KEPT);
    }
}
