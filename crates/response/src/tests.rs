//! Tests of refusals and their headers.

pub(super) mod made;

use super::wait::{never_admits, wait};
use super::*;
use diana_document::{Errors, Node};
use made::{Bare, RuleState, admit, decision, degraded, items, penalized, policy, refuse};
use proptest::prelude::*;

/// All protocols.
pub(super) const PROTOCOLS: [Protocol; 6] = [
    Protocol::Http,
    Protocol::Grpc,
    Protocol::GrpcWeb,
    Protocol::ConnectUnary,
    Protocol::ConnectStream { is_json: false },
    Protocol::ConnectStream { is_json: true },
];

/// The responses of rules, with one of them hidden.
pub(super) fn hiding(hidden: usize, count: usize) -> Vec<RuleResponses> {
    (0..count).map(|rule| RuleResponses { is_hidden: rule == hidden, ..RuleResponses::default() }).collect()
}

fn options(status: u32, jitter_percent: u32) -> ResponseOptions {
    ResponseOptions { status, jitter_percent, form: Form::BOTH, ..ResponseOptions::default() }
}

fn refused_for(reason: impl Fn(RuleId) -> Reason, policy: &Policy) -> Decision {
    let (rule, _) = policy.rules().next().unwrap();
    let uncounted = decision(policy, &[(10, 1000, None)]);
    let checks = uncounted.checks.iter().map(|check| check.clone().denied()).collect();
    Decision { outcome: Outcome::Reject(reason(rule)), checks, ..Decision::default() }
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
    let refusal = options.refusal(&policy, &decision, Protocol::Http, u32::MAX).unwrap();
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
    assert_eq!((refusal.status, refusal.grpc_status), (429, Some(8)));
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
    assert_eq!(ResponseOptions::default().refusal(&policy, &passed, Protocol::Http, 0), None);
    assert_eq!(ResponseOptions::default().headers(&policy, &passed).len(), 2);
}

#[test]
fn a_grpc_client_gets_a_status_in_place_of_a_body() {
    let policy = policy(["a"]);
    let decision = decision(&policy, &[(10, 1000, refuse(1))]);
    let mut options = options(429, 20);
    for body in [Body::Problem, Body::Text { content_type: "text/plain".into(), text: "no".into() }] {
        options.body = body;
        let refusal = options.refusal(&policy, &decision, Protocol::Grpc, 0).unwrap();
        assert_eq!((refusal.status, refusal.grpc_status, refusal.body.len()), (200, Some(8), 0));
        assert_eq!(header(&refusal, "content-type"), Some("application/grpc"));
        assert_eq!(header(&refusal, "grpc-status"), Some("8"));
        assert_eq!(header(&refusal, "grpc-message"), Some("diana_refused:a"));
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
        let refusal = options.refusal(&policy, &decision, Protocol::Http, 0).unwrap();
        assert_eq!(&*refusal.body, text.as_bytes());
        assert_eq!(header(&refusal, "content-type"), expected);
    }
}

#[test]
fn the_problem_says_what_kind_of_refusal_it_is() {
    let policy = policy(["a", "b", "~c"]);
    let by_rules = decision(&policy, &[(10, 1000, refuse(1)), (0, 1000, refuse(None)), (1, 1000, refuse(1))]);
    let denied =
        Decision { outcome: Outcome::Reject(Reason::Denied), checks: Vec::new(), ..by_rules.clone() };
    let by_penalty = penalized(by_rules.clone(), 0);
    // The rule that decides refuses by its quota.
    let beside_penalty = penalized(by_rules.clone(), 1);
    let second = beside_penalty.checks.get(1).unwrap().rule();
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
        let refusal = options.refusal(&policy, decision, Protocol::Http, 0).unwrap();
        let body: serde_json::Value = serde_json::from_slice(&refusal.body).unwrap();
        let uri = format!("https://iana.org/assignments/http-problem-types#{kind}");
        assert_eq!(body["type"], *uri);
        assert_eq!(body["status"], status);
        assert_eq!(body["violated-policies"].to_string(), violated);
        assert_eq!((refusal.status, &*refusal.details), (status, details));
    }
}

