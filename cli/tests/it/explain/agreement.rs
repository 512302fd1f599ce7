//! The explanation of random requests agrees with the engine, asked by one worker with all its
//! caches, and with the limits that the engine checks.

use super::arguments;
use diana_base::time::{Span, Time};
use diana_cli::explain::{self, Explanation};
use diana_config::compile;
use diana_limiter::cells::store::Memory;
use diana_limiter::decide::Outcome;
use diana_limiter::request::protocol::Protocol;
use diana_limiter::request::{Part, Values};
use diana_limiter::session::{Session, Worker};
use proptest::prelude::*;
use proptest::sample::select;
use proptest::test_runner::TestCaseError;
use serde_json::{Value, json};

const START_S: u64 = 1_795_392_000;

#[derive(Clone, Debug)]
struct Asked {
    method: &'static str,
    target: &'static str,
    ip: &'static str,
    user: Option<String>,
    plan: Option<&'static str>,
    host: &'static str,
    headers: Vec<&'static str>,
    times: u32,
    every_ms: u64,
}

fn rule() -> impl Strategy<Value = Value> {
    let quota = (0u64..6, select(vec!["second", "10s", "minute"]));
    let actor = select(vec![
        json!("all"),
        json!("ip"),
        json!("user"),
        json!(["user", "ip"]),
        json!("session"),
        json!("key"),
        json!("second"),
        json!("site"),
        json!("verb"),
        json!("claim"),
        json!({"segment": "x"}),
    ]);
    let missing = select(vec!["ip", "skip", "share", "deny"]);
    let algo = select(vec!["TB", "W", "SW", "SL", "LB"]);
    let rest = (any::<bool>(), any::<bool>(), 1u64..3, prop::option::of(1u64..4), any::<[u8; 3]>());
    (quota, actor, missing, algo, rest).prop_map(
        |(
            (rpu, unit),
            actor,
            missing,
            algo,
            (shadow, waits, cost, penalty, [plans, overrides, headroom]),
        )| {
            let mut rule = json!({"rpu": rpu, "unit": unit, "actor": actor, "algo": algo});
            if actor != json!("all") {
                rule["missing"] = json!(missing);
            }
            match algo {
                "LB" => rule["queue"] = json!(2),
                "TB" if waits => rule["max_wait"] = json!("20s"),
                _ => {}
            }
            if shadow {
                rule["mode"] = json!("shadow");
            }
            if cost > 1 && algo == "TB" && rpu >= cost {
                rule["cost"] = json!(cost);
            }
            if let Some(after) = penalty {
                rule["penalty"] = json!({"after": after, "for": "5s"});
            }
            if plans < 80 {
                rule["plans"] = json!({"gold": {"rpu": rpu + 2}, "free": "unlimited"});
            }
            if overrides < 80 && actor == json!("user") {
                rule["overrides"] = json!({"a": {"rpu": 1}, "b": {"rpu": 4, "unit": "5s"}});
            }
            if headroom < 60 && rpu > 2 {
                rule["headroom"] = json!(1);
            }
            rule
        },
    )
}

fn limit() -> impl Strategy<Value = Value> {
    let url = select(vec!["/", "/a", "/a/b", "=/a", "/*/b", "/a/{x}", "/c", "/{x}"]);
    let condition = select(vec![
        json!({}),
        json!({"methods": ["GET"]}),
        json!({"methods": "POST"}),
        json!({"headers": {"x-plan": "gold"}}),
        json!({"headers": {"x-plan": {"present": false}}}),
        json!({"headers": {"x-plan": {"regex": "g.*"}}, "query": {"q": {"present": true}}}),
        json!({"hosts": ["*.test", "b"]}),
        json!({"jwt": {"sub": "ann"}}),
        json!({"property": {"request.method": "GET"}}),
        json!({"body_size": {"min": 5}}),
        json!({"priority": "high"}),
    ]);
    let rules = prop::collection::vec(rule(), 0..3);
    (url, condition, rules, any::<bool>()).prop_map(|(url, mut limit, rules, exclusive)| {
        limit["url"] = json!(url);
        limit["exclusive"] = json!(exclusive || rules.is_empty());
        limit["rules"] = json!(rules);
        limit
    })
}

/// Lines of headers. The first token has the claim `sub: ann`.
const HEADERS: [&str; 5] = [
    "authorization: Bearer e30.eyJzdWIiOiJhbm4ifQ.x",
    "authorization: Bearer e30.x.x",
    "cookie: session=1; session=2",
    "cookie: session=1",
    "content-length: 7",
];

