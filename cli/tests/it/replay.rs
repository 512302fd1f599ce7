//! `diana replay`: documents and logs, and the summaries that they make.

use clap::Parser;
use diana_cli::replay::run::replay;
use diana_cli::replay::summary::{RuleSummary, Summary};
use diana_cli::replay::text;
use diana_cli::{Arguments, Command};
use std::fs;
use std::path::PathBuf;

/// A folder of this test alone. It is deleted at the end.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("diana-cli-{}-{name}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    fn file(&self, name: &str, text: &str) -> String {
        let path = self.0.join(name);
        fs::write(&path, text).unwrap();
        path.display().to_string()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn summary(arguments: &[&str]) -> Result<Summary, String> {
    let all = ["diana", "replay"].iter().chain(arguments);
    let arguments = Arguments::try_parse_from(all).map_err(|error| error.to_string())?;
    let Command::Replay(arguments) = arguments.command else { panic!("another command") };
    replay(&arguments).map_err(|error| {
        let chain: Vec<String> = error.chain().map(ToString::to_string).collect();
        chain.join(": ")
    })
}

const FORMAT: &str = "%START_TIME(%s.%3f)% %DURATION% %DOWNSTREAM_REMOTE_ADDRESS_WITHOUT_PORT% %REQ(X-USER-ID)% \
    %REQ(:METHOD)% %REQ(:PATH)% %RESPONSE_CODE%";

/// A log of requests: milliseconds after 2026-11-23T00:00:00Z, duration in ms, user.
fn log(requests: &[(u64, u64, &str)]) -> String {
    let line = |(at, duration, user): &(u64, u64, &str)| {
        format!("{}.{:03} {duration} 192.0.2.1 {user} GET /a 200\n", 1_795_392_000 + at / 1_000, at % 1_000)
    };
    requests.iter().map(line).collect()
}

