//! The actors that rules count, one file per kind in [`KINDS`]: each reads a value from the
//! request. Values come from clients, so every kind reads any bytes of any length in linear time;
//! they are stored as keyed hashes only, and an empty value identifies nobody.
//!
//! ```text
//!   actors: {tenant: {jwt: sub}} ─ compile ─► dyn Actor ─┐
//!   actor: [tenant, ip]       ─ Actors::select ─► [NamedActor, NamedActor] ─ key(request) ─► bytes
//! ```

pub mod address;
mod client_ip;
mod cookie;
mod header;
mod host;
pub mod ip;
mod jwt;
mod kind;
mod method;
mod named;
mod names;
mod path;
mod property;
mod query;
mod segment;

pub use kind::{Actor, ActorKind, FastPathPart, Scope};
pub(crate) use named::key_of;
pub use named::{NamedActor, key, parse_key};
pub use names::Actors;

use diana_document::{Node, Value, nearest, one_of, quoted};

/// All kinds of source.
pub static KINDS: &[&ActorKind] = &[
    &header::KIND,
    &cookie::KIND,
    &query::KIND,
    &path::KIND,
    &segment::KIND,
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

#[cfg(test)]
pub(crate) mod testing {
    //! Compiles definitions and returns values or mistakes.

    use super::{Actor, FastPathPart, Scope, compile, ip};
    use crate::request::{Parts, Request, Values};
    use diana_document::{Error, Errors, Node};

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

    /// The raw value of a request for the actor of a definition: `Some(None)` if the actor is
    /// missing, `None` if it is unknown.
    pub fn raw(definition: &str, request: &Values) -> Option<Option<Vec<u8>>> {
        let (actor, parts) = compiled(definition);
        match actor.raw(&Request::new(request, &parts)) {
            FastPathPart::Value(value) => Some(Some(value.to_vec())),
            FastPathPart::Missing => Some(None),
            FastPathPart::Unknown => None,
        }
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
    use crate::actor::testing;
    use crate::request::{Part, Values};
    use proptest::prelude::*;

    #[test]
    fn a_definition_has_one_source() {
        for (definition, why) in [
            (
                "{}",
                "no source is given, expected header, cookie, query, path, segment, jwt, property, ip, method or host",
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
                r#"{"segment": "a"}"#,
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
