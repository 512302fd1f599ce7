//! Scripted decisions once more, by the whole filter: every callback and every host call between a host and them.
//!
//! It does not know: why a request is refused. It is told whether it was when the core was asked alone.

use super::gateway::{Fate, Gateway};
use diana::request::Part;
use diana::store::Rules;
use diana::time::Time;

/// What happened, in its order.
pub enum Event {
    /// A worker was asked about a request, and refused it or not.
    Asked { now: Time, worker: usize, parts: Vec<(Part, Vec<u8>)>, refused: bool },
    /// The request of this number is over.
    Over { now: Time, request: usize },
}

impl Event {
    fn now(&self) -> Time {
        match self {
            Event::Asked { now, .. } | Event::Over { now, .. } => *now,
        }
    }
}

/// The number of the first request about which the whole filter decides otherwise.
pub fn differs(rules: Rules, json: &str, events: &[Event]) -> Option<usize> {
    // nginx tells the time in whole milliseconds, and what is between them is the core's own affair.
    if rules == Rules::Strict && events.iter().any(|event| event.now().as_ns() % 1_000_000 > 0) {
        return None;
    }
    let workers = events.iter().map(|event| match event {
        Event::Asked { worker, .. } => worker + 1,
        Event::Over { .. } => 1,
    });
    let gateway = Gateway::start(rules, workers.max().unwrap_or(1), json);
    let mut requests = Vec::new();
    for event in events {
        gateway.world.clock.set(event.now().as_ns());
        match event {
            Event::Asked { worker, parts, refused, .. } => {
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
    assert_eq!(gateway.owing(), 0);
    None
}
