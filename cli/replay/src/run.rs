//! Replays logs: opens them, decides every request, and sums up.

use super::Error;
use super::document::{Document, Run};
use super::log::input::decompress;
use super::log::known::Known;
use super::log::reader::{Counts, Logs};
use super::log::record::{Record, Slots};
use super::number::plural;
use super::summary::{Comparison, LogSummary, Summary};
use super::tally::{Clients, seconds};
use diana_limiter::decide::Decision;
use diana_limiter::policy::Policy;
use std::io::Cursor;
use std::path::PathBuf;

/// A policy that is about to decide the requests of logs.
pub struct Replay {
    logs: Logs,
    slots: Slots,
    first: Run,
    other: Option<Run>,
}

impl Replay {
    /// Opens logs for a document, and for a second document if there is one. The format is detected
    /// unless `format` names it. `fields`: pairs of a JSON pointer and the key of a JSON line that
    /// has its value. `tries`: whether other quotas are tried for each rule.
    pub fn open(
        first: Document,
        other: Option<Document>,
        paths: &[PathBuf],
        format: Option<&str>,
        fields: &[(String, String)],
        tries: bool,
    ) -> Result<Replay, Error> {
        let mut slots = Slots::with_fields(fields);
        first.add_slots(&mut slots);
        other.iter().for_each(|other| other.add_slots(&mut slots));
        let logs = Logs::open(paths, format, &slots)?;
        let other = other.map(|other| other.start(&slots, false));
        let first = first.start(&slots, tries);
        Ok(Replay { logs, slots, first, other })
    }

    /// A log in memory, for the document in these bytes of JSON.
    pub fn of_log(document: &[u8], name: &str, log: Vec<u8>) -> Result<Replay, Error> {
        let first = Document::of(document)?;
        let mut slots = Slots::default();
        first.add_slots(&mut slots);
        let open = |source| Error::Open { file: name.into(), source };
        let input = decompress(Cursor::new(log)).map_err(open)?;
        let logs = Logs::of_inputs(vec![(name.into(), input)], None, &slots)?;
        let first = first.start(&slots, false);
        Ok(Replay { logs, slots, first, other: None })
    }

    /// Opens one log for the document in these bytes of JSON.
    pub fn of_document(document: &[u8], path: PathBuf, format: Option<&str>) -> Result<Replay, Error> {
        Replay::open(Document::of(document)?, None, &[path], format, &[], false)
    }

    /// The values that the replay reads of each record, by their indices.
    #[must_use]
    pub fn slots(&self) -> &Slots {
        &self.slots
    }

    /// Decides all requests. Calls `each` with each request, its decision and the policy. Calls
    /// `progress` now and then with the bytes that have been read and the number of new requests.
    pub fn run(
        self,
        mut each: impl FnMut(&Record, &Decision, &Policy),
        mut progress: impl FnMut(u64, u64),
    ) -> Result<Summary, Error> {
        let Replay { logs, slots, mut first, mut other } = self;
        let mut log = LogSummary { format: logs.format().into(), ..LogSummary::default() };
        let (mut both, mut starts_are_whole) = (Both::default(), true);
        let counts = logs.start()?.for_each(|batch, bytes| {
            for record in batch {
                starts_are_whole &= record.start.as_ns().is_multiple_of(SECOND_NS);
                let is_refused = first.add(record);
                if let Some(other) = &mut other {
                    let is_refused_there = other.add(record);
                    both.add(record, (&first, is_refused), (other, is_refused_there));
                }
                each(record, first.engine.decision(), first.engine.policy());
            }
            progress(bytes, u64::try_from(batch.len()).unwrap_or(0));
        })?;
        let Counts { lines, unreadable, examples, unmatched, ended_early, known } = counts;
        (log.lines, log.unreadable, log.examples) = (lines, unreadable, examples);
        (log.unmatched, log.ended_early) = (unmatched, ended_early);
        log.assumptions = of_times(&known);
        for run in [Some(&first), other.as_ref()].into_iter().flatten() {
            for assumption in run.assumptions(&slots, &known) {
                if !log.assumptions.contains(&assumption) {
                    log.assumptions.push(assumption);
                }
            }
        }
        log.late = first.engine.late();
        if let Some((first, last)) = first.tally.first_and_last() {
            (log.first_s, log.last_s) = (seconds(first), seconds(last));
        }
        let totals = first.tally.totals();
        // A format with fractions may still have whole seconds in all lines.
        let all_are_whole = starts_are_whole && totals.requests >= LEAST_WHOLE;
        log.whole_seconds = !known.fraction || all_are_whole;
        if all_are_whole && known.fraction {
            log.assumptions.push(WHOLE_STARTS.into());
        }
        log.assumptions.extend(first.tally.notes());
        if known.nginx && totals.delayed > 0 {
            log.assumptions.push(NGINX_HOLDS_NONE.into());
        }
        if totals.logged_429 > 0 {
            let requests = plural(totals.logged_429, "request");
            let durations = match totals.logged_429 {
                1 => "its duration is that of a refusal",
                _ => "their durations are those of refusals",
            };
            log.assumptions.push(format!(
                "The gateway that wrote the log refused {requests} with status 429: {durations}."
            ));
        }
        let (timeline, hours) = first.tally.times();
        let against = other.map(|other| both.comparison(&other));
        Ok(Summary {
            document: String::new(),
            log,
            totals,
            timeline,
            hours,
            rules: first.tally.rules(),
            clients: first.tally.clients(),
            against,
        })
    }
}

