//! Runs cases, and compares each decision with what its step expects.

use super::case::{Case, Step};
use super::coverage::Coverage;
use super::expectation::{Difference, Expectation, Found, Kind};
use super::report::{CaseReport, Failure, FileReport};
use crate::check::place::Places;
use crate::explain::document::Document;
use crate::explain::gateways::{Compiled, Gateways};
use crate::explain::request::{Incoming, seconds, timestamp};
use crate::explain::{self, Decided, Response, Simulation};
use crate::source::content::File;
use crate::source::value::Value;
use diana_base::time::Time;
use diana_limiter::decide::{Decision, RuleResult};
use miette::Result;
use serde::Serialize;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::rc::Rc;
use std::time::Instant;

/// One request of a case, and the decision about it.
#[derive(Clone, Debug, Serialize)]
pub struct Observed {
    /// The index of the case.
    pub case: usize,
    /// The index of its step.
    pub step: usize,
    /// When it comes, in seconds since the start of the case.
    pub at: f64,
    /// The address of its client.
    pub client: String,
    /// The outcome, as test files spell it.
    pub outcome: &'static str,
    /// The rules that refuse.
    pub by: Vec<String>,
    /// How long it waits for its turn, in seconds.
    pub delay: f64,
}

/// What sees each request.
pub type Observer<'a> = dyn FnMut(Observed) + 'a;

/// Runs the cases of a file.
pub fn file(
    file: &File,
    root: &Value,
    cases: &[Case],
    document: &Document,
    (document_file, document_name): (&File, &str),
    observe: &mut Observer,
) -> Result<FileReport> {
    let mut coverage = Coverage::new(document)?;
    let places = Places::new(root, false);
    let (mut reports, mut fleets) = (Vec::new(), BTreeMap::new());
    for (index, case) in cases.iter().enumerate() {
        let started = Instant::now();
        let mut observe = |observed| observe(Observed { case: index, ..observed });
        let mut failures = Vec::new();
        // A document is compiled once for each number of gateways.
        let gateways = match fleets.entry(case.gateways) {
            Entry::Occupied(known) => Gateways::anew(known.get()),
            Entry::Vacant(new) => new.insert(Gateways::new(document, case.gateways)?).anew(),
        };
        for Failed { step, differences, request, explanation } in
            run(case, gateways, document, document_name, &mut coverage, &mut observe)?
        {
            let place = case.steps.get(step).map_or("", |step| &step.place);
            // The first part that differs, if the expectation names parts.
            let key = differences.first().map_or("", |difference| difference.key);
            let (whole, _) = places.at(place);
            let value = whole.get(key).unwrap_or(whole);
            let why = differences.into_iter().map(|difference| difference.why).collect();
            failures.push(Failure::new(file, &value.range, why, request, explanation));
        }
        let (value, _) = places.at(&case.place);
        reports.push(CaseReport {
            name: case.name.clone(),
            line: file.position(value.range.start).line,
            requests: case.arrivals.len(),
            failures,
            took: started.elapsed(),
        });
    }
    Ok(FileReport {
        file: file.name.clone(),
        document: document_name.to_owned(),
        cases: reports,
        branches: coverage.branches(),
        uncovered: coverage.uncovered(document_file, document_name),
    })
}

/// A step whose requests differ from what it expects.
struct Failed {
    step: usize,
    differences: Vec<Difference>,
    /// Which request differs, in words.
    request: String,
    /// What `explain` prints about it.
    explanation: String,
}

/// The requests of a step so far.
#[derive(Default)]
struct Tally {
    counts: BTreeMap<Kind, u32>,
    /// The last request of each outcome.
    last: BTreeMap<Kind, Seen>,
    failed: Option<Failed>,
}

/// A request and the decision about it.
struct Seen {
    by: Rc<Compiled>,
    decision: Decision,
    request: Rc<Incoming>,
    at: Time,
    number: u32,
    is_store_down: bool,
}

