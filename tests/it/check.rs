//! The check before a gateway reads a configuration: `examples/check.rs`, and the script that runs
//! it.
//!
//! No real nginx runs here.

#[path = "../../examples/check.rs"]
#[allow(dead_code, reason = "its `main` is not called here")]
mod example;

use example::check;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::{env, fs, process};

const ZONE: &str = "shm_kv diana 64m eviction=lru;";

/// The reported lines and the number of mistakes for an nginx configuration with a zone and these
/// directives.
fn nginx(directives: &str) -> (Vec<String>, usize) {
    let report = check(&format!("wasm {{ {ZONE} }}\nhttp {{ server {{\n{directives}\n}} }}\n"));
    (report.lines, report.mistakes)
}

#[test]
fn the_example_for_nginx_has_no_mistake() {
    let path = format!("{}/examples/nginx/nginx.conf", env!("CARGO_MANIFEST_DIR"));
    let report = check(&fs::read_to_string(path).unwrap());
    assert_eq!(report.mistakes, 0, "{:#?}", report.lines);
    assert_eq!(report.lines.len(), 3, "{:#?}", report.lines);
    assert!(report.lines.iter().all(|line| line.contains("rules: ")), "{:#?}", report.lines);
}

#[test]
fn envoy_yaml_is_not_read_as_nginx() {
    let yaml = include_str!("../../envoy.yaml");
    let report = check(yaml);
    assert_eq!(report.mistakes, 1);
    assert!(report.lines[0].contains("check it with `envoy --mode validate"), "{:#?}", report.lines);
}

