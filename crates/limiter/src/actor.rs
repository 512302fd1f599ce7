//! Whom a rule counts: each kind of actor reads a value from the request. One file per kind.
//!
//! Values come from clients and are hostile: any length, any byte. Every kind reads them in linear
//! time. Values are stored as keyed hashes only.
//!
//! ```text
//!   actors: {tenant: {jwt: sub}} ─ compile ─► dyn Actor ─┐
//!   actor: [tenant, ip]          ─ Actors::select ─► [Named, Named] ─ key(request) ─► bytes
//! ```
//!
//! An empty value counts as missing in every kind, because it identifies nobody.
//!
//! To add a kind: a file in `actor/` with a `KIND`, its `mod` line and its line in [`KINDS`].

pub mod address;
mod cookie;
mod header;
mod host;
pub mod ip;
mod jwt;
mod key;
mod method;
mod names;
pub mod path;
mod property;
mod query;

pub use key::{key, parse_key};
pub use names::{Actors, Named};

use crate::request::{PartId, Parts, Request};
use diana_document::{Node, Value, nearest, one_of, quoted};
use std::fmt;

/// A source of actor values.
pub trait Actor: Send + Sync {
    /// Appends the actor's value in this request to `key`. If the request has no value, returns
    /// `false` and appends nothing. Two spellings of one value append the same bytes.
    fn write(&self, request: &Request, key: &mut Vec<u8>) -> bool;

    /// The source in canonical text, made of compiled values. Two sources with the same text give
    /// every request the same value, however their definitions are spelt.
    fn meaning(&self, parts: &Parts) -> String;

    /// The bytes that [`Actor::write`] appends for a value written in a configuration. The error
    /// says why no request has the value.
    fn parse(&self, value: &str) -> Result<Vec<u8>, String> {
        text(value.as_bytes())
    }

    /// The header whose value is the actor's value, if the source is a header.
    fn header(&self) -> Option<PartId> {
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
    pub ip: &'a ip::ClientIp,
}

/// A kind of source: the key that configures the kind in `actors: {name: {key: …}}`, and its
/// compiler.
pub struct Kind {
    /// The key in an actor's object.
    pub key: &'static str,
    /// Compiles the value at that key. Reports each mistake at its place and then returns `None`.
    pub compile: fn(Node, &mut Scope) -> Option<Box<dyn Actor>>,
    /// Compiles the short form `actors: {name: key}`. `None` for a kind that needs options.
    pub bare: Option<Bare>,
}

/// Makes a source without options.
pub type Bare = fn(&mut Scope) -> Box<dyn Actor>;

/// All kinds of source.
pub static KINDS: &[&Kind] = &[
    &header::KIND,
    &cookie::KIND,
    &query::KIND,
    &path::KIND,
    &jwt::KIND,
    &property::KIND,
    &ip::KIND,
    &method::KIND,
    &host::KIND,
];

/// Compiles one definition: an object with the key of one kind, or the name of a kind without
/// options. Reports each mistake at its place and then returns `None`.
pub fn compile(node: Node, scope: &mut Scope) -> Option<Box<dyn Actor>> {
    match node.value() {
        Value::Text(text) => plain(text, &node, scope),
        Value::Object(_) => object(&node, scope),
        _ => node.expected("a source such as `{header: x-user-id}`"),
    }
}

fn plain(text: &str, node: &Node, scope: &mut Scope) -> Option<Box<dyn Actor>> {
    let kind = KINDS.iter().find(|kind| kind.key == text);
    if let Some(bare) = kind.and_then(|kind| kind.bare) {
        return Some(bare(scope));
    }
    let why = match (kind, nearest(text, &keys())) {
        (Some(kind), _) => format!("`{0}` needs to be told what to read, as in `{{{0}: …}}`", kind.key),
        (None, Some(near)) => format!("unknown source {}, did you mean `{near}`?", quoted(text)),
        (None, None) => {
            let bare: Vec<&str> =
                KINDS.iter().filter(|kind| kind.bare.is_some()).map(|kind| kind.key).collect();
            let allowed = format!("{} or a source such as `{{header: x-user-id}}`", bare.join(", "));
            format!("unknown source {}, expected {allowed}", quoted(text))
        }
    };
    node.fail(why);
    None
}

fn object(node: &Node, scope: &mut Scope) -> Option<Box<dyn Actor>> {
    let mut fields = node.fields()?;
    let mut given = Vec::new();
    for kind in KINDS {
        given.extend(fields.take(kind.key).map(|node| (kind, node)));
    }
    if *node.value() == Value::Object(Vec::new()) {
        fields.fail(format!("no source is given, expected {}", one_of(&keys())));
    }
    if given.len() > 1 {
        let found: Vec<String> = given.iter().map(|(kind, _)| format!("`{}`", kind.key)).collect();
        fields.fail(format!("expected one source, found {}", found.join(" and ")));
    }
    fields.finish();
    // Compile all sources, so that the mistakes in each are reported.
    let compiled: Vec<_> = given.into_iter().map(|(kind, node)| (kind.compile)(node, scope)).collect();
    let [only] = <[_; 1]>::try_from(compiled).ok()?;
    only
}

fn keys() -> Vec<&'static str> {
    KINDS.iter().map(|kind| kind.key).collect()
}