#[test]
fn the_problem_says_when_the_longest_period_of_a_calendar_ends() {
    // 15 days and ten hours before midnight in Berlin.
    const NOW: u64 = 1_806_408_000 - 15 * 86_400;
    const LEFT: u64 = (15 * 86_400 + 36_000) * 1_000;
    let policy = policy(["a", "b"]);
    let resets = |states: &[RuleState], options: &ResponseOptions, change: fn(Decision) -> Decision| {
        let decision = change(made::monthly(decision(&policy, states), 0, 31, NOW));
        let refusal = options.refusal(&policy, &decision, Protocol::Http, 0).unwrap();
        let body: serde_json::Value = serde_json::from_slice(&refusal.body).unwrap();
        body.get("resets").map(|at| at.as_str().unwrap().to_owned())
    };
    let (visible, same) = (options(403, 20), (|decision| decision) as fn(Decision) -> Decision);
    let month = (10, 1000, refuse(LEFT));
    let end = Some("2027-03-30T22:00:00Z".to_owned());
    // The clock of a store may differ.
    for ms in [LEFT, LEFT - 29_000, LEFT + 29_000] {
        assert_eq!(resets(&[(10, 1000, refuse(ms)), (9, 1000, admit(1, 1))], &visible, same), end);
    }
    assert_eq!(resets(&[month, (9, 1000, refuse(5_000))], &visible, same), end);
    for (states, why) in [
        ([month, (9, 1000, refuse(LEFT + 5_000))], "a span refuses longer"),
        ([month, (9, 1000, refuse(None))], "waiting does not help"),
        ([(10, 1000, admit(1, 1)), (9, 1000, refuse(5_000))], "the month admits"),
    ] {
        assert_eq!(resets(&states, &visible, same), None, "{why}");
    }
    let states = [month, (9, 1000, admit(1, 1))];
    assert_eq!(resets(&states, &visible, degraded), None, "the store may be back before");
    let hidden = ResponseOptions { rules: hiding(0, 2), ..options(403, 20) };
    assert_eq!(resets(&states, &hidden, same), None);
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
        let refusal = options.refusal(&policy, decision, Protocol::Http, 0).unwrap();
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
        (Form::IETF, vec!["ratelimit-policy", "ratelimit"]),
        (Form::X_RATELIMIT, x.to_vec()),
        (Form::PLAIN, x.to_vec()),
        (Form::BOTH, [&["ratelimit-policy", "ratelimit"][..], &x].concat()),
        (Form::OPENAI, OPENAI_REQUESTS.to_vec()),
        (Form::OFF, vec![]),
    ] {
        let options = ResponseOptions { form, ..ResponseOptions::default() };
        let names: Vec<_> = options.headers(&policy, &decision).iter().map(|(name, _)| *name).collect();
        assert_eq!(names, expected);
    }
}

const OPENAI_REQUESTS: [&str; 3] =
    ["x-ratelimit-limit-requests", "x-ratelimit-remaining-requests", "x-ratelimit-reset-requests"];

/// gRPC's clients read milliseconds, and a negative number or none at all stops them (gRFC A6).
#[test]
fn a_grpc_client_is_told_when_to_retry() {
    let policy = policy(["a", "b"]);
    let by = |first, second| decision(&policy, &[(10, 60_000, first), (10, 60_000, second)]);
    let pushback = |decision: &Decision, jitter, entropy| {
        let options = options(429, jitter);
        let refusal = options.refusal(&policy, decision, Protocol::Grpc, entropy).unwrap();
        header(&refusal, "grpc-retry-pushback-ms").map(str::to_owned).unwrap()
    };
    for (decision, jitter, expected) in [
        (by(refuse(20), admit(0, 9)), 0, "20"),
        (by(refuse(20), refuse(1500)), 0, "1500"),
        (by(refuse(20), refuse(0)), 0, "20"),
        (by(refuse(0), admit(0, 9)), 0, "1"),
        (by(refuse(1000), admit(0, 9)), 20, "1200"),
        (by(refuse(30_000), admit(0, 9)), 0, "30000"),
        (by(refuse(30_001), admit(0, 9)), 0, "-1"),
        (by(refuse(29_000), admit(0, 9)), 20, "-1"),
        (by(refuse(None), refuse(20)), 0, "-1"),
        (bare_refusal(Reason::NoActor, &policy), 0, "-1"),
        (bare_refusal(|_| Reason::Denied, &policy), 0, "-1"),
        // The store may be back at any time, which is no reason to hammer it.
        (bare_refusal(Reason::Unavailable, &policy), 0, "1000"),
        (bare_refusal(Reason::Rule, &policy), 0, "1000"),
    ] {
        assert_eq!(pushback(&decision, jitter, u32::MAX), expected, "{decision:?}");
    }
    let refused = by(refuse(20), admit(0, 9));
    for protocol in PROTOCOLS {
        let mut own = options(429, 0);
        own.headers = vec![("grpc-retry-pushback-ms".into(), "-1".into())];
        let refusal = own.refusal(&policy, &refused, protocol, 0).unwrap();
        assert_eq!(header(&refusal, "grpc-retry-pushback-ms"), Some("-1"), "a configured one wins");
        let options = options(429, 0);
        let refusal = options.refusal(&policy, &refused, protocol, 0).unwrap();
        assert_eq!(header(&refusal, "grpc-retry-pushback-ms").is_some(), protocol == Protocol::Grpc);
        assert_eq!(header(&refusal, "x-should-retry"), None);
    }
}

