//! `diana explain`: what it shows of the example's document, and that the engine decides the same.

mod agreement;
mod logged;
mod request;
mod ticket;

use crate::snapshot;
use clap::Parser;
use diana_cli::explain::{self, Explanation};
use diana_cli::{Arguments, Command};
use serde_json::Value;
use std::fs;
use std::path::Path;

/// The arguments of `diana explain`, after the file.
pub fn arguments(words: &[&str]) -> explain::Args {
    let words = ["diana", "explain", "envoy.yaml"].iter().chain(words);
    match Arguments::parse_from(words).command {
        Command::Explain(args) => *args,
        other => panic!("{other:?}"),
    }
}

pub fn explained(document: &str, words: &[&str]) -> Explanation {
    explain::explain(&arguments(words), document.as_bytes()).unwrap()
}

pub fn text(document: &str, words: &[&str]) -> String {
    explain::text(&explained(document, words))
}

/// The document in the repository's `envoy.yaml`, as JSON.
fn envoy() -> String {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../envoy.yaml");
    let yaml: Value = serde_norway::from_str(&fs::read_to_string(file).unwrap()).unwrap();
    let filter = "/static_resources/listeners/0/filter_chains/0/filters/0/typed_config/http_filters/0";
    let document = yaml.pointer(&format!("{filter}/typed_config/config/configuration/value")).unwrap();
    document.to_string()
}

const AT: [&str; 2] = ["--at", "2026-01-31T12:00:00Z"];

#[test]
fn the_example_is_explained_as_text_and_as_json() {
    let cases: [(&str, &[&str]); 7] = [
        ("users", &["--url", "/api/orders", "-H", "x-user-id: 7", "--times", "12", "--every", "50ms"]),
        ("near", &["--url", "/Login", "--method", "POST", "--ip", "1.2.3.4"]),
        ("method", &["--url", "/login?a=1", "--times", "3"]),
        ("queue", &["--url", "/search", "--times", "13"]),
        ("denied", &["--url", "/health", "-H", "X-User-Id: mallory"]),
        ("permits", &["--url", "/export", "--times", "6", "--lasts", "1s", "--every", "200ms"]),
        ("tuple", &["--url", "http://localhost:10000/users/42/orders", "--times", "4", "--every", "30s"]),
    ];
    for (name, words) in cases {
        let explanation = explained(&envoy(), &[words, &AT].concat());
        snapshot::matches(&format!("explain/{name}.txt"), &explain::text(&explanation));
        if matches!(name, "users" | "denied") {
            let json = serde_json::to_string_pretty(&explanation).unwrap() + "\n";
            snapshot::matches(&format!("explain/{name}.json"), &json);
        }
    }
}

