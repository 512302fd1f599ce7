//! The host calls that conditions cost: each part is read at most once, and only if a condition
//! asks for the part.

use super::gateway::{Fate, Gateway};
use diana_limiter::cells::store::Rules;
use diana_limiter::request::Part;

/// The host calls of a request that no limit of the document applies to.
fn calls(rules: Rules, limits: &str, own: &[(Part, &str)]) -> usize {
    calls_of(rules, limits, own, Fate::Upstream)
}

/// The host calls of the second of two requests, which both have this fate.
fn calls_of(rules: Rules, limits: &str, own: &[(Part, &str)], fate: Fate) -> usize {
    let gateway = Gateway::start(rules, 1, &format!(r#"{{"limits": [{limits}]}}"#));
    let ask = || {
        let parts = [(Part::Path, "/a"), (Part::Method, "POST")].into_iter().chain(own.iter().cloned());
        let before = gateway.world.called.get();
        let request = gateway.vms[0].ask(parts.map(|(part, line)| (part, line.into())).collect());
        assert_eq!(gateway.fate(request), fate);
        gateway.world.called.get() - before
    };
    // The first request may set the worker up.
    ask();
    let calls = ask();
    gateway.no_crash();
    calls
}

fn limit(condition: &str) -> String {
    format!(r#"{{"url": "/", {condition}, "rules": [{{"rpu": 0, "unit": "day"}}]}}"#)
}

const QUERY: &str = r#""query": {"k": "v", "l": "v"}"#;
const JWT: &str = r#""jwt": {"plan": "free", "sub": "ann"}"#;
const PROPERTY: &str = r#""property": {"a.b": "c"}"#;
const BODY_SIZE: &str = r#""body_size": {"min": 10}"#;
const HEADER: &str = r#""headers": {"x-plan": "free"}"#;

#[test]
fn a_condition_reads_one_part() {
    for rules in [Rules::Lenient, Rules::Strict] {
        let sized = [(Part::BodySize, "7")];
        let none = calls(rules, "", &sized);
        for condition in [QUERY, JWT, PROPERTY, BODY_SIZE, HEADER] {
            assert_eq!(calls(rules, &limit(condition), &sized), none + 1, "{condition} {rules:?}");
            let twice = format!(r#"{}, {{"url": "/**", "exclusive": true, {condition}}}"#, limit(condition));
            assert_eq!(calls(rules, &twice, &sized), none + 1, "{condition} twice, {rules:?}");
        }
    }
}

#[test]
fn all_headers_are_read_by_one_call() {
    let limits = [QUERY, JWT, BODY_SIZE, HEADER].map(limit).join(", ");
    let none = calls(Rules::Lenient, "", &[]);
    assert_eq!(calls(Rules::Lenient, &limits, &[(Part::BodySize, "7")]), none + 1);
    assert_eq!(calls(Rules::Strict, &limits, &[(Part::BodySize, "7")]), none + 4);
}

/// In Envoy. nginx does not say whether a request ends with its headers.
#[test]
fn a_refusal_reads_the_content_type_only_if_there_is_a_body() {
    let refusing = r#"{"url": "/", "rules": [{"rpu": 0, "unit": "day"}]}"#;
    for (rules, more) in [(Rules::Lenient, 1), (Rules::Strict, 0)] {
        let calls = |size| calls_of(rules, refusing, &[(Part::BodySize, size)], Fate::Answered(429));
        assert_eq!(calls("7"), calls("0") + more, "{rules:?}");
    }
}

/// Over HTTP/1 nginx tells by two variables that there is no body.
#[test]
fn a_request_without_a_body_has_a_size() {
    let none = calls(Rules::Lenient, "", &[]);
    assert_eq!(calls(Rules::Lenient, &limit(BODY_SIZE), &[(Part::BodySize, "0")]), none + 1);
    assert_eq!(calls(Rules::Strict, &limit(BODY_SIZE), &[(Part::BodySize, "0")]), none + 3);
}
