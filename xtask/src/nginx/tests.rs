//! The tests of Diana in a real nginx. Each starts an nginx of its own with two workers.

use super::server::{Server, free_port, is_accepted};
use anyhow::{Result, ensure};
use std::fs;
use std::path::Path;
use std::thread::scope;

type Test = fn(&Path) -> Result<()>;

/// All tests.
pub const ALL: &[(&str, Test)] = &[
    ("allowed_and_refused", allowed_and_refused),
    ("exact_over_two_workers", exact_over_two_workers),
    ("the_reason_phrase_names_no_rule", the_reason_phrase_names_no_rule),
    ("a_grpc_refusal_has_its_status", a_grpc_refusal_has_its_status),
    ("tabs_around_a_header_make_no_other_actor", tabs_around_a_header_make_no_other_actor),
    ("lost_refusals_are_logged_once", lost_refusals_are_logged_once),
    ("refusals_of_safe_forms_are_sent", refusals_of_safe_forms_are_sent),
    ("an_empty_document_cures_subrequests", an_empty_document_cures_subrequests),
    ("directives_count_alone", directives_count_alone),
    ("a_reload_takes_another_document", a_reload_takes_another_document),
    ("the_longest_document", the_longest_document),
    ("the_example_starts_as_written", the_example_starts_as_written),
];

const NONE: &str = r#"proxy_wasm diana '{"limits": []}';"#;
const PASS: &str = "proxy_pass http://backend;";

/// A directive with one rule of a number of requests a day. Directives with the same rules count
/// together, whatever the names.
fn daily(name: &str, rpu: u32) -> String {
    format!(
        r#"proxy_wasm diana '{{"limits": [{{"url": "/", "rules": [{{"name": "{name}", "rpu": {rpu}, "unit": "day"}}]}}]}}';"#
    )
}

fn allowed_and_refused(program: &Path) -> Result<()> {
    let server = Server::start(program, "allowed", &format!("{} location / {{ {PASS} }}", daily("all", 2)))?;
    for left in [1, 0] {
        let admitted = server.get("/")?;
        assert_eq!((admitted.code(), &*admitted.body), (200, "up"));
        assert!(admitted.headers.contains(&format!("ratelimit: \"all\";r={left};")), "{}", admitted.headers);
    }
    let refused = server.get("/")?;
    assert_eq!(refused.code(), 429);
    for header in ["retry-after: ", "content-type: application/problem+json", "ratelimit: \"all\";r=0;"] {
        assert!(refused.headers.contains(header), "{header}: {}", refused.headers);
    }
    assert!(refused.body.contains("quota-exceeded"), "{}", refused.body);
    assert_eq!(server.logged("a refusal was not sent"), 0);
    Ok(())
}

