//! Tests of refusals and their headers.

use super::testing::{Bare, RuleState, admit, decision, items, penalty, policy, refuse};
use super::wait::{never_admits, wait};
use super::*;
use crate::cells::Events;
use crate::decide::{Reason, RuleReport, RuleResult};
use crate::policy::RuleId;
use proptest::prelude::*;

fn options(status: u32, jitter_percent: u32) -> ResponseOptions {
    ResponseOptions { status, jitter_percent, form: Form::Both, ..ResponseOptions::default() }
}

fn refused_for(reason: impl Fn(RuleId) -> Reason, policy: &Policy) -> Decision {
    let (rule, _) = policy.rules().next().unwrap();
    let Decision { reports, .. } = decision(policy, &[(10, 1000, None)]);
    let reports =
        reports.into_iter().map(|report| RuleReport { result: RuleResult::Refused, ..report }).collect();
    Decision {
        outcome: Outcome::Reject(reason(rule)),
        reports,
        events: Events::default(),
        plan: None,
        is_high_priority: false,
    }
}

fn header<'r>(refusal: &'r Refusal, name: &str) -> Option<&'r str> {
    refusal.headers.iter().find(|(known, _)| *known == name).map(|(_, value)| &**value)
}

#[test]
fn a_refusal_is_complete() {
    let policy = policy(["all", "per-ip", "~shadow"]);
    let decision =
        decision(&policy, &[(50, 1000, admit(3, 20)), (10, 1000, refuse(100)), (1, 1000, refuse(1000))]);
    let mut options = ResponseOptions { jitter_percent: 0, ..ResponseOptions::default() };
    options.headers = vec![("x-reason".into(), "too many".into())];
    let refusal = options.refusal(&policy, &decision, false, u32::MAX).unwrap();
    let own = |(name, value): &(&str, Cow<str>)| format!("{name}: {value}");
    assert_eq!(
        refusal.headers.iter().map(own).collect::<Vec<_>>(),
        [
            "retry-after: 1",
            r#"ratelimit-policy: "per-ip";q=10;w=1, "all";q=50;w=1"#,
            r#"ratelimit: "per-ip";r=0;t=1, "all";r=3;t=1"#,
            "content-type: application/problem+json",
            "x-reason: too many",
        ]
    );
    assert_eq!((refusal.status, refusal.grpc_status), (429, None));
    assert_eq!(refusal.details, "diana_refused:per-ip");
    assert_eq!(
        str::from_utf8(&refusal.body).unwrap(),
        concat!(
            r#"{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded","#,
            r#""title":"Quota Exceeded","status":429,"violated-policies":["per-ip"]}"#,
            "\n"
        )
    );
}

#[test]
fn only_a_refusal_is_answered() {
    let policy = policy(["a"]);
    let passed = decision(&policy, &[(10, 1000, admit(9, 100))]);
    assert_eq!(ResponseOptions::default().refusal(&policy, &passed, false, 0), None);
    assert_eq!(ResponseOptions::default().headers(&policy, &passed).len(), 2);
}

#[test]
fn a_grpc_client_gets_a_status_in_place_of_a_body() {
    let policy = policy(["a"]);
    let decision = decision(&policy, &[(10, 1000, refuse(1))]);
    let mut options = options(429, 20);
    for body in [Body::Problem, Body::Text { content_type: "text/plain".into(), text: "no".into() }] {
        options.body = body;
        let refusal = options.refusal(&policy, &decision, true, 0).unwrap();
        assert_eq!((refusal.grpc_status, refusal.body.len()), (Some(8), 0));
        assert_eq!(header(&refusal, "content-type"), None);
        assert_eq!(header(&refusal, "retry-after"), Some("1"));
        assert_eq!(refusal.details, "diana_refused:a");
    }
}

#[test]
fn the_configured_body_is_sent_with_its_type() {
    let policy = policy(["a"]);
    let decision = decision(&policy, &[(10, 1000, refuse(1))]);
    for (text, expected) in [("no\n", Some("text/html")), ("", None)] {
        let body = Body::Text { content_type: "text/html".into(), text: text.into() };
        let options = ResponseOptions { body, ..ResponseOptions::default() };
        let refusal = options.refusal(&policy, &decision, false, 0).unwrap();
        assert_eq!(&*refusal.body, text.as_bytes());
        assert_eq!(header(&refusal, "content-type"), expected);
    }
}