#[test]
fn every_reason_of_a_near_miss_is_named() {
    let document = r#"{"limits": [
        {"url": "/a", "methods": ["POST", "PUT"], "rules": [{"rpu": 1, "unit": "second"}]},
        {"url": "/a", "hosts": ["*.example.org"], "rules": [{"rpu": 1, "unit": "second"}]},
        {"url": "/a", "headers": {"x-plan": "free", "x-id": {"regex": "[0-9]+"}}, "rules": [{"rpu": 1, "unit": "second"}]},
        {"url": "/a", "headers": {"x-no": {"present": true}}, "rules": [{"rpu": 1, "unit": "second"}]},
        {"url": "/a", "query": {"q": {"prefix": "b"}}, "rules": [{"rpu": 1, "unit": "second"}]},
        {"url": "/a", "jwt": {"sub": "ann"}, "rules": [{"rpu": 1, "unit": "second"}]},
        {"url": "/a", "property": {"xds.route_name": "main"}, "rules": [{"rpu": 1, "unit": "second"}]},
        {"url": "/a", "body_size": {"min": 10, "max": "1k"}, "rules": [{"rpu": 1, "unit": "second"}]},
        {"url": "=/a/c", "rules": [{"rpu": 1, "unit": "second"}]},
        {"url": "/a/b/c", "rules": [{"rpu": 1, "unit": "second"}]},
        {"url": "/", "rules": [{"rpu": 1, "unit": "second"}]},
        {"url": "/a/*", "exclusive": true},
        {"url": "/far/away", "rules": [{"rpu": 1, "unit": "second"}]}
    ]}"#;
    // `{"sub":"bob"}`
    let token = "authorization: Bearer e30.eyJzdWIiOiJib2IifQ.x";
    let words = ["--url", "/a/b?q=a", "--host", "example.org", "-H", "x-plan: gold", "-H", "X-Plan: silver"];
    let words = [&words[..], &["-H", "x-id: 1a", "-H", token, "--body-size", "9", "--all"]].concat();
    let explanation = explained(document, &words);
    let near: Vec<String> =
        explanation.nearly.iter().map(|near| format!("{} {}", near.place, near.why.join("; "))).collect();
    assert_eq!(
        near,
        [
            "limits[10] the more specific limits[11] on `/a/*` is `exclusive`",
            "limits[0] the method is `GET`, expected `POST` or `PUT`",
            "limits[1] the host is `example.org`, expected `*.example.org`",
            "limits[3] the header `x-no` is absent, expected any value",
            "limits[4] the query parameter `q` is `a`, expected a value that begins with `b`",
            "limits[5] the claim `sub` is `bob`, expected `ann`",
            "limits[6] the attribute `xds.route_name` is absent, expected `main`",
            "limits[7] the size of the body is `9`, expected `10` to `1k` bytes",
            "limits[2] the header `x-plan` is `gold` and 1 more, expected `free`; the header `x-id` is `1a`, expected a \
             value that matches `[0-9]+`",
            "limits[8] segment 2 of the path is `b`, expected `c`",
            "limits[9] the path ends before `c`",
            "limits[12] the path differs",
        ]
    );
    let places: Vec<&str> = explanation.limits.iter().map(|limit| limit.place.as_str()).collect();
    assert_eq!((places, explanation.others), (vec!["limits[11]"], 0));
}

#[test]
fn far_limits_are_counted_and_not_listed() {
    let limit = |n: usize| format!(r#"{{"url": "/x/{n}", "rules": [{{"rpu": 1, "unit": "second"}}]}}"#);
    let limits: Vec<String> = (0..30).map(limit).chain([limit(0).replace("/x", "/far/x")]).collect();
    let explanation = explained(&format!("[{}]", limits.join(",")), &["--url", "/x/y"]);
    assert_eq!((explanation.nearly.len(), explanation.others), (10, 21));
    assert!(explanation.nearly.iter().all(|near| near.url.starts_with("/x")));
}

#[test]
fn missing_actors_are_explained() {
    let document = r#"{"url": "/", "rules": [
        {"name": "a", "actor": "user", "rpu": 9, "unit": "second"},
        {"name": "b", "actor": "user", "rpu": 9, "unit": "second", "missing": "share"},
        {"name": "c", "actor": "user", "rpu": 9, "unit": "second", "missing": "skip"},
        {"name": "d", "actor": ["user", "ip"], "rpu": 9, "unit": "second", "missing": "deny", "mode": "shadow"},
        {"name": "e", "actor": ["ip", "device"], "rpu": 9, "unit": "second"}
    ]}"#;
    let shown = text(document, &["--url", "/", "--ip", "2001:db8::7", "-H", "x-device-id: d"]);
    let lines: Vec<&str> = shown.lines().filter(|line| line.contains("TB 9/s")).map(str::trim).collect();
    assert_eq!(
        lines,
        [
            "a  TB 9/s  user is absent, counted by ip `2001:db8::/64` (`missing: ip`)",
            "b  TB 9/s  user is absent, counted with all such requests (`missing: share`)",
            "c  TB 9/s  user is absent, not counted (`missing: skip`)",
            "d  TB 9/s  user, ip: user is absent, refused (`missing: deny`), only counts (shadow)",
            "e  TB 9/s  ip, device `2001:db8::/64, d`",
        ]
    );
}

