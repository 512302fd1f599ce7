//! What a summary says about values that the log lacks, and about what the numbers leave out.

use super::{FORMAT, Folder, log, summary};

#[test]
fn what_the_log_lacks_is_stated() {
    let folder = Folder::new("assumptions");
    let document = folder.file(
        "limits.json",
        r#"{
        "limits": [{"url": "/", "headers": {"x-plan": "free"}, "rules": [
            {"name": "a", "actor": "ip", "rpu": 5, "unit": "hour", "scope": "global"},
            {"name": "b", "actor": "tenant", "rpu": 5, "unit": "hour"},
            {"name": "c", "algo": "C", "rpu": 5},
            {"name": "d", "rpu": 5, "unit": "hour", "cost": {"response_json": "/n", "default": 1}}
        ]}],
        "actors": {"tenant": {"property": "xds.cluster_name"}},
        "store": {"redis": {"cluster": "redis", "secret": "0123456789abcdef"}}
    }"#,
    );
    let log = folder.file("access.log", "1795392000 /a\n");
    let format = "%START_TIME(%s)% %REQ(:PATH)%";
    let found = summary(&[&document, "--log", &log, "--format", format]).unwrap();
    assert_eq!(
        found.log.assumptions,
        [
            "The log has only whole seconds: all requests of a second start at the beginning of that second.",
            "The log has no client address: rules that count by client address count all requests together.",
            "The log has no attribute `xds.cluster_name`: the attribute counts as absent.",
            "The log has no header `x-plan`: the header counts as absent.",
            "Rules with `scope: global` count all requests of the log: pass the logs of all gateways.",
            "The log has no durations: each request returns its permits at once.",
            "The log has no statuses: rules that depend on a status count as if there were no response.",
            "The log has no `/n` of responses: the number counts as absent.",
        ]
    );
    let nginx = r#"203.0.113.7 - - [23/Nov/2026:00:00:00 +0000] "GET / HTTP/1.1" 200 5 "-" "-""#;
    let log = folder.file("nginx.log", nginx);
    let found = summary(&[&document, "--log", &log]).unwrap();
    assert_eq!((&*found.log.format, found.log.whole_seconds), ("nginx", true));
    assert_eq!(
        found.log.assumptions[..2],
        [
            "The log has only the end of each request and no duration: the end counts as the start.",
            "The log has only whole seconds: all requests of a second start at the beginning of that second.",
        ]
    );
}

#[test]
fn envoys_address_is_the_last_one_that_was_forwarded() {
    let folder = Folder::new("forwarded");
    let document = folder.file(
        "limits.json",
        r#"{"url": "/", "rules": [{"name": "r", "actor": "ip", "rpu": 1, "unit": "day"}]}"#,
    );
    let line = |forwarded: &str| {
        format!(
            "[2026-11-23T00:00:00.250Z] \"GET / HTTP/1.1\" 200 - 0 5 4 3 \"{forwarded}\" \"-\" \"-\" \"h\" \"-\"\n"
        )
    };
    let text = line("192.0.2.1, 203.0.113.7") + &line("203.0.113.7") + "garbage\n" + &line("2001:db8::1");
    let log = folder.file("access.log", &text);
    let found = summary(&[&document, "--log", &log]).unwrap();
    assert_eq!((found.rules[0].refused, found.rules[0].actors), (1, 2));
    let actors: Vec<&str> = found.rules[0].top.iter().map(|actor| &*actor.actor).collect();
    assert_eq!(actors, ["203.0.113.7", "2001:db8::/64"]);
    let [example] = &found.log.examples[..] else { panic!("{:?}", found.log) };
    assert_eq!((example.line, &*example.why), (3, "the line does not begin as the format does: `garbage`"));
    assert_eq!(
        found.log.assumptions,
        ["The log has no client address: the replay uses the last address of `x-forwarded-for`.",]
    );
}

