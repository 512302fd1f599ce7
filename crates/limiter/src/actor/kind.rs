//! The trait of all kinds of actor, and how all kinds treat values: empty ones, configured ones,
//! and several for one actor.

use crate::matcher::pattern::Pattern;
use crate::request::{PartId, Parts, Request};
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

/// A source of actor values.
///
/// ```
/// use diana_limiter::actor::{Actor, Header};
/// use diana_limiter::request::{Part, Parts, Request, Values};
///
/// let mut parts = Parts::default();
/// let user = Header::new("x-user-id", &mut parts)?;
///
/// let values = Values::default().with(Part::Header("x-user-id".into()), " alice ");
/// let mut key = Vec::new();
/// assert!(user.write(&Request::new(&values, &parts), &mut key));
/// assert_eq!(key, b"alice");
/// assert_eq!(user.parse("alice")?, b"alice");
///
/// let anonymous = Values::default();
/// assert!(!user.write(&Request::new(&anonymous, &parts), &mut key));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait Actor: Send + Sync {
    /// Appends the actor's value in this request to `key`. If the request has no value, returns
    /// `false` and appends nothing. Two spellings of one value append the same bytes.
    fn write(&self, request: &Request, key: &mut Vec<u8>) -> bool;

    /// The bytes of the request that alone decide what [`Actor::write`] appends. This reads no part
    /// that `write` does not read, and costs less.
    fn raw<'r>(&self, _request: &Request<'r>) -> FastPathPart<'r> {
        FastPathPart::Unknown
    }

    /// The source in canonical text, made of compiled values. Two sources with the same text give
    /// every request the same value, however their definitions are spelt.
    fn canonical_form(&self, parts: &Parts) -> String;

    /// The bytes that [`Actor::write`] appends for a value written in a configuration. The error
    /// says why no request has the value.
    fn parse(&self, value: &str) -> Result<Vec<u8>, String> {
        text(value.as_bytes())
    }

    /// The header whose value is the actor's value, if the source is a header.
    fn header(&self) -> Option<PartId> {
        None
    }

    /// Whether the value is an address, as [`Network::of_key`](super::address::Network::of_key)
    /// reads. Other values are text.
    fn is_address(&self) -> bool {
        false
    }

    /// The value, or the elements if the value is a list. Only sources that may have lists have
    /// any.
    fn elements(&self, _request: &Request) -> Vec<Vec<u8>> {
        Vec::new()
    }

    /// The client's whole address, if the value is an address.
    fn address(&self, _request: &Request) -> Option<IpAddr> {
        None
    }

    /// For a part of the path: the same source for backends that ignore case. `None` for any other
    /// source, and for one that depends on the limit's urls, which say it.
    fn ignoring_case(&self) -> Option<Arc<dyn Actor>> {
        None
    }

    /// For a source that depends on the limit's urls: the source in a limit with these urls, which
    /// are [`sorted`](crate::matcher::pattern::sorted), or why they do not provide the value.
    /// `None` for any other source.
    fn in_limit(&self, _urls: Option<&[Pattern]>) -> Option<Result<Arc<dyn Actor>, SegmentError>> {
        None
    }
}

impl fmt::Debug for dyn Actor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Actor")
    }
}

/// The part of its definition that an actor cannot have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ActorError {
    /// The name of a header is no token (RFC 9110, section 5.1), or the name of another part.
    Header,
    /// The name of a cookie is empty, or has a space, `;` or `=`.
    Cookie,
    /// The name of a parameter is empty.
    Parameter,
    /// The number of a path's segment is not from 1 to 32.
    Path,
    /// The name of a segment is not 1 to 64 letters, digits, `_` and `-`.
    Segment,
    /// The path of a claim is not 1 to 256 bytes.
    Claim,
    /// The path of a property is not 1 to 16 steps, or a step is empty or has a NUL.
    Property,
    /// The JSON pointer does not begin with `/`, has a wrong escape, or is too long.
    Pointer,
    /// There are more than 32 trusted hops, or a header without any.
    TrustedHops,
    /// A prefix is longer than the addresses of its family.
    Prefix,
}

impl fmt::Display for ActorError {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(match self {
            ActorError::Header => "not the name of a header",
            ActorError::Cookie => "not the name of a cookie",
            ActorError::Parameter => "not the name of a parameter",
            ActorError::Path => "not the number of a segment",
            ActorError::Segment => "not the name of a segment",
            ActorError::Claim => "not the path of a claim",
            ActorError::Property => "not the path of a property",
            ActorError::Pointer => "not a JSON pointer",
            ActorError::TrustedHops => "not a number of trusted hops",
            ActorError::Prefix => "not a prefix of addresses",
        })
    }
}

impl std::error::Error for ActorError {}

/// Why a segment is no actor in a limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SegmentError {
    /// There is no limit, so there is no url.
    NoUrl,
    /// A url of the limit has no segment of this name.
    NoSegment(Box<str>),
}

/// The bytes that decide the value of an actor. Two requests with the same raw value have the same
/// value, or both lack the actor, so a worker that has read one of them need not read the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FastPathPart<'r> {
    /// These bytes decide the value.
    Value(&'r [u8]),
    /// The request lacks the actor.
    Missing,
    /// More than a few bytes decide the value.
    Unknown,
}

impl<'r> FastPathPart<'r> {
    /// A value that is read as it is. An empty value counts as missing.
    pub(super) fn of(value: Option<&'r [u8]>) -> FastPathPart<'r> {
        value.filter(|value| !value.is_empty()).map_or(FastPathPart::Missing, FastPathPart::Value)
    }
}

/// Appends a value. Returns `false` for an empty one.
pub(super) fn append(value: &[u8], key: &mut Vec<u8>) -> bool {
    key.extend(value);
    !value.is_empty()
}

/// A configured value that is compared byte by byte.
pub(super) fn text(value: &[u8]) -> Result<Vec<u8>, String> {
    if value.is_empty() { Err("an empty value is never counted".into()) } else { Ok(value.to_vec()) }
}

/// The value, if there is at least one and all are equal.
pub(super) fn only<T: PartialEq>(mut values: impl Iterator<Item = T>) -> Option<T> {
    let first = values.next()?;
    values.all(|value| value == first).then_some(first)
}
