//! The request of the command line: what is read, and what is refused.

use super::{arguments, explained, text};
use clap::Parser;
use diana_cli::{Arguments, explain};

#[test]
fn numbers_say_their_range() {
    for (words, expected) in [
        (["--times", "x"], "'--times <TIMES>': expected a whole number from 1 to 100000"),
        (["--times", "0"], "expected a whole number from 1 to 100000"),
        (["--status", "600"], "expected a whole number from 100 to 599"),
        (["--response-bytes", "1k"], "expected a whole number from 0 to 18446744073709551615"),
    ] {
        let words = [&["diana", "explain", "x", "--url", "/"], &words[..]].concat();
        let error = Arguments::try_parse_from(words).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn the_instant_in_the_heading_repeats_the_run() {
    let at = |words: &[&str]| explained(r#"{"limits": []}"#, &[&["--url", "/"], words].concat()).request.at;
    let now = at(&[]);
    assert!(now.len() == "2026-01-31T12:00:00Z".len() && now.ends_with('Z'), "{now}");
    assert_eq!(at(&["--at", &now]), now);
    assert_eq!(at(&["--at", "2026-01-31T12:00:00.25Z"]), "2026-01-31T12:00:00.25Z");
}

#[test]
fn a_url_gives_host_and_path_without_the_password() {
    let request = explained(r#"{"limits": []}"#, &["--url", "https://me:secret@a.org:8443?b@c"]).request;
    assert_eq!((request.host.as_deref(), request.url.as_str()), (Some("a.org:8443"), "/?b@c"));
}

#[test]
fn arguments_that_no_client_could_send_are_refused() {
    let document = r#"{"limits": []}"#;
    for (words, expected) in [
        (
            vec!["--url", "orders"],
            "--url: expected a path such as `/orders`, or a URL such as `https://example.org/orders`, found `orders`",
        ),
        (
            vec!["--url", ""],
            "--url: expected a path such as `/orders`, or a URL such as `https://example.org/orders`, found nothing",
        ),
        (
            vec!["--url", "http://"],
            "--url: `http://` has no host, expected a path such as `/orders`, or a URL such as \
             `https://example.org/orders`",
        ),
        (
            vec!["--url", "http://me@:80/a"],
            "--url: `http://me@:80/a` has no host, expected a path such as `/orders`, or a URL such as \
             `https://example.org/orders`",
        ),
        (vec!["--url", "ftp://a/b"], "--url: expected a URL with `http` or `https`, found `ftp://a/b`"),
        (vec!["--url", "/", "--scheme", ""], "--scheme: expected a scheme such as `https`, found nothing"),
        (
            vec!["--url", "/", "--property", "=x"],
            "--property: expected `path=value` such as `xds.route_name=main`, found `=x`",
        ),
        (vec!["--url", "/", "--host", ""], "--host: expected a host such as `example.org`, found nothing"),
        (
            vec!["--url", "/a b"],
            "--url: a space or a control character cannot be sent: write a space as `%20`",
        ),
        (
            vec!["--url", "/", "--ip", "localhost"],
            "--ip: expected an address such as `203.0.113.7`, found `localhost`",
        ),
        (vec!["--url", "/", "-H", "x-a"], "-H: expected `name: value`, found `x-a`"),
        (
            vec!["--url", "/", "-H", "x-a: b\r\nx-b: c"],
            "-H: x-a: a value with a line break or a zero byte cannot be sent",
        ),
        (
            vec!["--url", "/", "-H", "é: b"],
            "-H: expected letters, digits and marks such as `-` in the name of a header, found `é`",
        ),
        (vec!["--url", "/", "--method", "G T"], "--method: expected a method such as `GET`, found `G T`"),
        (
            vec!["--url", "/", "--every", "1"],
            "--every: expected a span such as `500ms`, `30s`, `5m`, `12h` or `7d`, found `1`",
        ),
        (
            vec!["--url", "/", "--at", "noon"],
            "--at: expected a time such as `2026-01-31T12:00:00Z`, or seconds since 1970, found `noon`",
        ),
        (
            vec!["--url", "/", "--at", "1960-01-31T12:00:00Z"],
            "--at: expected a time such as `2026-01-31T12:00:00Z`, or seconds since 1970, found `1960-01-31T12:00:00Z`",
        ),
        (
            vec!["--url", "/", "--body-size", "big"],
            "--body-size: expected a number of bytes, or `unknown`, found `big`",
        ),
        (
            vec!["--url", "/", "--property", "x"],
            "--property: expected `path=value` such as `xds.route_name=main`, found `x`",
        ),
    ] {
        let error = explain::explain(&arguments(&words), document.as_bytes()).unwrap_err();
        assert_eq!(error.to_string(), expected);
    }
    assert!(text(document, &["--url", "*"]).contains("No limit applies."));
}

const MODELS: &str = r#"{
    "request_body": {"max": 200},
    "actors": {"model": {"request_json": "/model"}},
    "limits": [
        {"url": "/", "rules": [{"name": "models", "actor": "model", "missing": "deny", "algo": "W", "rpu": 9, "unit": "day",
            "cost": {"request_json": "/n", "default": 1, "max": 4}}]},
        {"url": "/", "request_json": {"/stream": "true"}, "rules": [{"name": "streams", "rpu": 9, "unit": "day"}]}
    ]
}"#;

#[test]
fn a_body_decides_as_in_a_gateway() {
    let file = |body: &str| {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), body).unwrap();
        file
    };
    let shown = |body: &str, words: &[&str]| {
        let file = file(body);
        text(MODELS, &[&["--url", "/", "--body", file.path().to_str().unwrap()], words].concat())
    };
    let read = shown(r#"{"model": "large", "n": 3, "stream": false}"#, &[]);
    for part in [
        "models  W 9/day  model `large`\n      1  admitted, 6 left\n",
        "  /  limits[1]\n    the value `/stream` of the body is `false`, expected `true`",
    ] {
        assert!(read.contains(part), "{part}\n{read}");
    }
    assert!(!read.contains("Assumed"), "{read}");
    let streams = shown(r#"{"model": "large", "stream": true}"#, &[]);
    assert!(streams.contains("admitted, 8 left") && streams.contains("streams  TB 9/day"), "{streams}");

    // Nobody knows what an unread body says: the actor is missing, and each condition holds.
    let long = format!(r#"{{"model": "{}"}}"#, "x".repeat(200));
    let gzip: &[&str] = &["-H", "content-encoding: gzip"];
    for (body, words) in [
        ("{", &[][..]),
        (r#"{"model": "a", "Model": "b"}"#, &[]),
        (r#"{"model": "a"}"#, gzip),
        (r#"{"model": "a"}"#, &["-H", "content-type: text/plain"]),
        (r#"{"model": "a"}"#, &["-H", "expect: 100-continue"]),
        (&*long, &[]),
    ] {
        let unread = shown(body, words);
        for part in ["refused: diana_no_actor:models", "streams  TB 9/day", "The body counts as unread"] {
            assert!(unread.contains(part), "{body} {words:?}\n{unread}");
        }
    }
    let absent = text(MODELS, &["--url", "/"]);
    let note = "The request has no body (`--body FILE`): `/model`, `/n`, `/stream` of it counts as absent.";
    assert!(absent.contains(note), "{absent}");
    let missing = explain::explain(&arguments(&["--url", "/", "--body", "/none"]), MODELS.as_bytes());
    assert!(missing.unwrap_err().to_string().starts_with("--body: cannot read `/none`: "));
}

#[test]
fn the_body_has_its_size() {
    let document = r#"{"url": "/", "rules": [{"name": "bytes", "algo": "W", "rpu": 100, "unit": "day", "cost": "request_bytes"}]}"#;
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "0123456789").unwrap();
    let words = ["--url", "/", "--body", file.path().to_str().unwrap()];
    assert!(text(document, &words).contains("admitted, 90 left"));
    assert!(text(document, &[&words[..], &["--body-size", "30"]].concat()).contains("admitted, 70 left"));
}

#[test]
fn a_property_with_a_fraction_is_a_number() {
    let document = r#"{"url": "/", "rules": [{"name": "cost", "algo": "W", "rpu": 9, "unit": "day",
        "cost": {"sum": [{"property": ["llm", "cost"]}], "estimate": 1, "default": 9}}]}"#;
    let words = ["--url", "/", "--property", "llm.cost=2.25", "--times", "2", "--every", "1s"];
    let shown = text(document, &words);
    assert!(shown.contains("admitted, 8…5 left"), "{shown}");
}