/// OpenAI's clients obey both headers before `Retry-After`.
#[test]
fn openais_clients_are_told_whether_and_when_to_retry() {
    let policy = policy(["a"]);
    let with = |own: &[(&str, &str)]| {
        let headers = own.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect();
        ResponseOptions { form: Form::OPENAI, jitter_percent: 0, headers, ..ResponseOptions::default() }
    };
    let by = |verdict| decision(&policy, &[(10, 60_000, verdict)]);
    for (decision, ms, retries) in [
        (by(refuse(20)), Some("20"), "true"),
        (by(refuse(60_000)), Some("60000"), "true"),
        (by(refuse(60_001)), Some("60001"), "false"),
        (by(refuse(None)), None, "false"),
        (bare_refusal(|_| Reason::Denied, &policy), None, "false"),
        (bare_refusal(Reason::Unavailable, &policy), Some("1000"), "true"),
    ] {
        let options = with(&[]);
        let refusal = options.refusal(&policy, &decision, Protocol::Http, 0).unwrap();
        let found = ["retry-after-ms", "x-should-retry"].map(|name| header(&refusal, name));
        assert_eq!(found, [ms, Some(retries)], "{decision:?}");
        let options = with(&[("x-should-retry", "false"), ("retry-after-ms", "7")]);
        let refusal = options.refusal(&policy, &decision, Protocol::Http, 0).unwrap();
        let found = ["retry-after-ms", "x-should-retry"].map(|name| header(&refusal, name));
        assert_eq!(found, [Some("7"), Some("false")], "configured ones win");
    }
}

/// What a client sees of a refusal, without its wait and without lines that no rule changes.
fn seen(refusal: &Refusal) -> String {
    let shown = |(name, _): &&(&str, Cow<str>)| !matches!(*name, "content-type" | "retry-after");
    let headers = refusal.headers.iter().filter(shown).map(|(name, value)| format!("{name}: {value}\n"));
    headers.collect::<String>() + &String::from_utf8_lossy(&refusal.body)
}