/// Runs a case.
fn run(
    case: &Case,
    mut gateways: Gateways,
    document: &Document,
    name: &str,
    coverage: &mut Coverage,
    observe: &mut Observer,
) -> Result<Vec<Failed>> {
    let has_global = gateways.has_global();
    let explained = |seen: &Seen| explanation(seen, document, name, has_global);
    let mut tallies: Vec<Tally> = case.steps.iter().map(|_| Tally::default()).collect();
    for arrival in &case.arrivals {
        let is_store_down = case.is_store_down(arrival.at);
        let decided = gateways.decide(&arrival.request, arrival.gateway, is_store_down, arrival.at);
        let Some((by, decision)) = decided else { continue };
        let decided = Decided::of(&by.configuration, decision, &arrival.request, arrival.at);
        coverage.add(by, &decided);
        observe(Observed {
            case: 0,
            step: arrival.step,
            at: seconds(arrival.at.since(case.start)),
            client: arrival.request.ip.to_string(),
            outcome: Kind::of(decision.outcome).word(),
            by: refusing(&coverage.names(by, &decided), &decided),
            delay: seconds(decided.delay),
        });
        let (Some(step), Some(tally)) = (case.steps.get(arrival.step), tallies.get_mut(arrival.step)) else {
            continue;
        };
        let kind = Kind::of(decision.outcome);
        let count = tally.counts.entry(kind).or_default();
        *count = count.saturating_add(1);
        let seen = || Seen {
            by: Rc::clone(by),
            decision: decision.clone(),
            request: Rc::clone(&arrival.request),
            at: arrival.at,
            number: arrival.number,
            is_store_down,
        };
        match &step.expectation {
            Some(Expectation::Counts(_)) => _ = tally.last.insert(kind, seen()),
            Some(Expectation::Each(each)) if tally.failed.is_none() => {
                let response = Response::of(&by.configuration, decision, &arrival.request, arrival.number);
                let found = Found {
                    decided: &decided,
                    response: &response,
                    request_headers: &request_headers(by, decision),
                    names: &coverage.names(by, &decided),
                };
                let differences = each.differences(&found);
                if !differences.is_empty() {
                    let seen = seen();
                    tally.failed = Some(Failed {
                        step: arrival.step,
                        differences,
                        request: words(&seen, step),
                        explanation: explained(&seen)?,
                    });
                }
            }
            _ => {}
        }
    }
    let mut failed = Vec::new();
    for (index, (tally, step)) in tallies.into_iter().zip(&case.steps).enumerate() {
        if let Some(Expectation::Counts(expected)) = &step.expectation {
            failed.extend(miscounted(index, step, expected, &tally, &explained)?);
        }
        failed.extend(tally.failed);
    }
    Ok(failed)
}

/// The failure of a step that expects other numbers of outcomes.
fn miscounted(
    index: usize,
    step: &Step,
    expected: &BTreeMap<Kind, u32>,
    tally: &Tally,
    explained: &dyn Fn(&Seen) -> Result<String>,
) -> Result<Option<Failed>> {
    let count = |kind: &Kind| tally.counts.get(kind).copied().unwrap_or(0);
    let is_met = |kind: &Kind| count(kind) == expected.get(kind).copied().unwrap_or(0);
    let kinds = [Kind::Pass, Kind::Allowed, Kind::Delayed, Kind::Refused];
    if kinds.iter().all(is_met) {
        return Ok(None);
    }
    let words = |number: &dyn Fn(&Kind) -> u32| {
        let words: Vec<String> = kinds
            .iter()
            .filter(|kind| number(kind) > 0)
            .map(|kind| format!("{} {}", number(kind), kind.word()))
            .collect();
        if words.is_empty() { "none".into() } else { words.join(", ") }
    };
    let wanted = words(&|kind| expected.get(kind).copied().unwrap_or(0));
    let why = format!("expected {wanted}, found {}", words(&count));
    let differences = vec![Difference { key: "", why }];
    // If an outcome occurs too often, its last request is the one that differs.
    let surplus = |kind: &&Kind| count(kind) > expected.get(kind).copied().unwrap_or(0);
    let seen = kinds.iter().find(surplus).and_then(|kind| tally.last.get(kind));
    let (request, explanation) = match seen {
        Some(seen) => (self::words(seen, step), explained(seen)?),
        None => (format!("{} in all", step.requests), String::new()),
    };
    Ok(Some(Failed { step: index, differences, request, explanation }))
}

/// The headers that the upstream gets.
fn request_headers(by: &Compiled, decision: &Decision) -> Vec<[String; 2]> {
    let mut headers: Vec<[String; 2]> = Vec::new();
    for (threshold, _) in by.configuration.soft_limits.passed(decision) {
        for (name, value) in &threshold.request_header {
            headers.retain(|[known, _]| **known != **name);
            headers.push([name.to_string(), value.to_string()]);
        }
    }
    headers
}

/// The names of the rules that refuse.
fn refusing(names: &[String], decided: &Decided) -> Vec<String> {
    let checks = names.iter().zip(&decided.checks);
    let refusing = checks.filter(|(_, check)| check.result() == RuleResult::Refused);
    refusing.map(|(name, _)| name.clone()).collect()
}

/// A request of a step, as `request 6 of 12, at 2026-01-31T12:00:05Z`.
fn words(seen: &Seen, step: &Step) -> String {
    let at = timestamp(seen.at);
    match step.requests {
        1 => format!("the request at {at}"),
        all => format!("request {} of {all}, at {at}", seen.number),
    }
}

/// What `explain` prints about a request, with the counts of the case.
fn explanation(seen: &Seen, document: &Document, name: &str, has_global: bool) -> Result<String> {
    let incoming =
        Incoming { start: seen.at, store_down: seen.is_store_down, times: 1, ..(*seen.request).clone() };
    let mut simulation = Simulation::by(&seen.by, has_global);
    simulation.note(0, &seen.decision, &incoming, seen.at);
    Ok(explain::text(&explain::of_decisions(document, &incoming, &simulation, name, false)?))
}
