//! The gateways of a document, on a virtual clock. Each request goes to a worker of its own, so
//! every rule checks every request, without a worker's cache.
//!
//! All gateways share one store in memory. To keep the local counts of several gateways apart, each
//! gateway's limits have an additional url, because a limit's urls are part of its key:
//!
//! ```text
//!   gateway 2 of 3     /api, "=/api/gateway 2"    rules with `scope: local`
//!                      /api                       rules with `scope: global`
//!   without the store  /api, "=/api/gateway 2"    all rules, as `on_error` says
//! ```

use super::document::{Document, Limit, changed, compile, get, is_global};
use super::request::Incoming;
use diana_base::time::Time;
use diana_config::Configuration;
use diana_document::{Value, fold};
use diana_limiter::cells::store::Memory;
use diana_limiter::decide::{Decision, Outcome};
use diana_limiter::policy::{Measure, Policy, ResponseNumber, RuleId, Usage};
use diana_limiter::session::{Session, Worker};
use diana_replay::logged_number;
use miette::Result;
use std::cmp::{Ordering, Reverse};
use std::collections::{BTreeMap, BinaryHeap};
use std::rc::Rc;
use std::sync::Arc;

const SEED: [u8; 16] = *b"explained, alone";

/// A document as one gateway decides by it, with or without its global store.
pub struct Compiled {
    /// The configuration.
    pub configuration: Configuration,
    /// The document of this configuration.
    pub document: Value,
    /// The places of the rules in the user's document, by id: the indices of limit and rule.
    places: BTreeMap<usize, (usize, usize)>,
}

impl Compiled {
    /// The policy.
    pub fn policy(&self) -> &Policy {
        &self.configuration.policy
    }

    /// The id of the rule at this place.
    pub fn rule(&self, place: (usize, usize)) -> Option<RuleId> {
        self.places.iter().find(|(_, known)| **known == place).map(|(id, _)| RuleId::new(*id))
    }

    /// The place of the rule with this id.
    pub fn place(&self, rule: RuleId) -> Option<(usize, usize)> {
        self.places.get(&rule.index()).copied()
    }

    /// `names`: those of rules without a name, because the name depends on the place in a limit.
    fn new(document: &Document, gateway: Gateway, is_store_down: bool, names: &Names) -> Result<Compiled> {
        let named = |name: &dyn Fn((usize, usize)) -> Option<String>| {
            document_of(document, gateway, is_store_down, name)
        };
        let value = named(&|place| names.get(&place).cloned());
        // Names do not change ids, so a copy of the document whose rules are named by their places
        // shows the place of each id.
        let placed = compile(&named(&|(limit, rule)| Some(format!("{limit}-{rule}"))))?;
        let place = |name: &str| {
            let (limit, rule) = name.split_once('-')?;
            Some((limit.parse().ok()?, rule.parse().ok()?))
        };
        let rules = placed.policy.rules();
        let places = rules.filter_map(|(id, rule)| Some((id.index(), place(rule.name())?))).collect();
        Ok(Compiled { configuration: compile(&value)?, document: value, places })
    }
}

/// The names of rules, by the indices of limit and rule.
type Names = BTreeMap<(usize, usize), String>;

/// A gateway's index, and the number of gateways.
#[derive(Clone, Copy, Debug)]
struct Gateway {
    index: u32,
    of: u32,
}

/// The names that the rules of a document without names have.
fn names(document: &Document) -> Result<Names> {
    let alone = Compiled::new(document, Gateway { index: 0, of: 1 }, false, &Names::new())?;
    let mut names = Names::new();
    for (at, limit) in document.limits.iter().enumerate() {
        for (index, (_, rule)) in
            limit.rules().enumerate().filter(|(_, (_, rule))| get(rule, "name").is_none())
        {
            debug_assert!(matches!(rule, Value::Object(_)), "a valid rule");
            let rule = alone.rule((at, index)).and_then(|id| alone.policy().rule(id));
            names.extend(rule.map(|rule| ((at, index), rule.name().to_owned())));
        }
    }
    Ok(names)
}