/// The summary of one rule over these requests.
fn rule(name: &str, rule: &str, requests: &[(u64, u64, &str)]) -> (Summary, RuleSummary) {
    let folder = Folder::new(name);
    let document =
        folder.file("limits.json", &format!(r#"{{"limits": [{{"url": "/", "rules": [{rule}]}}]}}"#));
    let log = folder.file("access.log", &log(requests));
    let summary = summary(&[&document, "--log", &log, "--format", FORMAT, "--what-if"]).unwrap();
    let rule = summary.rules[0].clone();
    (summary, rule)
}

/// Ten requests, one every 100 ms.
const STEADY: [(u64, u64, &str); 10] = [
    (0, 250, "ann"),
    (100, 250, "ann"),
    (200, 250, "ann"),
    (300, 250, "ann"),
    (400, 250, "ann"),
    (500, 250, "ann"),
    (600, 250, "ann"),
    (700, 250, "ann"),
    (800, 250, "ann"),
    (900, 250, "ann"),
];

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
        assert_eq!((rule.judged, rule.refused, rule.algorithm.as_str()), (10, refused, algo), "{algo}");
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
        assert!(rule.suggestion.is_some());
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
fn the_summary_is_complete() {
    let requests = [
        (0, 1, "ann"),
        (1, 1, "ann"),
        (2, 1, "bob"),
        (3, 1, "ann"),
        (3_600_000, 1, "-"),
        (3_600_001, 1, "-"),
    ];
    let keys = r#"{"name": "each", "actor": "user", "rpu": 1, "unit": "hour", "missing": "share"}"#;
    let (summary, rule) = rule("complete", keys, &requests);
    assert_eq!((rule.actors, rule.refused_actors, rule.judged, rule.refused), (3, 2, 6, 3));
    let top: Vec<(&str, u64, u64)> =
        rule.top.iter().map(|actor| (&*actor.actor, actor.judged, actor.refused)).collect();
    assert_eq!(top, [("ann", 3, 2), ("(without the actor)", 2, 1), ("bob", 1, 0)]);
    assert_eq!(
        (rule.place.as_str(), rule.actor.as_str(), rule.url.as_str()),
        ("limits[0].rules[0]", "user", "/")
    );
    assert_eq!(
        (rule.first_refusal_s, rule.last_refusal_s),
        (Some(1_795_392_000.001), Some(1_795_395_600.001))
    );
    assert_eq!(rule.refusals.iter().sum::<u64>(), 3);
    assert_eq!(summary.timeline.intervals.iter().map(|interval| interval.requests).sum::<u64>(), 6);
    assert_eq!((summary.hours[0].requests, summary.hours[1].refused), (4, 1));
    assert_eq!((summary.log.lines, summary.log.unreadable, summary.log.late), (6, 0, 0));
    assert_eq!((summary.log.first_s, summary.log.last_s), (1_795_392_000.0, 1_795_395_600.001));
    assert_eq!(summary.log.assumptions, [""; 0]);
    let again = self::rule("complete", keys, &requests).0;
    assert_eq!(serde_json::to_value(&summary.rules).unwrap(), serde_json::to_value(&again.rules).unwrap());
}

#[test]
fn two_documents_are_compared() {
    let folder = Folder::new("against");
    let document = |rpu: u32, user: &str| {
        format!(
            r#"{{"limits": [{{"url": "/", "headers": {{"x-user-id": "{user}"}}, "rules": [
            {{"name": "r", "rpu": {rpu}, "unit": "day"}}]}}]}}"#
        )
    };
    let first = folder.file("new.json", &document(1, "ann"));
    let other = folder.file("old.json", &document(2, "bob"));
    let requests: Vec<(u64, u64, &str)> =
        (0..10).map(|number| (number, 1, if number % 2 == 0 { "ann" } else { "bob" })).collect();
    let log = folder.file("access.log", &log(&requests));
    let found = summary(&[&first, "--log", &log, "--format", FORMAT, "--against", &other]).unwrap();
    let against = found.against.unwrap();
    assert_eq!((found.totals.refused, against.totals.refused), (4, 3));
    assert_eq!((against.both_refuse, against.only_first, against.only_other), (0, 4, 3));
    assert_eq!((against.document.as_str(), against.rules[0].rpu), (other.as_str(), 2));
    let same =
        summary(&[&first, "--log", &log, "--format", FORMAT, "--against", &first]).unwrap().against.unwrap();
    assert_eq!((same.both_refuse, same.only_first, same.only_other), (4, 0, 0));
}

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
            {"name": "d", "rpu": 5, "unit": "hour", "cost": {"response_json": "/n", "default": 0}}
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
            "The log has whole seconds: all requests of a second start at the beginning of that second.",
            "The log has no client address: rules that count by address count all requests together.",
            "The log has no attribute `xds.cluster_name`: every request lacks it.",
            "The log has no header `x-plan`: every request lacks it.",
            "Rules with `scope: global` count all requests of the log: the log must contain those of all gateways.",
            "The log has no durations: each request returns its permits at once.",
            "The log has no statuses: rules that depend on a status count as if there were no response.",
            "The log has no bodies: a cost in a response's JSON counts as its default.",
        ]
    );
    let nginx = r#"203.0.113.7 - - [23/Nov/2026:00:00:00 +0000] "GET / HTTP/1.1" 200 5 "-" "-""#;
    let log = folder.file("nginx.log", nginx);
    let found = summary(&[&document, "--log", &log]).unwrap();
    assert_eq!(found.log.format, "nginx");
    assert_eq!(
        found.log.assumptions[..2],
        [
            "The log has the end of each request but no duration: every request starts at its end.",
            "The log has whole seconds: all requests of a second start at the beginning of that second.",
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
    assert_eq!((example.line, &*example.why), (3, "the line does not start like the format: `garbage`"));
    assert_eq!(
        found.log.assumptions,
        ["The log has no client address: the last address of `x-forwarded-for` stands for it.",]
    );
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
fn mistakes_name_the_file_and_what_is_allowed() {
    let folder = Folder::new("mistakes");
    let document =
        folder.file("limits.json", r#"{"url": "/", "rules": [{"name": "r", "rpu": 9, "unit": "day"}]}"#);
    let log = folder.file("access.log", "what is this\n");
    let error = |arguments: &[&str]| summary(arguments).unwrap_err();
    let missing = folder.0.join("none.log").display().to_string();
    assert!(error(&[&document, "--log", &missing]).contains("none.log"));
    assert!(
        error(&[&document, "--log", &log]).contains("begins with `what is this`: name it with `--format`")
    );
    assert!(error(&[&document, "--log", &log, "--format", "apache"]).contains("unknown format `apache`"));
    assert!(error(&[&document]).contains("--log"));
    let wrong = folder.file("wrong.json", r#"{"url": "/", "rules": [{"rpu": 9}]}"#);
    assert!(error(&[&wrong, "--log", &log]).contains("`unit` is missing"));
    let empty = folder.file("empty.log", "");
    assert_eq!(summary(&[&document, "--log", &empty]).unwrap().totals.requests, 0);
}

#[test]
fn the_example_of_the_page_is_true() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/cli/replay.md");
    let page = fs::read_to_string(page).unwrap();
    let example = page.split("## An example").nth(1).unwrap();
    let block = |name: &str| -> String {
        let start = format!("```{name}\n");
        example
            .split(&start)
            .skip(1)
            .filter_map(|rest| rest.split("```").next())
            .map(str::to_owned)
            .next()
            .unwrap()
    };
    let folder = Folder::new("page");
    let document = folder.file("limits.json", &block("json"));
    let log = folder.file("access.log", &block("text"));
    let mut found = summary(&[&document, "--log", &log, "--what-if"]).unwrap();
    found.document = "limits.json".into();
    found.log.files = vec!["access.log".into()];
    let text = text::report(&found);
    assert_eq!(text, block("console"), "{text}");
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
        found.rules.iter().map(|rule| (&*rule.name, rule.judged, rule.refused)).collect();
    // One request passes. The others leave the rule `user` one request below its limit.
    assert_eq!(counts, [("user", 20, 0), ("ip", 20, 19), ("watched", 20, 19)]);
    assert_eq!((found.totals.refused, found.totals.shadow_refused), (19, 0));
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
    assert!(note.ends_with(" times an actor started anew, because `local.max_actors` leaves too little room: so would the filter."), "{note}");
    assert_eq!((found.rules[0].actors, found.rules[0].judged), (1_000, 1_000));
}

#[test]
fn two_replays_of_one_log_are_equal() {
    let folder = Folder::new("equal");
    let document = folder.file(
        "limits.json",
        r#"{"limits": [{"url": "/", "rules": [
            {"name": "user", "actor": "user", "rpu": 3, "unit": "minute"},
            {"name": "ip", "actor": "ip", "rpu": 40, "unit": "minute", "algo": "SW"}]}], "local": {"max_actors": 50}}"#,
    );
    let users: Vec<String> = (0..5_000u64).map(|user| format!("u{}", user * user % 701)).collect();
    let requests: Vec<(u64, u64, &str)> =
        (0..).zip(&users).map(|(at, user)| (at * 37, at % 900, &**user)).collect();
    let log = folder.file("access.log", &log(&requests));
    let run = || summary(&[&document, "--log", &log, "--format", FORMAT, "--what-if"]).unwrap();
    let (first, second) = (run(), run());
    assert!(first.totals.refused > 100, "{:?}", first.totals);
    assert_eq!(serde_json::to_value(&first).unwrap(), serde_json::to_value(&second).unwrap());
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
        ["Adaptive limits follow the statuses and the durations in the log, which include the body."]
    );
}