#[test]
fn every_mistake_in_a_document_is_reported() {
    let report = check(r#"{"limits": [{"url": "x", "rules": [{"rpu": -1}]}]}"#);
    assert!(report.mistakes >= 3, "{:#?}", report.lines);
    assert!(report.lines.iter().all(|line| line.starts_with("mistake: limits[0]")), "{:#?}", report.lines);
    let report = check(r#"{"limits": [{"url": "/", "rules": [{"rpu": 1, "unit": "day"}]}]}"#);
    assert_eq!(
        (report.lines, report.mistakes),
        (vec!["rules: 1; at most 1 keys and 1 KiB of shared data".into()], 0)
    );
    let rule = r#"{"actor": "user", "rpu": 1, "unit": "day", "scope": "global"}"#;
    let report = check(&format!(r#"{{"url": "/", "rules": [{rule}]}}"#));
    assert_eq!((report.lines.len(), report.mistakes), (2, 0), "{:#?}", report.lines);
    assert!(report.lines[0].starts_with("warning: "), "{:#?}", report.lines);
    assert_eq!(check("limits: []").mistakes, 1, "neither JSON nor a configuration of nginx");
}

#[test]
fn a_document_is_read_as_nginx_passes_it() {
    let rule = r#"{"name": "a", "rpu": 1, "unit": "day"}"#;
    // The quoted text, and whether it is JSON after nginx has removed its escapes.
    for (quoted, is_right) in [
        (format!(r#"'{{"url": "/", "rules": [{rule}]}}'"#), true),
        (format!(r#""{{\"url\": \"/\", \"rules\": [{}]}}""#, rule.replace('"', r#"\""#)), true),
        (format!(r#"'{{"url": "/",\n "rules": [{rule}]}}'"#), true),
        // A JSON escape needs a second backslash, because nginx removes the first.
        (format!(r#"'{{"url": "/a\\u002fb", "rules": [{rule}]}}'"#), true),
        (format!(r#"'{{"url": "/", "headers": {{"a": "\"b"}}, "rules": [{rule}]}}'"#), false),
        (format!(r#"'{{"url": "/", "headers": {{"a": "\\"b"}}, "rules": [{rule}]}}'"#), true),
        (format!(r#"'{{"url": "/", "headers": {{"a": {{"regex": "x\n"}}}}, "rules": [{rule}]}}'"#), false),
    ] {
        let (lines, mistakes) = nginx(&format!("# a comment; '\nproxy_wasm diana {quoted};"));
        assert_eq!(mistakes == 0, is_right, "{quoted}: {lines:#?}");
        assert!(lines[0].starts_with("line 4: "), "{lines:#?}");
    }
    let (lines, mistakes) = nginx("proxy_wasm diana '{\"limits\": []}");
    assert_eq!((&*lines[0], mistakes), ("mistake: line 3: a quoted string does not end", 1));
    assert_eq!(nginx("proxy_wasm other '{'; location / { return 200; }").1, 1, "no document at all");
}

#[test]
fn features_that_nginx_lacks_are_reported() {
    let store = r#""store": {"redis": {"cluster": "c", "secret": "0123456789abcdef"}}"#;
    let (lines, mistakes) = nginx(&format!(r#"proxy_wasm diana '{{"limits": [], {store}}}';"#));
    assert_eq!(mistakes, 1);
    assert!(lines[0].contains("mistake: store: this host cannot hold requests"), "{lines:#?}");
    // The same document is valid on other gateways.
    assert_eq!(check(&format!(r#"{{"limits": [], {store}}}"#)).mistakes, 0);
    let queue = r#"{"url": "/", "rules": [{"algo": "LB", "rpu": 1, "unit": "second"}]}"#;
    let (lines, mistakes) = nginx(&format!("proxy_wasm diana '{queue}';"));
    assert_eq!(mistakes, 0);
    assert!(lines[0].contains("warning: nginx cannot hold requests"), "{lines:#?}");
}

#[test]
fn the_zone_is_checked() {
    let document = r#"'{"url": "/", "rules": [{"actor": "user", "rpu": 1, "unit": "day"}]}'"#;
    let check = |zone: &str| {
        let report = check(&format!(
            "wasm {{\n{zone}\n}} http {{ proxy_wasm diana {document}; proxy_wasm diana {document}; }}"
        ));
        (report.lines.last().unwrap().clone(), report.mistakes)
    };
    let policy = diana_config::compile(document.trim_matches('\'').as_bytes()).unwrap().policy;
    let needed = diana_filter::nginx::zone_bytes(&policy).div_ceil(1024);
    let small = format!("line 2: warning: the zone is too small: the documents need up to {needed} KiB");
    assert_eq!(check(&format!("shm_kv diana {}k eviction=lru;", needed - 1)), (small, 0));
    assert!(check(&format!("shm_kv diana {needed}k eviction=lru;")).0.contains("rules: 1"));
    assert!(check("shm_kv * 64m eviction=lru;").0.contains("rules: 1"));
    assert!(check("shm_kv diana 64m;").0.starts_with("line 2: warning: write `eviction=lru`"));
    assert_eq!(check("").1, 1);
    assert_eq!(check("shm_kv diana 64x eviction=lru;").1, 1);
}

/// Runs the script with a fake check and a fake nginx that record their calls. Returns the calls
/// and the exit code.
fn reload(check_fails: bool, test_fails: bool) -> (String, i32) {
    let name = format!("diana-reload-{}-{check_fails}-{test_fails}", process::id());
    let dir = env::temp_dir().join(name);
    fs::create_dir_all(&dir).unwrap();
    let program = |name: &str, script: &str| {
        let path = dir.join(name);
        fs::write(
            &path,
            format!("#!/bin/sh\necho {name} \"$@\" >> {}\n{script}\n", dir.join("log").display()),
        )
        .unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path
    };
    let check = program("check", if check_fails { "exit 1" } else { "" });
    let nginx = program("nginx", if test_fails { "for last; do :; done; [ \"$last\" != -t ]" } else { "" });
    fs::write(dir.join("nginx.conf"), "").unwrap();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/nginx/reload");
    let status = Command::new(script)
        .args([dir.join("nginx.conf").to_str().unwrap(), "-p", "/prefix"])
        .envs([("NGINX", nginx), ("DIANA_CHECK", check)])
        .status()
        .unwrap();
    let log = fs::read_to_string(dir.join("log")).unwrap().replace(&format!("{}/", dir.display()), "");
    fs::remove_dir_all(&dir).unwrap();
    (log, status.code().unwrap())
}

#[test]
fn nginx_reloads_only_after_both_checks() {
    let (checked, tested) = ("check nginx.conf\n", "nginx -p /prefix -c nginx.conf -t\n");
    let reloaded = "nginx -p /prefix -c nginx.conf -s reload\n";
    assert_eq!(reload(true, false), (checked.into(), 1));
    assert_eq!(reload(false, true), ([checked, tested].concat(), 1));
    assert_eq!(reload(false, false), ([checked, tested, reloaded].concat(), 0));
}
