//! The summary as a whole: its fields, the comparison, the page of the command, and mistakes.

use super::{FORMAT, Folder, log, rule, summary};
use diana_replay::summary::ClientSummary;
use diana_replay::text;
use std::fs;
use std::process::Command;

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
    assert_eq!((rule.actors, rule.refused_actors, rule.checked, rule.refused), (3, 2, 6, 3));
    let top: Vec<(&str, u64, u64)> =
        rule.top.iter().map(|actor| (&*actor.actor, actor.checked, actor.refused)).collect();
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
fn an_address_in_place_of_an_actor_is_marked() {
    let requests = [(0, 1, "-"), (1, 1, "-"), (2, 1, "ann"), (3, 1, "192.0.2.1"), (4, 1, "192.0.2.1")];
    let keys = r#"{"name": "each", "actor": "user", "rpu": 1, "unit": "hour"}"#;
    let (summary, rule) = rule("address", keys, &requests);
    let mut actors: Vec<(&str, bool)> =
        rule.top.iter().map(|actor| (&*actor.actor, actor.is_address)).collect();
    actors.sort_unstable();
    assert_eq!(actors, [("192.0.2.1", false), ("192.0.2.1", true), ("ann", false)]);
    let text = text::report(&summary, false);
    assert!(text.contains("  192.0.2.1 (address)      ") && text.contains("  192.0.2.1      "), "{text}");
    assert!(text.contains("(address): the requests lack the rule's actor"), "{text}");
}