fn asked() -> impl Strategy<Value = Asked> {
    let target = select(vec![
        "/",
        "/a",
        "/a?q=1",
        "/a/b",
        "/a/b?q",
        "/c/b",
        "/A/b",
        "/a%2Fb",
        "/x/..;/a/b",
        "//a/b",
        "/a/b;v=1?key=1&key=1",
    ]);
    let method = select(vec!["GET", "POST", "HEAD"]);
    let ip = select(vec!["203.0.113.1", "198.51.100.9", "2001:db8::1"]);
    let user = prop::option::of("[a-c]|\\PC{1,9}");
    let plan = prop::option::of(select(vec!["gold", "free"]));
    let host = select(vec!["a.test", "b:80", "test"]);
    let headers = prop::collection::vec(select(HEADERS.to_vec()), 0..3);
    let times = (1u32..15, select(vec![0, 50, 333, 1_000, 9_000]));
    (method, target, ip, user, plan, host, headers, times).prop_map(
        |(method, target, ip, user, plan, host, headers, (times, every_ms))| {
            let user = user.map(|user| user.trim().to_owned()).filter(|user| !user.is_empty());
            Asked { method, target, ip, user, plan, host, headers, times, every_ms }
        },
    )
}

/// What one worker decided about a request.
struct Decided {
    outcome: &'static str,
    details: Option<String>,
    wait_s: Option<f64>,
}

/// The outcomes by one worker, and the names of all rules that reported.
fn decided(document: &Value, asked: &Asked) -> (Vec<Decided>, Vec<String>) {
    let configuration = compile(document.to_string().as_bytes()).unwrap();
    let policy = &configuration.policy;
    let mut worker = Worker::new(policy.clone(), Memory::new(), &[9; 16]);
    let mut values = Values::default()
        .with_claims(diana_config::claim)
        .with(Part::Method, asked.method)
        .with(Part::Path, asked.target)
        .with(Part::Address, asked.ip);
    if let Some(user) = &asked.user {
        values = values.with(Part::Header("x-user-id".into()), user.as_bytes());
    }
    if let Some(plan) = asked.plan {
        values = values.with(Part::Header("x-plan".into()), plan);
    }
    let (mut outcomes, mut names) = (Vec::new(), Vec::new());
    for header in &asked.headers {
        let (name, value) = header.split_once(": ").unwrap();
        values = values.with(Part::Header(name.into()), value);
    }
    let size = if asked.headers.contains(&"content-length: 7") { "7" } else { "0" };
    values = values
        .with(Part::Host, asked.host)
        .with(Part::BodySize, size)
        .with(Part::Property(vec!["request".into(), "method".into()]), asked.method);
    for index in 0..asked.times {
        let now =
            Time::from_ns(START_S * 1_000_000_000).after(Span::from_ms(u64::from(index) * asked.every_ms));
        let request = policy.request(&values);
        let (mut session, decision) = Session::start(&mut worker, &request, || now);
        let outcome = match decision.outcome {
            Outcome::Pass => "pass",
            Outcome::Allowed => "allowed",
            Outcome::Delay(_) => "delayed",
            Outcome::Reject(_) => "refused",
            Outcome::Query(_) => unreachable!(),
        };
        let refusal = configuration.response.refusal(policy, decision, Protocol::Http, 0);
        let wait_s = match decision.outcome {
            Outcome::Delay(until) => Some(until.since(now).as_ns() as f64 / 1e9),
            _ => None,
        };
        outcomes.push(Decided { outcome, details: refusal.map(|refusal| refusal.details), wait_s });
        names
            .extend(decision.checks.iter().map(|check| policy.rule(check.rule()).unwrap().name().to_owned()));
        session.resume();
        worker.tick(|| now, false);
    }
    names.sort();
    names.dedup();
    (outcomes, names)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn the_engine_decides_as_explained(limits in prop::collection::vec(limit(), 0..6), asked in asked(), listed: u8) {
        let mut document = json!({"limits": limits, "plan": {"header": "x-plan"}, "actors": {
            "session": {"cookie": "session"}, "key": {"query": "key"}, "second": {"path": 2},
            "site": "host", "verb": "method", "claim": {"jwt": "sub"},
        }});
        match listed {
            0..30 => document["deny"] = json!(["203.0.113.0/24", {"user": "a"}]),
            30..60 => document["allow"] = json!(["203.0.113.1", {"user": ["b", "c"]}]),
            _ => {}
        }
        if compile(document.to_string().as_bytes()).is_err() {
            return Ok(());
        }
        let (times, every) = (asked.times.to_string(), format!("{}ms", asked.every_ms));
        let at = START_S.to_string();
        let mut words = vec!["--method", asked.method, "--url", asked.target, "--ip", asked.ip];
        words.extend(["--host", asked.host]);
        words.extend(asked.headers.iter().flat_map(|header| ["-H", *header]));
        words.extend(["--times", &times, "--every", &every, "--at", &at]);
        let user = asked.user.as_ref().map(|user| format!("x-user-id: {user}"));
        let plan = asked.plan.map(|plan| format!("x-plan: {plan}"));
        words.extend(user.iter().chain(&plan).flat_map(|header| ["-H", header.as_str()]));
        let explanation = explain::explain(&arguments(&words), document.to_string().as_bytes()).unwrap();

        let (outcomes, names) = decided(&document, &asked);
        let explained: Vec<(&str, Option<String>)> = explanation.outcomes.iter()
            .flat_map(|run| (run.from..=run.to).map(|_| (run.outcome, run.details.as_deref().map(reason))))
            .collect();
        let expected: Vec<(&str, Option<String>)> =
            outcomes.iter().map(|decided| (decided.outcome, decided.details.as_deref().map(reason))).collect();
        prop_assert_eq!(explained, expected);
        agrees_on_waits(&explanation, &outcomes)?;

        // Each rule that reports is explained. Each explained rule reports, unless it is skipped,
        // or a list or a missing actor decides.
        let rules = || explanation.limits.iter().flat_map(|limit| &limit.rules);
        for name in &names {
            prop_assert!(rules().any(|rule| rule.name == *name), "{} is not explained", name);
        }
        let decides_early = |run: &explain::OutcomeRun| {
            run.outcome == "allowed" || run.details.as_deref().is_some_and(|details| {
                details.starts_with("diana_no_actor") || details.starts_with("diana_denied")
            })
        };
        // Rules whose plan `free` is unlimited do not report.
        if asked.plan != Some("free") && !explanation.outcomes.iter().any(decides_early) {
            for rule in rules().filter(|rule| rule.actor.found != "skipped") {
                prop_assert!(names.contains(&rule.name), "{} did not report", rule.name);
            }
        }
        let total = explanation.limits.len() + explanation.nearly.len() + explanation.others;
        prop_assert_eq!(total, document["limits"].as_array().unwrap().len());
    }
}

