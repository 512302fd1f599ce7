//! Scripted decisions: a configuration, then one request a line and the expected decision. To add a
//! script, add a `check` to the file of its subject.
//!
//! ```text
//!   0ms  ip=10.0.0.1 user=ann GET /api   -> pass
//!   0ms  4x user=ann GET /api            -> pass                      four times, the same result
//!   1s   w1 user=ann GET /api            -> refuse per-user retry=3s  by another worker
//!   1s   user=bob x-plan=free GET /api   -> pass root=9 per-user=4    each rule's report, in order
//!   2s   2x settle                       ends the two oldest requests that have charges
//!   3s   settle status=200 values=_,7    the same, after a response with these measures
//!   4s   forward                         all of the oldest such request has gone to the upstream
//!   5s   respond status=200              the headers of its response have come
//! ```
//!
//! After `settle`: `status`, `request` and `response` (bytes), and `values` with a number or `_`
//! for each value that the policy measures, or `?7` if 7 was seen of a response that was not read
//! to its end. The whole filter measures these responses by itself. With `latency`, the request was
//! forwarded that long before, and the headers of the response come now, or the client leaves
//! before them if there is no `status`. A script about the times of responses runs through the
//! engine alone.
//!
//! Before the method: `ip`, `user`, `device`, `host`, `property` (its steps dotted), `size` (of the
//! body; 0: none), or else the name of a header, each with its value, in which `_` is a space.
//! After the arrow: `pass`, `allowed`, `denied`, `wait=1s`, `no-actor RULE`, or
//! `refuse RULE retry=1s`, where `retry` may be left out, or be `never`. Then optionally all rules
//! that were checked: `RULE=7` admits and has seven left, `RULE=refused`, `RULE=shadowed`,
//! `RULE=uncounted`, or `none` if no rule was checked.

mod actors;
mod adapting;
mod buckets;
mod calendar;
mod conditions;
mod costs;
mod limit_source;
mod lists;
mod missing;
mod penalties;
mod permits;
mod plans;
mod priorities;
mod queues;
mod settling;
mod shadow;
mod stacking;
mod urls;
mod warm_up;
mod windows;

use crate::harness::{Gateway, START, Step, store};
use crate::host::replay::{self, Event};
use diana_base::time::{Span, Time};
use diana_limiter::algorithm;
use diana_limiter::cells::store::CasSemantics;
use diana_limiter::decide::{Decision, Outcome, Reason, RuleResult};
use diana_limiter::policy::{Policy, ResponseNumber, RuleId, Usage};
use diana_limiter::request::{Part, Values};
use diana_testing::shared_data::Simulated;
use std::collections::VecDeque;

/// Runs `script` under `json`, on a simulated host of either kind: first the engine alone, then the
/// whole filter. The filter is left out if a request waits, because a host really holds the
/// request.
#[track_caller]
fn check(json: &str, script: &str) {
    for rules in [CasSemantics::Lenient, CasSemantics::Strict] {
        let host = Simulated::new(rules);
        let mut gateway = Gateway::new(json, store(&host));
        let (mut unsettled, mut next) = (VecDeque::new(), [0, 0]);
        let (mut events, mut queries, mut waits) = (Vec::new(), Vec::new(), false);
        let lines = script.lines().map(str::trim);
        for (number, text) in lines.enumerate().filter(|(_, text)| !text.is_empty()) {
            let line = Line::parse(text);
            for turn in 1..=line.times {
                if let Some(step) = line.step {
                    let next = &mut next[step as usize];
                    let (worker, session, _) = unsettled.get_mut(*next).expect("a request that is held");
                    gateway.step(*worker, session, step, line.usage.status, line.now);
                    *next += 1;
                    continue;
                }
                if line.settles {
                    let held = unsettled.pop_front();
                    next = next.map(|next| next.saturating_sub(1));
                    let (worker, mut session, request) =
                        held.unwrap_or_else(|| panic!("`{text}`: nothing is held"));
                    if let Some(latency) = line.latency {
                        let status = line.usage.status;
                        let forwarded = Time::from_ns(line.now.as_ns() - latency.as_ns());
                        gateway.step(worker, &mut session, Step::Forward, status, forwarded);
                        gateway.step(worker, &mut session, Step::Respond, status, line.now);
                    }
                    let usage = gateway.policy.measures().any().then(|| line.usage.clone());
                    match &usage {
                        Some(usage) => gateway.settle_used(worker, &mut session, usage, line.now),
                        None => gateway.settle(worker, &mut session, line.now),
                    };
                    assert!(!session.has_charges(), "`{text}` leaves something to settle");
                    events.push(Event::Over { now: line.now, request, usage });
                    continue;
                }
                let (session, decision) = gateway.start(line.worker, &line.request(), line.now);
                if session.has_charges() {
                    unsettled.push_back((line.worker, session, queries.len()));
                }
                let (now, worker, parts, refused) =
                    (line.now, line.worker, line.parts.clone(), decision.is_rejected());
                events.push(Event::Decided { now, worker, parts, refused });
                queries.push(number);
                waits |= matches!(decision.outcome, Outcome::Delay(_));
                let found = Found::of(&decision, &gateway.policy, line.now);
                if let Err(what) = found.fulfils(line.expected) {
                    panic!("\n{}", explain(script, number, turn, &what, &found, json));
                }
            }
        }
        // nginx refuses a configuration that measures.
        let is_refused = rules == CasSemantics::Strict && gateway.policy.measures().any();
        if waits || is_refused || gateway.policy.measures().latency {
            continue;
        }
        if let Some(request) = replay::differs(rules, json, gateway.policy.measures(), &events) {
            let line = script.lines().nth(queries[request]).unwrap_or_default().trim();
            panic!("the whole filter decides otherwise under {rules:?} rules:\n{line}\nunder\n{json}");
        }
    }
}

