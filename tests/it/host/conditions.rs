//! The host calls that conditions cost: each part is read at most once, and only if a condition
//! asks for the part.

use super::faults::FaultKind;
use super::gateway::{Fate, Gateway};
use diana_limiter::cells::store::CasSemantics;
use diana_limiter::request::Part;

/// The host calls of a request that no limit of the document applies to.
fn calls(rules: CasSemantics, limits: &str, own: &[(Part, &str)]) -> usize {
    calls_of(rules, limits, own, Fate::Upstream)
}

/// The host calls of the second of two requests, which both have this fate.
fn calls_of(rules: CasSemantics, limits: &str, own: &[(Part, &str)], fate: Fate) -> usize {
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
    for rules in [CasSemantics::Lenient, CasSemantics::Strict] {
        let sized = [(Part::BodySize, "7")];
        let none = calls(rules, "", &sized);
        for condition in [QUERY, JWT, PROPERTY, BODY_SIZE, HEADER] {
            // The size of a tunnel is unknown, so nginx is asked for `upgrade` and the method, too.
            let own = if condition == BODY_SIZE && rules == CasSemantics::Strict { 3 } else { 1 };
            assert_eq!(calls(rules, &limit(condition), &sized), none + own, "{condition} {rules:?}");
            let twice = format!(r#"{}, {{"url": "/**", "exclusive": true, {condition}}}"#, limit(condition));
            assert_eq!(calls(rules, &twice, &sized), none + own, "{condition} twice, {rules:?}");
        }
    }
}

#[test]
fn all_headers_are_read_by_one_call() {
    let limits = [QUERY, JWT, BODY_SIZE, HEADER].map(limit).join(", ");
    let none = calls(CasSemantics::Lenient, "", &[]);
    assert_eq!(calls(CasSemantics::Lenient, &limits, &[(Part::BodySize, "7")]), none + 1);
    assert_eq!(calls(CasSemantics::Strict, &limits, &[(Part::BodySize, "7")]), none + 6);
}

/// A call of Connect without a message ends with its headers, as an ordinary GET does.
#[test]
fn a_refusal_reads_the_content_type_of_any_request() {
    let refusing = r#"{"url": "/", "rules": [{"rpu": 0, "unit": "day"}]}"#;
    for rules in [CasSemantics::Lenient, CasSemantics::Strict] {
        let calls = |size| calls_of(rules, refusing, &[(Part::BodySize, size)], Fate::Answered(429));
        assert_eq!(calls("7"), calls("0"), "{rules:?}");
    }
}

/// Envoy has the query as an attribute. A host without attributes has at least the path.
#[test]
fn a_call_of_connect_by_get_is_told_by_its_query() {
    let json = r#"{"limits": [{"url": "/", "rules": [{"name": "all", "rpu": 0, "unit": "day"}]}]}"#;
    for (rules, fails) in [
        (CasSemantics::Lenient, false),
        (CasSemantics::Lenient, true),
        (CasSemantics::Strict, false),
        (CasSemantics::Strict, true),
    ] {
        let gateway = Gateway::start(rules, 1, json);
        if fails {
            gateway.fail(FaultKind::Properties);
        }
        for (path, expected) in [
            ("/s/m?connect=v1&encoding=json&message=", "application/json"),
            ("/s/m?encoding=json&message=", "application/problem+json"),
            ("/s/m", "application/problem+json"),
        ] {
            let parts = [(Part::Method, "GET"), (Part::Path, path), (Part::BodySize, "0")];
            let request = gateway.vms[0].ask(parts.map(|(part, line)| (part, line.into())).into());
            assert_eq!(gateway.fate(request), Fate::Answered(429), "{path}");
            let records = gateway.world.records.borrow();
            let found = records[request].headers.iter().find(|(name, _)| name == "content-type");
            assert_eq!(found.map(|(_, value)| &**value), Some(expected), "{path} {rules:?} {fails}");
        }
        gateway.no_crash();
    }
}

/// Envoy tells with the headers that there is no body. Over HTTP/1 nginx tells by two more variables.
#[test]
fn a_request_without_a_body_has_a_size() {
    let none = calls(CasSemantics::Lenient, "", &[]);
    assert_eq!(calls(CasSemantics::Lenient, &limit(BODY_SIZE), &[(Part::BodySize, "0")]), none);
    assert_eq!(calls(CasSemantics::Strict, &limit(BODY_SIZE), &[(Part::BodySize, "0")]), none + 5);
}

/// A client could evade a limit on large bodies by `content-length: 0`. After the response, a
/// tunnel carries any number of bytes.
#[test]
fn the_size_of_a_tunnel_is_unknown() {
    let large = limit(r#""body_size": {"min": "1M"}"#);
    let small = r#"{"url": "/", "body_size": {"max": 10}, "exclusive": true}, {"url": "/", "rules": [{"rpu": 0, "unit": "day"}]}"#;
    let upgrade = (Part::Header("upgrade".into()), "websocket");
    for rules in [CasSemantics::Lenient, CasSemantics::Strict] {
        let fate = |limits: &str, own: &[(Part, &str)]| {
            let gateway = Gateway::start(rules, 1, &format!(r#"{{"limits": [{limits}]}}"#));
            let parts = own.iter().cloned().chain([(Part::Path, "/a")]);
            let request = gateway.vms[0].ask(parts.map(|(part, line)| (part, line.into())).collect());
            gateway.fate(request)
        };
        for declared in ["00", "5"] {
            let (size, post) = ((Part::BodySize, declared), (Part::Method, "POST"));
            let connect = (Part::Method, "CONNECT");
            for limits in [&*large, small] {
                let plain = fate(limits, &[size.clone(), post.clone()]);
                assert_eq!(plain, Fate::Upstream, "{declared} {limits}");
                let tunnels =
                    [vec![size.clone(), connect.clone()], vec![size.clone(), post.clone(), upgrade.clone()]];
                for tunnel in tunnels {
                    assert_eq!(fate(limits, &tunnel), Fate::Answered(429), "{tunnel:?} {limits} {rules:?}");
                }
            }
        }
    }
}