#[test]
fn a_table_without_room_is_stated() {
    let folder = Folder::new("room");
    let document = folder.file(
        "limits.json",
        r#"{"limits": [{"url": "/", "rules": [
            {"name": "user", "actor": "user", "rpu": 9, "unit": "day"}]}], "local": {"max_actors": 10}}"#,
    );
    let users: Vec<String> = (0..1_000).map(|user| format!("u{user}")).collect();
    let requests: Vec<(u64, u64, &str)> = (0..).zip(&users).map(|(at, user)| (at, 1, &**user)).collect();
    let log = folder.file("access.log", &log(&requests));
    let found = summary(&[&document, "--log", &log, "--format", FORMAT]).unwrap();
    let [note] = &found.log.assumptions[..] else { panic!("{:?}", found.log.assumptions) };
    assert!(note.ends_with(" times, an actor lost its counts. The filter would do the same."), "{note}");
    assert_eq!((found.rules[0].actors, found.rules[0].checked), (1_000, 1_000));
}

const WHOLE: &str =
    "The log has only whole seconds: all requests of a second start at the beginning of that second.";

#[test]
fn whole_seconds_are_found_in_any_format() {
    let folder = Folder::new("whole");
    let document =
        folder.file("limits.json", r#"{"url": "/", "rules": [{"name": "r", "rpu": 9, "unit": "day"}]}"#);
    let found = |fractions: [&str; 4]| {
        let line = |(second, fraction): (usize, &&str)| {
            format!("{{\"start_time\": \"2026-11-23T10:00:0{second}{fraction}Z\", \"path\": \"/\"}}\n")
        };
        let log = folder.file("access.log", &fractions.iter().enumerate().map(line).collect::<String>());
        let log = summary(&[&document, "--log", &log]).unwrap().log;
        (log.whole_seconds, log.assumptions.iter().any(|assumption| assumption == WHOLE))
    };
    assert_eq!(found([".000", "", ".0", ".000"]), (true, true));
    assert_eq!(found([".000", "", ".001", ".000"]), (false, false));
}

#[test]
fn whole_seconds_of_the_ends_are_stated() {
    let folder = Folder::new("ends");
    let document =
        folder.file("limits.json", r#"{"url": "/", "rules": [{"name": "r", "rpu": 9, "unit": "day"}]}"#);
    let log = folder.file("access.log", "23/Nov/2026:00:00:00 +0000 0.250 GET / HTTP/1.1\n");
    let format = "$time_local $request_time $request";
    let found = summary(&[&document, "--log", &log, "--format", format]).unwrap().log;
    assert!(found.whole_seconds && found.first_s.fract() == 0.75, "{found:?}");
    let expected =
        "The log has only whole seconds: all requests of a second end at the beginning of that second.";
    assert!(found.assumptions.iter().any(|assumption| assumption == expected), "{:?}", found.assumptions);
}

#[test]
fn refusals_of_the_logs_gateway_are_counted() {
    let folder = Folder::new("refused");
    let document =
        folder.file("limits.json", r#"{"url": "/", "rules": [{"name": "r", "rpu": 9, "unit": "day"}]}"#);
    for (count, words) in [
        (1, "wrote the log refused 1 request with status 429: its duration is that of a refusal."),
        (
            1_234,
            "wrote the log refused 1,234 requests with status 429: their durations are those of refusals.",
        ),
    ] {
        let log = folder.file("access.log", &"1795392000.250 1 - - GET / 429\n".repeat(count));
        let found = summary(&[&document, "--log", &log, "--format", FORMAT]).unwrap().log;
        assert!(found.assumptions.iter().any(|assumption| assumption.ends_with(words)), "{found:?}");
    }
}

#[test]
fn a_rule_without_its_actor_gets_a_warning_and_no_suggestion() {
    let folder = Folder::new("without-actor");
    let document = folder.file(
        "limits.json",
        r#"{"url": "/", "rules": [
            {"name": "by-user", "actor": "user", "rpu": 1, "unit": "second"},
            {"name": "by-ip", "actor": "ip", "rpu": 1, "unit": "second"}
        ]}"#,
    );
    let log = folder.file("access.log", "1795392000.1 /a 192.0.2.1\n1795392001.2 /a 192.0.2.2\n");
    let format = "%START_TIME(%s.%1f)% %REQ(:PATH)% %DOWNSTREAM_REMOTE_ADDRESS%";
    let found = summary(&[&document, "--log", &log, "--format", format]).unwrap();
    assert_eq!([0, 1].map(|at| found.rules[at].without_actor), [2, 0]);
    assert_eq!([0, 1].map(|at| found.rules[at].suggestion.is_some()), [false, true]);
    let text = diana_replay::text::report(&found, false);
    let (above, _) = text.split_once("\nrequests ").unwrap();
    assert!(above.contains("Rule `by-user` cannot be replayed: 2 requests lack the actor `user`."), "{text}");
    let page = diana_replay::report::html(&found);
    assert_eq!(page.matches("class=\"caution\"").count(), 1);
}

#[test]
fn a_rule_by_address_that_finds_one_gets_a_warning_and_no_suggestion() {
    let folder = Folder::new("one-address");
    let document = folder.file(
        "limits.json",
        r#"{"limits": [{"url": "/", "rules": [
            {"name": "by-ip", "actor": "ip", "rpu": 1, "unit": "second"},
            {"name": "by-client", "actor": "client", "rpu": 1, "unit": "second"},
            {"name": "total", "rpu": 1, "unit": "second"},
            {"name": "both", "actor": ["ip", "user"], "rpu": 1, "unit": "second"}
        ]}], "actors": {"client": {"ip": {"v4_prefix": 24}}}}"#,
    );
    let format = "%START_TIME(%s.%1f)% %REQ(:PATH)% %DOWNSTREAM_REMOTE_ADDRESS% %REQ(X-USER-ID)%";
    let cautions = |addresses: [&str; 2]| {
        let [one, two] = addresses;
        let log = folder.file("access.log", &format!("1795392000.1 /a {one} u\n1795392001.2 /a {two} v\n"));
        let found = summary(&[&document, "--log", &log, "--format", format]).unwrap();
        let text = diana_replay::text::report(&found, true);
        let (above, _) = text.split_once("\nrequests ").unwrap();
        let named = ["by-ip", "by-client", "total", "both"].map(|rule| {
            let words = format!("All 2 requests of rule `{rule}` have the same client address");
            above.replace('\n', " ").contains(&words)
        });
        (named, [0, 1, 2, 3].map(|at| found.rules[at].suggestion.is_some()))
    };
    assert_eq!(
        cautions(["192.0.2.1", "192.0.2.1"]),
        ([true, true, false, false], [false, false, true, true])
    );
    // Another address, but the same network.
    assert_eq!(cautions(["192.0.2.1", "192.0.2.9"]).0, [false; 4]);
    assert_eq!(cautions(["192.0.2.1", "198.51.100.9"]).0, [false; 4]);
}

