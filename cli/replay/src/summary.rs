//! The result of `diana replay`. `--json` prints the result; the text report and the HTML report
//! show it.
//!
//! Instants are seconds since the Unix epoch. Lists are bounded, whatever the log holds.

use serde::{Deserialize, Serialize};

/// The result of a replay.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Summary {
    /// The file with the document.
    pub document: String,
    /// What was read.
    pub log: LogSummary,
    /// All requests together.
    pub totals: Totals,
    /// The requests over time.
    pub timeline: Timeline,
    /// The requests by weekday (Monday first) and hour, in UTC.
    pub hours: Vec<Hour>,
    /// Each rule, in the order of the document.
    pub rules: Vec<RuleSummary>,
    /// The clients that all rules together refuse most; at most 50.
    #[serde(default)]
    pub clients: Vec<ClientSummary>,
    /// The decisions of another document about the same requests.
    pub against: Option<Comparison>,
}

/// The rules with the most refusals first; of two, the one that the document has first.
#[must_use]
pub fn by_refusals(rules: &[RuleSummary]) -> Vec<&RuleSummary> {
    let mut sorted: Vec<&RuleSummary> = rules.iter().collect();
    sorted.sort_by_key(|rule| std::cmp::Reverse(rule.refused));
    sorted
}

/// What was read.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct LogSummary {
    /// The files, in the order of the arguments.
    pub files: Vec<String>,
    /// The format, as `--format` takes it.
    pub format: String,
    /// All lines.
    pub lines: u64,
    /// Lines that are no request of the format.
    pub unreadable: u64,
    /// The first of the unreadable lines.
    pub examples: Vec<Unreadable>,
    /// The files with lines of which none is a request of the format.
    pub unmatched: Vec<String>,
    /// The files that could not be read to their ends.
    pub ended_early: Vec<EndedEarly>,
    /// Requests that were logged too late to be decided in the order of their starts.
    pub late: u64,
    /// The first request.
    pub first_s: f64,
    /// The last request.
    pub last_s: f64,
    /// Whether all times are whole seconds. Then bursts look larger or smaller than they were,
    /// and the refusals are estimates.
    pub whole_seconds: bool,
    /// What the replay assumes about values that the log lacks, one sentence each.
    pub assumptions: Vec<String>,
}

/// A line that is no request of the format.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Unreadable {
    /// The file.
    pub file: String,
    /// The number of the line, from 1.
    pub line: u64,
    /// What is wrong with it.
    pub why: String,
}

/// A file that could not be read to its end, such as a compressed file that was cut off.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct EndedEarly {
    /// The file.
    pub file: String,
    /// The number of the last line that was read whole.
    pub line: u64,
    /// Why the file ends there.
    pub why: String,
}

/// Numbers of requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Totals {
    /// All requests.
    pub requests: u64,
    /// Admitted at once.
    pub admitted: u64,
    /// Admitted after a wait.
    pub delayed: u64,
    /// Refused.
    pub refused: u64,
    /// Refused only by rules whose actor no request of the log has: not known, and not in `refused`.
    #[serde(default)]
    pub undecided: u64,
    /// Admitted, but refused if no rule were in shadow mode.
    pub shadow_refused: u64,
    /// Requests that the gateway of the log had answered with status 429.
    pub logged_429: u64,
}

/// Numbers of requests in intervals of equal length.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Timeline {
    /// The start of the first interval.
    pub start_s: f64,
    /// The length of each interval.
    pub interval_s: f64,
    /// The intervals, at most 400.
    pub intervals: Vec<Interval>,
}

/// The requests of an interval.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct Interval {
    /// All requests.
    pub requests: u64,
    /// Refused requests.
    pub refused: u64,
    /// Requests that waited.
    pub delayed: u64,
}

/// The requests of an hour of the week.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct Hour {
    /// From 0, Monday, to 6.
    pub weekday: u8,
    /// From 0 to 23, UTC.
    pub hour: u8,
    /// All requests.
    pub requests: u64,
    /// Refused requests.
    pub refused: u64,
}

