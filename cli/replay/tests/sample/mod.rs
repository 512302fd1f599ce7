//! A week of made-up traffic, for the tests and the pictures of the report: 1.2 million requests
//! with a daily rhythm, and clients that go astray on Wednesday afternoon.

mod load;
mod rules;

use diana_replay::summary::{
    ClientSummary, Comparison, Hour, Interval, LogSummary, RuleSummary, Summary, Timeline, Totals, Unreadable,
};

/// Monday, 2 March 2026, 00:00 UTC.
pub const START: f64 = 1_772_409_600.0;
const WEEK_S: f64 = 604_800.0;
const INTERVAL: f64 = 1_800.0;
const INTERVALS: usize = 336;
const REQUESTS: u64 = 1_204_332;

/// The summary. `against` is a document with other quotas.
pub fn summary() -> Summary {
    let rules = rules::all(|rule| rule);
    let timeline = timeline(&rules);
    Summary {
        document: "policy.yaml".to_owned(),
        log: log(),
        totals: totals(&rules),
        hours: hours(&timeline),
        timeline,
        against: Some(against(&rules)),
        clients: clients(&rules, 1.0),
        rules,
    }
}

/// The refused actors of all enforced rules, with a share of their refusals.
fn clients(rules: &[RuleSummary], share: f64) -> Vec<ClientSummary> {
    let mut clients: Vec<ClientSummary> = Vec::new();
    for rule in rules.iter().filter(|rule| rule.is_enforced) {
        for actor in rule.top.iter().filter(|actor| actor.refused > 0) {
            clients.push(ClientSummary {
                client: actor.actor.clone(),
                actor: rule.actor.clone(),
                refused: (actor.refused as f64 * share).ceil() as u64,
                rules: vec![rule.name.clone()],
            });
        }
    }
    clients.sort_by_key(|client| std::cmp::Reverse(client.refused));
    clients.truncate(50);
    clients
}

fn log() -> LogSummary {
    let unreadable =
        |file: &str, line, why: &str| Unreadable { file: file.to_owned(), line, why: why.to_owned() };
    let files = ["edge-1/access.log.gz", "edge-2/access.log.gz"];
    LogSummary {
        files: files.map(str::to_owned).to_vec(),
        format: "envoy".to_owned(),
        lines: REQUESTS + 14,
        unreadable: 14,
        examples: vec![
            unreadable(files[0], 81_202, "the line ends within the quoted request"),
            unreadable(files[1], 4_417, "`-` is no time; expected a form such as `2026-03-02T14:05:09.120Z`"),
        ],
        unmatched: Vec::new(),
        ended_early: Vec::new(),
        late: 212,
        first_s: START + 0.218,
        last_s: START + 604_799.4,
        whole_seconds: false,
        assumptions: vec!["The log has no header `x-trial`: the header counts as absent.".to_owned()],
    }
}

fn totals(rules: &[RuleSummary]) -> Totals {
    let sum = |of: fn(&RuleSummary) -> u64, is_enforced| -> u64 {
        rules.iter().filter(|rule| rule.is_enforced == is_enforced).map(of).sum()
    };
    let refused = sum(|rule| rule.refused, true);
    let delayed = sum(|rule| rule.delayed, true);
    Totals {
        requests: REQUESTS,
        admitted: REQUESTS - refused - delayed,
        delayed,
        refused,
        shadow_refused: sum(|rule| rule.refused, false),
        logged_429: 0,
        undecided: 0,
    }
}

fn timeline(rules: &[RuleSummary]) -> Timeline {
    let sums = |of: fn(&RuleSummary) -> Vec<u64>| {
        let mut sums = vec![0; INTERVALS];
        for rule in rules.iter().filter(|rule| rule.is_enforced) {
            for (sum, number) in sums.iter_mut().zip(of(rule)) {
                *sum += number;
            }
        }
        sums
    };
    let refused = sums(|rule| rule.refusals.clone());
    let delayed = sums(|rule| load::spread(rule.delayed, load::mornings));
    // The requests include the refused and the delayed ones.
    let rest = REQUESTS - refused.iter().chain(&delayed).sum::<u64>();
    let requests = load::spread(rest, load::rhythm);
    let intervals = requests.iter().zip(refused).zip(delayed).map(|((rest, refused), delayed)| Interval {
        requests: rest + refused + delayed,
        refused,
        delayed,
    });
    Timeline { start_s: START, interval_s: INTERVAL, intervals: intervals.collect() }
}

fn hours(timeline: &Timeline) -> Vec<Hour> {
    let hours = timeline.intervals.chunks(2).enumerate();
    hours
        .map(|(index, halves)| Hour {
            weekday: u8::try_from(index / 24).unwrap(),
            hour: u8::try_from(index % 24).unwrap(),
            requests: halves.iter().map(|half| half.requests).sum(),
            refused: halves.iter().map(|half| half.refused).sum(),
        })
        .collect()
}

/// The same requests under quotas of six tenths.
fn against(first: &[RuleSummary]) -> Comparison {
    let rules = rules::all(|mut rule| {
        rule.rpu = rule.rpu * 6 / 10;
        rule
    });
    let totals = totals(&rules);
    let both = self::totals(first).refused * 98 / 100;
    Comparison {
        document: "policy-stricter.yaml".to_owned(),
        both_refuse: both,
        only_first: self::totals(first).refused - both,
        only_other: totals.refused - both,
        newly_refused: clients(first, 0.02),
        newly_admitted: clients(&rules, 0.25),
        totals,
        rules,
    }
}
