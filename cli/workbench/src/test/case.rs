//! The cases of a test file.

use super::arrival::{Arrival, arrivals};
use super::expectation::Expectation;
use super::moment;
use super::request::Layer;
use crate::explain::request::parsed_instant;
use diana_base::time::Time;
use diana_config::Configuration;
use diana_document::{Fields, Node, quoted};
use std::collections::BTreeMap;

/// A case: requests to gateways on a virtual clock.
pub struct Case {
    /// The name.
    pub name: String,
    /// The place in the file, as `cases[0]`.
    pub place: String,
    /// When it begins.
    pub start: Time,
    /// The number of gateways.
    pub gateways: u32,
    /// When the global store is down: from the first instant to before the second one.
    pub outages: Vec<[Time; 2]>,
    /// The steps, in the order of the file.
    pub steps: Vec<Step>,
    /// The requests of all steps, in the order of their instants.
    pub arrivals: Vec<Arrival>,
}

/// One step of a case.
pub struct Step {
    /// The outcome that its requests should have.
    pub expectation: Option<Expectation>,
    /// The place of the expectation in the file, or else of the step.
    pub place: String,
    /// The number of its requests.
    pub requests: u32,
}

impl Case {
    /// Whether the global store is down.
    pub fn is_store_down(&self, at: Time) -> bool {
        self.outages.iter().any(|[from, to]| (*from..*to).contains(&at))
    }
}

/// The start of a case without `start`.
const START: &str = "2026-01-01T00:00:00Z";

/// The most gateways of a case.
const MAX_GATEWAYS: u64 = 100;

/// What the cases of a file share.
pub struct Shared<'a> {
    /// What each request has.
    pub request: Layer,
    /// The clients, by name.
    pub clients: BTreeMap<String, Layer>,
    /// What reads the bodies.
    pub configuration: &'a Configuration,
    /// Whether a global store counts any rule.
    pub has_global: bool,
}

/// Reads a case. Reports each mistake at its place, and then returns `None`.
pub fn read(node: &Node, shared: &Shared) -> Option<Case> {
    let mut fields = node.fields()?;
    let name = fields.require("name").and_then(|node| node.text().map(str::to_owned));
    let start = match fields.take("start") {
        Some(node) => instant(&node)?,
        None => parsed_instant(START).ok()?,
    };
    let gateways = fields.take("gateways").map_or(Some(1), |node| node.whole(1..=MAX_GATEWAYS))?;
    let gateways = u32::try_from(gateways).ok()?;
    let store = fields.take("store");
    if let Some(node) = store.filter(|_| !shared.has_global) {
        node.fail("no rule of the document has `scope: global`, leave `store` out");
    }
    let store = store.map(|node| node.one_or_many()).unwrap_or_default();
    let outages = store.iter().filter_map(|node| outage(node, start)).collect();
    let request = match fields.take("request").and_then(|node| node.fields()) {
        Some(mut own) => {
            let layer = Layer::default().with_client(&mut own);
            own.finish();
            layer.over(&shared.request)
        }
        None => shared.request.clone(),
    };
    let requests = fields.require("requests").and_then(|node| node.list());
    fields.finish();
    let requests = requests?;
    if requests.is_empty() {
        node.fail("`requests` is empty, write at least one request");
    }
    let (steps, arrivals) = arrivals(&requests, &request, start, gateways, shared)?;
    if steps.iter().all(|step| step.expectation.is_none()) && !steps.is_empty() {
        node.fail("no request of the case has `expect`, so that it cannot fail");
    }
    Some(Case { name: name?, place: place(node), start, gateways, outages, steps, arrivals })
}

/// Reads `clients`.
pub fn clients(fields: &mut Fields) -> BTreeMap<String, Layer> {
    let mut clients = BTreeMap::new();
    for (name, node) in fields.take("clients").and_then(|node| node.entries()).unwrap_or_default() {
        if let Some(mut fields) = node.fields() {
            let layer = Layer::default().with_client(&mut fields);
            fields.finish();
            clients.insert(name.to_owned(), layer);
        }
    }
    clients
}

/// The place of a value in the file.
pub fn place(node: &Node) -> String {
    node.warning("").path
}

fn instant(node: &Node) -> Option<Time> {
    match parsed_instant(node.text()?) {
        Ok(instant) => Some(instant),
        Err(why) => {
            node.fail(why);
            None
        }
    }
}

/// Reads `down`, `down from A`, `down until B`, or `down from A to B`.
fn outage(node: &Node, start: Time) -> Option<[Time; 2]> {
    const EXPECTED: &str = "`down`, `down from 10:00 to 10:05`, `down from 10:00` or `down until 10:05`";
    let text = node.text()?;
    let words: Vec<&str> = text.split_whitespace().collect();
    let (from, to) = match &words[..] {
        ["down"] => (None, None),
        ["down", "from", from] => (Some(*from), None),
        ["down", "until", to] => (None, Some(*to)),
        ["down", "from", from, "to", to] => (Some(*from), Some(*to)),
        _ => return node.expected(EXPECTED),
    };
    let instant = |text: Option<&str>, default| match text {
        None => Some(default),
        Some(text) => {
            let instant = moment::parsed(text, start);
            if instant.is_none() {
                node.fail(format!("{} is not an instant of the case, expected {EXPECTED}", quoted(text)));
            }
            instant
        }
    };
    let [from, to] = [instant(from, start), instant(to, Time::from_ns(u64::MAX))];
    let (from, to) = (from?, to?);
    if from >= to {
        node.fail(
            "the store is up again before it is down: a time of day is the first one after the start of the case",
        );
    }
    Some([from, to])
}
