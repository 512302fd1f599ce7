//! The time line of a case: each step's requests, with their instants.

use super::case::{Shared, Step, place};
use super::expectation::Expectation;
use super::moment;
use super::request::Layer;
use crate::explain::request::{Incoming, Wrong};
use diana_base::time::{Span, Time};
use diana_document::{Fields, Node, Value, quoted};
use std::net::IpAddr;
use std::rc::Rc;

/// One request.
pub struct Arrival {
    /// When it comes.
    pub at: Time,
    /// The index of its step.
    pub step: usize,
    /// Its number in the step, from 1.
    pub number: u32,
    /// The gateway to which it comes, from 0.
    pub gateway: u32,
    /// The request.
    pub request: Rc<Incoming>,
}

/// The most requests of a case.
const MAX_REQUESTS: u64 = 1_000_000;

/// The most addresses of a network that sends requests.
const MAX_ADDRESSES: u32 = 16;

/// Reads the steps of a case, and puts their requests in order.
pub fn arrivals(
    nodes: &[Node],
    request: &Layer,
    start: Time,
    gateways: u32,
    shared: &Shared,
) -> Option<(Vec<Step>, Vec<Arrival>)> {
    let (mut steps, mut arrivals, mut last) = (Vec::new(), Vec::<Arrival>::new(), None);
    let (mut is_complete, mut chosen) = (true, Vec::new());
    for (index, node) in nodes.iter().enumerate() {
        let Some(read) = StepKeys::read(node, request, gateways, shared) else {
            is_complete = false;
            continue;
        };
        let first = match (&read.at, read.after, last) {
            (Some(at), ..) => match moment::of(at, start) {
                Some(at) => at,
                None => {
                    is_complete = false;
                    continue;
                }
            },
            (None, Some(after), last) => last.unwrap_or(start).after(after),
            (None, None, Some(last)) => last.after(read.every),
            (None, None, None) => start,
        };
        let count = read.count();
        let before = u64::try_from(arrivals.len()).unwrap_or(u64::MAX);
        if before.saturating_add(count) > MAX_REQUESTS {
            node.fail(format!("the case has more than {MAX_REQUESTS} requests, write fewer"));
            return None;
        }
        let lasts = read.every.as_ns().checked_mul(read.repeat.saturating_sub(1));
        if lasts.and_then(|lasts| first.as_ns().checked_add(lasts)).is_none_or(|last| last == u64::MAX) {
            node.fail("the requests reach beyond the year 2554, where the clock ends");
            return None;
        }
        let (mut number, mut at) = (0u32, first);
        for round in 0..read.repeat {
            at = first.after(Span::from_ns(read.every.as_ns().saturating_mul(round)));
            for request in &read.requests {
                number = number.saturating_add(1);
                chosen.push(read.gateway);
                arrivals.push(Arrival { at, step: index, number, gateway: 0, request: Rc::clone(request) });
            }
        }
        last = Some(at);
        steps.push(Step { expectation: read.expectation, place: read.place, requests: number });
    }
    let mut order: Vec<(Arrival, Option<u32>)> = arrivals.into_iter().zip(chosen).collect();
    order.sort_by_key(|(arrival, _)| (arrival.at, arrival.step, arrival.number));
    let mut next = 0u32;
    let arrivals = order.into_iter().map(|(arrival, gateway)| {
        let gateway = gateway.unwrap_or_else(|| {
            let turn = next;
            next = next.checked_add(1).filter(|next| *next < gateways).unwrap_or(0);
            turn
        });
        Arrival { gateway, ..arrival }
    });
    is_complete.then(|| (steps, arrivals.collect()))
}

/// The keys of a step.
struct StepKeys<'a> {
    /// One request of each client.
    requests: Vec<Rc<Incoming>>,
    at: Option<Node<'a>>,
    after: Option<Span>,
    every: Span,
    repeat: u64,
    /// `None`: each request in turn.
    gateway: Option<u32>,
    expectation: Option<Expectation>,
    place: String,
}

impl<'a> StepKeys<'a> {
    /// The number of requests.
    fn count(&self) -> u64 {
        self.repeat.saturating_mul(u64::try_from(self.requests.len()).unwrap_or(u64::MAX))
    }

