//! Counts what a policy does to the requests of a log, in bounded memory.

mod actors;
mod clients;
mod distinct;
mod lacking;
mod quotas;
mod rule;
mod stream;
mod timeline;
mod what_if;

pub use clients::{Clients, Refused};
pub use timeline::seconds;

use super::engine::Engine;
use super::log::record::Record;
use super::number::plural;
use super::summary::{ClientSummary, Hour, RuleSummary, Timeline, Totals};
use diana_config::RulePlace;
use diana_limiter::algorithm::Admission;
use diana_limiter::decide::{Outcome, Reason, RuleResult};
use diana_limiter::policy::{Policy, Rule};
use diana_limiter::time::{Span, Time};
use lacking::Lacking;
use quotas::Variants;
use rule::{Described, LogShape, Room, RuleOutcome, RuleTally};
use serde_json::Value;
use std::collections::HashMap;
use std::net::SocketAddr;
use std::panic::resume_unwind;
use timeline::Times;

/// The actors of all rules together, and the bytes of all their streams.
const ACTORS: usize = 192 << 10;
const STREAM_BYTES: usize = 64 << 20;
/// The minimum of both for one rule.
const LEAST_ACTORS: usize = 256;
const LEAST_BYTES: usize = 64 << 10;

/// The counts of a policy.
#[derive(Clone, Debug)]
pub struct Tally {
    totals: Totals,
    times: Times,
    /// By the place in the document.
    rules: Vec<RuleTally>,
    /// The place of each rule of the policy, by its id.
    places: Vec<Option<usize>>,
    first_and_last: Option<(Time, Time)>,
    /// Evictions: an actor started over, because the policy's table had no room for its counts.
    evicted: u64,
    /// Requests that were refused because the table had no room for their actors.
    set_full: u64,
    clients: Clients,
    lacking: Lacking,
    addresses: Addresses,
}

/// Whether all requests come from one client address.
#[derive(Clone, Debug, Default)]
enum Addresses {
    #[default]
    None,
    /// The address without a port, and the list of those before.
    One(Box<[u8]>, Box<[u8]>),
    Several,
}

impl Addresses {
    fn add(&mut self, record: &Record, [address, list]: [Option<usize>; 2]) {
        let [address, list] =
            [address, list].map(|slot| slot.and_then(|slot| record.get(slot)).unwrap_or_default());
        let ip = std::str::from_utf8(address).ok().and_then(|text| text.parse::<SocketAddr>().ok());
        let ip = ip.map(|socket| socket.ip().to_string());
        let address = ip.as_ref().map_or(address, |ip| ip.as_bytes());
        match self {
            Addresses::None => *self = Addresses::One(address.into(), list.into()),
            Addresses::One(one, before) if **one == *address && **before == *list => {}
            Addresses::One(..) | Addresses::Several => *self = Addresses::Several,
        }
    }
}

impl Tally {
    /// Counts for a policy. `document` is what the policy was compiled from, if other quotas are to
    /// be tried.
    #[must_use]
    pub fn new(policy: &Policy, places: &[RulePlace], document: Option<&Value>) -> Tally {
        let count = places.len().max(1);
        let room = Room {
            actors: ACTORS.checked_div(count).unwrap_or(0).max(LEAST_ACTORS),
            bytes: STREAM_BYTES.checked_div(count).unwrap_or(0).max(LEAST_BYTES),
        };
        let by_name: HashMap<&str, usize> =
            places.iter().enumerate().map(|(index, place)| (&*place.name, index)).collect();
        let place = |rule: &Rule| by_name.get(rule.name()).copied();
        let by_id: Vec<Option<usize>> = policy.rules().map(|(_, rule)| place(rule)).collect();
        let mut ids: Vec<(usize, &Rule)> =
            policy.rules().filter_map(|(_, rule)| Some((place(rule)?, rule))).collect();
        ids.sort_by_key(|(place, _)| *place);
        let tally = |(place, rule): (usize, &Rule)| {
            let place = places.get(place)?.clone();
            let (quota, enforce) = (rule.configured(), rule.enforce());
            let burst = rule.quota().parameters().burst();
            // The log does not tell what a request would have cost after another decision. A rule
            // with `rpu: 0` is meant to refuse all requests.
            let document = document.filter(|_| !rule.is_settled() && quota.rpu > 0);
            let variants = document.and_then(|document| Variants::new(document, &place));
            Some(RuleTally::new(Described { place, quota, burst, enforce, variants }, room))
        };
        let rules: Vec<RuleTally> = ids.into_iter().filter_map(tally).collect();
        Tally {
            totals: Totals::default(),
            times: Times::default(),
            rules,
            places: by_id,
            first_and_last: None,
            evicted: 0,
            set_full: 0,
            clients: Clients::default(),
            lacking: Lacking::default(),
            addresses: Addresses::default(),
        }
    }

