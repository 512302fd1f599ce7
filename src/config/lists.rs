//! `allow` and `deny`: addresses, networks, and values of actors.
//!
//! It does not know: what happens to who is listed.

use crate::actor::{self, Actors, Scope, address::Network};
use crate::document::{Node, Value};
use crate::policy::{List, Member};

/// Reads a list. Mistakes are reported at their place and leave the entry out.
pub(super) fn compile(node: Option<Node>, actors: &Actors, scope: &mut Scope) -> List {
    let mut members = Vec::new();
    for node in node.and_then(|node| node.list()).unwrap_or_default() {
        match node.value() {
            Value::Text(text) => match Network::parse(text) {
                Ok(network) => members.push(Member::Network(network)),
                Err(why) => node.fail(why),
            },
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

/// `{user: vip-42}`, or `{user: [vip-42, vip-43]}`.
fn of_actor(name: &str, values: &Node, actors: &Actors, scope: &mut Scope) -> Vec<Member> {
    let Some(named) = actors.find(name, values, scope) else {
        return Vec::new();
    };
    let member = |value: Node| match actor::parse_key(std::slice::from_ref(&named), &value.scalar()?) {
        Ok(key) => Some(Member::Actor(named.clone(), key)),
        Err(why) => {
            value.fail(why);
            None
        }
    };
    values.one_or_many().into_iter().filter_map(member).collect()
}
