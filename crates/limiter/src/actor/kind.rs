//! The trait of all kinds of actor, and the description by which [`super::compile`] finds a kind.

use super::Raw;
use super::client_ip::ClientIp;
use super::value;
use crate::matcher::pattern::Pattern;
use crate::request::{PartId, Parts, Request};
use diana_document::{Node, Value};
use std::fmt;
use std::sync::Arc;

/// A source of actor values.
///
/// ```
/// use diana_document::{Errors, Node, parse};
/// use diana_limiter::actor::{Scope, compile, ip::ClientIp};
/// use diana_limiter::request::{Part, Parts, Request, Values};
///
/// let (definition, errors) = (parse(br#"{"header": "x-user-id"}"#)?, Errors::default());
/// let mut parts = Parts::default();
/// let ip = ClientIp::compile(None, &mut parts);
/// let mut scope = Scope { parts: &mut parts, ip: &ip };
/// let user = compile(Node::root(&definition, &errors), &mut scope).ok_or("a mistake")?;
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
    fn raw<'r>(&self, _request: &Request<'r>) -> Raw<'r> {
        Raw::Unknown
    }

    /// The source in canonical text, made of compiled values. Two sources with the same text give
    /// every request the same value, however their definitions are spelt.
    fn meaning(&self, parts: &Parts) -> String;

    /// The bytes that [`Actor::write`] appends for a value written in a configuration. The error
    /// says why no request has the value.
    fn parse(&self, value: &str) -> Result<Vec<u8>, String> {
        value::text(value.as_bytes())
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

    /// For a source that depends on the limit's url: the source in a limit with this url, or why
    /// the url does not provide the value. `None` for any other source.
    fn in_limit(&self, _url: Option<&Pattern>) -> Option<Result<Arc<dyn Actor>, String>> {
        None
    }
}

impl fmt::Debug for dyn Actor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Actor")
    }
}

/// The context in which an actor is compiled.
pub struct Scope<'a> {
    /// The request parts that the policy uses; compiling an actor adds its own.
    pub parts: &'a mut Parts,
    /// The policy's `ip` options.
    pub ip: &'a ClientIp,
}

/// A kind of source: the key that configures the kind in `actors: {name: {key: …}}`, and its
/// compiler.
pub struct ActorKind {
    /// The key in an actor's object.
    pub key: &'static str,
    /// Compiles the value at that key. Reports each mistake at its place and then returns `None`.
    pub compile: fn(Node, &mut Scope) -> Option<Box<dyn Actor>>,
    /// Compiles the short form `actors: {name: key}`. `None` for a kind that needs options.
    pub bare: Option<Bare>,
}

/// Makes a source without options.
pub type Bare = fn(&mut Scope) -> Box<dyn Actor>;

/// Reads the value of a kind without options: `{}` or `true`.
pub(super) fn nothing_to_set(node: &Node) -> Option<()> {
    match node.value() {
        Value::Bool(true) => Some(()),
        Value::Object(_) => node.fields().map(|fields| fields.finish()),
        _ => node.expected("`{}` or true"),
    }
}
