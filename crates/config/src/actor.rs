//! The readers of actors: one definition, as in `actors`, and the names by which rules choose their
//! actors. One file a kind of source, each in [`KINDS`].

mod client_ip;
mod cookie;
mod fingerprint;
mod header;
mod host;
mod ip;
mod jwt;
mod method;
mod names;
mod path;
mod property;
mod query;
mod request_json;
mod segment;

pub use client_ip::client_ip;
pub use names::Actors;
pub(super) use names::is_name;

use diana_document::{Fields, Node, Value, nearest, one_of, quoted};
use diana_limiter::actor::ip::ClientIp;
use diana_limiter::actor::{Actor, NamedActor};
use diana_limiter::request::Parts;

/// All kinds of source.
pub static KINDS: &[&ActorKind] = &[
    &header::KIND,
    &cookie::KIND,
    &query::KIND,
    &path::KIND,
    &segment::KIND,
    &jwt::KIND,
    &property::KIND,
    &request_json::KIND,
    &fingerprint::KIND,
    &ip::KIND,
    &method::KIND,
    &host::KIND,
];

/// The kinds whose values another filter or a token's issuer may set.
pub(super) static SET_FOR_CLIENTS: &[&ActorKind] = &[&jwt::KIND, &property::KIND, &header::KIND];

/// The context in which an actor is read.
pub struct Scope<'a> {
    /// The request parts that the policy uses; reading an actor adds its own.
    pub parts: &'a mut Parts,
    /// The policy's `ip` options.
    pub ip: &'a ClientIp,
}

/// A kind of source: the key that configures the kind in `actors: {name: {key: …}}`, and its
/// reader.
pub struct ActorKind {
    /// The key in an actor's object.
    pub key: &'static str,
    /// Reads the value at that key. Reports each mistake at its place and then returns `None`.
    read: fn(Node, &mut Scope) -> Option<Box<dyn Actor>>,
    /// Reads the short form `actors: {name: key}`. `None` for a kind that needs options.
    bare: Option<Bare>,
}

/// Makes a source without options.
type Bare = fn(&mut Scope) -> Box<dyn Actor>;

/// Reads the value of a kind without options: `{}` or `true`.
fn nothing_to_set(node: &Node) -> Option<()> {
    match node.value() {
        Value::Bool(true) => Some(()),
        Value::Object(_) => node.fields().map(|fields| fields.finish()),
        _ => node.expected("`{}` or true"),
    }
}

/// Reads a definition under a name. Reports each mistake at its place and then returns `None`.
pub(super) fn named(name: &str, node: Node, scope: &mut Scope) -> Option<NamedActor> {
    let actor = compile(node, scope)?.into();
    Some(NamedActor::new(name, actor, scope.parts))
}

/// Reads one definition: an object with the key of one kind, or the name of a kind without
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
    let source = source(&mut fields, KINDS, scope);
    if *node.value() == Value::Object(Vec::new()) {
        fields.fail(format!("no source is given, expected {}", one_of(&keys())));
    }
    fields.finish();
    source
}

/// Reads the source that an object with other keys names by the key of one of `kinds`.
pub(super) fn source(
    fields: &mut Fields,
    kinds: &[&'static ActorKind],
    scope: &mut Scope,
) -> Option<Box<dyn Actor>> {
    let mut given = Vec::new();
    for kind in kinds {
        given.extend(fields.take(kind.key).map(|node| (kind, node)));
    }
    if given.len() > 1 {
        let found: Vec<String> = given.iter().map(|(kind, _)| format!("`{}`", kind.key)).collect();
        fields.fail(format!("expected one source, found {}", found.join(" and ")));
    }
    // Compile all sources, so that the mistakes in each are reported.
    let compiled: Vec<_> = given.into_iter().map(|(kind, node)| (kind.read)(node, scope)).collect();
    let [only] = <[_; 1]>::try_from(compiled).ok()?;
    only
}

/// Takes the source of a value that may be a list. Reports each mistake at its place and then
/// returns `None`.
pub(super) fn list(fields: &mut Fields, scope: &mut Scope) -> Option<Box<dyn Actor>> {
    let given = (fields.take(jwt::KIND.key), fields.take(property::KIND.key));
    match given {
        (Some(node), None) => (jwt::KIND.read)(node, scope),
        (None, Some(node)) => (property::KIND.read)(node, scope),
        _ => {
            fields.fail("expected `jwt` or `property`, whose values may be lists");
            None
        }
    }
}

/// The steps of the path of a host attribute.
pub(super) fn attribute(node: &Node) -> Option<Vec<Box<str>>> {
    property::steps(node)
}

fn keys() -> Vec<&'static str> {
    KINDS.iter().map(|kind| kind.key).collect()
}

#[cfg(test)]
mod testing {
    //! Compiles definitions and returns values or mistakes.

    use super::{Scope, client_ip, compile};
    use diana_document::{Error, Errors, Node};
    use diana_limiter::actor::{Actor, FastPathPart};
    use diana_limiter::request::{Parts, Request, Values};

    /// Calls `read` with `json` and a scope with default options. Returns its result and the
    /// mistakes.
    pub fn with_scope<T>(json: &str, read: impl FnOnce(Node, &mut Scope) -> T) -> (T, Parts, Vec<String>) {
        let (value, errors) = (diana_document::parse(json.as_bytes()).unwrap(), Errors::default());
        let mut parts = Parts::default();
        let options = client_ip(None, &mut parts);
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
    use diana_limiter::request::{Part, Values};
    use proptest::prelude::*;

    #[test]
    fn a_definition_has_one_source() {
        for (definition, why) in [
            (
                "{}",
                "no source is given, expected header, cookie, query, path, segment, jwt, property, request_json, fingerprint, ip, method or host",
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

#[cfg(test)]
mod raw_values {
    use crate::actor::testing::{raw, value};
    use diana_limiter::request::{Part, Values};
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