#[test]
fn lists_name_the_entry_that_decides() {
    let document = r#"{
        "limits": [{"url": "/", "rules": [{"name": "all", "rpu": 9, "unit": "second"}]}],
        "actors": {"team": {"header": "x-team"}},
        "allow": ["10.0.0.0/8", "192.0.2.7"],
        "deny": {"members": ["198.51.100.0/24", {"user": ["eve", "mallory"], "team": "red"}, "203.0.113.9"]}
    }"#;
    let entry = |words: &[&str]| {
        let list = explained(document, &[&["--url", "/"], words].concat()).list;
        list.map(|list| format!("{} {} {}", list.list, list.entry, list.is_enforced))
    };
    for (words, expected) in [
        (vec!["--ip", "10.1.2.3"], Some("allow 10.0.0.0/8 true")),
        (vec!["--ip", "192.0.2.7"], Some("allow 192.0.2.7 true")),
        (vec!["--ip", "203.0.113.9"], Some("deny 203.0.113.9 true")),
        (vec!["-H", "x-user-id: mallory"], Some(r#"deny {"user":"mallory"} true"#)),
        (vec!["-H", "x-team: red"], Some(r#"deny {"team":"red"} true"#)),
        (vec!["--ip", "192.0.2.8"], None),
    ] {
        assert_eq!(entry(&words).as_deref(), expected, "{words:?}");
    }
    let shadow = document.replace(r#""allow":"#, r#""mode": "shadow", "allow":"#);
    let list = explained(&shadow, &["--url", "/", "--ip", "203.0.113.9"]).list.unwrap();
    assert_eq!((list.list, list.is_enforced), ("deny", false));
}

/// The positions of these users under this name are pinned in `diana-limiter`.
#[test]
fn a_rule_shows_whether_it_is_enforced_for_the_actor() {
    let document = |part: &str| {
        format!(
            r#"{{"url": "/", "rules": [
                {{"name": "login", "actor": "user", "rpu": 1, "unit": "hour", "enforce": "{part}"}}]}}"#
        )
    };
    let shown = |part: &str, user: &str| {
        let user = format!("x-user-id: {user}");
        let explanation = explained(&document(part), &["--url", "/", "-H", &user, "--times", "2"]);
        let rule = &explanation.limits[0].rules[0];
        let text = explain::text(&explanation);
        let line = text.lines().find(|line| line.contains("login  TB")).unwrap();
        let (_, words) = line.split_once('`').unwrap();
        let (_, words) = words.split_once('`').unwrap();
        (rule.is_enforced, rule.enforce.clone(), rule.runs[1].result, words.to_owned())
    };
    let inside = ", enforced for 50% of its actors, as for this one".to_owned();
    assert_eq!(shown("50%", "user-007"), (true, "50%".into(), "refused", inside));
    let outside = ", enforced for 12.2% of its actors, only counts this one (shadow)".to_owned();
    assert_eq!(shown("12.2%", "user-007"), (false, "12.2%".into(), "would refuse", outside));
    assert_eq!(shown("12.23%", "user-007").2, "refused");
    let shadow = (false, "0%".into(), "would refuse", ", only counts (shadow)".into());
    assert_eq!(shown("0%", "user-007"), shadow);
    assert_eq!(shown("100%", "user-000"), (true, "100%".into(), "refused", String::new()));
}

#[test]
fn the_client_is_found_behind_trusted_proxies() {
    let document = r#"{
        "limits": [{"url": "/", "rules": [{"actor": "ip", "rpu": 9, "unit": "second"}]}],
        "ip": {"trusted_hops": 1}
    }"#;
    let words = ["--url", "/", "--ip", "10.0.0.1", "-H", "x-forwarded-for: 203.0.113.1, 203.0.113.2"];
    let explanation = explained(document, &words);
    assert_eq!(explanation.limits[0].rules[0].actor.value.as_deref(), Some("203.0.113.2"));
}

