//! The trait of all kinds of actor, the description by which [`super::compile`] finds a kind, and
//! how all kinds treat values: empty ones, configured ones, and several for one actor.

use super::client_ip::ClientIp;
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
    pub(crate) compile: fn(Node, &mut Scope) -> Option<Box<dyn Actor>>,
    /// Compiles the short form `actors: {name: key}`. `None` for a kind that needs options.
    pub(crate) bare: Option<Bare>,
}

/// Makes a source without options.
pub(crate) type Bare = fn(&mut Scope) -> Box<dyn Actor>;

/// Reads the value of a kind without options: `{}` or `true`.
pub(super) fn nothing_to_set(node: &Node) -> Option<()> {
    match node.value() {
        Value::Bool(true) => Some(()),
        Value::Object(_) => node.fields().map(|fields| fields.finish()),
        _ => node.expected("`{}` or true"),
    }
}

/// The bytes that decide the value of an actor. Two requests with the same raw value have the same
/// value, or both lack the actor. So a worker that has read one of them need not read the other.
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

/// The actor whose value is a part of the request, as it is.
#[derive(Debug)]
pub(super) struct PartValue(pub(super) PartId);

impl Actor for PartValue {
    fn canonical_form(&self, parts: &Parts) -> String {
        parts.canonical_form(self.0)
    }

    fn write(&self, request: &Request, key: &mut Vec<u8>) -> bool {
        request.get(self.0).is_some_and(|value| append(value, key))
    }

    fn raw<'r>(&self, request: &Request<'r>) -> FastPathPart<'r> {
        FastPathPart::of(request.get(self.0))
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

#[cfg(test)]
mod tests {
    use crate::actor::testing::{raw, value};
    use crate::request::{Part, Values};
    use proptest::prelude::*;

    /// A request of few values, so that two requests often agree.
    fn request() -> impl Strategy<Value = Values> {
        let line = "a|b| a|A|1\\.2\\.3\\.4(:[12])?|\\[::1\\](:[12])?|";
        let parts = [Part::Address, Part::Method, Part::Host, Part::Path, Part::Header("a".into())];
        let more =
            [Part::Header("a".into()), Part::Header("cookie".into()), Part::Property(vec!["a".into()])];
        let parts: Vec<Part> = parts.into_iter().chain(more).collect();
        prop::collection::vec(prop::option::of(line), parts.len()).prop_map(move |lines| {
            let lines = parts.iter().zip(lines).filter_map(|(part, line)| Some((part.clone(), line?)));
            lines.fold(Values::default(), |values, (part, line)| values.with(part, line))
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2_000))]

        #[test]
        fn equal_raw_values_are_equal_values(one in request(), other in request()) {
            for definition in [
                r#"{"header": "a"}"#, r#"{"cookie": "a"}"#, r#"{"query": "a"}"#, r#"{"jwt": "a.b"}"#,
                r#"{"property": "a"}"#, r#"{"ip": {}}"#, r#"{"ip": {"v4_prefix": 8}}"#, r#"{"method": {}}"#,
                r#"{"host": {}}"#, r#"{"path": 1}"#, r#"{"segment": "a"}"#,
            ] {
                let (raw_value, value_of_one) = (raw(definition, &one), value(definition, one.clone()));
                if raw_value == Some(None) {
                    prop_assert_eq!(&value_of_one, &None, "{}", definition);
                }
                if raw_value.is_some() && raw_value == raw(definition, &other) {
                    prop_assert_eq!(value_of_one, value(definition, other.clone()), "{}", definition);
                }
            }
        }
    }

    #[test]
    fn the_usual_kinds_have_raw_values() {
        let request = Values::default().with(Part::Header("a".into()), " ann ").with(Part::Host, "b");
        assert_eq!(raw(r#"{"header": "a"}"#, &request), Some(Some(b"ann".to_vec())));
        assert_eq!(raw(r#"{"host": {}}"#, &request), Some(Some(b"b".to_vec())));
        assert_eq!(raw(r#"{"method": {}}"#, &request), Some(None));
        assert_eq!(raw(r#"{"query": "a"}"#, &request), None);
        let twice = request.with(Part::Header("a".into()), "bob");
        assert_eq!(raw(r#"{"header": "a"}"#, &twice), Some(None), "the lines differ");
    }
}
