//! Mistakes in test files: each has a message and its line.

use super::WINDOW;
use diana_cli::test;

/// The messages and lines of the mistakes of a file.
fn mistakes(cases: &str) -> String {
    match test::text_report(WINDOW, cases) {
        Ok(report) => panic!("{cases}\n{report:#?}"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn each_mistake_is_named_with_its_place() {
    let step = |step: &str| format!("cases:\n  - name: a\n    requests:\n      - {step}\n");
    for (cases, message, place) in [
        (String::new(), "the file is empty", "1:1"),
        ("- a\n".into(), "expected an object, found a list", "1:1"),
        ("case: []\n".into(), "unknown key `case`", "1:1"),
        ("cases: 1\n".into(), "expected a list, found `1`", "1:8"),
        ("cases:\n  - {name: a}\n".into(), "`requests` is missing", "2:5"),
        ("cases:\n  - {requests: [{}]}\n".into(), "`name` is missing", "2:5"),
        ("cases:\n  - {name: a, requests: []}\n".into(), "`requests` is empty", "2:5"),
        ("cases: []\n---\ncases: []\n".into(), "the file has several YAML documents", "1:1"),
        ("cases: [\n".into(), "`[` is not closed", "1:8"),
        (step("{expcet: pass}"), "unknown key `expcet`", "4:10"),
        (step("{expect: passes}"), "unknown outcome `passes`", "4:18"),
        (step("{expect: pass by w}"), "unknown outcome `pass by w`", "4:18"),
        (step("{expect: []}"), "expected pass, allowed, delayed, refused", "4:18"),
        (step("{expect: pass, expect: refused}"), "`expect` is given twice", "4:24"),
        (
            step("{repeat: 3, expect: {pass: 1, refused: 1}}"),
            "the numbers make 2, but the step has 3 requests",
            "4:21",
        ),
        (step("{expect: {retry_after: 600ms}}"), "expected whole seconds", "4:32"),
        (step("{at: 5}"), "expected an instant", "4:14"),
        (step("{repeat: 1000, every: 365d}"), "the requests reach beyond the year 2554", "4:9"),
        ("cases: []\n".into(), "no case is listed", "1:8"),
        (
            "cases:\n  - {name: a, requests: [{}]}\n  - {name: a, requests: [{}]}\n".into(),
            "another case has the name `a` already",
            "3:5",
        ),
        ("request: {ip: 1.2.3}\ncases: [{name: a, requests: [{}]}]\n".into(), "expected an address", "1:15"),
        (
            "clients: {a: {ip: 1.2.3}}\ncases: [{name: a, requests: [{}]}]\n".into(),
            "expected an address",
            "1:19",
        ),
        (step("{expect: {pass: 1, status: 200}}"), "unknown key `status`", "4:28"),
        (step("{expect: {over: 80}}"), "expected text, found `80`", "4:25"),
        (step("{repeat: 0}"), "expected a whole number from 1 to 1000000", "4:18"),
        (step("{repeat: 1000001}"), "expected a whole number from 1 to 1000000", "4:18"),
        (step("{repeat: 1M, from: 10.0.0.0/30}"), "the case has more than 1000000 requests", "4:9"),
        (step("{every: -1s}"), "expected a span", "4:17"),
        (step("{at: noon}"), "expected an instant", "4:14"),
        (step("{at: 2025-01-01T00:00:00Z}"), "the instant is before the start of the case", "4:14"),
        (step("{at: 1s, after: 1s}"), "`at` is given already", "4:25"),
        (step("{from: ann}"), "unknown client `ann`", "4:16"),
        (step("{from: []}"), "no client is listed", "4:16"),
        (step("{from: 10.0.0.0/8}"), "`10.0.0.0/8` is not a network", "4:16"),
        (step("{from: 10.0.0.7/28}"), "`10.0.0.7/28` is not a network", "4:16"),
        (step("{gateway: 2}"), "expected a whole number from 1 to 1", "4:19"),
        (step("{url: orders}"), "expected a path such as `/orders`", "4:15"),
        (step("{headers: {a b: c}}"), "expected letters", "4:25"),
        (step("{claims: ann}"), "expected an object, the claims of the token", "4:18"),
        (step("{response: {stauts: 1}}"), "unknown key `stauts`", "4:21"),
        (
            "cases:\n  - {name: a, store: down from x, requests: [{}]}\n".into(),
            "`x` is not an instant of the case",
            "2:22",
        ),
        (
            "cases:\n  - {name: a, store: up, requests: [{}]}\n".into(),
            "expected `down`, `down from 10:00 to 10:05`",
            "2:22",
        ),
        (
            "cases:\n  - {name: a, store: down from 2s to 1s, requests: [{}]}\n".into(),
            "the store is up again before it is down",
            "2:22",
        ),
    ] {
        let found = mistakes(&cases);
        let has = found.contains(message) && found.contains(&format!("[limits.test.yaml:{place}]"));
        assert!(has, "{message} at {place}, found\n{found}");
    }
}

/// All mistakes of a file are named at once, in its order.
#[test]
fn all_mistakes_are_named() {
    let found = mistakes(
        "clients: {ann: {ip: 1}}
cases:
  - {name: 1, requests: [{url: 2}, {expect: x}]}
",
    );
    assert!(found.ends_with("4 errors"), "{found}");
    let at = |text: &str| found.find(text).unwrap_or_else(|| panic!("{text} in {found}"));
    assert!(at(":1:21]") < at(":3:12]") && at(":3:12]") < at(":3:32]") && at(":3:32]") < at(":3:45]"));
}

#[test]
fn a_document_with_mistakes_is_shown_as_by_check() {
    let cases = "cases: [{name: a, requests: [{}]}]\n";
    let error = test::text_report("{url: /, rules: [{rpu: 1, unit: secnd}]}", cases).unwrap_err();
    assert!(error.to_string().contains("unknown unit `secnd`"), "{error}");
}