#[test]
fn a_hidden_rule_is_in_no_header_and_no_body() {
    let policy = policy(["a", "secret"]);
    let both = |first, second| decision(&policy, &[(10, 1000, first), (77, 60_000, second)]);
    let penalty = penalized(both(admit(3, 100), refuse(60_000)), 1);
    let secret = policy.rules().nth(1).unwrap().0;
    for form in [Form::IETF, Form::X_RATELIMIT, Form::PLAIN, Form::OPENAI, Form::BOTH] {
        let options = ResponseOptions { form, rules: hiding(1, 2), ..ResponseOptions::default() };
        let passed = options.headers(&policy, &both(admit(3, 100), admit(1, 100)));
        let alone = decision(&policy, &[(10, 1000, admit(3, 100))]);
        assert_eq!(passed, options.headers(&policy, &alone));
        for protocol in PROTOCOLS {
            for mut decision in
                [both(admit(3, 100), refuse(7000)), both(refuse(100), refuse(7000)), penalty.clone()]
            {
                decision.outcome = Outcome::Reject(Reason::Rule(secret));
                let refusal = options.refusal(&policy, &decision, protocol, 0).unwrap();
                let seen = seen(&refusal);
                assert!(
                    !seen.contains("secret") && !seen.contains("77") && !seen.contains("abnormal"),
                    "{seen}"
                );
                assert_eq!(refusal.details, "diana_refused:secret", "for the operator");
                let wait = decision.check_of(secret).unwrap().verdict().unwrap().more_in.as_secs_ceil();
                assert_eq!(header(&refusal, "retry-after"), Some(&*wait.to_string()), "no reason to hammer");
            }
            for reason in [Reason::NoActor, Reason::Unavailable] {
                let decision = Decision { outcome: Outcome::Reject(reason(secret)), ..penalty.clone() };
                let seen = seen(&options.refusal(&policy, &decision, protocol, 0).unwrap());
                assert!(!seen.contains("secret"), "{seen}");
            }
        }
        let refused = both(refuse(100), refuse(7000));
        let refusal = options.refusal(&policy, &refused, Protocol::Http, 0).unwrap();
        let body: serde_json::Value = serde_json::from_slice(&refusal.body).unwrap();
        assert_eq!(body["violated-policies"], serde_json::json!(["a"]), "the other rule is shown");
        let mut down = refused.clone();
        down.checks.iter_mut().skip(1).for_each(|check| *check = check.clone().degraded());
        let refusal = options.refusal(&policy, &down, Protocol::Http, 0).unwrap();
        assert!(seen(&refusal).contains("quota-exceeded"), "the store of the hidden rule is down");
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
        let Some(refusal) = options.refusal(&policy, &decision, Protocol::Http, entropy) else {
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
    fn a_response_is_well_formed(rules in any_rules(), status in 400..600u32, protocol in prop::sample::select(PROTOCOLS.to_vec())) {
        let policy = policy(rules.iter().map(|(name, _)| name));
        let states: Vec<RuleState> = rules.iter().map(|(_, state)| *state).collect();
        let decision = decision(&policy, &states);
        let options = options(status, 20);
        let Some(refusal) = options.refusal(&policy, &decision, protocol, 7) else {
            return Ok(());
        };
        let mut names: Vec<_> = refusal.headers.iter().map(|(name, _)| *name).collect();
        names.sort_unstable();
        prop_assert!(names.windows(2).all(|pair| pair[0] < pair[1]), "{names:?}");
        for (_, value) in &refusal.headers {
            prop_assert!(value.bytes().all(|byte| matches!(byte, b' '..=b'~')), "{value}");
        }
        prop_assert_eq!(refusal.body.is_empty(), protocol == Protocol::Grpc);
        if protocol == Protocol::Http {
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

/// A refusal without reports.
fn bare_refusal(reason: impl Fn(RuleId) -> Reason, policy: &Policy) -> Decision {
    let (rule, _) = policy.rules().next().unwrap();
    Decision { outcome: Outcome::Reject(reason(rule)), ..Decision::default() }
}

/// Options with these responses: of the first rule's limit, of its `missing`, of the deny list.
fn options_with(top: u32, limit: &str, missing: &str, deny: &str) -> ResponseOptions {
    let read = |json: &str| {
        let (value, errors) = (diana_document::parse(json.as_bytes()).unwrap(), Errors::default());
        let read = ResponseOverride::compile(&Node::root(&value, &errors));
        assert!(errors.is_empty(), "{json}");
        read.filter(|_| json != "{}")
    };
    let (limit, missing) = (read(limit).map(Into::into), read(missing));
    let deny = read(deny);
    ResponseOptions {
        rules: vec![RuleResponses { limit, missing, is_hidden: false }],
        deny,
        status: top,
        jitter_percent: 0,
        ..ResponseOptions::default()
    }
}

#[test]
fn the_narrowest_response_counts() {
    let policy = policy(["a", "b"]);
    let by = |first, second| decision(&policy, &[(1, 1000, first), (1, 1000, second)]);
    let (first, second) = (by(refuse(1), admit(0, 1)), by(admit(0, 1), refuse(1)));
    let no_actor = bare_refusal(Reason::NoActor, &policy);
    let denied = bare_refusal(|_| Reason::Denied, &policy);
    let unavailable = bare_refusal(Reason::Unavailable, &policy);
    let limit = r#"{"status": 403, "headers": {"x-a": "limit", "x-b": "limit"}}"#;
    let missing = r#"{"status": 401, "headers": {"x-a": "missing", "www-authenticate": "Basic"}}"#;
    let deny = r#"{"status": 404}"#;
    let mut all = options_with(429, limit, missing, deny);
    all.headers = vec![("x-b".into(), "top".into()), ("x-c".into(), "top".into())];
    let mut without = options_with(429, limit, "{}", "{}");
    without.headers = all.headers.clone();
    let top = options_with(429, "{}", "{}", "{}");
    for (options, decision, status, grpc_status, own) in [
        (&all, &first, 403, 7, "x-a: limit, x-b: limit, x-c: top"),
        (&all, &second, 429, 8, "x-b: top, x-c: top"),
        (&all, &no_actor, 401, 16, "x-a: missing, www-authenticate: Basic, x-b: limit, x-c: top"),
        (&all, &denied, 404, 8, "x-b: top, x-c: top"),
        (&all, &unavailable, 503, 14, "x-b: top, x-c: top"),
        (&without, &no_actor, 403, 7, "x-a: limit, x-b: limit, x-c: top"),
        (&without, &denied, 429, 8, "x-b: top, x-c: top"),
        (&top, &no_actor, 429, 8, ""),
        (&options_with(401, "{}", "{}", "{}"), &denied, 401, 16, "www-authenticate: Bearer"),
    ] {
        let refusal = options.refusal(&policy, decision, Protocol::Http, 0).unwrap();
        let is_own = |name: &&str| name.starts_with("x-") && name.len() == 3 || *name == "www-authenticate";
        let found = refusal.headers.iter().filter(|(name, _)| is_own(name));
        let found: Vec<String> = found.map(|(name, value)| format!("{name}: {value}")).collect();
        assert_eq!((refusal.status, &*found.join(", ")), (status, own), "{decision:?}");
        let body = String::from_utf8(refusal.body.into_owned()).unwrap();
        assert!(body.contains(&format!(r#""status":{status},"#)), "{body}");
        let grpc = options.refusal(&policy, decision, Protocol::Grpc, 0).unwrap();
        assert_eq!(grpc.grpc_status, Some(grpc_status), "{decision:?}");
        let challenged = own.contains("Basic");
        assert_eq!(header(&grpc, "www-authenticate").is_some(), challenged, "no default for gRPC");
    }
}

#[test]
fn a_ticket_is_in_each_body_that_has_room_for_it() {
    let policy = policy(["a"]);
    let refused = decision(&policy, &[(10, 1000, refuse(900))]);
    let body = |response: &str, form: RefusalForm| {
        let (value, errors) = (diana_document::parse(response.as_bytes()).unwrap(), Errors::default());
        let options = ResponseOptions::compile(Some(Node::root(&value, &errors)), None);
        assert!(errors.is_empty(), "{response}");
        let refusal = options.refusal(&policy, &refused, form, 0).unwrap();
        (String::from_utf8_lossy(&refusal.body).into_owned(), options.shows_ticket())
    };
    let with = |form: RefusalForm| RefusalForm { ticket: Some("0-_".into()), ..form };
    let call =
        || RefusalForm { call: Some(Call::new(Some(CallId::Literal(b"7")))), ..RefusalForm::default() };
    let json = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap();

    let (problem, _) = body("{}", RefusalForm::default());
    let (ticketed, _) = body("{}", with(RefusalForm::default()));
    assert_eq!(ticketed, problem.replace("}\n", ",\"ticket\":\"0-_\"}\n"));
    assert_eq!(json(&ticketed)["ticket"], "0-_");
    let (error, _) = body(r#"{"json_rpc": true}"#, with(call()));
    assert_eq!(json(&error)["error"]["data"]["ticket"], "0-_");
    let (error, _) = body(r#"{"json_rpc": true}"#, call());
    assert!(!error.contains("ticket"), "{error}");

    for (text, expected) in [
        ("no", "no"),
        ("{ticket}", "0-_"),
        ("<p>{ticket} {ticket}</p> {tickets}", "<p>0-_ 0-_</p> {tickets}"),
        ("{{ticket}}", "{0-_}"),
    ] {
        let response = format!(r#"{{"body": "{text}"}}"#);
        let shows = text != "no";
        assert_eq!(body(&response, with(RefusalForm::default())), (expected.into(), shows), "{text}");
        assert_eq!(body(&response, RefusalForm::default()), (text.into(), shows), "without a key");
    }
    for protocol in PROTOCOLS.into_iter().filter(|protocol| *protocol != Protocol::Http) {
        assert_eq!(body("{}", with(protocol.into())), body("{}", protocol.into()), "{protocol:?}");
    }
}