#[test]
fn one_address_of_a_rule_is_no_proxy_if_the_log_has_others() {
    let folder = Folder::new("one-of-several");
    let document = folder.file(
        "limits.json",
        r#"{"limits": [{"url": "/login", "rules": [{"name": "login", "actor": "ip", "rpu": 1, "unit": "second"}]}]}"#,
    );
    let format = "%START_TIME(%s.%1f)% %REQ(:PATH)% %DOWNSTREAM_REMOTE_ADDRESS% %REQ(X-FORWARDED-FOR)%";
    let warns = |lines: [&str; 3]| {
        let lines: String =
            lines.iter().enumerate().map(|(at, line)| format!("179539200{at}.1 {line}\n")).collect();
        let log = folder.file("access.log", &lines);
        let found = summary(&[&document, "--log", &log, "--format", format]).unwrap();
        diana_replay::text::report(&found, true).contains("probably that of a proxy")
    };
    let login = "/login 192.0.2.1:1 -";
    assert!(warns([login, "/login 192.0.2.1:2 -", "/a 192.0.2.1:3 -"]), "the port is another one each time");
    assert!(!warns([login, login, "/a 192.0.2.2:1 -"]));
    assert!(!warns([login, login, "/a 192.0.2.1:1 198.51.100.7"]), "a client behind a proxy");
}

