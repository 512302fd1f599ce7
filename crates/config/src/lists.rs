//! `allow` and `deny`: addresses, networks, and values of actors.

use super::actor::{Actors, Scope};
use super::keys::DENY_KEYS;
use super::matcher::network;
use diana_document::{Node, Value};
use diana_limiter::actor::parse_key;
use diana_limiter::policy::{List, Member};
use diana_response::ResponseOverride;

/// Reads a list. Each mistake is reported at its place, and the entry is left out.
pub(super) fn compile(node: Option<Node>, actors: &Actors, scope: &mut Scope) -> List {
    let mut members = Vec::new();
    for node in node.and_then(|node| node.list()).unwrap_or_default() {
        match node.value() {
            Value::Text(_) => members.extend(network(&node).map(Member::Network)),
            Value::Object(entries) if entries.is_empty() => {
                node.fail("expected an actor and its value, as in `{user: mallory}`");
            }
            Value::Object(_) => {
                for (name, values) in node.entries().unwrap_or_default() {
                    members.extend(of_actor(name, &values, actors, scope));
                }
            }
            _ => {
                node.expected::<()>("an address, a network such as `10.0.0.0/8`, or `{actor: value}`");
            }
        }
    }
    members.into_iter().collect()
}

/// Reads `deny`: a list, or `{members, response}`.
pub(super) fn deny(
    node: Option<Node>,
    actors: &Actors,
    scope: &mut Scope,
) -> (List, Option<ResponseOverride>) {
    let fields = match &node {
        Some(node) => match node.value() {
            Value::Object(entries) if entries.iter().any(|(key, _)| DENY_KEYS.contains(&&**key)) => {
                node.fields()
            }
            _ => None,
        },
        None => None,
    };
    let Some(mut fields) = fields else {
        return (compile(node, actors, scope), None);
    };
    let members = compile(fields.require("members"), actors, scope);
    let response = fields.take("response").and_then(|node| ResponseOverride::compile(&node));
    fields.finish();
    (members, response)
}

/// `{user: vip-42}`, or `{user: [vip-42, vip-43]}`. A number is refused, because YAML reads `007`
/// as the number 7.
fn of_actor(name: &str, values: &Node, actors: &Actors, scope: &mut Scope) -> Vec<Member> {
    let Some(named) = actors.find(name, values, scope) else {
        return Vec::new();
    };
    let member = |value: Node| match parse_key(std::slice::from_ref(&named), value.text()?) {
        Ok(key) => Some(Member::Actor(named.clone(), key)),
        Err(why) => {
            value.fail(why);
            None
        }
    };
    values.one_or_many().into_iter().filter_map(member).collect()
}
