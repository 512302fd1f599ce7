//! Which entry of the allow list or the deny list names the client, by asking the engine about
//! parts of the list.

use super::document::{Document, compile, get};
use super::report::ListEntry;
use super::request::Incoming;
use super::simulation::Simulation;
use diana_document::Value;
use diana_limiter::cells::store::Memory;
use diana_limiter::decide::{Outcome, Reason};
use diana_limiter::session::{Session, Worker};
use miette::Result;

/// The entry that names the client, if the engine found the client on a list.
pub fn entry(document: &Document, incoming: &Incoming, simulation: &Simulation) -> Result<Option<ListEntry>> {
    let Some(first) = simulation.decisions.first() else { return Ok(None) };
    let (list, is_enforced) = match first.outcome {
        Outcome::Reject(Reason::Denied) => ("deny", true),
        Outcome::Allowed => ("allow", true),
        _ if first.is_denied_in_shadow => ("deny", false),
        _ => return Ok(None),
    };
    let members = match document.get(list) {
        Some(Value::List(members)) => members.as_slice(),
        Some(value) => match get(value, "members") {
            Some(Value::List(members)) => members.as_slice(),
            _ => &[],
        },
        None => &[],
    };
    let mut members: Vec<Value> = members.iter().flat_map(single).collect();
    while members.len() > 1 {
        let second = members.split_off(members.len().div_euclid(2));
        if !names(document, incoming, &members)? {
            members = second;
        }
    }
    let entry = members.first().map(|member| match member {
        Value::Text(text) => text.clone(),
        other => other.to_string(),
    });
    Ok(entry.map(|entry| ListEntry { list, entry, is_enforced }))
}

/// The entries with one value each: `{user: [a, b]}` has two.
fn single(member: &Value) -> Vec<Value> {
    let Value::Object(entries) = member else { return vec![member.clone()] };
    let of_actor = |(actor, values): &(String, Value)| {
        let values = match values {
            Value::List(values) => values.clone(),
            value => vec![value.clone()],
        };
        let actor = actor.clone();
        values.into_iter().map(move |value| Value::Object(vec![(actor.clone(), value)]))
    };
    entries.iter().flat_map(of_actor).collect()
}

/// Whether one of these entries names the client.
fn names(document: &Document, incoming: &Incoming, members: &[Value]) -> Result<bool> {
    let kept =
        ["actors", "ip"].into_iter().filter_map(|key| Some((key.to_owned(), document.get(key)?.clone())));
    let own =
        [("limits".to_owned(), Value::List(Vec::new())), ("deny".to_owned(), Value::List(members.to_vec()))];
    let policy = compile(&Value::Object(own.into_iter().chain(kept).collect()))?.policy;
    let mut worker = Worker::new(policy.clone(), Memory::new(), &[0; 16]);
    let request = policy.request(&incoming.values);
    let (_, decision) = Session::start(&mut worker, &request, || incoming.start);
    Ok(decision.outcome == Outcome::Reject(Reason::Denied))
}
