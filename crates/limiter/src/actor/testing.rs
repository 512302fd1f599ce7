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

/// The raw value of a request for the actor of a definition: `Some(None)` if the actor is missing,
/// `None` if it is unknown.
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