#[test]
fn a_permit_is_free_at_the_instant_of_the_end() {
    let requests = [(0, 100, "-"), (100, 100, "-"), (199, 100, "-"), (200, 100, "-")];
    let (_, rule) = rule("instant", r#"{"name": "open", "algo": "C", "rpu": 1}"#, &requests);
    assert_eq!((rule.refused, rule.first_refusal_s), (1, Some(1_795_392_000.199)));
}

#[test]
fn other_quotas_are_those_of_actors_without_an_override() {
    let keys = r#"{"name": "each", "actor": "user", "rpu": 3, "unit": "day", "algo": "W",
        "overrides": {"vip": {"rpu": 100}}}"#;
    let requests: Vec<(u64, u64, &str)> =
        (0..20).map(|at| (at, 1, if at % 2 == 0 { "ann" } else { "vip" })).collect();
    let (summary, rule) = rule("overrides", keys, &requests);
    assert_eq!((rule.judged, rule.refused, rule.least.none), (20, 7, Some(10)));
    assert_eq!(
        summary.log.assumptions,
        ["Other quotas of rule `each` leave out requests with an override or a plan."]
    );
}

#[test]
fn a_global_rule_counts_with_its_full_quota() {
    let folder = Folder::new("global");
    let document = folder.file(
        "limits.json",
        r#"{"limits": [{"url": "/", "rules": [
            {"name": "all", "rpu": 4, "unit": "day", "scope": "global", "lease": "50%"}]}],
            "store": {"redis": {"cluster": "redis", "secret": "0123456789abcdef", "replicas": 2}}}"#,
    );
    let log = folder.file("access.log", &log(&STEADY));
    let found = summary(&[&document, "--log", &log, "--format", FORMAT, "--what-if"]).unwrap();
    assert_eq!((found.totals.refused, found.rules[0].rpu, found.rules[0].least.none), (6, 4, Some(10)));
}
