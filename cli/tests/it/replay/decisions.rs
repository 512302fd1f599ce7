//! What each algorithm, and each kind of rule, decides about the requests of a log.

use super::{FORMAT, Folder, STEADY, log, rule, summary};

#[test]
fn each_algorithm_refuses_as_by_hand() {
    for (algo, keys, refused) in [
        // Six in the second; the aligned window is the same second.
        ("W", r#""rpu": 6, "unit": "second""#, 4),
        ("SW", r#""rpu": 6, "unit": "second""#, 4),
        ("SL", r#""rpu": 6, "unit": "second""#, 4),
        // Two at the start, then one every 500 ms: at 500 ms, and none at 999 ms.
        ("TB", r#""rpu": 2, "unit": "second""#, 7),
        // Two at once for 250 ms each: at 0, 100, 300, 400, 600, 700 and 900 ms.
        ("C", r#""rpu": 2"#, 3),
    ] {
        let (summary, rule) = rule(algo, &format!(r#"{{"name": "r", "algo": "{algo}", {keys}}}"#), &STEADY);
        assert_eq!((rule.checked, rule.refused, rule.algorithm.as_str()), (10, refused, algo), "{algo}");
        assert_eq!((summary.totals.refused, summary.totals.admitted), (refused, 10 - refused), "{algo}");
        let same = rule.what_if.iter().find(|lane| lane.rpu == rule.rpu).unwrap();
        assert_eq!((same.refused, same.refused_actors), (refused, 1), "{algo}: the configured quota");
        assert_eq!(
            rule.least.none,
            Some(match algo {
                // Half of the quota comes back while the requests come.
                "TB" => 6,
                "C" => 3,
                _ => 10,
            }),
            "{algo}"
        );
        assert_eq!(rule.peaks.last().unwrap().peak, if algo == "C" { 3 } else { 10 }, "{algo}");
        // The log is shorter than a second.
        assert_eq!(rule.suggestion.is_some(), algo == "C", "{algo}");
        assert_eq!(rule.top[0].actor, "(all requests)");
    }
}

#[test]
fn requests_wait_for_their_turns() {
    let requests = [(0, 1, "-"), (0, 1, "-"), (0, 1, "-"), (0, 1, "-"), (350, 1, "-")];
    let keys = r#"{"name": "even", "algo": "LB", "rpu": 10, "unit": "second", "queue": 2}"#;
    let (summary, rule) = rule("lb", keys, &requests);
    // At 0 ms, 100 ms and 200 ms; the queue has no place for the fourth. The last one is alone.
    assert_eq!((summary.totals.admitted, summary.totals.delayed, summary.totals.refused), (2, 2, 1));
    assert_eq!((rule.delayed, rule.refused, rule.longest_delay_s), (2, 1, 0.2));
}

/// In shadow, the rule shows the waits that it would cause, and no request waits.
#[test]
fn a_rule_in_shadow_shows_the_waits_that_it_would_cause() {
    let requests = [(0, 1, "-"), (0, 1, "-"), (0, 1, "-"), (0, 1, "-"), (350, 1, "-")];
    let keys = r#"{"name": "even", "algo": "LB", "rpu": 10, "unit": "second", "queue": 2, "mode": "shadow"}"#;
    let (summary, rule) = rule("shadow", keys, &requests);
    assert_eq!((summary.totals.admitted, summary.totals.delayed), (5, 0));
    assert_eq!((summary.totals.refused, summary.totals.shadow_refused), (0, 1));
    assert_eq!((rule.delayed, rule.refused, rule.longest_delay_s), (2, 1, 0.2));
}

#[test]
fn a_request_that_waits_holds_its_permit_from_its_turn_on() {
    let folder = Folder::new("permits");
    let document = folder.file(
        "limits.json",
        r#"{"limits": [{"url": "/", "rules": [
        {"name": "even", "algo": "LB", "rpu": 10, "unit": "second", "queue": 9},
        {"name": "open", "algo": "C", "rpu": 2}
    ]}]}"#,
    );
    // The second request waits until 100 ms and ends at 180 ms.
    let requests = [(0, 80, "-"), (0, 80, "-"), (90, 80, "-"), (150, 80, "-"), (250, 80, "-")];
    let log = folder.file("access.log", &log(&requests));
    let summary = summary(&[&document, "--log", &log, "--format", FORMAT]).unwrap();
    // At 90 ms only the second one holds a permit. At 150 ms the second and the third one do.
    assert_eq!((summary.rules[1].refused, summary.totals.refused), (1, 1));
}

#[test]
fn a_permit_is_free_at_the_instant_of_the_end() {
    let requests = [(0, 100, "-"), (100, 100, "-"), (199, 100, "-"), (200, 100, "-")];
    let (_, rule) = rule("instant", r#"{"name": "open", "algo": "C", "rpu": 1}"#, &requests);
    assert_eq!((rule.refused, rule.first_refusal_s), (1, Some(1_795_392_000.199)));
}

#[test]
fn statuses_settle_at_the_end_of_the_request() {
    let folder = Folder::new("settle");
    let document = folder.file(
        "limits.json",
        r#"{"url": "/", "rules": [
        {"name": "failed", "rpu": 1, "unit": "day", "charge": {"status": [401]}}]}"#,
    );
    let line =
        |at: u32, ms: u32, status: u32| format!("{} {ms} - - POST /login {status}\n", 1_795_392_000 + at);
    // The failure ends at 3 s: until then nothing is charged.
    let text = line(0, 10, 200) + &line(1, 2_000, 401) + &line(2, 10, 200) + &line(4, 10, 200);
    let log = folder.file("access.log", &text);
    let found = summary(&[&document, "--log", &log, "--format", FORMAT]).unwrap();
    assert_eq!((found.totals.requests, found.totals.refused), (4, 1));
    assert!(found.rules[0].what_if.is_empty());
}

#[test]
fn a_request_that_comes_too_late_is_decided_now() {
    let folder = Folder::new("late");
    let document =
        folder.file("limits.json", r#"{"url": "/", "rules": [{"name": "r", "rpu": 9, "unit": "day"}]}"#);
    // More lines than the window holds, and then one that started before all of them.
    let mut text = String::new();
    for number in 0..70_000u64 {
        text += &format!("{} 1 - - GET / 200\n", 1_795_392_000 + number);
    }
    text += "1795391999 1 - - GET / 200\n";
    let log = folder.file("access.log", &text);
    let found = summary(&[&document, "--log", &log, "--format", FORMAT]).unwrap();
    assert_eq!((found.totals.requests, found.log.late), (70_001, 1));
    assert_eq!(found.log.first_s, 1_795_392_000.0);
}

#[test]
fn every_rule_reports_about_every_request() {
    let folder = Folder::new("every");
    let document = folder.file(
        "limits.json",
        r#"{"limits": [{"url": "/", "rules": [
            {"name": "user", "actor": "user", "rpu": 2, "unit": "day"},
            {"name": "ip", "actor": "ip", "rpu": 1, "unit": "day"},
            {"name": "watched", "rpu": 1, "unit": "day", "mode": "shadow"}
        ]}]}"#,
    );
    // All within a few ms, in which the filter would refuse from a cache.
    let requests: Vec<(u64, u64, &str)> = (0..20).map(|at| (at, 1, "ann")).collect();
    let log = folder.file("access.log", &log(&requests));
    let found = summary(&[&document, "--log", &log, "--format", FORMAT]).unwrap();
    let counts: Vec<(&str, u64, u64)> =
        found.rules.iter().map(|rule| (&*rule.name, rule.checked, rule.refused)).collect();
    // One request passes. The others leave the rule `user` one request below its limit.
    assert_eq!(counts, [("user", 20, 0), ("ip", 20, 19), ("watched", 20, 19)]);
    assert_eq!((found.totals.refused, found.totals.shadow_refused), (19, 0));
}