/// Reads the value of a kind without options: `{}` or `true`.
fn nothing_to_set(node: &Node) -> Option<()> {
    match node.value() {
        Value::Bool(true) => Some(()),
        Value::Object(_) => node.fields().map(|fields| fields.finish()),
        _ => node.expected("`{}` or true"),
    }
}

/// Appends a value. Returns `false` for an empty one.
fn append(value: &[u8], key: &mut Vec<u8>) -> bool {
    key.extend(value);
    !value.is_empty()
}

/// A configured value that is compared byte by byte.
fn text(value: &[u8]) -> Result<Vec<u8>, String> {
    if value.is_empty() { Err("an empty value is never counted".into()) } else { Ok(value.to_vec()) }
}

/// The value, if there is at least one and all are equal.
fn only<T: PartialEq>(mut values: impl Iterator<Item = T>) -> Option<T> {
    let first = values.next()?;
    values.all(|value| value == first).then_some(first)
}

#[cfg(test)]
pub(crate) mod testing {
    //! Compiles definitions and returns values or mistakes.

    use super::*;
    use crate::request::Values;
    use diana_document::{Error, Errors};

    /// Calls `read` with `json` and a scope with default options. Returns its result and the
    /// mistakes.
    pub fn with_scope<T>(json: &str, read: impl FnOnce(Node, &mut Scope) -> T) -> (T, Parts, Vec<String>) {
        let (value, errors) = (diana_document::parse(json.as_bytes()).unwrap(), Errors::default());
        let mut parts = Parts::default();
        let options = ip::ClientIp::compile(None, &mut parts);
        let outcome = read(Node::root(&value, &errors), &mut Scope { parts: &mut parts, ip: &options });
        (outcome, parts, errors.into_vec().iter().map(Error::to_string).collect())
    }

    fn compiled(definition: &str) -> (Box<dyn Actor>, Parts) {
        let (actor, parts, mistakes) = with_scope(definition, compile);
        assert_eq!(mistakes, [""; 0], "{definition}");
        (actor.unwrap(), parts)
    }

    /// The value that the actor of a definition writes for a request.
    pub fn value(definition: &str, request: Values) -> Option<Vec<u8>> {
        let (actor, parts) = compiled(definition);
        let mut key = b"before".to_vec();
        let found = actor.write(&Request::new(&request, &parts), &mut key);
        let value = key.strip_prefix(b"before").unwrap().to_vec();
        assert!(found || value.is_empty(), "a missing actor writes nothing");
        found.then_some(value)
    }

    /// The parsed form of a configured value.
    pub fn parse(definition: &str, value: &str) -> Result<Vec<u8>, String> {
        compiled(definition).0.parse(value)
    }

    /// The mistakes in a definition.
    pub fn mistakes(definition: &str) -> Vec<String> {
        with_scope(definition, compile).2
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::{Part, Values};
    use proptest::prelude::*;

    #[test]
    fn a_definition_has_one_source() {
        for (definition, why) in [
            (
                "{}",
                "no source is given, expected header, cookie, query, path, jwt, property, ip, method or host",
            ),
            (r#"{"heder": "x"}"#, "unknown key `heder`, did you mean `header`?"),
            (r#"{"header": "x", "host": {}}"#, "expected one source, found `header` and `host`"),
            ("1", "expected a source such as `{header: x-user-id}`, found `1`"),
            (r#""header""#, "`header` needs to be told what to read, as in `{header: …}`"),
            (r#""metod""#, "unknown source `metod`, did you mean `method`?"),
            (
                r#""x-user-id""#,
                "unknown source `x-user-id`, expected ip, method, host or a source such as `{header: x-user-id}`",
            ),
        ] {
            let (actor, _, mistakes) = testing::with_scope(definition, compile);
            assert_eq!(mistakes, [why]);
            assert!(actor.is_none(), "{definition}");
        }
    }

    #[test]
    fn the_keys_of_the_kinds_differ() {
        let keys = keys();
        assert!((1..keys.len()).all(|at| !keys[..at].contains(&keys[at])), "{keys:?}");
    }

    proptest! {
        #[test]
        fn no_request_makes_a_kind_panic(
            shaped in "[ab1=&?%+#;,.:\\[\\]\" /]{0,60}",
            bytes: Vec<u8>,
            token in "(Bearer )?[A-Za-z0-9_=-]{0,9}(\\.[A-Za-z0-9_=-]{0,40}){0,3}",
        ) {
            for definition in [
                r#"{"header": "a"}"#, r#"{"cookie": "a"}"#, r#"{"query": "a"}"#, r#"{"jwt": "a.b"}"#,
                r#"{"property": "a"}"#, r#"{"ip": {}}"#, r#"{"method": {}}"#, r#"{"host": {}}"#, r#"{"path": 1}"#,
            ] {
                for sent in [shaped.as_bytes(), &bytes, token.as_bytes()] {
                    let mut request = Values::default();
                    for name in ["a", "cookie", "authorization"] {
                        request = request.with(Part::Header(name.into()), sent);
                    }
                    for part in [Part::Path, Part::Method, Part::Host, Part::Address] {
                        request = request.with(part, sent);
                    }
                    let value = testing::value(definition, request);
                    prop_assert_ne!(value, Some(Vec::new()));
                }
            }
        }
    }
}