    fn read(node: &Node<'a>, request: &Layer, gateways: u32, shared: &Shared) -> Option<StepKeys<'a>> {
        const SPANS: std::ops::RangeInclusive<Span> = Span::ZERO..=Span::from_secs(10 * 366 * 86_400);
        let mut fields = node.fields()?;
        let own = Layer::default().with(&mut fields);
        let clients = clients(&mut fields, request, shared);
        let (at, after) = (fields.take("at"), fields.take("after"));
        if let (Some(_), Some(after)) = (&at, &after) {
            after.fail("`at` is given already");
        }
        let after = after.map_or(Some(None), |node| node.span(SPANS).map(Some));
        let every = fields.take("every").map_or(Some(Span::ZERO), |node| node.span(SPANS));
        let repeat = fields.take("repeat").map_or(Some(1), |node| node.size(1..=MAX_REQUESTS));
        let gateway = fields.take("gateway").map_or(Some(None), |node| {
            node.whole(1..=gateways.into()).map(|number| Some(number.saturating_sub(1)))
        });
        let expect = fields.take("expect");
        let place = place(expect.as_ref().unwrap_or(node));
        fields.finish();
        let (clients, repeat) = (clients?, repeat?);
        let count = repeat.saturating_mul(u64::try_from(clients.len()).unwrap_or(u64::MAX));
        let expectation = expect.map_or(Some(None), |node| Expectation::read(&node, count).map(Some));
        let mut requests = Vec::new();
        for client in clients {
            match own.over(&client).read(shared.configuration) {
                Ok(incoming) => requests.push(Rc::new(incoming)),
                Err(Wrong { field, why }) => {
                    node.fail(format!("`{field}`: {why}"));
                    return None;
                }
            }
        }
        Some(StepKeys {
            requests,
            at,
            after: after?,
            every: every?,
            repeat,
            gateway: gateway?.and_then(|gateway| u32::try_from(gateway).ok()),
            expectation: expectation?,
            place,
        })
    }
}

/// The clients of a step: names of `clients`, addresses, or networks, each of whose addresses sends
/// a request.
fn clients(fields: &mut Fields, request: &Layer, shared: &Shared) -> Option<Vec<Layer>> {
    let Some(node) = fields.take("from") else { return Some(vec![request.clone()]) };
    let (mut clients, mut is_complete) = (Vec::new(), true);
    for node in node.one_or_many() {
        let Some(text) = node.text() else {
            is_complete = false;
            continue;
        };
        if let Some(client) = shared.clients.get(text) {
            clients.push(client.over(request));
        } else if let Ok(address) = text.parse::<IpAddr>() {
            clients.push(request.at_address(address.to_string()));
        } else if text.contains('/') {
            match network(text) {
                Some(addresses) => clients.extend(addresses.into_iter().map(|one| request.at_address(one))),
                None => {
                    is_complete = false;
                    node.fail(format!(
                        "{} is not a network, expected one of up to 65536 addresses, from its first one, such as \
                         `198.51.100.0/28`",
                        quoted(text)
                    ));
                }
            }
        } else {
            let names: Vec<&str> = shared.clients.keys().map(String::as_str).collect();
            let hint = match node.meant(text, &names) {
                Some(near) => format!("did you mean `{near}`?"),
                None => {
                    "expected a name of `clients`, an address, or a network of up to 65536 addresses".into()
                }
            };
            node.fail(format!("unknown client {}, {hint}", quoted(text)));
            is_complete = false;
        }
    }
    if let (Value::List(items), true) = (node.value(), clients.is_empty()) {
        debug_assert!(items.is_empty() || !is_complete, "each item is a client or a mistake");
        node.fail("no client is listed");
        return None;
    }
    is_complete.then_some(clients)
}

/// The addresses of a network such as `198.51.100.0/28`.
fn network(text: &str) -> Option<Vec<String>> {
    let (address, bits) = text.split_once('/')?;
    let (address, bits): (IpAddr, u32) = (address.parse().ok()?, bits.parse().ok()?);
    let (first, width) = match address {
        IpAddr::V4(address) => (u128::from(u32::from(address)), 32u32),
        IpAddr::V6(address) => (u128::from(address), 128),
    };
    let free = width.checked_sub(bits).filter(|free| *free <= MAX_ADDRESSES)?;
    let count = 1u128.checked_shl(free)?;
    if !first.is_multiple_of(count) {
        return None;
    }
    let address = |offset: u128| -> Option<String> {
        let number = first.checked_add(offset)?;
        Some(match address {
            IpAddr::V4(_) => std::net::Ipv4Addr::from(u32::try_from(number).ok()?).to_string(),
            IpAddr::V6(_) => std::net::Ipv6Addr::from(number).to_string(),
        })
    };
    (0..count).map(address).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_is_all_its_addresses() {
        let all = network("198.51.100.4/30").unwrap();
        assert_eq!(all, ["198.51.100.4", "198.51.100.5", "198.51.100.6", "198.51.100.7"]);
        assert_eq!(network("2001:db8::/127").unwrap(), ["2001:db8::", "2001:db8::1"]);
        assert_eq!(network("10.0.0.0/16").unwrap().len(), 65_536);
        for text in ["198.51.100.7/30", "10.0.0.0/15", "10.0.0.0/33", "10.0.0.0", "2001:db8::/64", "::/x"] {
            assert!(network(text).is_none(), "{text}");
        }
    }
}