/// Stated if all starts are whole seconds.
const WHOLE_STARTS: &str =
    "The log has only whole seconds: all requests of a second start at the beginning of that second.";

/// Stated if a log of nginx has requests that wait.
const NGINX_HOLDS_NONE: &str =
    "The replay delays requests, as in Envoy: in nginx, the filter holds no request and refuses these.";

const SECOND_NS: u64 = 1_000_000_000;

/// If the times have milliseconds, so many of them are all whole seconds in one of 10⁹ logs.
const LEAST_WHOLE: u64 = 3;

/// What the replay assumes about the starts of requests.
fn of_times(known: &Known) -> Vec<String> {
    let start = match (known.start, known.duration) {
        (true, _) => None,
        (false, true) => {
            Some("The log has only the end of each request: the start is the end minus the duration.")
        }
        (false, false) => {
            Some("The log has only the end of each request and no duration: the end counts as the start.")
        }
    };
    let seconds = (!known.fraction).then_some(match known.duration && !known.start {
        true => {
            "The log has only whole seconds: all requests of a second end at the beginning of that second."
        }
        false => WHOLE_STARTS,
    });
    start.into_iter().chain(seconds).map(str::to_owned).collect()
}

impl Run {
    /// Decides a request. Returns whether it is refused.
    fn add(&mut self, record: &Record) -> bool {
        let is_refused = self.engine.decide(record).is_rejected();
        self.tally.add(record, &self.engine, [self.address, self.forwarded]);
        if is_refused {
            self.tally.add_refused(record, &self.engine, self.address);
        }
        is_refused
    }

    /// Adds the clients of the refusal of this record.
    fn refused(&self, record: &Record, clients: &mut Clients) {
        self.tally.refused(record, &self.engine, self.address, clients);
    }
}

/// The decisions of two documents about the same requests.
#[derive(Debug, Default)]
struct Both {
    both: u64,
    only_first: u64,
    only_other: u64,
    newly_refused: Clients,
    newly_admitted: Clients,
}

impl Both {
    /// Adds a request, and whether each document refuses it.
    fn add(
        &mut self,
        record: &Record,
        (first, is_refused): (&Run, bool),
        (other, was_refused): (&Run, bool),
    ) {
        let count = match (is_refused, was_refused) {
            (true, true) => &mut self.both,
            (true, false) => {
                first.refused(record, &mut self.newly_refused);
                &mut self.only_first
            }
            (false, true) => {
                other.refused(record, &mut self.newly_admitted);
                &mut self.only_other
            }
            (false, false) => return,
        };
        *count = count.saturating_add(1);
    }

    fn comparison(&self, other: &Run) -> Comparison {
        Comparison {
            document: String::new(),
            totals: other.tally.totals(),
            both_refuse: self.both,
            only_first: self.only_first,
            only_other: self.only_other,
            newly_refused: self.newly_refused.top(),
            newly_admitted: self.newly_admitted.top(),
            rules: other.tally.rules(),
        }
    }
}
