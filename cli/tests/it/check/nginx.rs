//! Configurations of nginx, and the script that checks one before a reload. No real nginx runs
//! here.

use super::found;
use diana_cli::check::report::{Fleet, Report};
use diana_cli::source::content::File;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::{env, fs, process};

const ZONE: &str = "shm_kv diana 64m eviction=lru;";

/// The findings in a configuration with a zone and these directives.
fn nginx(directives: &str) -> Vec<(usize, &'static str)> {
    found("nginx.conf", &format!("wasm {{ {ZONE} }}\nhttp {{ server {{\n{directives}\n}} }}\n"))
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
        let found = nginx(&format!("# a comment; '\nproxy_wasm diana {quoted};"));
        let expected = if is_right { vec![] } else { vec![(4, "syntax")] };
        assert_eq!(found, expected, "{quoted}");
    }
    assert_eq!(nginx("proxy_wasm diana '{\"limits\": []}"), [(3, "syntax")]);
    assert_eq!(nginx("proxy_wasm other '{'; location / { return 200; }"), [(1, "no-configuration")]);
}

#[test]
fn features_that_nginx_lacks_are_reported() {
    let store = r#""store": {"redis": {"cluster": "c", "secret": "0123456789abcdef"}}"#;
    assert_eq!(nginx(&format!(r#"proxy_wasm diana '{{"limits": [], {store}}}';"#)), [(3, "nginx-lacks")]);
    // The same document is valid on other gateways.
    assert_eq!(found("a.json", &format!(r#"{{"limits": [], {store}}}"#)), []);
    let queue = r#"{"url": "/", "rules": [{"algo": "LB", "rpu": 1, "unit": "second"}]}"#;
    assert_eq!(nginx(&format!("proxy_wasm diana '{queue}';")), [(3, "nginx-waits")]);
}

#[test]
fn the_zone_is_checked() {
    let document = r#"'{"url": "/", "rules": [{"actor": "user", "rpu": 1, "unit": "day"}]}'"#;
    let check = |zone: &str| {
        let text = format!(
            "wasm {{\n{zone}\n}} http {{ proxy_wasm diana {document}; server {{ proxy_wasm diana {document}; }} }}"
        );
        let report = Report::of(File::new("nginx.conf", text), Fleet::default());
        let line = |at| report.file.position(at).line;
        let found: Vec<_> = report.findings.iter().map(|it| (line(it.range.start), it.code.name)).collect();
        (found, report.findings.first().map(|finding| finding.message.clone()))
    };
    let policy = diana_config::compile(document.trim_matches('\'').as_bytes()).unwrap().policy;
    // The same document in two places counts in the same keys.
    let needed = diana_filter::zone_bytes(&policy).div_ceil(1024);
    let small = format!("the zone is too small: the documents need up to {needed} KiB");
    assert_eq!(
        check(&format!("shm_kv diana {}k eviction=lru;", needed - 1)),
        (vec![(2, "zone-size")], Some(small))
    );
    assert_eq!(check(&format!("shm_kv diana {needed}k eviction=lru;")).0, []);
    let bytes = diana_filter::zone_bytes(&policy);
    assert_eq!(check(&format!("shm_kv diana {bytes} eviction=lru;")).0, []);
    assert_eq!(check(&format!("shm_kv diana {} eviction=lru;", bytes - 1)).0, [(2, "zone-size")]);
    assert_eq!(check("shm_kv * 64m eviction=lru;").0, []);
    assert_eq!(check("shm_kv diana 64m;").0, [(2, "zone-eviction")]);
    assert_eq!(check("").0, [(1, "zone-missing")]);
    assert_eq!(check("shm_kv diana 64x eviction=lru;").0, [(2, "wrong-value")]);
}

#[test]
fn included_files_are_read_for_what_is_around_the_filter() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    let limit = r#"proxy_wasm diana '{"url": "/", "rules": [{"rpu": 1, "unit": "day"}]}';"#;
    let main = format!(
        "wasm {{ {ZONE} }}\nhttp {{ {limit}\ninclude sites/*.conf;\nserver {{\ninclude snippets/auth.conf;\n\
         location / {{ auth_request /auth; }}\n}} }}\n"
    );
    let places = |name: &str| {
        let report = diana_cli::check::report_of(&folder.path().join(name), Fleet::default());
        let line = |at| report.file.position(at).line;
        let found = report.findings.iter().map(|it| (line(it.range.start), it.code.name, it.message.clone()));
        found.collect::<Vec<_>>()
    };
    let codes = |name: &str| places(name).into_iter().map(|(line, code, _)| (line, code)).collect::<Vec<_>>();
    write("nginx.conf", &main);
    assert_eq!(
        codes("nginx.conf"),
        [(3, "unseen-include"), (5, "unseen-include"), (6, "unseen-include")],
        "no file is there"
    );
    write("snippets/auth.conf", "location = /auth { proxy_wasm diana '{\"limits\": []}'; }");
    write("sites/.hidden.conf", "location / { return 200; }");
    assert_eq!(codes("nginx.conf"), [], "the included location is the cure");
    write("sites/a.conf", "server {\nlocation /a { rewrite ^ /b last; }\n}");
    write("sites/b.conf", "server { location /b { include snippets/b; } }");
    write("snippets/b", "\nreturn 200;");
    let found = places("nginx.conf");
    for ((line, code, message), place) in found.iter().zip(["sites/a.conf:2`: ", "snippets/b:2`: "]) {
        assert_eq!((*line, *code), (3, "lost-refusal"));
        assert!(message.contains(place), "{message}");
    }
    assert_eq!(found.len(), 2);
    // A file in a folder of its own takes paths from the folder around it.
    write("sites/b.conf", &format!("location /b {{ {limit}\ninclude snippets/b; }}"));
    assert_eq!(codes("sites/b.conf"), [(2, "lost-refusal")]);
    // A file that includes itself is not read for ever.
    write("sites/a.conf", "include sites/a.conf;");
    write("sites/b.conf", "include sites/*.conf; include /dev/zero;");
    assert!(codes("nginx.conf").iter().all(|found| *found == (3, "unseen-include")));
    assert!(!codes("nginx.conf").is_empty());
}

/// The location that nginx chooses for `/a/b.x`, among those with these names.
fn chosen(locations: &str) -> &'static str {
    // The chosen location has limits, so the subrequest is reported in its line.
    let limit = r#"proxy_wasm diana '{"url": "/", "rules": [{"rpu": 1, "unit": "day"}]}';"#;
    let mut found = Vec::new();
    for name in ["one", "two", "three", "four"] {
        let all = locations.replace(&format!("{name};"), limit);
        let none = r#"proxy_wasm diana '{"limits": []}';"#;
        let others = ["one;", "two;", "three;", "four;"];
        let all = others.iter().fold(all, |all, other| all.replace(other, none));
        let findings = nginx(&format!("location = /main {{ auth_request /a/b.x; }}\n{all}"));
        if findings.contains(&(3, "subrequest")) {
            found.push(name);
        }
    }
    assert!(found.len() < 2, "{locations}: {found:?}");
    found.first().copied().unwrap_or("none")
}

/// By `ngx_http_core_find_location`.
#[test]
fn a_location_is_chosen_as_nginx_does() {
    for (expected, locations) in [
        ("two", "location / { one; } location = /a/b.x { two; } location ~ b { three; }"),
        ("two", "location / { one; } location /a { two; } location /c { three; }"),
        (
            "three",
            "location / { one; } location /a { two; } location ~ [.]x$ { three; } location ~ b { four; }",
        ),
        ("four", "location ~ [.]y$ { one; } location ~* B { four; } location ~ b { three; }"),
        ("two", "location / { one; } location ^~ /a { two; } location ~ b { three; }"),
        ("three", "location ^~ / { one; } location /a { two; } location ~ b { three; }"),
        // The operator may stand directly before the pattern.
        ("two", "location / { one; } location ^~/a { two; } location ~b { three; }"),
        ("two", "location / { one; } location =/a/b.x { two; }"),
        // A regex outside comes before a prefix inside, but not before a regex or an exact path.
        ("three", "location /a { one; location /a/b { two; } } location ~ b { three; }"),
        ("two", "location /a { one; location ~ b { two; } } location ~ b { three; }"),
        ("two", "location /a { one; location = /a/b.x { two; } } location ~ b { three; }"),
        ("three", "location /a { one; location ^~ /a/b { two; } } location ~ b { three; }"),
        ("two", "location ^~ /a { one; location /a/b { two; } } location ~ b { three; }"),
        (
            "three",
            "location /a { one; location /a/b { two; location ~ x { three; } } } location ~ b { four; }",
        ),
        ("two", "location ^~ /a { one; location ~ b { two; } } location ~ b { three; }"),
        // A location inside of a regex.
        ("three", "location / { one; } location ~ b { two; location /a { three; } location /c { four; } }"),
        ("four", "location ~ b { one; location /a { two; } location ~ x { four; } } location ~ x { three; }"),
    ] {
        assert_eq!(chosen(locations), expected, "{locations}");
    }
}

/// Runs the script with a fake `diana` and a fake nginx that record their calls. Returns the calls
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
    let diana = program("diana", if check_fails { "exit 1" } else { "" });
    let nginx = program("nginx", if test_fails { "for last; do :; done; [ \"$last\" != -t ]" } else { "" });
    fs::write(dir.join("nginx.conf"), "").unwrap();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/nginx/reload");
    let status = Command::new(script)
        .args([dir.join("nginx.conf").to_str().unwrap(), "-p", "/prefix"])
        .envs([("NGINX_PROGRAM", nginx), ("DIANA", diana)])
        .status()
        .unwrap();
    let log = fs::read_to_string(dir.join("log")).unwrap().replace(&format!("{}/", dir.display()), "");
    fs::remove_dir_all(&dir).unwrap();
    (log, status.code().unwrap())
}

#[test]
fn nginx_reloads_only_after_both_checks() {
    let (checked, tested) = ("diana check nginx.conf\n", "nginx -p /prefix -c nginx.conf -t\n");
    let reloaded = "nginx -p /prefix -c nginx.conf -s reload\n";
    assert_eq!(reload(true, false), (checked.into(), 1));
    assert_eq!(reload(false, true), ([checked, tested].concat(), 1));
    assert_eq!(reload(false, false), ([checked, tested, reloaded].concat(), 0));
}