#[test]
fn what_lacks_its_actor_cannot_be_replayed() {
    let folder = Folder::new("lacks");
    let document = folder.file(
        "limits.json",
        r#"{"limits": [{"url": "/", "rules": [
            {"name": "users", "actor": "user", "rpu": 1, "unit": "day"},
            {"name": "devices", "actor": "device", "rpu": 3, "unit": "day"},
            {"name": "total", "rpu": 9, "unit": "day"}
        ]}]}"#,
    );
    let found = |format: &str, lines: &[&str]| {
        let lines: String =
            lines.iter().enumerate().map(|(at, line)| format!("{} {line}\n", 1_795_392_000 + at)).collect();
        let log = folder.file("access.log", &lines);
        summary(&[&document, "--log", &log, "--format", format]).unwrap()
    };
    let of = |found: &diana_replay::summary::Summary| {
        let totals = found.totals;
        let timeline: u64 = found.timeline.intervals.iter().map(|interval| interval.refused).sum();
        let hours: u64 = found.hours.iter().map(|hour| hour.refused).sum();
        assert_eq!((timeline, hours), (totals.refused, totals.refused));
        (totals.admitted, totals.refused, totals.undecided)
    };
    let address = "%START_TIME(%s)% %REQ(:PATH)% %DOWNSTREAM_REMOTE_ADDRESS%";
    let none = found(address, &["/a 192.0.2.1"; 12]);
    assert_eq!(of(&none), (1, 0, 11));
    let text = diana_replay::text::report(&none, false);
    assert!(text.contains("not replayable            11  91.7 %"), "{text}");
    assert!(text.contains("Rule `users` cannot be replayed: 12 requests lack the actor `user`."), "{text}");
    assert!(text.lines().any(|line| line.starts_with("users") && line.contains("not known")), "{text}");
    let page = diana_replay::report::html(&none);
    let page = page.replace('\u{a0}', " ");
    assert!(page.contains("Cannot be replayed: 12 requests lack the actor") && page.contains("not known"));
    assert!(none.clients.is_empty(), "{:?}", none.clients);
    // The last request has the user, so the rule counts in all of them.
    let user = format!("{address} %REQ(X-USER-ID)%");
    let lines = [&["/a 192.0.2.1 -"; 12][..], &["/a 192.0.2.2 ann"]].concat();
    assert_eq!(of(&found(&user, &lines)), (2, 11, 0));
    let log = folder.path("access.log");
    let gate = [&*document, "--log", &log, "--format", &user, "--fail-above", "50"];
    assert_eq!(super::exit_code(&gate), 1);
    let log = folder.file("access.log", &"1795392000 /a 192.0.2.1\n".repeat(12));
    let gate = [&*document, "--log", &log, "--format", address, "--fail-above", "50"];
    assert_eq!(super::exit_code(&gate), 1, "what is not known passes no gate");
}