fn exact_over_two_workers(program: &Path) -> Result<()> {
    const QUOTA: usize = 120;
    for keys in ["", r#""algo": "W", "#, r#""algo": "SW", "#, r#""algo": "SL", "#] {
        let rule = format!(r#"{{"name": "all", {keys}"rpu": {QUOTA}, "unit": "day"}}"#);
        let json = format!(r#"{{"url": "/", "rules": [{rule}]}}"#);
        let server =
            Server::start(program, "exact", &format!("proxy_wasm diana '{json}'; location / {{ {PASS} }}"))?;
        let admitted = scope(|scope| -> Result<usize> {
            let clients: Vec<_> = (0..4).map(|_| scope.spawn(|| server.codes("/", 100))).collect();
            let mut admitted = 0;
            for client in clients {
                let codes = client.join().expect("a client that does not panic")?;
                admitted += codes.iter().filter(|code| **code == 200).count();
            }
            Ok(admitted)
        })?;
        assert_eq!(admitted, QUOTA, "{keys}");
    }
    Ok(())
}

fn the_reason_phrase_names_no_rule(program: &Path) -> Result<()> {
    let json = r#"{"limits": [{"url": "/", "rules": [{"name": "secret", "rpu": 0, "unit": "day"}]}],
        "headers": "off", "response": {"body": "no"}}"#;
    let server =
        Server::start(program, "reason", &format!("proxy_wasm diana '{json}'; location / {{ {PASS} }}"))?;
    let refused = server.get("/")?;
    assert_eq!((&*refused.status, refused.body.trim()), ("429 Too Many Requests", "no"));
    assert!(!refused.headers.contains("secret"), "{}", refused.headers);
    Ok(())
}

fn a_grpc_refusal_has_its_status(program: &Path) -> Result<()> {
    let server = Server::start(program, "grpc", &format!("{} location / {{ {PASS} }}", daily("all", 0)))?;
    let refused = server.request("POST", "/", "content-type: application/grpc\r\ncontent-length: 0\r\n")?;
    assert_eq!((refused.code(), &*refused.body), (200, ""));
    assert!(refused.headers.contains("grpc-status: 8"), "{}", refused.headers);
    assert_eq!(server.logged("a refusal was not sent"), 0);
    Ok(())
}

fn tabs_around_a_header_make_no_other_actor(program: &Path) -> Result<()> {
    let rule = r#"{"actor": "user", "rpu": 1, "unit": "day", "missing": "skip"}"#;
    let json = format!(r#"{{"url": "/", "rules": [{rule}]}}"#);
    let server =
        Server::start(program, "blanks", &format!("proxy_wasm diana '{json}'; location / {{ {PASS} }}"))?;
    let ask = |value: &str| {
        Ok::<u16, anyhow::Error>(server.request("GET", "/", &format!("x-user-id: {value}\r\n"))?.code())
    };
    assert_eq!([ask("ann")?, ask("ann")?, ask("\tann")?, ask("ann\t ")?], [200, 429, 429, 429]);
    Ok(())
}

fn lost_refusals_are_logged_once(program: &Path) -> Result<()> {
    let locations = [
        ("/last", "rewrite ^ /other last;".to_owned()),
        ("/if?x=1", format!("if ($arg_x) {{ {PASS} }} {PASS}")),
        ("/return", "return 200;".into()),
        ("/caught?x=1", format!("error_page 418 = @free; if ($arg_x) {{ return 418; }} {PASS}")),
        ("/try", "try_files /nothing @other;".into()),
    ];
    for (path, directives) in locations {
        let location = path.trim_end_matches("?x=1");
        let all = format!(
            "location {location} {{ {} {directives} }} location /other {{ {PASS} }} location @other {{ {PASS} }} \
             location @free {{ {NONE} {PASS} }}",
            daily("all", 1)
        );
        let server = Server::start(program, "lost", &all)?;
        assert_eq!(server.codes(path, 12)?, [200; 12], "{path}");
        if path == "/try" || location == "/caught" {
            // nginx does not end such a context, so the filter takes it for lost after many others.
            for _ in 0..100 {
                let requests = if server.logged("a refusal was not sent") == 0 { 100 } else { 0 };
                server.codes(path, requests)?;
            }
        }
        let lines = server.logged("a refusal was not sent");
        assert!((1..=2).contains(&lines), "{path}: {lines} lines of two workers\n{}", server.log());
    }
    Ok(())
}

fn refusals_of_safe_forms_are_sent(program: &Path) -> Result<()> {
    let locations = [
        ("/break", "rewrite ^ /other break;"),
        ("/stays", "rewrite ^ /other; break;"),
        ("/set?x=1", "if ($arg_x) { set $x y; }"),
        ("/page", "error_page 404 = @empty; root .; set $x y; #"),
    ];
    let mut all = format!(
        "location /last {{ rewrite ^ /target last; }} location /target {{ {} {PASS} }} \
         location @empty {{ {NONE} {PASS} }} location /free {{ {NONE} return 200; }}",
        daily("target", 2)
    );
    for (number, (path, directives)) in locations.iter().enumerate() {
        let location = path.trim_end_matches("?x=1");
        all.push_str(&format!(
            " location {location} {{ {} {directives} {PASS}\n }}",
            daily("own", 2).replace("\"day\"", &format!("\"{}h\"", 25 + number))
        ));
    }
    let server = Server::start(program, "safe", &all)?;
    for path in locations.iter().map(|(path, _)| *path).chain(["/last"]) {
        assert_eq!(server.codes(path, 4)?, [200, 200, 429, 429], "{path}");
    }
    assert_eq!(server.codes("/free", 4)?, [200; 4]);
    assert_eq!(server.logged("a refusal was not sent"), 0, "{}", server.log());
    Ok(())
}

fn an_empty_document_cures_subrequests(program: &Path) -> Result<()> {
    let asks = format!(
        "location / {{ auth_request /auth; mirror /mirror; {PASS} }} \
         location = /auth {{ internal; {NONE} {PASS} }} location = /mirror {{ internal; {NONE} {PASS} }}"
    );
    let server = Server::start(program, "cured", &format!("{} {asks}", daily("all", 4)))?;
    assert_eq!(server.codes("/", 6)?, [200, 200, 200, 200, 429, 429]);
    assert_eq!(server.logged("[alert]"), 0, "{}", server.log());
    // Without the cure, the subrequest is charged and refused; otherwise this test would show
    // nothing.
    let server =
        Server::start(program, "uncured", &format!("{} {}", daily("all", 4), asks.replace(NONE, "")))?;
    assert_ne!(server.codes("/", 6)?, [200, 200, 200, 200, 429, 429]);
    Ok(())
}

/// Each worker configures the directives in an order of its own.
fn directives_count_alone(program: &Path) -> Result<()> {
    const DIRECTIVES: u32 = 8;
    let location = |number: u32| {
        let json = format!(
            r#"{{"url": "/", "rules": [{{"name": "day", "algo": "W", "rpu": 5, "unit": "day"}},
                {{"name": "bucket", "rpu": {}, "unit": "day"}}]}}"#,
            100 + number
        );
        format!("location /l{number}/ {{ proxy_wasm diana '{json}'; {PASS} }}\n")
    };
    let server = Server::start(program, "alone", &(0..DIRECTIVES).map(location).collect::<String>())?;
    for number in 0..DIRECTIVES {
        let codes = server.codes(&format!("/l{number}/"), 20)?;
        let admitted = codes.iter().filter(|code| **code == 200).count();
        assert_eq!(admitted, 5, "directive {number}");
    }
    Ok(())
}

