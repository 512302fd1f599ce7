//! `diana replay` decides as the filter does: a real Envoy limits requests, and the replay of its
//! access log refuses the same requests, one by one, by the same rules.
//!
//! The log has the start of a request; the filter reads its clock some microseconds later. All
//! units are long, so that this difference decides nothing.

use diana_cli::replay::run::Replay;
use diana_limiter::check::Decision;
use diana_limiter::policy::Policy;
use gateway::{Config, Connection, Gateway};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::env;
use std::fs;
use std::process;
use std::thread;

/// What a replay needs, and the filter's own decision.
const FORMAT: &str = "%START_TIME(%s.%9f)% %DURATION% %REQ(:METHOD)% %REQ(:PATH)% %REQ(:AUTHORITY)% \
    %DOWNSTREAM_REMOTE_ADDRESS% \"%REQ(X-FORWARDED-FOR)%\" \"%REQ(X-USER-ID)%\" \"%REQ(X-PLAN)%\" \
    \"%REQ(COOKIE)%\" %RESPONSE_CODE% %BYTES_RECEIVED% %BYTES_SENT% %RESPONSE_CODE_DETAILS% \
    %FILTER_STATE(wasm.diana.rule:PLAIN)% %FILTER_STATE(wasm.diana.shadow:PLAIN)%";

/// A decision in the words of the access log: the rules that refuse, then those in shadow.
type Decided = [BTreeSet<String>; 2];

fn names(list: &str) -> BTreeSet<String> {
    list.split(',').filter(|name| *name != "-").map(str::to_owned).collect()
}

/// The filter's decision in a line of the log.
fn logged(line: &str) -> Decided {
    let words: Vec<&str> = line.split(' ').collect();
    let [.., rule, shadow] = words[..] else { panic!("{line}") };
    assert_eq!(line.contains(" 429 "), rule != "-", "{line}");
    [names(rule), names(shadow)]
}

/// The replay's decision.
fn replayed(decision: &Decision, policy: &Policy) -> Decided {
    let [refused, shadowed] = [decision.refused_by(policy), decision.shadowed_by(policy)]
        .map(|list| names(list.as_deref().unwrap_or("-")));
    assert_eq!(decision.is_rejected(), !refused.is_empty());
    [refused, shadowed]
}

/// Whether the replay decides as the filter did. A filter that refuses from its cache asks no
/// further rules, and names none of them.
fn agrees(filter: &Decided, replay: &Decided) -> bool {
    let ([refused, shadowed], [all_refused, all_shadowed]) = (filter, replay);
    match refused.is_empty() {
        true => filter == replay,
        false => refused.is_subset(all_refused) && shadowed.is_subset(all_shadowed),
    }
}

/// A filter's configuration, and requests for it.
fn document() -> Value {
    json!({
        "limits": [
            {"url": "/", "rules": [
                {"name": "all", "rpu": 230, "unit": "7d", "algo": "SW", "slices": 7},
                {"name": "bucket", "actor": "user", "rpu": 30, "unit": "7d", "missing": "skip",
                 "overrides": {"vip": {"rpu": 90}}},
                {"name": "watched", "actor": "user", "rpu": 10, "unit": "7d", "algo": "SL",
                 "missing": "share", "mode": "shadow"},
            ]},
            {"url": "/orders", "methods": ["POST"], "rules": [
                {"name": "network", "actor": "ip", "rpu": 3, "unit": "7d", "algo": "SL"},
                {"name": "each", "actor": ["session", "user"], "rpu": 9, "unit": "7d", "missing": "deny",
                 "cost": 2, "burst": 6},
            ]},
            {"url": "/files/{name}", "headers": {"x-plan": "free"}, "rules": [
                {"name": "file", "actor": "name", "rpu": 7, "unit": "7d", "algo": "SW", "slices": 7},
                {"name": "query", "actor": "key", "rpu": 9, "unit": "7d", "algo": "W", "missing": "skip"},
            ]},
            {"url": "/login", "rules": [
                {"name": "failed", "actor": "ip", "rpu": 4, "unit": "7d", "charge": {"status": [404]}},
            ]},
        ],
        "actors": {"session": {"cookie": "s"}, "key": {"query": "key"}, "name": {"segment": "name"}},
        "ip": {"trusted_hops": 1, "v6_prefix": 48},
        "allow": [{"user": "root"}],
        "deny": [{"user": "mallory"}],
    })
}