#[test]
fn refusals_reach_to_the_end_of_the_log_and_shadow_is_apart() {
    let folder = Folder::new("axis");
    let document = folder.file(
        "limits.json",
        r#"{"limits": [{"url": "/a", "rules": [{"name": "a", "rpu": 1, "unit": "day"}]},
            {"url": "/b", "rules": [{"name": "b", "rpu": 1, "unit": "day", "mode": "shadow"}]}]}"#,
    );
    let log = folder
        .file("access.log", "1795392000 /a\n1795392001 /a\n1795392002 /b\n1795392003 /b\n1795392009 /c\n");
    let found = summary(&[&document, "--log", &log, "--format", "%START_TIME(%s)% %REQ(:PATH)%"]).unwrap();
    assert_eq!(found.timeline.intervals.len(), 10);
    assert_eq!(found.rules[0].refusals, [0, 1, 0, 0, 0, 0, 0, 0, 0, 0]);
    let page = diana_replay::report::html(&found);
    assert_eq!(page.matches("viewBox=\"0 0 10 30\"").count(), 2, "one axis for all rules");
    let text = diana_replay::text::report(&found, false);
    let cells = |rule: &str| -> Vec<&str> {
        text.lines().find(|line| line.starts_with(&format!("{rule}  "))).unwrap().split_whitespace().collect()
    };
    assert_eq!(cells("rule")[3..6], ["checked", "refused", "in"]);
    assert_eq!((&cells("a")[4..6], &cells("b")[4..6]), (&["1", "0"][..], &["0", "1"][..]), "{text}");
    assert_eq!([found.rules[0].enforced_refusals(), found.rules[1].enforced_refusals()], [1, 0]);
}

#[test]
fn a_rule_of_which_the_log_shows_too_little_names_no_other_quotas() {
    let folder = Folder::new("no-quotas");
    let document = folder.file(
        "limits.json",
        r#"{"limits": [{"url": "/", "rules": [
            {"name": "total", "rpu": 9, "unit": "second"},
            {"name": "long", "rpu": 9, "unit": "day"},
            {"name": "by-ip", "actor": "ip", "rpu": 9, "unit": "second"},
            {"name": "by-user", "actor": "user", "rpu": 9, "unit": "second"}
        ]}]}"#,
    );
    let log = folder.file("access.log", "1795392000.1 /a 192.0.2.1\n1795392001.2 /a 192.0.2.1\n");
    let format = "%START_TIME(%s.%1f)% %REQ(:PATH)% %DOWNSTREAM_REMOTE_ADDRESS%";
    for options in [&["--suggest"][..], &["--what-if"], &["--what-if", "--suggest"]] {
        let arguments = [&[&*document, "--log", &*log, "--format", format], options].concat();
        let found = summary(&arguments).unwrap();
        assert!(found.rules.iter().all(|rule| rule.least.none.is_some()));
        let text = diana_replay::text::report(&found, true).replace("\n    ", " ");
        assert_eq!(text.matches("this rule alone would refuse nothing with rpu 1").count(), 1, "{text}");
        let doubt = "The log does not show what other quotas of this rule would refuse: it";
        for (rule, why) in [
            ("long", "covers only 1 s, less than the rule's unit."),
            ("by-ip", "has one client address for all requests."),
            ("by-user", "lacks the rule's actor."),
        ] {
            let (_, section) = text.split_once(&format!("\n{rule}: ")).unwrap();
            let section = section.split("\n\n").next().unwrap();
            assert!(section.contains(&format!("{doubt} {why}")), "{rule}\n{text}");
        }
    }
}

#[test]
fn requests_that_nginx_would_not_hold_are_stated() {
    let folder = Folder::new("unheld");
    let document = folder.file(
        "limits.json",
        r#"{"url": "/", "rules": [{"name": "even", "algo": "LB", "rpu": 1, "unit": "second"}]}"#,
    );
    let stated = |format: &str, line: &str, requests: usize| {
        let log = folder.file("access.log", &format!("{line}\n").repeat(requests));
        let found = summary(&[&document, "--log", &log, "--format", format]).unwrap();
        found.log.assumptions.iter().any(|stated| stated.contains("in nginx, the filter holds no request"))
    };
    let (nginx, envoy) = ("$msec $request_uri", "%START_TIME(%s.%3f)% %REQ(:PATH)%");
    assert!(!stated(nginx, "1795392000.1 /", 1), "no request waits");
    assert!(stated(nginx, "1795392000.1 /", 2));
    assert!(stated("json", r#"{"msec": 1795392000.1, "request_uri": "/"}"#, 2));
    assert!(!stated(envoy, "1795392000.1 /", 2), "Envoy holds requests");
}
