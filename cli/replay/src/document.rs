//! A document whose policy decides the requests of a log.

use super::Error;
use super::engine::Engine;
use super::log::known::Known;
use super::log::record::{Slot, Slots};
use super::request::{self, Columns, FORWARDED_FOR, add_slots};
use super::tally::Tally;
use crate::printable::printable;
use diana_config::{Configuration, RulePlace, compile_locally, rule_places};
use diana_limiter::policy::{Measure, Policy};
use serde_json::Value;

/// A document, compiled to count all gateways' traffic in one place.
#[derive(Debug)]
pub struct Document {
    configuration: Configuration,
    places: Vec<RulePlace>,
    value: Value,
}

impl Document {
    /// The document in these bytes of JSON. The error shows every mistake.
    pub fn of(bytes: &[u8]) -> Result<Document, Error> {
        let mistakes = |mistakes: Vec<diana_document::Error>| {
            let lines: Vec<String> = mistakes.iter().map(|mistake| printable(&mistake.to_string())).collect();
            Error::Document(format!("the document has mistakes:\n{}", lines.join("\n")))
        };
        let configuration = compile_locally(bytes).map_err(mistakes)?;
        let places = rule_places(bytes).map_err(mistakes)?;
        let value = serde_json::from_slice(bytes).map_err(|error| Error::Document(error.to_string()))?;
        Ok(Document { configuration, places, value })
    }

    /// Adds the values that the policy reads.
    pub fn add_slots(&self, slots: &mut Slots) {
        add_slots(&self.configuration.policy, slots);
    }

    /// An engine and a tally for the document. `tries`: whether other quotas are tried.
    #[must_use]
    pub fn start(self, slots: &Slots, tries: bool) -> Run {
        let Document { configuration: Configuration { policy, remote, .. }, places, value } = self;
        let tally = Tally::new(&policy, &places, tries.then_some(&value));
        let columns = Columns::new(&policy, slots);
        // Every actor but `all` may be replaced by the address.
        let counts_addresses = places.iter().any(|place| place.actor != "all")
            || policy.has_allow_list()
            || policy.has_deny_list();
        let is_global = places.iter().any(|place| place.is_global);
        let has_remote = remote.is_some();
        let address = slots.find(&Slot::Address);
        let forwarded = slots.find(&Slot::Header(FORWARDED_FOR.into()));
        let engine = Engine::new(policy, columns, slots);
        Run { engine, tally, address, forwarded, counts_addresses, is_global, has_remote }
    }
}

/// A document that decides the requests of a log, and what was counted so far.
#[derive(Debug)]
pub struct Run {
    /// Decides.
    pub engine: Engine,
    /// Counts.
    pub tally: Tally,
    /// The slot of the client address.
    pub address: Option<usize>,
    /// The slot of the list of addresses before it.
    pub forwarded: Option<usize>,
    /// Whether a rule or a list may read the client address.
    counts_addresses: bool,
    /// Whether a rule has `scope: global`.
    is_global: bool,
    /// Whether the document has `remote`.
    has_remote: bool,
}

impl Run {
    /// What the replay assumes about values that the log lacks, one sentence each.
    #[must_use]
    pub fn assumptions(&self, slots: &Slots, known: &Known) -> Vec<String> {
        let policy = self.engine.policy();
        let mut all = request::assumptions(policy, slots, known, self.counts_addresses);
        if self.is_global {
            all.push(
                "Rules with `scope: global` count all requests of the log: pass the logs of all gateways."
                    .into(),
            );
        }
        if self.has_remote {
            all.push("The replay does not poll the document's `remote`: the local document decides.".into());
        }
        all.extend(of_responses(policy, slots, known));
        all
    }
}

/// What the log does not record about responses.
fn of_responses(policy: &Policy, slots: &Slots, known: &Known) -> Vec<String> {
    let measures = policy.measures();
    let rules = || policy.rules().map(|(_, rule)| rule.quota());
    let holds = rules().any(|quota| quota.algorithm().ends_with_request());
    let mut all = Vec::new();
    if holds && !known.duration {
        all.push("The log has no durations: each request returns its permits at once.".into());
    }
    if policy.adaptive_limits().next().is_some() {
        all.push(match known.status && (known.latency || known.duration) {
            true if known.latency => {
                "Adaptive limits follow the statuses and the upstream's times in the log.".into()
            }
            true => {
                "Adaptive limits follow the statuses and the durations in the log, which include the body."
                    .into()
            }
            false => {
                "Adaptive limits keep their start values: the log has no statuses or no durations.".into()
            }
        });
    }
    if measures.status && !known.status {
        all.push(
            "The log has no statuses: rules that depend on a status count as if there were no response."
                .into(),
        );
    }
    if measures.request_bytes && !known.received {
        all.push("The log has no bytes received: each body counts as long as its `content-length` says, or 0 bytes.".into());
    }
    if measures.response_bytes && !known.sent {
        all.push("The log has no sizes of response bodies: each size counts as 0 bytes.".into());
    }
    for measure in &measures.values {
        let Measure::Json(pointer) = measure else { continue };
        let slot = slots.find(&Slot::ResponseJson(pointer.clone()));
        if !slot.is_some_and(|slot| known.has(slot)) {
            all.push(format!("The log has no `{pointer}` of responses: the number counts as absent."));
        }
    }
    all
}
