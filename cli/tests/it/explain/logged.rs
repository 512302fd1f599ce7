//! One line of a log: its request is decided after those before it, as in a replay.

use super::{arguments, envoy, text};
use crate::replay::Folder;
use diana_cli::explain;
use diana_limiter::decide::Outcome;
use diana_replay::Replay;
use std::path::{Path, PathBuf};

const DOCUMENT: &str = r#"{"limits": [
    {"url": "/", "rules": [{"name": "per-user", "actor": "user", "algo": "W", "rpu": 2, "unit": "hour", "scope": "global"}]},
    {"url": "/admin", "rules": [{"name": "admin", "rpu": 1, "unit": "day"}]}],
    "store": {"redis": {"cluster": "redis", "secret": "0123456789abcdef"}}}"#;

fn line(second: u32, user: &str, status: u16) -> String {
    format!(
        r#"{{"start_time":"2026-11-23T09:00:{second:02}Z","method":"GET","path":"/orders?a=1","downstream_remote_address":"192.0.2.7:9","x-user-id":"{user}","response_code":{status}}}"#
    )
}

#[test]
fn the_counts_are_those_of_the_requests_before() {
    let folder = Folder::new("explain-line");
    // The second line began last.
    let lines = [
        line(1, "ann", 200),
        line(9, "ann", 429),
        line(2, "bob", 200),
        "no request".into(),
        line(3, "ann", 200),
    ];
    let log = folder.file("access.log", &lines.join("\n"));
    let shown = |number: &str| text(DOCUMENT, &["--log", &log, "--line", number]);
    let second = shown("2");
    for part in [
        "GET /orders?a=1 from 192.0.2.7, from 2026-11-23T09:00:09Z\n",
        "per-user  W 2/h  user `ann`, counted as if by one gateway\n      1  refused",
        "Outcome\n  1  refused: diana_refused:per-user\n",
        "The log has 3 requests before this one. The log has the status 429.",
    ] {
        assert!(second.contains(part), "{part}\n{second}");
    }
    assert!(shown("1").contains("admitted, 1 left") && shown("5").contains("admitted, 0 left"));

    for (number, expected) in [
        ("4", "line 4 of `LOG` is no request that can be read: "),
        ("99", "`LOG` has only 5 lines, and so no line 99"),
    ] {
        let error = explain::explain(&arguments(&["--log", &log, "--line", number]), DOCUMENT.as_bytes());
        let error = error.unwrap_err().to_string();
        assert!(error.starts_with(&expected.replace("LOG", &log)), "{error}");
    }
}

#[test]
fn fields_of_the_line_are_parts_of_the_body() {
    let folder = Folder::new("explain-fields");
    let document = r#"{"actors": {"model": {"request_json": "/model"}}, "limits": [
        {"url": "/", "rules": [{"name": "models", "actor": "model", "algo": "W", "rpu": 9, "unit": "day",
            "cost": {"response_json": "/usage/total", "estimate": 1, "default": 1}}]},
        {"url": "/", "request_json": {"/stream": "true"}, "rules": [{"name": "streams", "rpu": 9, "unit": "day"}]}]}"#;
    let line = |second: u32| {
        line(second, "ann", 200)
            .replace('}', r#","gen_ai":{"model":"large"},"usage":{"total":3},"stream":"false"}"#)
    };
    let log = folder.file("access.log", &[line(1), line(2), line(3)].join("\n"));
    let field = ["--field", "/model=gen_ai.model"];
    let shown = text(document, &[&["--log", &log, "--line", "3"], &field[..]].concat());
    for part in [
        "model `large`\n      1  admitted, 2 left\n",
        "the value `/stream` of the body is `false`, expected `true`",
    ] {
        assert!(shown.contains(part), "{part}\n{shown}");
    }
}

/// Whatever a line is, the replay of the whole log decides the same about it.
#[test]
fn a_line_is_decided_as_in_a_replay() {
    let log = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/access.log");
    let mut decided = Vec::new();
    let replay = Replay::of_document(envoy().as_bytes(), log.clone(), None).unwrap();
    let each = |record: &diana_replay::Record, decision: &diana_limiter::decide::Decision, policy: &_| {
        let kind = match decision.outcome {
            Outcome::Reject(_) => "refused",
            Outcome::Delay(_) => "delayed",
            Outcome::Allowed => "allowed",
            _ => "pass",
        };
        decided.push((record.line, kind, decision.refused_by(policy).map(|names| names.into_owned())));
    };
    replay.run(each, |_, _| {}).unwrap();
    let of_kind =
        |kind: &'static str| decided.iter().filter(move |(_, known, _)| *known == kind).step_by(3).take(8);
    let chosen: Vec<_> = ["pass", "refused", "delayed"].into_iter().flat_map(of_kind).collect();
    assert!(chosen.len() > 10, "{}", chosen.len());
    for (line, kind, by) in chosen {
        let words = ["--log", log.to_str().unwrap(), "--line", &line.to_string()];
        let explanation = explain::explain(&arguments(&words), envoy().as_bytes()).unwrap();
        let [outcome] = &explanation.outcomes[..] else { panic!("one request") };
        let details = by.as_ref().map(|by| format!("diana_refused:{}", by.replace(',', "|")));
        assert_eq!((outcome.outcome, &outcome.details), (*kind, &details), "line {line}");
    }
}

#[test]
fn what_the_line_says_is_no_argument() {
    let parse = |words: &[&str]| {
        let words = ["diana", "explain", "envoy.yaml"].iter().chain(words);
        <diana_cli::Arguments as clap::Parser>::try_parse_from(words)
            .map(|_| ())
            .map_err(|error| error.to_string())
    };
    assert!(parse(&["--log", "a.log", "--line", "7"]).is_ok());
    assert!(parse(&["--log", "a.log"]).unwrap_err().contains("--line <N>"));
    assert!(parse(&[]).unwrap_err().contains("--url"));
    for words in [["--url", "/"], ["-H", "a: b"], ["--times", "3"], ["--property", "a=b"]] {
        let all = [&["--log", "a.log", "--line", "7"], &words[..]].concat();
        assert!(parse(&all).unwrap_err().contains("cannot be used with"), "{words:?}");
    }
    let missing = PathBuf::from("/none/access.log");
    let words = ["--log", missing.to_str().unwrap(), "--line", "1"];
    let error = explain::explain(&arguments(&words), DOCUMENT.as_bytes()).unwrap_err();
    assert_eq!(error.to_string(), "cannot read `/none/access.log`");
}