#[test]
fn a_global_rule_counts_as_one_gateway_would_and_the_text_says_so() {
    let document = r#"{
        "limits": [{"url": "/", "rules": [
            {"name": "g", "rpu": 4, "unit": "minute", "scope": "global", "lease": "50%", "on_error": "local"}
        ]}],
        "store": {"redis": {"cluster": "redis", "secret": {"sds": "diana"}, "replicas": 2}},
        "remote": {"cluster": "config", "path": "/d.json"}
    }"#;
    let words = ["--url", "/", "--times", "5", "--at", "1795392000"];
    let shown = text(document, &words);
    assert!(shown.contains("g  TB 4/min  all requests together, counted as if by one gateway\n"), "{shown}");
    assert!(shown.contains("  1–4  passes\n  5    refused: diana_refused:g\n"), "{shown}");
    assert!(shown.contains("as if no other gateway had requests"), "{shown}");
    assert!(shown.contains("The command does not poll `remote`"), "{shown}");
    // While the store is down, each of two gateways has half of the quota.
    let shown = text(document, &[&words[..], &["--store-down"]].concat());
    assert!(shown.contains("  1–2  passes\n  3–5  refused: diana_refused:g\n"), "{shown}");
    assert!(shown.contains("The global store is down"), "{shown}");
    let short = r#"[{"url": "/", "rules": [{"rpu": 1, "unit": "minute", "scope": "global"}]}]"#;
    assert!(text(short, &[&words[..], &["--store-down"]].concat()).contains("  2–5  refused"));
}

#[test]
fn the_status_of_responses_settles_rules() {
    let document = r#"{"url": "/login", "rules": [
        {"name": "failed", "rpu": 2, "unit": "minute", "charge": {"status": [401]}}
    ]}"#;
    let outcomes = |status| {
        let words = ["--url", "/login", "--times", "4", "--at", "1795392000", "--status", status];
        text(document, &words)
    };
    assert!(outcomes("200").contains("  1–4  passes\n"));
    let shown = outcomes("401");
    assert!(shown.contains("  1–2  passes\n  3–4  refused: diana_refused:failed\n"), "{shown}");
    assert!(shown.contains("assume status 401"), "{shown}");
}

#[test]
fn plans_and_overrides_show_the_quota_of_the_client() {
    let document = r#"{
        "limits": [{"url": "/", "rules": [
            {"name": "q", "actor": "user", "rpu": 1, "unit": "second",
             "overrides": {"vip": {"rpu": 7}}, "plans": {"gold": {"rpu": 5}, "staff": "unlimited"}},
            {"name": "r", "actor": "user", "rpu": 3, "unit": "second"}
        ]}],
        "plan": {"header": "x-plan"}
    }"#;
    let shown = |words: &[&str]| {
        let explanation = explained(document, &[&["--url", "/"], words].concat());
        let quotas: Vec<String> = explanation.limits[0].rules.iter().map(|rule| rule.quota.clone()).collect();
        (explanation.plan, quotas)
    };
    assert_eq!(shown(&[]), (None, vec!["1/s".into(), "3/s".into()]));
    assert_eq!(shown(&["-H", "x-user-id: vip"]), (None, vec!["7/s".into(), "3/s".into()]));
    assert_eq!(shown(&["-H", "x-plan: gold"]), (Some("gold".into()), vec!["5/s".into(), "3/s".into()]));
    let explanation = explained(document, &["--url", "/", "-H", "x-user-id: 1", "-H", "x-plan: staff"]);
    assert_eq!(explanation.limits[0].rules[0].runs[0].result, "not checked");
}

#[test]
fn different_reasons_are_different_runs() {
    let document = r#"{"url": "/", "rules": [
        {"name": "p", "rpu": 1, "unit": "minute", "penalty": {"after": 2, "for": "10m"}}
    ]}"#;
    let explanation = explained(document, &["--url", "/", "--times", "5", "--at", "1795392000"]);
    let runs: Vec<(u32, u32, &str)> =
        explanation.limits[0].rules[0].runs.iter().map(|run| (run.from, run.to, run.result)).collect();
    assert_eq!(runs, [(1, 1, "admitted"), (2, 2, "refused"), (3, 5, "refused by penalty")]);

    let document = r#"{"url": "/", "rules": [
        {"name": "a", "rpu": 1, "unit": "10s"},
        {"name": "b", "rpu": 1, "unit": "2s", "mode": "shadow"}
    ]}"#;
    let shown = text(document, &["--url", "/", "--times", "3", "--every", "1s", "--at", "1795392000"]);
    let expected = "  1  passes\n  2  refused: diana_refused:a, would be refused in shadow mode by b\n  3  refused: diana_refused:a\n";
    assert!(shown.contains(expected), "{shown}");
}