/// The positions of these users under this name are pinned in `diana-limiter`.
#[test]
fn a_rule_refuses_its_part_and_counts_the_rest() {
    let users = ["user-000", "user-001", "user-002", "user-007"];
    let requests: Vec<(u64, u64, &str)> = (0..12).map(|at| (at, 1, users[at as usize % 4])).collect();
    let keys = |part: &str| {
        format!(r#"{{"name": "login", "actor": "user", "rpu": 1, "unit": "hour", "enforce": "{part}"}}"#)
    };
    for (part, refused, end) in [
        ("0%", 0, "  shadow"),
        ("50%", 4, "  enforced for 50%"),
        ("80%", 6, "  enforced for 80%"),
        ("100%", 8, ""),
    ] {
        let (summary, rule) = rule("part", &keys(part), &requests);
        assert_eq!((summary.totals.refused, summary.totals.shadow_refused), (refused, 8 - refused), "{part}");
        assert_eq!((rule.refused, rule.shadow_refused, &*rule.enforce), (8, 8 - refused, part));
        let text = text::report(&summary, false);
        let line = text.lines().find(|line| line.starts_with("login  TB")).unwrap();
        assert!(line.trim_end().ends_with(&format!("3{end}")) || line.ends_with(end), "{line:?}");
        let is_partial = !matches!(part, "0%" | "100%");
        assert_eq!(line.contains("enforced for"), is_partial, "{line:?}");
        let page = diana_replay::report::html(&summary);
        assert_eq!(page.contains(&format!("enforced for {part}")), is_partial);
    }
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
    let text = text::report(&found, false);
    let against = found.against.unwrap();
    assert_eq!((found.totals.refused, against.totals.refused), (4, 3));
    assert_eq!((against.both_refuse, against.only_first, against.only_other), (0, 4, 3));
    assert_eq!((against.document.as_str(), against.rules[0].rpu), (other.as_str(), 2));
    let of = |clients: &[ClientSummary]| -> Vec<(String, u64)> {
        clients.iter().map(|client| (client.client.clone(), client.refused)).collect()
    };
    // Each rule counts all requests with the header together.
    assert_eq!(of(&against.newly_refused), [("(all requests)".into(), 4)]);
    assert_eq!(of(&against.newly_admitted), [("(all requests)".into(), 3)]);
    let (above, below) = text.split_once("\nrule ").unwrap();
    assert!(above.contains("\ncomparison with ") && above.contains("difference"), "{text}");
    assert!(above.contains("\nnewly admitted\n  all (all requests)"), "{text}");
    assert!(above.lines().any(|line| line.starts_with("  difference ") && line.ends_with(" +1")), "{text}");
    assert!(below.contains(&format!("\nrule of {other} ")), "{text}");
    let same =
        summary(&[&first, "--log", &log, "--format", FORMAT, "--against", &first]).unwrap().against.unwrap();
    assert_eq!((same.both_refuse, same.only_first, same.only_other), (4, 0, 0));
}

#[test]
fn the_clients_of_a_comparison_are_named() {
    let folder = Folder::new("clients");
    let document = |limit: u32, deny: &str| {
        format!(
            r#"{{"limits": [{{"url": "/", "rules": [
                {{"name": "user", "actor": "user", "rpu": {limit}, "unit": "day"}},
                {{"name": "minute", "actor": "user", "rpu": {limit}, "unit": "minute"}},
                {{"name": "watched", "actor": "user", "rpu": 1, "unit": "day", "mode": "shadow"}}
            ]}}], "deny": [{deny}]}}"#
        )
    };
    let new = folder.file("new.json", &document(2, r#""192.0.2.9""#));
    let old = folder.file("old.json", &document(3, r#"{"user": "eve"}"#));
    let line =
        |at: u64, user: &str, address: &str| format!("1795392000.{at:03} 1 {address} {user} GET /a 200\n");
    let mut text = String::new();
    for at in 0..4 {
        text += &(line(at, "ann", "192.0.2.1") + &line(at, "bob", "192.0.2.1"));
    }
    text += &(line(5, "eve", "192.0.2.1") + &line(6, "cleo", "192.0.2.9"));
    let log = folder.file("access.log", &text);
    let found = summary(&[&new, "--log", &log, "--format", FORMAT, "--against", &old]).unwrap();
    let client = |client: &str, actor: &str, refused, rules: &[&str]| ClientSummary {
        client: client.into(),
        actor: actor.into(),
        refused,
        rules: rules.iter().map(|rule| (*rule).to_owned()).collect(),
    };
    let against = found.against.as_ref().unwrap();
    let both = ["user", "minute"];
    assert_eq!(
        against.newly_refused,
        [
            client("192.0.2.9", "ip", 1, &["deny"]),
            client("ann", "user", 1, &both),
            client("bob", "user", 1, &both)
        ]
    );
    assert_eq!(against.newly_admitted, [client("192.0.2.1", "ip", 1, &["deny"])]);
    assert_eq!(found.clients[..2], [client("ann", "user", 2, &both), client("bob", "user", 2, &both)]);
    let page = diana_replay::report::html(&found);
    let at = |words: &str| page.find(words).unwrap_or_else(|| panic!("{words}"));
    assert!(
        at("id=\"comparison\"") < at("id=\"totals\"") && at("Newly refused clients") < at("id=\"totals\"")
    );
    assert!(at("id=\"clients\"") < at("id=\"rule-1\""));
}

#[test]
fn rules_stand_by_their_refusals() {
    let folder = Folder::new("order");
    let document = folder.file(
        "limits.json",
        r#"{"limits": [{"url": "/", "rules": [
            {"name": "loose", "rpu": 900, "unit": "day"},
            {"name": "tight", "rpu": 1, "unit": "day", "mode": "shadow"},
            {"name": "tighter", "rpu": 3, "unit": "day", "mode": "shadow"}
        ]}]}"#,
    );
    let requests: Vec<(u64, u64, &str)> = (0..10).map(|at| (at, 1, "ann")).collect();
    let log = folder.file("access.log", &log(&requests));
    let found = summary(&[&document, "--log", &log, "--format", FORMAT, "--suggest"]).unwrap();
    let names: Vec<&str> = found.rules.iter().map(|rule| &*rule.name).collect();
    assert_eq!(names, ["loose", "tight", "tighter"], "JSON keeps the order of the document");
    for (text, parts) in [
        (text::report(&found, true), ["\ntight ", "\ntighter ", "\nloose "]),
        (diana_replay::report::html(&found), ["Rule <bdi>tight<", "Rule <bdi>tighter<", "Rule <bdi>loose<"]),
    ] {
        let places = parts.map(|part| text.find(part).unwrap_or_else(|| panic!("{part}\n{text}")));
        assert!(places.is_sorted(), "{places:?}");
    }
}