/// The waits of the outcome are the engine's, and the rules say the same as the outcome.
fn agrees_on_waits(explanation: &Explanation, outcomes: &[Decided]) -> Result<(), TestCaseError> {
    let decided = |number: u32| &outcomes[number as usize - 1];
    for run in &explanation.outcomes {
        // A run shows the waits of its first and of its last request.
        let shown = |index: usize| run.wait_s.map(|waits| waits[index]);
        prop_assert_eq!(shown(0), decided(run.from).wait_s);
        prop_assert_eq!(shown(1), decided(run.to).wait_s);
    }
    let runs = || explanation.limits.iter().flat_map(|limit| &limit.rules).flat_map(|rule| &rule.runs);
    for number in 1..=outcomes.len() as u32 {
        let says =
            |result: &str| runs().any(|run| (run.from..=run.to).contains(&number) && run.result == result);
        let Decided { outcome, wait_s, .. } = decided(number);
        prop_assert_eq!(says("delayed"), *outcome == "delayed");
        prop_assert!(!(*outcome == "refused" && says("admitted")), "request {number} is refused");
        prop_assert!(!(*outcome != "refused" && says("would admit")), "request {number} passes");
        // Of several waits, the longest one decides.
        let ends = runs().filter(|run| run.result == "delayed").flat_map(|run| {
            run.wait_s.into_iter().flat_map(|[first, last]| [(run.from, first), (run.to, last)])
        });
        for (_, wait) in ends.filter(|(end, _)| *end == number) {
            prop_assert!(wait_s.is_some_and(|longest| wait <= longest), "{wait} s is above {wait_s:?} s");
        }
    }
    Ok(())
}

/// The kind of a refusal. If several rules refuse, a worker's cache may have asked only some.
fn reason(details: &str) -> String {
    details.split(':').next().unwrap_or_default().to_owned()
}