/// A rule.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct RuleSummary {
    /// The rule's name.
    pub name: String,
    /// The rule's place in the document, such as `limits[0].rules[1]`.
    pub place: String,
    /// The url pattern of its limit.
    pub url: String,
    /// The actor that the rule counts, such as `ip`.
    pub actor: String,
    /// The algorithm, such as `TB`.
    pub algorithm: String,
    /// Requests per unit.
    pub rpu: u64,
    /// The unit in seconds; 0 if the rule counts requests in flight.
    pub unit_s: f64,
    /// The requests that a token bucket admits at once, without `warm_up` and `adapt`.
    pub burst: Option<u64>,
    /// Whether the rule counts by client address and by nothing else.
    #[serde(default)]
    pub by_address: bool,
    /// Whether all requests of the log have this one address.
    #[serde(default)]
    pub one_address: bool,
    /// Whether the rule refuses anybody, or only counts.
    pub is_enforced: bool,
    /// The part of its actors for which the rule refuses, such as `5%`.
    #[serde(default)]
    pub enforce: String,
    /// Requests that the rule checked.
    pub checked: u64,
    /// Requests among them without the rule's actor.
    #[serde(default)]
    pub without_actor: u64,
    /// Requests that the rule refused, in shadow too.
    pub refused: u64,
    /// Requests among them that passed, because the rule is in shadow for their actors.
    #[serde(default)]
    pub shadow_refused: u64,
    /// Requests that waited for this rule.
    pub delayed: u64,
    /// The longest wait.
    pub longest_delay_s: f64,
    /// Actors, estimated to 2 % above 1,000.
    pub actors: u64,
    /// Actors with at least one refused request, estimated likewise.
    pub refused_actors: u64,
    /// The first refusal.
    pub first_refusal_s: Option<f64>,
    /// The last refusal.
    pub last_refusal_s: Option<f64>,
    /// Refusals in each interval of the timeline.
    pub refusals: Vec<u64>,
    /// The actors with the most refusals, then with the highest peaks; at most 50.
    pub top: Vec<ActorSummary>,
    /// What other quotas would have refused, in ascending order of `rpu`.
    pub what_if: Vec<WhatIf>,
    /// The least `rpu` that would have refused no request, at most 0.1 % and at most 1 %.
    pub least: Least,
    /// The peaks of the actors: the most requests that an actor makes within one unit.
    pub peaks: Vec<Quantile>,
    /// A quota that the log suggests.
    pub suggestion: Option<Suggestion>,
}

impl RuleSummary {
    /// Requests that did not pass.
    #[must_use]
    pub fn enforced_refusals(&self) -> u64 {
        self.refused.saturating_sub(self.shadow_refused)
    }
}

/// An actor of a rule.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct ActorSummary {
    /// The actor's value in the log, such as an address.
    pub actor: String,
    /// Whether the requests lack the actor, and the rule counts them by this address instead.
    pub is_address: bool,
    /// Requests that the rule checked.
    pub checked: u64,
    /// Requests that the rule refused.
    pub refused: u64,
    /// Requests that waited.
    pub delayed: u64,
    /// The most requests within one unit.
    pub peak: u64,
    /// The unit with the peak.
    pub peak_s: f64,
    /// The first refusal.
    pub first_refusal_s: Option<f64>,
    /// The last refusal.
    pub last_refusal_s: Option<f64>,
}

/// A client that rules refuse: an actor, whichever rules count it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClientSummary {
    /// The actor's value in the log, such as an address.
    pub client: String,
    /// The actor that the rules count, such as `ip`.
    pub actor: String,
    /// The refused requests; an estimate if there are more than 65,536 such clients.
    pub refused: u64,
    /// The rules that refuse the client, or `deny`, the list; at most 8.
    pub rules: Vec<String>,
}

/// What a quota would have refused.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct WhatIf {
    /// Requests per unit.
    pub rpu: u64,
    /// Refused requests.
    pub refused: u64,
    /// Actors with at least one refused request.
    pub refused_actors: u64,
}

/// The least quotas that refuse no more than a share of the requests.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct Least {
    /// No request.
    pub none: Option<u64>,
    /// At most 0.1 %.
    pub per_mille: Option<u64>,
    /// At most 1 %.
    pub percent: Option<u64>,
}

/// A quantile of the actors' peaks.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct Quantile {
    /// The share of the actors, such as 0.99.
    pub share: f64,
    /// The peak that this share of the actors does not exceed.
    pub peak: u64,
}

/// A quota that the log suggests.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Suggestion {
    /// Requests per unit.
    pub rpu: u64,
    /// The `burst` for this `rpu`, if the rule has one.
    pub burst: Option<u64>,
    /// Why the log is too short for the suggestion, if it is.
    pub caveat: Option<String>,
    /// How the suggestion compares with the quota now, if it is no improvement.
    #[serde(default)]
    pub compared: Option<String>,
    /// The reasoning, in sentences.
    pub why: String,
}

/// The decisions of another document about the same requests.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Comparison {
    /// The file with the other document.
    pub document: String,
    /// The decisions of the other document.
    pub totals: Totals,
    /// Requests that both refuse.
    pub both_refuse: u64,
    /// Requests that only the first document refuses.
    pub only_first: u64,
    /// Requests that only the other document refuses.
    pub only_other: u64,
    /// The clients whose requests only the first document refuses; at most 50.
    #[serde(default)]
    pub newly_refused: Vec<ClientSummary>,
    /// The clients whose requests only the other document refuses; at most 50.
    #[serde(default)]
    pub newly_admitted: Vec<ClientSummary>,
    /// The rules of the other document.
    pub rules: Vec<RuleSummary>,
}