#[test]
fn a_rule_that_does_not_decide_says_what_it_would_do() {
    let results = |document: &str, every| {
        let words = ["--url", "/", "--times", "3", "--every", every, "--at", "1795392000"];
        let explanation = explained(document, &words);
        let rule = &explanation.limits[0].rules[0];
        rule.runs.iter().map(|run| (run.from, run.to, run.result, run.wait_s)).collect::<Vec<_>>()
    };
    // Another rule refuses: the queue neither counts the request nor holds it.
    let refused = r#"{"url": "/", "rules": [
        {"name": "queue", "algo": "LB", "rpu": 10, "unit": "second", "queue": 5},
        {"name": "few", "rpu": 2, "unit": "minute"}
    ]}"#;
    let expected = [(1, 1, "admitted", None), (2, 2, "delayed", Some([0.1; 2])), (3, 3, "would admit", None)];
    assert_eq!(results(refused, "0s"), expected);
    // In shadow mode, no request waits.
    let shadow = r#"{"url": "/", "rules": [
        {"name": "queue", "algo": "LB", "rpu": 10, "unit": "second", "queue": 5, "mode": "shadow"}
    ]}"#;
    let expected = [(1, 1, "admitted", None), (2, 3, "would delay", Some([0.1, 0.2]))];
    assert_eq!(results(shadow, "0s"), expected);
    assert!(text(shadow, &["--url", "/", "--times", "3"]).contains("  1–3  passes\n"));
}

#[test]
fn a_grpc_client_sees_a_grpc_status() {
    let document = r#"{"url": "/", "rules": [{"rpu": 0, "unit": "second"}]}"#;
    let words = ["--url", "/", "--method", "POST", "-H", "content-type: application/grpc"];
    let refused = explained(document, &words).refused.unwrap();
    assert_eq!((refused.status, refused.grpc_status), (Some(200), Some(8)));
}

#[test]
fn hostile_values_do_not_reach_the_terminal() {
    let document =
        r#"{"url": "/", "headers": {"x-a": "b"}, "rules": [{"actor": "user", "rpu": 1, "unit": "second"}]}"#;
    let hostile = "\u{1b}]0;pwned\u{7}\u{1b}[2J\u{9b}31m\u{202e}\u{7f}";
    let long = "x".repeat(100_000);
    for value in [hostile, &long] {
        let (actor, header) = (format!("x-user-id: {value}"), format!("x-a: {value}"));
        let url = format!("/{value}").replace(|c: char| c.is_ascii_control(), "%1b");
        for words in [
            vec!["--url", &url, "-H", &actor, "-H", "x-a: b"],
            vec!["--url", &url, "-H", &header, "--all"],
            vec!["--url", "/", "--host", value, "-H", "x-a: b"],
        ] {
            let shown = text(document, &words);
            let is_unsafe = |c: char| c != '\n' && (c.is_control() || c == '\u{202e}');
            assert!(!shown.contains(is_unsafe), "{shown:?}");
            assert!(shown.lines().all(|line| line.chars().count() < 400), "a line is too long");
        }
    }
}

#[test]
fn a_condition_on_a_session_is_not_shown() {
    for condition in [r#""headers": {"cookie": "session=hunter2"}"#, r#""query": {"session": "hunter2"}"#] {
        let document = format!(r#"{{"url": "/", {condition}, "rules": [{{"rpu": 1, "unit": "day"}}]}}"#);
        for words in
            [&["--url", "/?session=a", "-H", "cookie: session=a", "--all"][..], &["--url", "/", "--all"]]
        {
            let shown = text(&document, words);
            assert!(shown.contains("session") || shown.contains("cookie"), "{shown}");
            assert!(!shown.contains("hunter"), "{shown}");
        }
    }
}