    /// Adds the last decision of `engine`, about this record. `addresses` are the slots of the
    /// client address and of the list of those before.
    pub fn add(&mut self, record: &Record, engine: &Engine, addresses: [Option<usize>; 2]) {
        self.addresses.add(record, addresses);
        let (decision, now) = (engine.decision(), engine.now());
        let (first, _) = self.first_and_last.unwrap_or((now, now));
        self.first_and_last = Some((first, now));
        let events = decision.events;
        self.evicted = self.evicted.saturating_add(events.evicted_lossy.into());
        self.set_full = self.set_full.saturating_add(events.set_full.into());
        let is_refused = decision.is_rejected();
        let is_delayed = matches!(decision.outcome, Outcome::Delay(_));
        let is_shadow = decision.events.denied_in_shadow > 0
            || decision.checks.iter().any(|check| check.result() == RuleResult::Shadowed);
        let Totals { requests, admitted, delayed, refused, shadow_refused, logged_429, .. } =
            &mut self.totals;
        let add = |count: &mut u64, is: bool| *count = count.saturating_add(is.into());
        add(requests, true);
        add(admitted, !is_refused && !is_delayed);
        add(delayed, is_delayed);
        add(refused, is_refused);
        add(shadow_refused, !is_refused && is_shadow);
        add(logged_429, record.status == Some(429));
        let (place, hour, doubled) = self.times.add(now, is_refused, is_delayed);
        if doubled > 0 {
            self.rules.iter_mut().for_each(|rule| rule.double(doubled));
            self.lacking.double(doubled);
        }
        let mut refusing = Vec::new();
        for report in decision.checks.iter() {
            let known = self.places.get(report.rule().index()).copied().flatten();
            let Some(rule) = known.and_then(|known| self.rules.get_mut(known)) else { continue };
            let delay = match report.verdict().map(|verdict| verdict.admission) {
                Some(Admission::Admit { delay }) if is_delayed || report.would_delay() => delay,
                _ => Span::ZERO,
            };
            let check = RuleOutcome {
                at: now,
                actor: engine.actor(report.rule()),
                is_high_priority: decision.is_high_priority,
                is_refused: matches!(report.result(), RuleResult::Refused | RuleResult::Shadowed),
                is_shadow: report.result() == RuleResult::Shadowed,
                delay,
                duration_ns: record.duration_ns.unwrap_or(0),
            };
            rule.add(check, place);
            if report.result() == RuleResult::Refused {
                refusing.extend(known);
            }
        }
        if is_refused && !refusing.is_empty() && refusing.iter().all(|rule| self.lacks(*rule)) {
            refusing.sort_unstable();
            self.lacking.add(refusing, place, hour);
        }
    }

    /// Whether no request has had the actor of this rule.
    fn lacks(&self, rule: usize) -> bool {
        self.rules.get(rule).is_some_and(RuleTally::lacks_actor)
    }