#[test]
fn an_adaptive_limit_follows_the_log() {
    let keys = r#"{"name": "backend", "rpu": 40, "unit": "second", "algo": "TB",
        "adapt": {"signal": "latency_p90", "target": "100ms", "min": 2, "max": 40, "every": "1s"}}"#;
    // 30 requests a second for a minute.
    let requests = |ms| (0..1_800u64).map(|number| (number * 1_000 / 30, ms, "-")).collect::<Vec<_>>();
    let (fast, fast_rule) = rule("fast", keys, &requests(50));
    let (_, slow_rule) = rule("slow", keys, &requests(900));
    assert_eq!(fast_rule.refused, 0);
    assert!(slow_rule.refused > 100, "{}", slow_rule.refused);
    assert_eq!(
        fast.log.assumptions,
        [
            "Adaptive limits follow the statuses and the durations in the log, which include the body.",
            "Other quotas of rule `backend` stay the same over time, without `adapt`."
        ]
    );
}

/// A request without a response has the status 0 in Envoy's log.
#[test]
fn an_adaptive_limit_follows_clients_that_give_up() {
    let folder = Folder::new("impatient");
    let document = folder.file(
        "limits.json",
        r#"{"url": "/", "rules": [{"name": "backend", "rpu": 40, "unit": "second",
            "adapt": {"signal": "latency_p90", "target": "100ms", "min": 2, "max": 40, "every": "1s"}}]}"#,
    );
    let refused = |ms| {
        let requests: Vec<_> = (0..1_800u64).map(|number| (number * 1_000 / 30, ms, "-")).collect();
        let log = folder.file("access.log", &log(&requests).replace(" 200\n", " 0\n"));
        summary(&[&document, "--log", &log, "--format", FORMAT]).unwrap().rules[0].refused
    };
    assert_eq!(refused(90), 0);
    assert!(refused(150) > 100, "{}", refused(150));
}

#[test]
fn headers_of_nginx_are_joined_lines_in_json_too() {
    let folder = Folder::new("nginx");
    let document = folder.file(
        "limits.json",
        r#"{"url": "/", "rules": [{"name": "each", "actor": "user", "missing": "skip", "rpu": 9, "unit": "day"}]}"#,
    );
    let nginx = r#"$msec "$request" "$http_x_user_id""#;
    for (format, line, checked) in [
        // In nginx, the value may be two lines that differ.
        (nginx, r#"1795392000.1 "GET / HTTP/1.1" "Doe, Ann""#, 0),
        ("json", r#"{"msec": 1795392000.1, "request": "GET / HTTP/1.1", "x_user_id": "Doe, Ann"}"#, 0),
        ("json", r#"{"time": 1795392000.1, "request": "GET / HTTP/1.1", "http_x_user_id": "Doe, Ann"}"#, 0),
        ("json", r#"{"start_time": 1795392000.1, "path": "/", "x-user-id": "Doe, Ann"}"#, 1),
    ] {
        let log = folder.file("access.log", line);
        let found = summary(&[&document, "--log", &log, "--format", format]).unwrap();
        assert_eq!((found.totals.requests, found.rules[0].checked), (1, checked), "{line}");
    }
}
