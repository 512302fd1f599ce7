//! `diana replay` decides as the filter does: a real Envoy limits requests, and the replay of its
//! access log takes the same decisions, one by one, by the same rules.
//!
//! The log has the start of a request; the filter reads its clock some microseconds later, so no
//! decision here depends on less than a millisecond.

mod counted;
mod held;

use diana_limiter::decide::{Decision, Outcome};
use diana_limiter::policy::Policy;
use diana_limiter::time::Time;
use diana_replay::Replay;
use diana_replay::summary::Summary;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::env;
use std::fs;
use std::process;

/// What a replay needs, and the filter's own decision.
const FORMAT: &str = "%START_TIME(%s.%9f)% %DURATION% %REQ(:METHOD)% %REQ(:PATH)% %REQ(:AUTHORITY)% \
    %DOWNSTREAM_REMOTE_ADDRESS% \"%REQ(X-FORWARDED-FOR)%\" \"%REQ(X-USER-ID)%\" \"%REQ(X-PLAN)%\" \
    \"%REQ(COOKIE)%\" %RESPONSE_CODE% %BYTES_RECEIVED% %BYTES_SENT% %RESPONSE_CODE_DETAILS% \
    %FILTER_STATE(wasm.diana.rule:PLAIN)% %FILTER_STATE(wasm.diana.shadow:PLAIN)% \
    %FILTER_STATE(wasm.diana.waited_ms:PLAIN)%";

/// A decision in the words of the access log.
#[derive(Debug, PartialEq, Eq)]
struct Decided {
    /// The rules that refuse.
    refused: BTreeSet<String>,
    /// The rules in shadow that would refuse.
    shadowed: BTreeSet<String>,
    /// How long the request waits for its turn, in milliseconds.
    wait_ms: Option<u64>,
}

fn names(list: &str) -> BTreeSet<String> {
    list.split(',').filter(|name| *name != "-").map(str::to_owned).collect()
}

impl Decided {
    /// The filter's decision in a line of the log.
    fn logged(line: &str) -> Decided {
        let words: Vec<&str> = line.split(' ').collect();
        let [.., rule, shadow, waited] = words[..] else { panic!("{line}") };
        assert_eq!(line.contains(" 429 "), rule != "-", "{line}");
        let wait_ms = (waited != "-").then(|| waited.parse().unwrap());
        Decided { refused: names(rule), shadowed: names(shadow), wait_ms }
    }

    /// The replay's decision about a request that starts at this time.
    fn replayed(decision: &Decision, policy: &Policy, start: Time) -> Decided {
        let [refused, shadowed] = [decision.refused_by(policy), decision.shadowed_by(policy)]
            .map(|list| names(list.as_deref().unwrap_or("-")));
        assert_eq!(decision.is_rejected(), !refused.is_empty());
        let wait_ms = match decision.outcome {
            Outcome::Delay(until) => Some(until.since(start).as_ns() / 1_000_000),
            _ => None,
        };
        Decided { refused, shadowed, wait_ms }
    }

    /// Whether the replay decides as the filter did. A filter that refuses from its cache asks no
    /// further rules, and names none of them. Envoy's timers may fire late, but never early.
    fn agrees(&self, replay: &Decided) -> bool {
        let same_wait = match (self.wait_ms, replay.wait_ms) {
            (Some(waited), Some(wait)) => waited + 1 >= wait,
            (waited, wait) => waited == wait,
        };
        let same_rules = match self.refused.is_empty() {
            true => (&self.refused, &self.shadowed) == (&replay.refused, &replay.shadowed),
            false => self.refused.is_subset(&replay.refused) && self.shadowed.is_subset(&replay.shadowed),
        };
        same_wait && same_rules
    }
}

/// What the filter decided about the requests of a log, by rule.
struct Decisions {
    refusals: BTreeMap<String, u32>,
    /// The requests that waited.
    waits: usize,
    summary: Summary,
}

/// Replays the log of a gateway with this document. Fails unless each decision is the filter's.
fn replay(document: &Value, lines: &[String]) -> Decisions {
    let bytes = serde_json::to_vec(document).unwrap();
    let folder =
        env::temp_dir().join(format!("diana-replay-{}-{:?}", process::id(), std::thread::current().id()));
    fs::create_dir_all(&folder).unwrap();
    let file = folder.join("access.log");
    fs::write(&file, lines.join("\n")).unwrap();
    let replay = Replay::of_document(&bytes, file, Some(FORMAT)).unwrap();
    let (mut compared, mut waits, mut refusals, mut differing) =
        (0, 0, BTreeMap::<_, u32>::new(), Vec::new());
    let summary = replay.run(
        |record, decision, policy| {
            let line = &lines[record.line as usize - 1];
            let (filter, replay) = (Decided::logged(line), Decided::replayed(decision, policy, record.start));
            compared += 1;
            if !filter.agrees(&replay) {
                differing.push(format!("{line}\n  replayed: {replay:?}"));
            }
            waits += usize::from(filter.wait_ms.is_some());
            let rules = filter.refused.into_iter().chain(filter.shadowed);
            rules.for_each(|rule| *refusals.entry(rule).or_default() += 1);
        },
        |_, _| {},
    );
    fs::remove_dir_all(&folder).unwrap();
    let summary = summary.unwrap();
    assert!(differing.is_empty(), "{} of {compared} differ:\n{}", differing.len(), differing.join("\n"));
    assert_eq!((compared, summary.log.unreadable, summary.log.late), (lines.len(), 0, 0));
    let refused = lines.iter().filter(|line| !Decided::logged(line).refused.is_empty()).count() as u64;
    assert_eq!((summary.totals.refused, summary.totals.logged_429), (refused, refused));
    println!("{compared} decisions are those of the filter: {waits} waits, refusals by rule: {refusals:?}");
    Decisions { refusals, waits, summary }
}
