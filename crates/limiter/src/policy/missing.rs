//! Requests without the actor: what a rule counts in the actor's place. The first byte of a group's
//! key says what the rule counted.

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

/// The first byte of a key. It keeps apart a value, an address in place of a value, and requests
/// that share one count.
pub(super) const BY_VALUE: u8 = 0;
pub(super) const BY_ADDRESS: u8 = 1;
pub(super) const SHARED: u8 = 2;

/// How the rules found the actor with this key.
pub(crate) fn actor_source(key: &[u8]) -> ActorSource {
    match key.first() {
        Some(&BY_ADDRESS) => ActorSource::Address,
        Some(&SHARED) => ActorSource::Shared,
        _ => ActorSource::Actor,
    }
}

/// The key of an actor value.
pub(crate) fn by_value(value: &[u8]) -> Vec<u8> {
    [&[BY_VALUE], value].concat()
}