/// The document that decides in this gateway. With the store, rules with `scope: global` count as
/// if the store belonged to the gateways. `name`: the name of the rule at a place, in place of its
/// own.
fn document_of(
    document: &Document,
    gateway: Gateway,
    is_store_down: bool,
    name: &dyn Fn((usize, usize)) -> Option<String>,
) -> Value {
    let mut limits = Vec::new();
    for (at, limit) in document.limits.iter().enumerate() {
        let (mut own, mut shared) = (Vec::new(), Vec::new());
        for (index, (_, rule)) in limit.rules().enumerate() {
            let counts_alone = is_store_down || !is_global(rule);
            let rule = if counts_alone { rule.clone() } else { local(rule) };
            let rule = match name((at, index)) {
                Some(name) => changed(&rule, |key| key != "name", vec![("name", Value::Text(name))]),
                None => rule,
            };
            let list = if counts_alone || gateway.of == 1 { &mut own } else { &mut shared };
            list.push(rule);
        }
        let with = |rules: Vec<Value>| {
            let rules = if rules.is_empty() { vec![] } else { vec![("rules", Value::List(rules))] };
            changed(limit.value, |key| key != "rules", rules)
        };
        if gateway.of == 1 {
            limits.push(with(own));
            continue;
        }
        if !own.is_empty() || shared.is_empty() {
            limits.push(marked(limit, &with(own), gateway));
        }
        if !shared.is_empty() {
            limits.push(with(shared));
        }
    }
    let left_out: &[&str] = if is_store_down { &["remote"] } else { &["store", "remote"] };
    let value = document.with_limits(limits, left_out);
    if !is_store_down {
        return value;
    }
    match document.get("limits") {
        Some(_) => with_replicas(&value, gateway.of),
        // A short form has no store, so each gateway counts a global rule alone anyway.
        None => get(&value, "limits").cloned().unwrap_or(Value::List(Vec::new())),
    }
}

/// The limit with one more url. No request has it, because a request cannot have a space.
fn marked(limit: &Limit, value: &Value, gateway: Gateway) -> Value {
    let first = limit.urls().first().map_or("", |url| url.trim_start_matches('=').trim_end_matches("/**"));
    let mark = format!("={}/gateway {}", first.trim_end_matches('/'), gateway.index);
    let urls = limit.urls().into_iter().map(str::to_owned).chain([mark]).map(Value::Text).collect();
    changed(value, |key| !matches!(key, "url" | "Url"), vec![("url", Value::List(urls))])
}

/// The document for this number of gateways, if the store counts them.
fn with_replicas(document: &Value, number: u32) -> Value {
    let Some(store) = get(document, "store") else { return document.clone() };
    let Some(redis) = get(store, "redis") else { return document.clone() };
    let counts = matches!(get(redis, "replicas"), Some(Value::Text(word)) if fold(word) == "auto");
    if !counts || number == 1 {
        return document.clone();
    }
    let replicas = vec![("replicas", Value::Whole(number.into()))];
    let redis = changed(redis, |key| key != "replicas", replicas);
    let store = changed(store, |key| key != "redis", vec![("redis", redis)]);
    changed(document, |key| key != "store", vec![("store", store)])
}

/// The rule, counted as if one gateway had the store to itself.
fn local(rule: &Value) -> Value {
    changed(rule, |key| !matches!(key, "scope" | "on_error" | "lease"), Vec::new())
}

/// Gateways, and their requests in flight.
pub struct Gateways {
    with_store: Vec<Rc<Compiled>>,
    /// Empty if no rule is global.
    without_store: Vec<Rc<Compiled>>,
    store: Rc<Memory>,
    open: BinaryHeap<Reverse<InFlight>>,
    count: u64,
    last: Option<(Rc<Compiled>, Decision)>,
}

/// A request in flight: when it ends, what to tell the engine then, and its worker.
struct InFlight {
    ends: Time,
    /// Orders requests that end at one instant.
    number: u64,
    begins: Time,
    session: Session,
    worker: Worker<Rc<Memory>>,
    request: Rc<Incoming>,
}

impl InFlight {
    fn order(&self) -> (Time, u64) {
        (self.ends, self.number)
    }
}

impl PartialEq for InFlight {
    fn eq(&self, other: &InFlight) -> bool {
        self.order() == other.order()
    }
}

impl Eq for InFlight {}

