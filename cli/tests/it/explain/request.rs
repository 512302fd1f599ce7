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
            "-H x-a: a value with a line break or a zero byte cannot be sent",
        ),
        (
            vec!["--url", "/", "-H", "é: b"],
            "-H: expected letters, digits and marks such as `-` before the colon, found `é`",
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
            "--body-size: expected a number of bytes, or `--body-size unknown`, found `big`",
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