#[test]
fn the_problem_says_what_kind_of_refusal_it_is() {
    let policy = policy(["a", "b", "~c"]);
    let by_rules = decision(&policy, &[(10, 1000, refuse(1)), (0, 1000, refuse(None)), (1, 1000, refuse(1))]);
    let denied = Decision { outcome: Outcome::Reject(Reason::Denied), reports: vec![], ..by_rules.clone() };
    let mut by_penalty = by_rules.clone();
    by_penalty.reports.iter_mut().take(1).for_each(|report| report.verdict = penalty());
    // The rule that decides refuses by its quota.
    let mut beside_penalty = by_rules.clone();
    beside_penalty.reports.iter_mut().skip(1).for_each(|report| report.verdict = penalty());
    let second = beside_penalty.reports[1].rule;
    let second_decides =
        Decision { outcome: Outcome::Reject(Reason::Rule(second)), ..beside_penalty.clone() };
    for (status, decision, kind, violated, details) in [
        (429, &second_decides, "abnormal-usage-detected", r#"["a","b"]"#, "diana_refused:b"),
        (429, &by_penalty, "abnormal-usage-detected", r#"["a","b"]"#, "diana_refused:a"),
        (403, &by_penalty, "abnormal-usage-detected", r#"["a","b"]"#, "diana_refused:a"),
        (503, &by_penalty, "abnormal-usage-detected", r#"["a","b"]"#, "diana_refused:a"),
        (429, &beside_penalty, "quota-exceeded", r#"["a","b"]"#, "diana_refused:a"),
        (429, &by_rules, "quota-exceeded", r#"["a","b"]"#, "diana_refused:a"),
        (403, &by_rules, "quota-exceeded", r#"["a","b"]"#, "diana_refused:a"),
        (503, &by_rules, "temporary-reduced-capacity", r#"["a","b"]"#, "diana_refused:a"),
        (429, &denied, "abnormal-usage-detected", r#"["deny"]"#, "diana_denied"),
        (503, &denied, "abnormal-usage-detected", r#"["deny"]"#, "diana_denied"),
    ] {
        let options = options(status, 0);
        let refusal = options.refusal(&policy, decision, false, 0).unwrap();
        let body: serde_json::Value = serde_json::from_slice(&refusal.body).unwrap();
        let uri = format!("https://iana.org/assignments/http-problem-types#{kind}");
        assert_eq!(body["type"], *uri);
        assert_eq!(body["status"], status);
        assert_eq!(body["violated-policies"].to_string(), violated);
        assert_eq!((refusal.status, &*refusal.details), (status, details));
    }
}

/// `about:blank` says no more than the status does (RFC 9457 §4.2.1).
#[test]
fn a_refusal_that_is_not_about_a_quota_has_no_type_of_a_quota() {
    let policy = policy(["a"]);
    let no_actor = refused_for(Reason::NoActor, &policy);
    let denied = refused_for(|_| Reason::Denied, &policy);
    for (status, decision, title, violated) in [
        (429, &no_actor, Some("Too Many Requests"), "a"),
        (400, &no_actor, Some("Bad Request"), "a"),
        (401, &no_actor, Some("Unauthorized"), "a"),
        (503, &no_actor, Some("Service Unavailable"), "a"),
        (499, &no_actor, None, "a"),
        (403, &denied, Some("Forbidden"), "deny"),
        (404, &denied, Some("Not Found"), "deny"),
    ] {
        let options = options(status, 0);
        let refusal = options.refusal(&policy, decision, false, 0).unwrap();
        let body: serde_json::Value = serde_json::from_slice(&refusal.body).unwrap();
        assert_eq!((&body["type"], &body["status"]), (&"about:blank".into(), &status.into()));
        assert_eq!(body.get("title").and_then(|title| title.as_str()), title);
        assert_eq!(body["violated-policies"], serde_json::json!([violated]));
    }
}

#[test]
fn the_form_of_headers_is_the_configured_one() {
    let policy = policy(["a"]);
    let decision = decision(&policy, &[(10, 1000, admit(9, 100))]);
    let x = ["x-ratelimit-limit", "x-ratelimit-remaining", "x-ratelimit-reset"];
    for (form, expected) in [
        (Form::Ietf, vec!["ratelimit-policy", "ratelimit"]),
        (Form::XRateLimit, x.to_vec()),
        (Form::Both, [&["ratelimit-policy", "ratelimit"][..], &x].concat()),
        (Form::Off, vec![]),
    ] {
        let options = ResponseOptions { form, ..ResponseOptions::default() };
        let names: Vec<_> = options.headers(&policy, &decision).iter().map(|(name, _)| *name).collect();
        assert_eq!(names, expected);
    }
}

fn any_state() -> impl Strategy<Value = RuleState> {
    let ms = || prop_oneof![0..3000u64, 0..700_000_000u64];
    let verdict = prop_oneof![
        3 => (any::<u64>(), ms()).prop_map(|(remaining, more_in)| admit(remaining, more_in)),
        3 => proptest::option::of(ms()).prop_map(refuse),
        1 => Just(None),
    ];
    let unit_ms = prop_oneof![1 => Just(0), 4 => 1..=604_800_000u64];
    (0..=1_000_000_000u64, unit_ms, verdict)
}

/// Rules, most of them with valid names, and the state of each.
fn any_rules() -> impl Strategy<Value = Vec<(String, RuleState)>> {
    let name = prop_oneof![3 => "~?[a-z0-9_-]{1,12}", 1 => ".{1,6}", 1 => "[\"\\\\a,;=]{1,4}"];
    proptest::collection::vec((name, any_state()), 1..24)
}

proptest! {
    #[test]
    fn retry_after_is_never_before_any_t_of_a_refusing_rule(
        rules in any_rules(), jitter in 0..=100u32, entropy in any::<u32>(),
    ) {
        let policy = policy(rules.iter().map(|(name, _)| name));
        let states: Vec<RuleState> = rules.iter().map(|(_, state)| *state).collect();
        let decision = decision(&policy, &states);
        let options = options(429, jitter);
        let Some(refusal) = options.refusal(&policy, &decision, false, entropy) else {
            prop_assert!(!decision.is_rejected());
            return Ok(());
        };
        let Some(seconds) = header(&refusal, "retry-after") else {
            prop_assert!(decision.refusing().any(never_admits));
            return Ok(());
        };
        let seconds: u64 = seconds.parse().unwrap();
        let shown = items(header(&refusal, "ratelimit").unwrap()).unwrap();
        let refusing = decision.refusing().count();
        for (_, parameters) in shown.iter().take(refusing) {
            let early = |value: &Bare| matches!(value, Bare::Integer(t) if *t <= seconds);
            prop_assert!(parameters.iter().all(|(key, value)| key != "t" || early(value)));
        }
        let longest = decision.refusing().map(wait).max().unwrap().as_secs_ceil().max(1);
        let most = longest + (longest * u64::from(jitter)).div_ceil(100);
        prop_assert!((longest..=most).contains(&seconds));
        let reset: u64 = header(&refusal, "x-ratelimit-reset").unwrap().parse().unwrap();
        prop_assert!(reset <= seconds);
    }

    #[test]
    fn a_response_is_well_formed(rules in any_rules(), status in 400..600u32, grpc in any::<bool>()) {
        let policy = policy(rules.iter().map(|(name, _)| name));
        let states: Vec<RuleState> = rules.iter().map(|(_, state)| *state).collect();
        let decision = decision(&policy, &states);
        let options = options(status, 20);
        let Some(refusal) = options.refusal(&policy, &decision, grpc, 7) else {
            return Ok(());
        };
        let mut names: Vec<_> = refusal.headers.iter().map(|(name, _)| *name).collect();
        names.sort_unstable();
        prop_assert!(names.windows(2).all(|pair| pair[0] < pair[1]), "{names:?}");
        for (_, value) in &refusal.headers {
            prop_assert!(value.bytes().all(|byte| matches!(byte, b' '..=b'~')), "{value}");
        }
        prop_assert_eq!(refusal.body.is_empty(), grpc);
        if !grpc {
            let body: serde_json::Value = serde_json::from_slice(&refusal.body).unwrap();
            let refusing: Vec<&str> = rules
                .iter()
                .filter(|(name, _)| !name.starts_with('~'))
                .filter(|(_, (_, _, verdict))| verdict.is_some_and(|verdict| !verdict.admits()))
                .map(|(name, _)| &**name)
                .collect();
            prop_assert_eq!(&body["violated-policies"], &serde_json::Value::from(refusing));
        }
    }
}