fn explain(script: &str, failing: usize, turn: usize, what: &str, found: &Found, json: &str) -> String {
    let mut text = String::new();
    for (number, line) in script.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let mark = if number == failing { "!!" } else { "  " };
        text.push_str(&format!("{mark} {}\n", line.trim()));
        if number == failing {
            let arrow = line.trim().find("->").unwrap_or(0);
            let times = if turn > 1 { format!(" (time {turn})") } else { String::new() };
            text.push_str(&format!("   {:arrow$}-> {found}{times}\n", ""));
            text.push_str(&format!("   {:arrow$}   {what}\n", ""));
        }
    }
    format!("{text}under\n{json}")
}

/// One line of a script.
struct Line<'s> {
    now: Time,
    times: usize,
    worker: usize,
    /// Whether the line ends requests.
    settles: bool,
    /// What else it tells of requests.
    step: Option<Step>,
    /// How long the upstream had all of the request.
    latency: Option<Span>,
    /// What the host measured of the requests that end.
    usage: Usage,
    parts: Vec<(Part, Vec<u8>)>,
    expected: &'s str,
}

impl Line<'_> {
    fn parse(text: &str) -> Line<'_> {
        let steps = [(" forward", Step::Forward), (" respond", Step::Respond)];
        let step = steps.into_iter().find_map(|(word, step)| Some((text.split_once(word)?, step)));
        let settles = text.contains(" settle");
        let ended = text.split_once(" settle").or(step.map(|(parts, _)| parts));
        let usage = ended.map_or("", |(_, measured)| measured);
        let (queries, expected) = match text.split_once("->") {
            None if ended.is_some() => (ended.unwrap().0, ""),
            split => split.unwrap_or_else(|| panic!("`{text}` expects nothing: `-> …` is missing")),
        };
        let mut words = queries.split_whitespace();
        let now = START.after(span(words.next().unwrap()));
        let mut line = Line {
            now,
            times: 1,
            worker: 0,
            settles,
            step: step.map(|(_, step)| step),
            latency: latency(usage),
            usage: self::usage(usage),
            parts: Vec::new(),
            expected,
        };
        for word in words {
            let number = |text: Option<&str>| text.and_then(|text| text.parse().ok());
            if let Some(times) = number(word.strip_suffix('x')) {
                line.times = times;
            } else if let Some(worker) = number(word.strip_prefix('w')) {
                line.worker = worker;
            } else {
                line.parts.push(part(word));
            }
        }
        line
    }

    fn request(&self) -> Values {
        let parts = self.parts.iter().cloned();
        parts.fold(Values::default().with_claims(diana_config::claim), |values, (part, line)| {
            values.with(part, line)
        })
    }
}

fn latency(words: &str) -> Option<Span> {
    words.split_whitespace().find_map(|word| word.strip_prefix("latency=")).map(span)
}

fn usage(words: &str) -> Usage {
    let mut usage = Usage::default();
    for word in words.split_whitespace() {
        let (name, value) = word.split_once('=').unwrap();
        match name {
            "latency" => {}
            "status" => usage.status = Some(value.parse().unwrap()),
            "request" => usage.request_bytes = value.parse().unwrap(),
            "response" => usage.response_bytes = value.parse().unwrap(),
            "values" => usage.values = value.split(',').map(response_number).collect(),
            _ => panic!("`{word}` is no measure"),
        }
    }
    usage
}

fn response_number(word: &str) -> ResponseNumber {
    match word.strip_prefix('?') {
        Some(seen) => ResponseNumber { seen: seen.parse().ok(), is_final: false },
        None => ResponseNumber::known(word.parse().ok()),
    }
}

