//! Which actor each rule counts, and the actor's value in the request. The engine's own readers
//! find the value.

use super::document::{Document, get};
use super::request::Incoming;
use diana_config::actor::{Actors, Scope, client_ip};
use diana_document::{Errors, Node, Value};
use diana_limiter::actor::NamedActor;
use diana_limiter::request::{Parts, Request};
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The actors of one rule in the request.
#[derive(Default)]
pub struct RuleActors {
    /// Each actor's name and value, in the order of the document. Empty for `all`.
    pub values: Vec<(String, Option<String>)>,
    /// The client's address, as `missing: ip` counts it.
    pub address: Option<String>,
}

/// The actors of the rules of these limits, by the indices of limit and rule.
pub fn of_rules(
    document: &Document,
    limits: &[usize],
    incoming: &Incoming,
) -> BTreeMap<(usize, usize), RuleActors> {
    // The document is valid, so nobody reads the errors.
    let (errors, mut parts) = (Errors::default(), Parts::default());
    let node = |value| Node::root(value, &errors);
    let ip = client_ip(document.get("ip").map(node), &mut parts);
    let mut scope = Scope { parts: &mut parts, ip: &ip };
    let actors = Actors::compile(document.get("actors").map(node), &mut scope);
    let address = NamedActor::ip(&ip, scope.parts);
    let mut selected = Vec::new();
    for at in limits {
        let Some(limit) = document.limits.get(*at) else { continue };
        let urls = limit.patterns();
        for (index, (_, rule)) in limit.rules().enumerate() {
            let actor = get(rule, "actor");
            let named = actor.and_then(|actor| actors.select(node(actor), Some(&urls), &mut scope));
            let order: Vec<String> = actor.map(names).unwrap_or_default();
            selected.push(((*at, index), order, named.unwrap_or_default()));
        }
    }
    let request = Request::new(&incoming.values, &parts);
    let value = |named: &NamedActor| value(named, &request);
    let of_rule = |(place, order, mut named): (_, Vec<String>, Vec<NamedActor>)| {
        named.sort_by_key(|named| order.iter().position(|name| name == named.name()));
        let values = named.iter().map(|named| (named.name().to_owned(), value(named))).collect();
        (place, RuleActors { values, address: value(&address) })
    };
    selected.into_iter().map(of_rule).collect()
}

/// The names in a rule's `actor`; `user` for its alias `account`.
fn names(actor: &Value) -> Vec<String> {
    let name = |value: &Value| match value {
        Value::Text(name) if name == "account" => "user".to_owned(),
        Value::Text(name) => name.clone(),
        other => other.to_string(),
    };
    match actor {
        Value::List(items) => items.iter().map(name).collect(),
        value => vec![name(value)],
    }
}

/// The value of an actor, as text.
fn value(named: &NamedActor, request: &Request) -> Option<String> {
    let mut key = Vec::new();
    if !named.actor().write(request, &mut key) {
        return None;
    }
    let network = if named.canonical_form().starts_with("ip ") { network(&key) } else { None };
    Some(network.unwrap_or_else(|| String::from_utf8_lossy(&key).into_owned()))
}

/// The network in the bytes of the actor `ip`: the version, the length of the prefix, the address.
fn network(key: &[u8]) -> Option<String> {
    let (prefix, address, whole): (u8, IpAddr, u8) = match key {
        [4, prefix, address @ ..] => (*prefix, Ipv4Addr::from(*address.first_chunk::<4>()?).into(), 32),
        [6, prefix, address @ ..] => (*prefix, Ipv6Addr::from(*address.first_chunk::<16>()?).into(), 128),
        _ => return None,
    };
    Some(if prefix == whole { address.to_string() } else { format!("{address}/{prefix}") })
}