    /// Adds the clients of the last decision of `engine`, a refusal of this record, to `clients`:
    /// the actors of the rules that refuse. `address` is the slot of the client address.
    pub fn refused(&self, record: &Record, engine: &Engine, address: Option<usize>, clients: &mut Clients) {
        let decision = engine.decision();
        let mut refused: Vec<(Refused, &str)> = Vec::new();
        for report in decision.checks.iter().filter(|report| report.result() == RuleResult::Refused) {
            let known = self.places.get(report.rule().index()).copied().flatten();
            if let Some(rule) = known.and_then(|known| self.rules.get(known)) {
                refused.push((rule.client(engine.actor(report.rule())), rule.name()));
            }
        }
        if decision.outcome == Outcome::Reject(Reason::Denied) {
            let text = address.and_then(|slot| record.get(slot)).map(String::from_utf8_lossy);
            let client = text.map_or_else(
                || "(without an address)".into(),
                |text| text.chars().take(200).collect::<String>().into(),
            );
            refused.push((Refused { client, actor: "ip".into() }, "deny"));
        }
        while let Some((client, _)) = refused.first().cloned() {
            clients.add(
                client.clone(),
                refused.iter().filter(|(other, _)| *other == client).map(|(_, rule)| *rule),
            );
            refused.retain(|(other, _)| *other != client);
        }
    }

    /// Adds the clients of a refusal to the clients of all rules.
    pub fn add_refused(&mut self, record: &Record, engine: &Engine, address: Option<usize>) {
        let mut clients = std::mem::take(&mut self.clients);
        self.refused(record, engine, address, &mut clients);
        self.clients = clients;
    }

    /// The clients that all rules together refuse most.
    #[must_use]
    pub fn clients(&self) -> Vec<ClientSummary> {
        let lacks = |name: &String| self.rules.iter().any(|rule| rule.name() == name && rule.lacks_actor());
        let mut clients = self.clients.top();
        clients.retain(|client| client.rules.is_empty() || !client.rules.iter().all(lacks));
        clients
    }

    /// All requests together.
    #[must_use]
    pub fn totals(&self) -> Totals {
        let undecided = self.lacking.of(|rule| self.lacks(rule)).map(|refusals| refusals.requests).sum();
        Totals { refused: self.totals.refused.saturating_sub(undecided), undecided, ..self.totals }
    }

    /// The requests over time, and by hour of the week.
    #[must_use]
    pub fn times(&self) -> (Timeline, Vec<Hour>) {
        let mut times = self.times.clone();
        for refusals in self.lacking.of(|rule| self.lacks(rule)) {
            times.take_back(&refusals.intervals, &refusals.hours);
        }
        (times.timeline(), times.week())
    }

    /// The first and the last request.
    #[must_use]
    pub fn first_and_last(&self) -> Option<(Time, Time)> {
        self.first_and_last
    }

    /// Each rule, in the order of the document. Two threads try other quotas.
    #[must_use]
    pub fn rules(&self) -> Vec<RuleSummary> {
        let half = self.rules.len().div_ceil(2).max(1);
        let log_s = self.first_and_last.map_or(0.0, |(first, last)| seconds(last) - seconds(first));
        let is_one =
            matches!(self.addresses, Addresses::One(..)) && self.rules.iter().all(RuleTally::has_one_address);
        let log = LogShape { length_s: log_s, has_one_address: is_one, intervals: self.times.len() };
        let summaries = move |rules: &[RuleTally]| {
            rules.iter().map(|rule| rule.summary(log)).collect::<Vec<RuleSummary>>()
        };
        if !cfg!(feature = "threads") {
            return summaries(&self.rules);
        }
        std::thread::scope(|scope| {
            let threads = self.rules.chunks(half).map(|rules| scope.spawn(move || summaries(rules)));
            let threads: Vec<_> = threads.collect();
            threads
                .into_iter()
                .flat_map(|thread| thread.join().unwrap_or_else(|panic| resume_unwind(panic)))
                .collect()
        })
    }

    /// What the numbers leave out, one sentence each.
    #[must_use]
    pub fn notes(&self) -> Vec<String> {
        let mut notes: Vec<String> = self.rules.iter().flat_map(RuleTally::notes).collect();
        let too_small = "The table of `local.max_actors` is too small";
        if self.evicted > 0 {
            let times = plural(self.evicted, "time");
            notes.push(format!(
                "{too_small}: {times}, an actor lost its counts. The filter would do the same."
            ));
        }
        if self.set_full > 0 {
            let requests = plural(self.set_full, "request");
            let are = if self.set_full == 1 { "is" } else { "are" };
            notes.push(format!(
                "{too_small}: {requests} of new actors {are} refused. The filter would do the same."
            ));
        }
        notes
    }
}