fn part(word: &str) -> (Part, Vec<u8>) {
    if word.starts_with(['/', '\\', '*']) || word.contains("://") {
        return (Part::Path, word.into());
    }
    let Some((name, value)) = word.split_once('=') else {
        return (Part::Method, word.into());
    };
    let value = value.replace('_', " ").into_bytes();
    let part = match name {
        "ip" => Part::Address,
        "user" => Part::Header("x-user-id".into()),
        "device" => Part::Header("x-device-id".into()),
        "host" => Part::Host,
        "size" => Part::BodySize,
        "property" => {
            let (path, value) = word["property=".len()..].split_once('=').unwrap();
            return (Part::Property(path.split('.').map(Into::into).collect()), value.into());
        }
        header => Part::Header(header.into()),
    };
    (part, value)
}

fn span(text: &str) -> Span {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let ns = match unit {
        "ns" => 1,
        "us" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        "m" => 60_000_000_000,
        "h" => 3_600_000_000_000,
        "d" => 86_400_000_000_000,
        _ => panic!("`{text}` is no time: expected one such as `100ms`"),
    };
    Span::from_ns(number.parse::<u64>().unwrap() * ns)
}

/// A decision in the words of a script.
struct Found {
    outcome: Vec<String>,
    reports: Vec<String>,
}

impl Found {
    fn of(decision: &Decision, policy: &Policy, now: Time) -> Found {
        let name = |id: RuleId| policy.rule(id).unwrap().name().to_string();
        let mut outcome = match decision.outcome {
            Outcome::Pass => vec!["pass".into()],
            Outcome::Allowed => vec!["allowed".into()],
            Outcome::Delay(until) => vec![format!("wait={}", until.since(now))],
            Outcome::Query(_) => vec!["query".into()],
            Outcome::Reject(Reason::Denied) => vec!["denied".into()],
            Outcome::Reject(Reason::NoActor(id)) => vec!["no-actor".into(), name(id)],
            Outcome::Reject(Reason::Unavailable(id)) => vec!["unavailable".into(), name(id)],
            Outcome::Reject(Reason::Rule(id)) => {
                let report = decision.checks.iter().find(|report| report.rule() == id);
                let retry = match report.and_then(|report| report.verdict()).map(|verdict| verdict.admission)
                {
                    Some(algorithm::Admission::Refuse { retry_after: Some(span) }) => span.to_string(),
                    Some(algorithm::Admission::Refuse { retry_after: None }) => "never".into(),
                    other => panic!("the rule that refuses says {other:?}"),
                };
                vec!["refuse".into(), name(id), format!("retry={retry}")]
            }
        };
        if decision.events.denied_in_shadow > 0 {
            outcome.push("denied-in-shadow".into());
        }
        let mut reports = Vec::new();
        for report in decision.checks.iter() {
            let what = match (report.result(), report.verdict()) {
                (RuleResult::Admitted, Some(verdict)) => verdict.remaining.to_string(),
                (RuleResult::Admitted, None) => panic!("admitted without a verdict"),
                (RuleResult::Refused, _) => "refused".into(),
                (RuleResult::Shadowed, _) => "shadowed".into(),
                (RuleResult::Uncounted, _) => "uncounted".into(),
            };
            reports.push(format!("{}={what}", name(report.rule())));
        }
        if reports.is_empty() {
            reports.push("none".into());
        }
        Found { outcome, reports }
    }

    /// Compares the decision with the expected words. The error tells the difference.
    fn fulfils(&self, expected: &str) -> Result<(), String> {
        let expected: Vec<&str> = expected.split_whitespace().collect();
        let mut rest = expected.as_slice();
        for word in &self.outcome {
            match rest.split_first() {
                Some((first, others)) if first == word => rest = others,
                _ if word.starts_with("retry=") && !rest.iter().any(|word| word.starts_with("retry=")) => {}
                other => {
                    return Err(format!("`{}` is `{word}`", other.map_or("nothing", |(first, _)| first)));
                }
            }
        }
        if rest.is_empty() || rest == self.reports {
            return Ok(());
        }
        Err(format!("reports differ from `{}`", rest.join(" ")))
    }
}

impl std::fmt::Display for Found {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.outcome.join(" "), self.reports.join(" "))
    }
}

#[test]
#[should_panic(expected = "!! 0ms GET / -> pass root-0=1\n       ")]
fn a_failing_line_is_shown_in_its_script() {
    let json = r#"{"url": "/", "rules": [{"rpu": 1, "unit": "second"}]}"#;
    check(json, "0ms GET / -> pass root-0=1\n 1ms GET / -> refuse root-0");
}
