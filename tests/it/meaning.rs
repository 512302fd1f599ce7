//! Two documents with the same meaning count the same: their requests leave the same bytes in the
//! shared data and query a store for the same keys.
//!
//! A random document is written twice. Each writing chooses the order of keys, rules and limits,
//! the spelling of values, and the defaults to leave out.

mod document;
mod spelling;

use crate::algorithm::subject::cases;
use crate::harness::{Gateway, Random, at, get, policy, store};
use diana_base::time::Time;
use diana_config::{Configuration, compile};
use diana_global_redis::Redis;
use diana_limiter::cells::store::{CasSemantics, SharedData};
use diana_limiter::decide::Outcome;
use diana_limiter::global::GlobalStoreOptions;
use diana_limiter::request::{Part, Values};
use diana_limiter::session::{Session, Worker};
use diana_testing::shared_data::Simulated;
use document::Document;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

const SECRET: &str = r#"{"redis": {"cluster": "redis", "secret": "a secret of the tests only"}}"#;

/// Requests that match every limit that a document may have.
fn requests() -> Vec<Values> {
    let mut requests = Vec::new();
    for path in ["/?k=v", "/api?k=v", "/api/x?k=v", "/users/7?k=v"] {
        for (method, user) in [("GET", "u0"), ("HEAD", "u1"), ("POST", "u0"), ("GET", "u2")] {
            let header = |name: &str| Part::Header(name.into());
            let parts = [
                (Part::Method, method),
                (Part::Path, path),
                (Part::Host, "api.example.com:80"),
                (Part::Address, "10.0.0.1:0"),
                (header("x-user-id"), user),
                (header("x-device-id"), "d0"),
                (header("x-plan"), "free"),
                (header("x-version"), "42"),
                (header("x-trace"), "abc"),
                (header("authorization"), "Bearer e30.eyJwbGFuIjo0Mn0.c2ln"),
                (Part::Property(vec!["xds".into(), "route_name".into()]), "route"),
                (Part::BodySize, "7"),
                (header("x-cost"), "3"),
            ];
            requests.push(
                parts
                    .into_iter()
                    .fold(Values::default().with_claims(diana_config::claim), |values, (part, line)| {
                        values.with(part, line)
                    }),
            );
        }
    }
    requests
}

fn fingerprint(json: &str) -> u64 {
    compile(json.as_bytes()).unwrap().fingerprint
}

/// All shared data after the requests, in a gateway that reaches no store.
fn shared_data(json: &str) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let host = Simulated::new(CasSemantics::Lenient);
    let mut worker = Worker::new(policy(json), store(&host), &[7; 16]);
    for (ms, request) in (0..).zip(requests()) {
        crate::harness::ask(&mut worker, &request, || at(ms * 10));
    }
    let value = |key: Vec<u8>| {
        let value = host.get(&key).unwrap().0.unwrap_or_default();
        (key, value)
    };
    host.keys().into_iter().map(value).collect()
}

/// For each request, the keys that it queries in the store.
fn store_keys(json: &str, requests: Vec<Values>) -> Vec<BTreeSet<String>> {
    let Configuration { policy, store: options, .. } = compile(json.as_bytes()).unwrap();
    let host = Simulated::new(CasSemantics::Lenient);
    let GlobalStoreOptions { clusters, timeout, in_flight, .. } = options.unwrap();
    let keys = |request: Values| {
        // Each request has a new worker, so that no earlier reply or queue interferes.
        let protocol = Box::new(Redis::new("diana".into(), Vec::new()));
        let options = GlobalStoreOptions { clusters: clusters.clone(), timeout, in_flight, protocol };
        let mut worker = Worker::new(policy.clone(), store(&host), &[7; 16]).with_global_store(options, 1);
        let request = policy.request(&request);
        let (_, decision) = Session::start(&mut worker, &request, || at(0));
        let Outcome::Query(_) = decision.outcome else { return BTreeSet::new() };
        // One call to each cluster; its keys tell which.
        let mut keys = BTreeSet::new();
        while let Some(call) = worker.next_call(Time::ZERO) {
            let own =
                crate::host::wire::commands(&call.message.body).into_iter().flat_map(|command| command.keys);
            keys.extend(own.map(|key| format!("{} {key}", clusters[call.shard])));
        }
        keys
    };
    requests.into_iter().map(keys).collect()
}