/// The request of this number. The numbers select what varies, so that every rule refuses some.
fn send(connection: &mut Connection, client: u32, number: u32) {
    let users = ["ann", "bob", "vip", "root", "mallory", ""];
    let user = users[(number * 7 + client) as usize % users.len()];
    let forwarded = match number % 4 {
        0 => format!("203.0.113.{}", number % 3),
        1 => format!("198.51.100.1, 2001:db8:{}::{number}", number % 2),
        2 => "198.51.100.77,  192.0.2.7".to_owned(),
        _ => "unknown".to_owned(),
    };
    let (method, path) = match number % 5 {
        0 => ("GET", format!("/items/{number}")),
        1 => ("POST", format!("/orders/{number}?x=1")),
        2 => ("GET", format!("/files/{}?key=k{}", number % 3, number % 2)),
        3 => ("GET", "/files/%61//b/../c?key=%6B1".to_owned()),
        _ => ("POST", "/login".to_owned()),
    };
    let (session, plan) =
        (format!("t=1; s={}", number % 2), if number.is_multiple_of(3) { "paid" } else { "free" });
    let mut headers = vec![("x-forwarded-for", &*forwarded), ("x-plan", plan), ("cookie", &*session)];
    if !user.is_empty() {
        headers.push(("x-user-id", user));
    }
    if number.is_multiple_of(11) {
        headers.retain(|(name, _)| *name != "cookie");
    }
    connection.request(method, &path, &headers, b"").unwrap();
}

#[test]
fn a_replay_of_envoys_log_decides_as_the_filter_did() {
    let document = document();
    let config = Config {
        access_log: Some(FORMAT.into()),
        use_remote_address: false,
        answer: (404, "not here\n".into()),
        ..Config::new(document.clone())
    };
    let gateway = Gateway::start(config).unwrap();
    // Several clients at once, with users of their own: the order does not matter, because what
    // they share is far from its limit. Then one client in turn.
    const EACH: u32 = 40;
    thread::scope(|scope| {
        for client in 0..4u32 {
            let mut connection = gateway.connect().unwrap();
            scope.spawn(move || {
                let user = format!("user-{client}");
                for number in 0..EACH {
                    let headers = [("x-user-id", &*user), ("x-forwarded-for", "::1")];
                    connection.request("GET", &format!("/items/{number}"), &headers, b"").unwrap();
                }
            });
        }
    });
    let mut connection = gateway.connect().unwrap();
    const ALONE: u32 = 500;
    (0..ALONE).for_each(|number| send(&mut connection, 0, number));
    let lines = gateway.access_log_of((ALONE + 4 * EACH) as usize).unwrap();
    let file = env::temp_dir().join(format!("diana-replay-{}.log", process::id()));
    fs::write(&file, lines.join("\n")).unwrap();
    let bytes = serde_json::to_vec(&document).unwrap();
    let replay = Replay::of_document(&bytes, file.clone(), Some(FORMAT)).unwrap();
    let (mut compared, mut refusals, mut differing) = (0, BTreeMap::<String, u32>::new(), Vec::new());
    let summary = replay.run(
        |record, decision, policy| {
            let line = &lines[record.line as usize - 1];
            let (filter, replay) = (logged(line), replayed(decision, policy));
            compared += 1;
            if !agrees(&filter, &replay) {
                differing.push(format!("{line}\n  replayed: {replay:?}"));
            }
            filter.into_iter().flatten().for_each(|rule| *refusals.entry(rule).or_default() += 1);
        },
        |_, _| {},
    );
    fs::remove_file(&file).unwrap();
    let summary = summary.unwrap();
    assert!(differing.is_empty(), "{} of {compared} differ:\n{}", differing.len(), differing.join("\n"));
    assert_eq!((compared, summary.log.unreadable, summary.log.late), (lines.len(), 0, 0));
    println!("{compared} decisions are those of the filter; refusals by rule: {refusals:?}");
    for rule in ["all", "bucket", "watched", "network", "each", "file", "query", "failed", "deny"] {
        assert!(refusals.contains_key(rule), "{rule} refuses nothing: {refusals:?}");
    }
    let refused = lines.iter().filter(|line| !logged(line)[0].is_empty()).count();
    assert_eq!(summary.totals.refused, refused as u64);
    assert_eq!(summary.totals.logged_429, refused as u64);
}
