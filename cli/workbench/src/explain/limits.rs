//! Finds the limits of the document that apply, by asking the engine about derived documents. In a
//! derived document, each limit has one shadow rule that refuses everything, so the decision names
//! the limits that apply.

use super::conditions::{self, Aspect};
use super::document::{Document, Limit, changed, compile};
use super::request::Incoming;
use diana_config::matcher;
use diana_document::Value;
use diana_limiter::cells::store::Memory;
use diana_limiter::session::{Session, Worker};
use miette::Result;
use std::collections::BTreeMap;
use std::net::IpAddr;

/// How the limits of a document meet a request. Limits are named by their index in the document.
pub struct Matched {
    /// The limits that apply, in the order of their checks.
    pub applying: Vec<usize>,
    /// The limits that match but do not apply, because an exclusive limit applies.
    pub switched_off: Vec<usize>,
    /// All other limits.
    pub failing: Vec<Failing>,
    /// The client's address, as the document finds it.
    pub client: Option<IpAddr>,
}

/// A limit that does not match.
pub struct Failing {
    /// The limit's index in the document.
    pub limit: usize,
    /// Whether the url matches.
    pub url_matches: bool,
    /// The conditions that do not hold.
    pub failed: Vec<Aspect>,
}

/// Matches all limits with the request.
pub fn matched(document: &Document, incoming: &Incoming) -> Result<Matched> {
    let marked = |is_kept: fn(&str) -> bool| {
        let limit = |(at, limit): (usize, &Limit)| marked(limit.value, is_kept, at);
        document.limits.iter().enumerate().map(limit).collect::<Vec<Value>>()
    };
    let exclusive = marked(|key| is_matched(key) || key == "exclusive");
    let (applying, client) = holding(exclusive, document, incoming)?;
    let (matching, _) = holding(marked(is_matched), document, incoming)?;
    let switched_off: Vec<usize> = matching.into_iter().filter(|at| !applying.contains(at)).collect();
    let rest: Vec<(usize, &Limit)> = document
        .limits
        .iter()
        .enumerate()
        .filter(|(at, _)| !applying.contains(at) && !switched_off.contains(at))
        .collect();

    // One limit for each url, and one for each condition on any url.
    let (mut limits, mut conditions, mut urls) = (Vec::new(), BTreeMap::new(), BTreeMap::new());
    for (at, limit) in &rest {
        urls.insert(limits.len(), *at);
        limits.push(marked_at(limit.value, is_url, &limits));
        for aspect in conditions::of(limit.value) {
            let root = vec![("url", Value::Text("/".into())), (aspect.key, aspect.value.clone())];
            let value = changed(&Value::Object(Vec::new()), |_| false, root);
            conditions.insert(limits.len(), (*at, aspect));
            limits.push(marked_at(&value, |_| true, &limits));
        }
    }
    let held = if limits.is_empty() { Vec::new() } else { holding(limits, document, incoming)?.0 };
    let mut held_by_place = vec![false; urls.len().saturating_add(conditions.len())];
    for at in held {
        held_by_place.get_mut(at).into_iter().for_each(|held| *held = true);
    }
    let holds = |place: usize| held_by_place.get(place) == Some(&true);
    let mut failed: BTreeMap<usize, Vec<Aspect>> = BTreeMap::new();
    for (place, (at, aspect)) in conditions {
        if !holds(place) {
            failed.entry(at).or_default().push(aspect);
        }
    }
    let failing = urls.into_iter().map(|(place, limit)| Failing {
        limit,
        url_matches: holds(place),
        failed: failed.remove(&limit).unwrap_or_default(),
    });
    Ok(Matched { applying, switched_off, failing: failing.collect(), client })
}

/// Whether the key decides which requests a limit matches.
fn is_matched(key: &str) -> bool {
    is_url(key) || matcher::KINDS.iter().any(|kind| kind.key == key)
}

/// Whether the key decides which paths a limit matches.
fn is_url(key: &str) -> bool {
    matches!(key, "url" | "Url" | "case_sensitive")
}

/// The limit with these keys and one rule, named by `number`.
fn marked(limit: &Value, is_kept: impl Fn(&str) -> bool, number: usize) -> Value {
    let text = |text: &str| Value::Text(text.into());
    let rule = vec![
        ("name".to_owned(), text(&format!("m{number}"))),
        ("rpu".to_owned(), Value::Whole(0)),
        ("unit".to_owned(), text("second")),
        ("mode".to_owned(), text("shadow")),
    ];
    changed(limit, is_kept, vec![("rules", Value::List(vec![Value::Object(rule)]))])
}

fn marked_at(limit: &Value, is_kept: impl Fn(&str) -> bool, before: &[Value]) -> Value {
    marked(limit, is_kept, before.len())
}

/// The numbers of the marked limits that apply to the request, in the order of their checks, and
/// the client's address.
fn holding(
    limits: Vec<Value>,
    whole: &Document,
    incoming: &Incoming,
) -> Result<(Vec<usize>, Option<IpAddr>)> {
    let local = Value::Object(vec![("max_actors".into(), Value::Whole(1))]);
    let keys = [("limits".into(), Value::List(limits)), ("local".into(), local)].into_iter();
    let others = ["ip", "case_sensitive"].into_iter();
    let others = others.filter_map(|key| Some((key.to_owned(), whole.get(key)?.clone())));
    let document = Value::Object(keys.chain(others).collect());
    let policy = compile(&document)?.policy;
    let mut worker = Worker::new(policy.clone(), Memory::new(), &[0; 16]);
    let request = policy.request(&incoming.values);
    let (_, decision) = Session::start(&mut worker, &request, || incoming.start);
    let number = |name: &str| name.strip_prefix('m')?.parse().ok();
    let rules = decision.checks.iter().filter_map(|check| policy.rule(check.rule()));
    Ok((rules.filter_map(|rule| number(rule.name())).collect(), policy.client(&request)))
}