proptest! {
    #![proptest_config(cases(60))]

    #[test]
    fn two_writings_of_a_document_count_the_same(document: u64, one: u64, other: u64) {
        let document = Document::random(&mut Random(document));
        let (one, other) = (document.write(&mut Random(one)), document.write(&mut Random(other)));
        let both = format!("\n{one}\n{other}");
        // A plan without effect is named in the access log.
        if !both.contains(r#""same""#) {
            prop_assert_eq!(fingerprint(&one), fingerprint(&other), "{}", both);
        }
        prop_assert_eq!(shared_data(&one), shared_data(&other), "{}", both);
        let (queries, others) = (store_keys(&one, requests()), store_keys(&other, requests()));
        prop_assert_eq!(queries, others, "{}", both);
    }
}

/// In shadow, such rules are charged for different requests.
#[test]
fn rules_that_differ_only_in_what_they_keep_count_the_same_in_any_order() {
    let rule = |more: &str| {
        format!(r#"{{"actor": "user", "algo": "W", "rpu": 9, "unit": "day", "mode": "shadow"{more}}}"#)
    };
    let rules = [rule(""), rule(r#", "headroom": 7"#), rule(r#", "headroom": 8"#)];
    let json = |order: [usize; 3]| {
        let rules = order.map(|at| rules[at].as_str()).join(", ");
        format!(r#"[{{"url": "/", "rules": [{rules}]}}, {{"url": "/api", "priority": "high"}}]"#)
    };
    let expected = shared_data(&json([0, 1, 2]));
    for order in [[0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
        assert_eq!(shared_data(&json(order)), expected, "{order:?}");
    }
}

/// The shared data and the queries of a request of `u0` under a document with these limits.
fn trace(limits: &str) -> (Vec<Vec<u8>>, Vec<BTreeSet<String>>) {
    let json = |limits: &str| format!(r#"{{"limits": [{limits}], "store": {SECRET}}}"#);
    let local = shared_data(&json(limits)).into_iter().flat_map(|(key, value)| [key, value]).collect();
    let global = limits.replace(r#""actor""#, r#""scope": "global", "actor""#);
    (local, store_keys(&json(&global), vec![get("/api", "u0").with(Part::Header("x-plan".into()), "free")]))
}

#[test]
fn documents_with_different_meanings_count_separately() {
    let rule = r#"{"actor": "user", "rpu": 50, "unit": "minute"}"#;
    let with = |more: &str| format!(r#"{{"url": "/", {more} "rules": [{rule}]}}"#);
    let of = |rule: &str| format!(r#"{{"url": "/", "rules": [{rule}]}}"#);
    let documents = [
        with(""),
        with(r#""url": "/api","#).replacen(r#""url": "/", "#, "", 1),
        with(r#""methods": "GET","#),
        with(r#""hosts": "api.example.com","#),
        with(r#""hosts": "*.example.com","#),
        with(r#""headers": {"x-plan": "free"},"#),
        with(r#""headers": {"x-plan": {"prefix": "free"}},"#),
        with(r#""headers": {"x-plan": {"regex": "free"}},"#),
        with(r#""headers": {"x-plan": {"present": true}},"#),
        with(r#""query": {"k": "v"},"#),
        with(r#""query": {"k": {"prefix": "v"}},"#),
        with(r#""query": {"x": {"present": false}},"#),
        with(r#""jwt": {"plan": 42},"#),
        with(r#""jwt": {"plan": {"present": true}},"#),
        with(r#""property": {"xds.route_name": "route"},"#),
        with(r#""body_size": {"min": 1},"#),
        with(r#""body_size": {"min": 2},"#),
        with(r#""body_size": {"max": 7},"#),
        with(r#""body_size": {"min": 1, "max": 7},"#),
        of(&rule.replace("50", "51")),
        of(&rule.replace("minute", "hour")),
        of(&rule.replace("user", "device")),
        of(&rule.replace(r#""user""#, r#"["user", "ip"]"#)),
        of(&rule.replace("50", r#"50, "burst": 10"#)),
        of(&rule.replace("50", r#"50, "start": "empty""#)),
        of(&rule.replace("50", r#"50, "algo": "W""#)),
        of(&rule.replace("50", r#"50, "algo": "SW""#)),
        of(&rule.replace("50", r#"50, "algo": "SW", "slices": 20"#)),
        of(&rule.replace("50", r#"50, "algo": "SL""#)),
        of(&rule.replace("50", r#"50, "missing": "share""#)),
        with(r#""url": "/{a}/{b}","#)
            .replacen(r#""url": "/", "#, "", 1)
            .replace(r#""user""#, r#"{"segment": "a"}"#),
        with(r#""url": "/{a}/{b}","#)
            .replacen(r#""url": "/", "#, "", 1)
            .replace(r#""user""#, r#"{"segment": "b"}"#),
    ];
    let fingerprints: BTreeSet<u64> = documents.iter().map(|limit| fingerprint(limit)).collect();
    assert_eq!(fingerprints.len(), documents.len());
    let traces: Vec<_> = documents.iter().map(|limit| trace(limit)).collect();
    for (at, (local, global)) in traces.iter().enumerate() {
        for (before, (others_local, others_global)) in traces.iter().enumerate().take(at) {
            let documents = [&documents[at], &documents[before]];
            assert_ne!(local, others_local, "{documents:#?}");
            let asks = |global: &[BTreeSet<String>]| global.iter().any(|keys| !keys.is_empty());
            let ask_neither = !asks(global) && !asks(others_global);
            assert!(ask_neither || global != others_global, "{documents:#?}");
        }
    }
}

/// The name of a segment is not part of what a rule counts, nor is the way in which the rule names
/// its actor.
#[test]
fn the_name_of_a_segment_changes_no_count() {
    let json = |url: &str, actor: &str, define: &str| {
        let rule = format!(r#"{{"actor": {actor}, "rpu": 50, "unit": "minute", "SCOPE": 1}}"#);
        let limit = format!(r#"{{"url": "{url}", "rules": [{rule}]}}"#);
        let json = format!(r#"{{"limits": [{limit}], "actors": {{{define}}}, "store": {SECRET}}}"#);
        [r#""scope": "local""#, r#""scope": "global""#].map(|scope| json.replace(r#""SCOPE": 1"#, scope))
    };
    let [local, global] = json("/users/{id}", r#"{"segment": "id"}"#, "");
    let queries = store_keys(&global, vec![get("/users/7", "u0")]);
    assert_eq!(queries[0].len(), 1);
    for (url, actor, define) in [
        ("/users/{user}/**", r#"[{"segment": "user"}]"#, ""),
        ("/%75sers/{x}", r#""who""#, r#""who": {"segment": "x"}"#),
    ] {
        let [other_local, other_global] = json(url, actor, define);
        assert_eq!(shared_data(&other_local), shared_data(&local), "{url} {actor}");
        assert_eq!(store_keys(&other_global, vec![get("/users/7", "u0")]), queries, "{url} {actor}");
    }
    assert_ne!(store_keys(&global, vec![get("/users/8", "u0")]), queries, "another segment");
}

/// Two rules with the same meaning have separate counts, in whichever limits they are.
#[test]
fn rules_with_the_same_meaning_have_separate_counts() {
    let rule = r#"{"actor": "user", "rpu": 50, "unit": "minute", "scope": "global"}"#;
    let json = |limits: &str| format!(r#"{{"limits": [{limits}], "store": {SECRET}}}"#);
    let together = json(&format!(r#"{{"url": "/", "rules": [{rule}, {rule}]}}"#));
    let limit = |url: &str| format!(r#"{{"url": "{url}", "rules": [{rule}]}}"#);
    let apart = json(&format!("{}, {}", limit("/"), limit("/**")));
    let queries = store_keys(&together, vec![get("/", "u0")]);
    assert_eq!(queries[0].len(), 2);
    assert_eq!(store_keys(&apart, vec![get("/", "u0")]), queries);
    assert_eq!(shared_data(&apart), shared_data(&together));
}

/// If two rules have the same quota, their overrides identify them, not their order.
#[test]
fn rules_that_differ_only_in_an_override_keep_their_counts_in_any_order() {
    let rule = r#"{"actor": "user", "rpu": 50, "unit": "minute", "scope": "global"}"#;
    let other = rule.replace(r#""rpu""#, r#""overrides": {"u0": {"rpu": 7}}, "rpu""#);
    let json =
        |rules: &str| format!(r#"{{"limits": [{{"url": "/", "rules": [{rules}]}}], "store": {SECRET}}}"#);
    let (one, reverse) = (json(&format!("{rule}, {other}")), json(&format!("{other}, {rule}")));
    for user in ["u0", "u1"] {
        let queries = store_keys(&one, vec![get("/", user)]);
        assert_eq!(queries[0].len(), 2);
        assert_eq!(store_keys(&reverse, vec![get("/", user)]), queries, "{user}");
    }
}

/// The requests that one of these documents leaves to the next one, of nine.
fn left_after(first: &str, second: &str) -> u64 {
    let host = Simulated::new(CasSemantics::Lenient);
    let ask = |more: &str| {
        let rule = format!(r#"{{"name": "r", "rpu": 9, "unit": "hour", "algo": "W"{more}}}"#);
        let json = format!(r#"{{"url": "/", "rules": [{rule}]}}"#);
        let decision = Gateway::new(&json, store(&host)).ask_new_worker(&get("/", "ann"), at(0));
        decision.checks.first().unwrap().verdict().unwrap().remaining
    };
    ask(first);
    ask(second)
}

/// A changed number of a cost keeps the count of a rule. Units of another source are counted anew.
#[test]
fn a_cost_keeps_the_count_of_a_rule() {
    assert_eq!(left_after("", r#", "cost": 3"#), 5);
    let header = |max: u32| format!(r#", "cost": {{"header": "x-cost", "max": {max}, "default": 2}}"#);
    assert_eq!(left_after(&header(5), &header(6)), 5);
    let bytes = |estimate: u32| format!(r#", "cost": {{"response_bytes": true, "estimate": {estimate}}}"#);
    assert_eq!(left_after(&bytes(1), &bytes(2)), 6);
    for [first, second] in [["", &*bytes(1)], ["", &header(5)], [&bytes(1), r#", "cost": "request_bytes""#]] {
        assert!(left_after(first, second) >= 7, "{first} to {second}");
    }
}

/// A document with these rules and these other keys.
fn options(rule: &str, more: &str) -> String {
    format!(
        r#"{{"limits": [{{"url": "/", LIMIT "rules": [{{"actor": "user", "rpu": 50, "unit": "minute"{rule}}}]}}]{more}}}"#
    )
}

fn with_options(rule: &str, limit: &str, more: &str) -> u64 {
    fingerprint(&options(rule, more).replace("LIMIT", limit))
}

#[test]
fn what_a_document_says_around_its_rules_is_in_its_fingerprint() {
    let plain = with_options("", "", "");
    let store = |keys: &str| {
        format!(r#", "store": {{"redis": {{"cluster": "a", "secret": "a secret of the tests only"{keys}}}}}"#)
    };
    let remote = |keys: &str| format!(r#", "remote": {{"cluster": "a", "path": "/a"{keys}}}"#);
    let more = [
        r#", "mode": "shadow""#.to_owned(),
        r#", "deny": ["10.0.0.1"]"#.into(),
        r#", "deny": ["10.0.0.2"]"#.into(),
        r#", "deny": ["10.0.0.0/24"]"#.into(),
        r#", "deny": [{"user": "ann"}]"#.into(),
        r#", "deny": [{"device": "ann"}]"#.into(),
        r#", "deny": [{"user": "ann"}], "mode": "shadow""#.into(),
        r#", "allow": [{"user": "ann"}]"#.into(),
        r#", "headers": "off""#.into(),
        r#", "access_log": "all""#.into(),
        r#", "access_log": {"actor": "value"}"#.into(),
        r#", "access_log": {"actor": "value", "requests": "all"}"#.into(),
        r#", "access_log": {"actor": "hash", "secret": "a secret of the tests only"}"#.into(),
        r#", "near_limit": "10%""#.into(),
        r#", "near_limit": "11%""#.into(),
        r#", "local": {"max_actors": 1000}"#.into(),
        r#", "response": {"status": 503}"#.into(),
        r#", "response": {"body": "no"}"#.into(),
        r#", "response": {"body": "no", "content_type": "text/html"}"#.into(),
        r#", "response": {"headers": {"x-a": "1"}}"#.into(),
        r#", "ip": {"trusted_hops": 1}"#.into(),
        store(""),
        store(r#", "timeout": "60ms""#),
        store(r#", "prefix": "mine""#),
        store(r#", "replicas": 2"#),
        store(r#", "in_flight": 2"#),
        remote(""),
        remote(r#", "interval": "9s""#),
    ];
    let of_rules = [
        (r#", "name": "a""#, ""),
        (r#", "name": "b""#, ""),
        (r#", "reject_delay": "1s""#, ""),
        (r#", "shown": false"#, ""),
        ("", r#""response": {"status": 503},"#),
        ("", r#""exclusive": true,"#),
    ];
    let all = more.iter().map(|more| with_options("", "", more));
    let all = all.chain(of_rules.iter().map(|(rule, limit)| with_options(rule, limit, "")));
    let distinct: BTreeSet<u64> = all.chain([plain]).collect();
    assert_eq!(distinct.len(), more.len() + of_rules.len() + 1);
}

#[test]
fn a_fingerprint_does_not_depend_on_spelling() {
    let same = |one: &str, other: &str| {
        assert_eq!(with_options("", "", one), with_options("", "", other), "{one} {other}");
    };
    same(
        "",
        r#", "mode": "enforce", "headers": "ietf", "access_log": "refused", "local": {"max_actors": 100000}"#,
    );
    same("", r#", "access_log": {}"#);
    same(r#", "access_log": "all""#, r#", "access_log": {"requests": "all"}"#);
    same(
        r#", "access_log": {"actor": "hash", "secret": "a secret of the tests only"}"#,
        r#", "access_log": {"actor": "hash", "secret": "another secret of the tests"}"#,
    );
    same(
        "",
        r#", "actors": {"unused": {"header": "x"}}, "response": {"status": 429}, "deny": [], "allow": []"#,
    );
    same(
        r#", "deny": ["10.0.0.1", {"user": "a"}]"#,
        r#", "deny": [{"user": " a"}, "10.0.0.1/32", {"user": "a"}]"#,
    );
    same(
        r#", "response": {"headers": {"a": "1", "b": "2"}}"#,
        r#", "response": {"headers": {"B": " 2", "A": "1"}}"#,
    );
    let store = |keys: &str| format!(r#", "store": {{"redis": {{"cluster": "a", {keys}}}}}"#);
    same(
        &store(r#""secret": "a secret of the tests only""#),
        &store(r#""timeout": "50ms", "secret": "another secret of the tests""#),
    );
    let clusters =
        |names: &str| store(r#""secret": "a secret of the tests only""#).replace(r#""cluster": "a""#, names);
    same(&clusters(r#""clusters": ["a", "b"]"#), &clusters(r#""clusters": ["b", "a"]"#));
    same(&clusters(r#""clusters": ["a"]"#), &clusters(r#""cluster": "a""#));
    let remote = |body: &str| format!(r#", "remote": {{"cluster": "a", "path": "/a", "body": {body}}}"#);
    same(
        &remote(r#"{"a": [1, {"c": 1, "b": 2}], "d": 3}"#),
        &remote(r#"{"d": 3, "a": [1, {"b": 2, "c": 1}]}"#),
    );
    assert_ne!(
        with_options("", "", &remote(r#"{"a": [1, 2]}"#)),
        with_options("", "", &remote(r#"{"a": [2, 1]}"#)),
        "the order of a list means something"
    );
    // Without a deny list, `enforce` is for rules without their own alone.
    let own = |rule: &str, more: &str| with_options(rule, "", more);
    for (rule, top) in
        [(r#", "enforce": "7%""#, r#", "enforce": "5%""#), (r#", "mode": "shadow""#, r#", "mode": "shadow""#)]
    {
        assert_eq!(own(rule, top), own(rule, ""), "{rule} {top}");
    }
    assert_ne!(own("", r#", "enforce": "5%""#), own("", ""));
    let denies = |part: &str| format!(r#", "deny": ["10.0.0.1"], "enforce": "{part}""#);
    assert_ne!(own(r#", "enforce": "7%""#, &denies("5%")), own(r#", "enforce": "7%""#, &denies("6%")));
    // The rules of limits on the same requests, in any order and with names of their own.
    let rules = ["a", "b"].map(|name| format!(r#"{{"name": "{name}", "rpu": 5, "unit": "hour"}}"#));
    let [a, b] = &rules;
    let limit = |rules: &str| format!(r#"{{"url": "/", "rules": [{rules}]}}"#);
    let one = format!("[{}]", limit(&format!("{a}, {b}")));
    let other = format!("[{}, {}]", limit(b), limit(a));
    assert_eq!(fingerprint(&one), fingerprint(&other));
    assert_ne!(fingerprint(&one), fingerprint(&one.replace(r#""b""#, r#""c""#)));
}
