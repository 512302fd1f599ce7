//! Replays scripted decisions through the whole filter, with every callback and host call in
//! between.

use super::gateway::{Fate, Gateway};
use diana_base::time::Time;
use diana_limiter::cells::store::Rules;
use diana_limiter::request::Part;

/// One event of a script.
pub enum Event {
    /// A worker decided about a request.
    Decided { now: Time, worker: usize, parts: Vec<(Part, Vec<u8>)>, refused: bool },
    /// A request ended.
    Over { now: Time, request: usize },
}

impl Event {
    fn now(&self) -> Time {
        match self {
            Event::Decided { now, .. } | Event::Over { now, .. } => *now,
        }
    }
}

/// The number of the first request about which the whole filter decides differently.
pub fn differs(rules: Rules, json: &str, events: &[Event]) -> Option<usize> {
    // nginx' clock has whole milliseconds, so scripts with finer times are for Envoy only.
    if rules == Rules::Strict && events.iter().any(|event| event.now().as_ns() % 1_000_000 > 0) {
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
            Event::Over { request, .. } => {
                let (worker, request) = requests[*request];
                gateway.vms[worker].serve_request(request);
            }
        }
    }
    gateway.no_crash();
    gateway.end_all();
    assert_eq!(gateway.kept_streams(), 0);
    None
}