fn a_reload_takes_another_document(program: &Path) -> Result<()> {
    let document = |rpu| format!("{} location / {{ {PASS} }}", daily("all", rpu));
    let mut server = Server::start(program, "reload", &document(1))?;
    assert_eq!(server.codes("/", 3)?, [200, 429, 429]);
    server.reload(&document(3))?;
    // The zone is empty after a reload.
    assert_eq!(server.codes("/", 5)?, [200, 200, 200, 429, 429]);
    Ok(())
}

/// `diana check` knows this number.
fn the_longest_document(program: &Path) -> Result<()> {
    let document = |bytes: usize| {
        let json = r#"{"limits": [], "actors": {"": {"header": "x"}}}"#;
        let name = "a".repeat(bytes - json.len());
        format!("proxy_wasm diana '{}';", json.replacen("\"\"", &format!("\"{name}\""), 1))
    };
    let accepted = [4_093, 4_094, 4_095].map(|bytes| is_accepted(program, "longest", &document(bytes)));
    assert_eq!(accepted.into_iter().collect::<Result<Vec<_>>>()?, [true, true, false]);
    Ok(())
}

/// The commands of its README, from the root of the repository. Only the ports are others, because
/// another program may use those of the example.
fn the_example_starts_as_written(program: &Path) -> Result<()> {
    let (root, prefix) = (gateway::root(), gateway::target().join("nginx-example"));
    fs::create_dir_all(prefix.join("logs"))?;
    let (port, upstream) = (free_port()?, free_port()?);
    let configuration = prefix.join("nginx.conf");
    let example = fs::read_to_string(root.join("examples/nginx/nginx.conf"))?;
    fs::write(&configuration, with_ports(&example, port, upstream)?)?;
    let prefix_text = prefix.to_string_lossy();
    let configuration = configuration.to_string_lossy();
    let arguments = ["-e", "stderr", "-p", &*prefix_text, "-c", &*configuration];
    let server = Server::run(program, &prefix, root, &arguments, port, 1)?;
    let response = server.get("/")?;
    assert_eq!((response.code(), &*response.body), (200, "hello from upstream\n"));
    assert_eq!(server.codes("/search", 2)?.first(), Some(&200));
    assert_eq!(server.get("/api/x")?.code(), 200);
    assert_eq!(server.logged("[emerg]") + server.logged("[alert]"), 0, "{}", server.log());
    Ok(())
}

/// The example with other ports of the server and of its upstream.
fn with_ports(example: &str, port: u16, upstream: u16) -> Result<String> {
    let mut text = example.to_owned();
    for (from, to, times) in [("127.0.0.1:8080", port, 1), ("127.0.0.1:8081", upstream, 2)] {
        ensure!(text.matches(from).count() == times, "the example has not {times} times {from}");
        text = text.replace(from, &format!("127.0.0.1:{to}"));
    }
    Ok(text)
}

#[cfg(test)]
mod unit {
    use super::*;

    #[test]
    fn the_example_has_no_other_ports() -> Result<()> {
        let example = fs::read_to_string(gateway::root().join("examples/nginx/nginx.conf"))?;
        let text = with_ports(&example, 7001, 7002)?;
        for place in ["listen 127.0.0.1:7001;", "listen 127.0.0.1:7002;", "server 127.0.0.1:7002;"] {
            assert!(text.contains(place), "{place}");
        }
        assert_eq!(text.matches("listen ").count(), 2);
        Ok(())
    }
}