impl PartialOrd for InFlight {
    fn partial_cmp(&self, other: &InFlight) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for InFlight {
    fn cmp(&self, other: &InFlight) -> Ordering {
        self.order().cmp(&other.order())
    }
}

impl Gateways {
    /// This number of gateways, at least one, with a valid document.
    pub fn new(document: &Document, number: u32) -> Result<Gateways> {
        let of = number.max(1);
        let names = if of == 1 { Names::new() } else { names(document)? };
        let compiled = |is_store_down| -> Result<Vec<Rc<Compiled>>> {
            let one = |index| {
                let gateway = Gateway { index, of };
                Ok(Rc::new(Compiled::new(document, gateway, is_store_down, &names)?))
            };
            (0..of).map(one).collect()
        };
        Ok(Gateways {
            with_store: compiled(false)?,
            without_store: if document.has_global() { compiled(true)? } else { Vec::new() },
            store: Rc::new(Memory::new()),
            open: BinaryHeap::new(),
            count: 0,
            last: None,
        })
    }

    /// The same gateways, before the first request.
    pub fn anew(&self) -> Gateways {
        Gateways {
            with_store: self.with_store.clone(),
            without_store: self.without_store.clone(),
            store: Rc::new(Memory::new()),
            open: BinaryHeap::new(),
            count: 0,
            last: None,
        }
    }

    /// What decides in a gateway, from 0.
    pub fn compiled(&self, gateway: u32, is_store_down: bool) -> Option<&Rc<Compiled>> {
        let list = if is_store_down && self.has_global() { &self.without_store } else { &self.with_store };
        list.get(usize::try_from(gateway).ok()?)
    }

    /// Whether a global store counts any rule.
    pub fn has_global(&self) -> bool {
        !self.without_store.is_empty()
    }

    /// Decides about a request that comes to a gateway at `now`. Requests come in the order of
    /// their instants. `None`: there is no such gateway.
    pub fn decide(
        &mut self,
        request: &Rc<Incoming>,
        gateway: u32,
        is_store_down: bool,
        now: Time,
    ) -> Option<(&Rc<Compiled>, &Decision)> {
        let by = Rc::clone(self.compiled(gateway, is_store_down)?);
        self.end_until(now);
        let policy = Arc::clone(&by.configuration.policy);
        let parts = policy.request(&request.values);
        let mut worker = Worker::new(Arc::clone(&policy), Rc::clone(&self.store), &SEED);
        worker.disable_reservations();
        let (mut session, decision) = Session::start(&mut worker, &parts, || now);
        let decision = decision.clone();
        let begins = match decision.outcome {
            Outcome::Delay(until) => {
                session.resume();
                until.max(now)
            }
            _ => now,
        };
        self.count = self.count.saturating_add(1);
        if session.has_charges() {
            let (ends, number) = (begins.after(request.lasts), self.count);
            let request = Rc::clone(request);
            self.open.push(Reverse(InFlight { ends, number, begins, session, worker, request }));
        }
        let (by, decision) = &*self.last.insert((by, decision));
        Some((by, decision))
    }

    /// Ends the requests that have ended by now, in the order of their ends.
    fn end_until(&mut self, now: Time) {
        while self.open.peek().is_some_and(|Reverse(first)| first.ends <= now)
            && let Some(Reverse(InFlight { ends, begins, mut session, mut worker, request, .. })) =
                self.open.pop()
        {
            if session.settles() {
                let usage = usage(worker.policy(), &request);
                session.forwarded(&mut worker, begins);
                session.responded(&mut worker, Some(request.response.status), ends, || ends);
                session.settle_used(&mut worker, &usage, || ends);
            } else {
                session.settle(&mut worker, || ends);
            }
        }
    }
}

/// What the rules read of the response.
fn usage(policy: &Policy, request: &Incoming) -> Usage {
    let response = &request.response;
    let number = |measure: &Measure| match measure {
        Measure::Property(path) => logged_number(request.property(path).map(str::as_bytes)),
        Measure::Header(name) => {
            let lines = response.headers.iter().filter(|(known, _)| **known == **name);
            let lines: Vec<&str> = lines.map(|(_, value)| value.as_str()).collect();
            ResponseNumber::in_header(
                (!lines.is_empty()).then(|| lines.join(",")).as_deref().map(str::as_bytes),
            )
        }
        Measure::Json(pointer) => {
            let number = response.json.pointer(pointer).map(ToString::to_string);
            logged_number(number.as_deref().map(str::as_bytes))
        }
    };
    Usage {
        status: Some(response.status),
        request_bytes: request.body_size.unwrap_or(0),
        response_bytes: response.bytes,
        values: policy.measures().values.iter().map(number).collect(),
    }
}