#[test]
fn suggestions_come_on_request_and_what_they_share_once() {
    let folder = Folder::new("request");
    let rules = r#"{"name": "a", "actor": "user", "rpu": 1, "unit": "second"},
        {"name": "b", "rpu": 2, "unit": "second"}"#;
    let document = folder.file("limits.json", &format!(r#"{{"url": "/", "rules": [{rules}]}}"#));
    let requests: Vec<(u64, u64, &str)> = (0..20).map(|at| (at * 100, 1, "ann")).collect();
    let log = folder.file("access.log", &log(&requests));
    let found = summary(&[&document, "--log", &log, "--format", FORMAT, "--suggest"]).unwrap();
    assert!(found.rules.iter().all(|rule| rule.suggestion.as_ref().is_some_and(|it| it.caveat.is_some())));
    let (asked, unasked) = (text::report(&found, true), text::report(&found, false));
    assert_eq!(
        (asked.matches("suggested rpu").count(), asked.matches("The log covers only").count()),
        (2, 1)
    );
    assert_eq!((unasked.matches("suggested").count(), unasked.matches("The log covers").count()), (0, 0));
    assert!(unasked.contains("this rule alone would refuse nothing with rpu"), "{unasked}");
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
fn errors_write_hostile_text_out() {
    let folder = Folder::new("hostile");
    let mistakes =
        r#"{"url": "/", "a\u001b[2J\nb\u202e": 1, "rules": [{"name": "r", "rpu": 9, "unit": "day"}]}"#;
    let document = folder.file("li\u{202e}mits.json", mistakes);
    for arguments in [["replay", &document, "--log=-"], ["explain", &document, "--url=/"]] {
        let output = Command::new(env!("CARGO_BIN_EXE_diana")).args(arguments).output().unwrap();
        let error = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{error}");
        assert!(!error.contains(['\u{1b}', '\u{202e}']), "{error:?}");
        assert!(error.contains("unknown key `a\\u{1b}[2J\\nb\\u{202e}`"), "{error}");
        assert!(error.contains("li\\u{202e}mits.json:1:14"), "{error}");
    }
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
    let mut found = summary(&[&document, "--log", &log, "--suggest"]).unwrap();
    found.document = "limits.json".into();
    found.log.files = vec!["access.log".into()];
    let text = text::report(&found, true);
    assert_eq!(text, block("console"), "{text}");
}

#[test]
fn mistakes_name_the_file_and_what_is_allowed() {
    let folder = Folder::new("mistakes");
    let document =
        folder.file("limits.json", r#"{"url": "/", "rules": [{"name": "r", "rpu": 9, "unit": "day"}]}"#);
    let log = folder.file("access.log", "what is this\n");
    let error = |arguments: &[&str]| summary(arguments).unwrap_err();
    let missing = folder.path("none.log");
    assert!(error(&[&document, "--log", &missing]).contains("none.log"));
    assert!(
        error(&[&document, "--log", &log])
            .contains("begins with `what is this`: pass `--format` with envoy, istio, nginx, json")
    );
    assert!(error(&[&document, "--log", &log, "--format", "apache"]).contains("unknown format `apache`"));
    assert!(error(&[&document]).contains("--log"));
    let wrong = folder.file("wrong.json", r#"{"url": "/", "rules": [{"rpu": 9}]}"#);
    assert!(error(&[&wrong, "--log", &log]).contains("`unit` is missing"));
    let empty = folder.file("empty.log", "");
    assert_eq!(summary(&[&document, "--log", &empty]).unwrap().totals.requests, 0);
}
