//! Replays scripted decisions through the whole filter, with every callback and host call in
//! between.

use super::gateway::{Fate, Gateway};
use super::vm::Vm;
use diana_base::time::Time;
use diana_limiter::cells::store::CasSemantics;
use diana_limiter::policy::{Measure, Measures, ResponseNumber, Usage};
use diana_limiter::request::Part;
use serde_json::{Value, json};

/// One event of a script.
pub enum Event {
    /// A worker decided about a request.
    Decided { now: Time, worker: usize, parts: Vec<(Part, Vec<u8>)>, refused: bool },
    /// A request ended, after a response or without one.
    Over { now: Time, request: usize, usage: Option<Usage> },
}

impl Event {
    fn now(&self) -> Time {
        match self {
            Event::Decided { now, .. } | Event::Over { now, .. } => *now,
        }
    }
}

/// The number of the first request about which the whole filter decides differently.
pub fn differs(rules: CasSemantics, json: &str, measures: &Measures, events: &[Event]) -> Option<usize> {
    // nginx' clock has whole milliseconds, so scripts with finer times are for Envoy only.
    if rules == CasSemantics::Strict && events.iter().any(|event| event.now().as_ns() % 1_000_000 > 0) {
        return None;
    }
    let workers = events.iter().map(|event| match event {
        Event::Decided { worker, .. } => worker + 1,
        Event::Over { .. } => 1,
    });
    let gateway = Gateway::start(rules, workers.max().unwrap_or(1), json);
    let mut requests = Vec::new();
    for event in events {
        gateway.world.clock.set(event.now().as_ns());
        match event {
            Event::Decided { worker, parts, refused, .. } => {
                let request = gateway.vms[*worker].ask(parts.clone());
                requests.push((*worker, request));
                let answered = matches!(gateway.fate(request), Fate::Answered(_));
                if answered != *refused || (!answered && gateway.fate(request) != Fate::Upstream) {
                    return Some(requests.len() - 1);
                }
            }
            Event::Over { request, usage, .. } => {
                let (worker, request) = requests[*request];
                let vm = &gateway.vms[worker];
                match usage {
                    Some(usage) => end(vm, vm.stream_of(request), usage, measures),
                    None if measures.any() => vm.reset(vm.stream_of(request)),
                    None => vm.serve_request(request),
                }
            }
        }
    }
    gateway.no_crash();
    gateway.end_all();
    assert_eq!(gateway.kept_streams(), 0);
    None
}

/// Ends a stream that used this much.
fn end(vm: &Vm, id: u32, usage: &Usage, measures: &Measures) {
    let size = usize::try_from(usage.request_bytes).unwrap();
    [size / 3, size - size / 3]
        .into_iter()
        .filter(|part| *part > 0)
        .for_each(|part| vm.request_body(id, part));
    let Some(status) = usage.status else { return vm.reset(id) };
    let number = |index: usize| usage.values.get(index).copied().unwrap_or_default();
    let numbers: Vec<(&Measure, ResponseNumber)> =
        measures.values.iter().enumerate().map(|(index, measure)| (measure, number(index))).collect();
    let is_json = |measure: &Measure| matches!(measure, Measure::Json(_));
    let is_cut = numbers.iter().any(|(measure, number)| is_json(measure) && !number.is_final);
    let kind = if is_cut { "text/event-stream" } else { "application/json" };
    let (mut headers, mut body) = (vec![("content-type".to_owned(), kind.to_owned())], None);
    for (measure, number) in numbers {
        let seen = number.seen.map(|number| number.to_string());
        match (measure, seen) {
            (Measure::Header(name), Some(value)) => headers.push((name.to_string(), value)),
            (Measure::Header(name), None) if !number.is_final => {
                headers.push((name.to_string(), "many".into()));
            }
            (Measure::Json(pointer), Some(value)) => {
                let value = serde_json::from_str(&value).unwrap();
                insert(body.get_or_insert_with(|| json!({})), pointer, value);
            }
            (Measure::Json(_), None) => _ = body.get_or_insert_with(|| json!({})),
            (Measure::Header(_), None) | (Measure::Property(_), _) => {}
        }
    }
    let headers: Vec<(&str, &str)> = headers.iter().map(|(name, value)| (&**name, &**value)).collect();
    vm.respond(id, status.into(), &headers);
    let other = || " ".repeat(usize::try_from(usage.response_bytes).unwrap());
    let body = match body {
        Some(document) if is_cut => format!("data: {document}\n\n"),
        body => body.map_or_else(other, |document| document.to_string()),
    };
    body.as_bytes().chunks(7).for_each(|part| vm.response_body(id, part));
    match is_cut {
        true => vm.reset(id),
        false => vm.end(id),
    }
}

/// Sets the number at this pointer of a document.
fn insert(document: &mut Value, pointer: &str, number: Value) {
    let keys = pointer.split('/').skip(1);
    *keys.fold(document, |inner, key| {
        inner.as_object_mut().unwrap().entry(key).or_insert_with(|| json!({}))
    }) = number;
}
