//! `diana init`: the files that it writes, its refusals, and the interview in a terminal.

use clap::Parser;
use diana_cli::init;
use diana_cli::{Arguments, Command};
use serde_json::{Value, json};
use std::path::Path;
use std::{fs, process};

fn text(words: &[&str]) -> Result<String, String> {
    let words = ["diana", "init"].iter().chain(words);
    let arguments = Arguments::try_parse_from(words).map_err(|error| error.to_string())?;
    let Command::Init(args) = arguments.command else { panic!("another command") };
    init::text(&args).map_err(|error| error.to_string())
}

fn yaml(words: &[&str]) -> Value {
    serde_norway::from_str(&text(words).unwrap()).unwrap()
}

const FILTER: &str =
    "/static_resources/listeners/0/filter_chains/0/filters/0/typed_config/http_filters/0/typed_config";

/// The document in a file of this kind.
fn document(kind: &str, words: &[&str]) -> Value {
    let words = [&["--kind", kind], words].concat();
    match kind {
        "document" => yaml(&words),
        "envoy" => yaml(&words).pointer(&format!("{FILTER}/config/configuration/value")).unwrap().clone(),
        "envoy-native" => yaml(&words).pointer(&format!("{FILTER}/filter_config/value")).unwrap().clone(),
        _ => {
            let text = text(&words).unwrap();
            let (_, rest) = text.split_once("proxy_wasm diana '").unwrap();
            let (json, _) = rest.split_once("';").unwrap();
            // As nginx reads the text between single quotes.
            serde_json::from_str(&json.replace("\\'", "'").replace("\\\\", "\\")).unwrap()
        }
    }
}

const KINDS: [&str; 4] = ["envoy", "envoy-native", "nginx", "document"];

#[test]
fn a_line_becomes_a_limit_in_every_kind_of_file() {
    let rule = |rule: Value| json!({"url": "/", "rules": [rule]});
    for (line, limit, actors) in [
        ("1000/second", rule(json!({"name": "total", "rpu": 1000, "unit": "second"})), None),
        ("5 / 30s per ip", rule(json!({"name": "ip", "actor": "ip", "rpu": 5, "unit": "30s"})), None),
        (
            "10k/day per account on post put /a/{b}/*",
            json!({"url": "/a/{b}/*", "methods": ["POST", "PUT"], "rules": [
                {"name": "post-put-a-b-user", "actor": "user", "rpu": "10k", "unit": "day"}
            ]}),
            None,
        ),
        (
            "8 in flight per header X-Api-Key and device on =/export",
            json!({"url": "=/export", "rules": [
                {"name": "export-x-api-key-device", "actor": ["x-api-key", "device"], "algo": "C", "rpu": 8}
            ]}),
            Some(json!({"x-api-key": {"header": "X-Api-Key"}})),
        ),
        (
            "1/hour per jwt realm.tenant",
            rule(json!({"name": "realm-tenant", "actor": "realm-tenant", "rpu": 1, "unit": "hour"})),
            Some(json!({"realm-tenant": {"jwt": "realm.tenant"}})),
        ),
        // YAML would read the plain word as a number.
        (
            "1/hour per cookie 42",
            rule(json!({"name": "42", "actor": "42", "rpu": 1, "unit": "hour"})),
            Some(json!({"42": {"cookie": "42"}})),
        ),
        (
            "1/hour per query user on /it's",
            json!({"url": "/it's", "rules": [{"name": "it-s-query-user", "actor": "query-user", "rpu": 1, "unit": "hour"}]}),
            Some(json!({"query-user": {"query": "user"}})),
        ),
    ] {
        for kind in KINDS {
            let document = document(kind, &["--limit", line]);
            assert_eq!(document["limits"], json!([limit]), "{kind}: {line}");
            assert_eq!(document.get("actors"), actors.as_ref(), "{kind}: {line}");
            assert!(diana_config::compile(document.to_string().as_bytes()).is_ok(), "{document}");
        }
    }
}

#[test]
fn flags_make_the_same_limit_as_a_line() {
    let line = document("envoy", &["--limit", "100/minute per header x-key on /api"]);
    let flags = ["--per", "header x-key", "--rpu", "100", "--unit", "minute", "--url", "/api"];
    assert_eq!(document("envoy", &flags), line);
    let both = document("envoy", &[&flags[..], &["--limit", "100/minute per header x-key on /api"]].concat());
    let names: Vec<&Value> =
        both["limits"][0]["rules"].as_array().unwrap().iter().map(|rule| &rule["name"]).collect();
    assert_eq!(names, ["api-x-key", "api-x-key-2"], "one limit with two rules");
}

#[test]
fn a_store_counts_every_rule_for_all_gateways() {
    let limits = ["--limit", "3/minute per ip"];
    for (store, cluster, algorithm) in
        [("redis=r.internal:7379", "webdis", None), ("rls=[::1]:8081", "ratelimit", Some("W"))]
    {
        for kind in ["envoy", "envoy-native"] {
            let words = [&limits[..], &["--store", store]].concat();
            let document = document(kind, &words);
            let rule = &document["limits"][0]["rules"][0];
            assert_eq!((&rule["scope"], rule["algo"].as_str()), (&json!("global"), algorithm));
            let key = store.split('=').next().unwrap();
            let options = &document["store"][key];
            assert_eq!(options["cluster"], cluster);
            assert_eq!(options["secret"].as_str().unwrap().len(), 32);
            let clusters =
                yaml(&[&["--kind", kind], &words[..]].concat())["static_resources"]["clusters"].clone();
            let names: Vec<&str> =
                clusters.as_array().unwrap().iter().map(|c| c["name"].as_str().unwrap()).collect();
            assert_eq!(names, ["upstream", cluster]);
            assert_eq!(clusters[1].get("typed_extension_protocol_options").is_some(), key == "rls");
        }
    }
    let secret = || document("envoy", &[&limits[..], &["--store", "redis=a:1"]].concat())["store"].clone();
    assert_ne!(secret(), secret(), "each document has a secret of its own");
}

#[test]
fn proxies_shadow_and_addresses_reach_the_file() {
    let limits = ["--limit", "3/minute per ip"];
    let words = |more: &[&'static str]| [&limits[..], more].concat();
    for (kind, hops) in [("envoy", 3), ("envoy-native", 3), ("document", 3), ("nginx", 2)] {
        let document = document(kind, &words(&["--proxies", "2", "--shadow"]));
        assert_eq!(
            (&document["ip"]["trusted_hops"], &document["mode"]),
            (&json!(hops), &json!("shadow")),
            "{kind}"
        );
        let policy = diana_config::compile(document.to_string().as_bytes()).unwrap().policy;
        assert!(policy.rules().all(|(_, rule)| !rule.enforced()));
    }
    assert_eq!(document("envoy", &limits).get("ip"), None);
    let envoy = yaml(&words(&[
        "--upstream",
        "orders.internal:80",
        "--listen",
        "[::]:443",
        "--filter",
        "/x y/d.wasm",
    ]));
    let at = |pointer: &str| envoy.pointer(pointer).unwrap_or_else(|| panic!("{pointer}"));
    assert_eq!(at("/static_resources/clusters/0/type"), "STRICT_DNS");
    let address = "/static_resources/clusters/0/load_assignment/endpoints/0/lb_endpoints/0/endpoint/address/socket_address";
    assert_eq!(at(address), &json!({"address": "orders.internal", "port_value": 80}));
    assert_eq!(
        at("/static_resources/listeners/0/address/socket_address"),
        &json!({"address": "::", "port_value": 443})
    );
    assert_eq!(at(&format!("{FILTER}/config/vm_config/code/local/filename")), "/x y/d.wasm");
    let nginx = text(&words(&["--kind", "nginx", "--upstream", "[::1]:81"])).unwrap();
    assert!(nginx.contains("server [::1]:81;") && nginx.contains("listen 0.0.0.0:10000;"), "{nginx}");
}

#[test]
fn mistakes_name_what_is_allowed() {
    for (words, expected) in [
        (vec!["--limit", "100 per ip"], "expected a limit such as `100/minute per ip on /api`"),
        (vec!["--limit", "100/minute per nobody"], "unknown actor `nobody`, expected ip, user, device, all"),
        (vec!["--limit", "100/minute on api"], "api"),
        (vec!["--limit", "100/minute on G,T /api"], "`G,T` is not a method"),
        (vec!["--limit=-1/minute"], "`-1` is not a number of requests"),
        (
            vec!["--limit", "1/minit"],
            "limits[0].rules[0].unit: unknown unit `minit`, expected second, minute",
        ),
        (vec!["--rpu", "1"], "--unit is missing: expected second, minute, hour, day"),
        (vec!["--limit", "1/second", "--upstream", "localhost"], "expected HOST:PORT"),
        (vec!["--limit", "1/second", "--upstream", "a b:1"], "expected HOST:PORT"),
        (vec!["--limit", "1/second", "--store", "redis"], "expected `redis=HOST:PORT`"),
        (vec!["--limit", "1/second", "--store", "redis=a:1", "--kind", "nginx"], "asks no store"),
        (vec!["--limit", "1 in flight", "--store", "rls=a:1"], "a rate limit service counts in windows"),
        (vec!["--limit", "1/second per header host"], "the actor `host` reads the host"),
        (vec!["--limit", "1/second", "--filter", "a\"b"], "--filter: expected a path"),
    ] {
        let error = text(&words).unwrap_err();
        assert!(error.contains(expected), "{words:?}: {error}");
    }
}

fn diana(folder: &Path, words: &[&str]) -> (i32, String, String) {
    let mut command = process::Command::new(env!("CARGO_BIN_EXE_diana"));
    let output =
        command.arg("init").args(words).current_dir(folder).stdin(process::Stdio::null()).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    (output.status.code().unwrap(), text(&output.stdout), text(&output.stderr))
}

#[test]
fn a_file_is_never_replaced_without_force() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("envoy.yaml");
    fs::write(&file, "mine").unwrap();
    let (code, _, errors) = diana(folder.path(), &["--limit", "1/second"]);
    assert!(code == 2 && errors.contains("`envoy.yaml` exists: `--force` replaces it"), "{errors}");
    assert_eq!(fs::read_to_string(&file).unwrap(), "mine");
    // A mistake is found before the file is touched.
    let (code, ..) = diana(folder.path(), &["--limit", "1/minit", "--force"]);
    assert_eq!((code, fs::read_to_string(&file).unwrap().as_str()), (2, "mine"));
    let (code, report, _) = diana(folder.path(), &["--limit", "1/second", "--force", "--format", "json"]);
    let report: Value = serde_json::from_str(&report).unwrap();
    let expected = json!({"file": "envoy.yaml", "kind": "envoy", "rules": ["total"], "is_shadow": false, "warnings": []});
    assert_eq!((code, report), (0, expected));
    assert!(fs::read_to_string(&file).unwrap().starts_with("# A gateway with Diana"));
}

#[test]
fn warnings_and_the_next_step_are_reported() {
    let folder = tempfile::tempdir().unwrap();
    let words = ["--kind", "document", "--limit", "5/second", "--limit", "500/second", "--shadow"];
    let (code, report, _) = diana(folder.path(), &words);
    assert_eq!(code, 0);
    assert!(
        report.starts_with("wrote `diana.yaml` with the rules total, total-2, in shadow mode"),
        "{report}"
    );
    assert!(report.contains("next: diana explain diana.yaml --url /\n"), "{report}");
    let (code, report, _) = diana(
        folder.path(),
        &["--kind", "document", "--limit", "5/second", "--limit", "500/second", "--force"],
    );
    assert!(code == 0 && report.contains("warning: limits[0].rules[1]: "), "{report}");
    let (code, _, errors) = diana(folder.path(), &[]);
    assert!(code == 2 && errors.contains("no limit is given"), "{errors}");
    let (code, shown, _) = diana(folder.path(), &["--limit", "1/second", "-o", "-"]);
    assert!(code == 0 && shown.contains("static_resources:") && !folder.path().join("envoy.yaml").exists());
}

/// A user at a terminal, who makes one mistake.
#[test]
#[cfg(unix)]
fn the_interview_writes_what_was_answered() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = process::Command::new(env!("CARGO_BIN_EXE_diana"));
    command.args(["init", "--proxies", "1"]).current_dir(folder.path()).env("TERM", "xterm");
    let mut terminal = rexpect::session::spawn_command(command, Some(20_000)).unwrap();
    terminal.exp_string("What to write").unwrap();
    terminal.send("\r").unwrap();
    terminal.flush().unwrap();
    terminal.exp_string("A limit").unwrap();
    terminal.send_line("100 per ip").unwrap();
    terminal.exp_string("expected a limit such as").unwrap();
    // Deletes the wrong answer.
    terminal.send(&"\u{7f}".repeat(10)).unwrap();
    terminal.send_line("7/minute per user on /api").unwrap();
    terminal.exp_string("Another limit").unwrap();
    terminal.send_line("9/hour per ip").unwrap();
    terminal.exp_string("Another limit").unwrap();
    terminal.send_line("").unwrap();
    terminal.exp_string("Your service").unwrap();
    terminal.send_line("10.0.0.7:81").unwrap();
    terminal.exp_string("shadow").unwrap();
    terminal.send("n").unwrap();
    terminal.flush().unwrap();
    terminal.exp_string("File").unwrap();
    terminal.send_line("").unwrap();
    terminal.exp_string("wrote `envoy.yaml` with the rules api-user, ip").unwrap();
    terminal.exp_eof().unwrap();
    let written: Value =
        serde_norway::from_str(&fs::read_to_string(folder.path().join("envoy.yaml")).unwrap()).unwrap();
    let document = written.pointer(&format!("{FILTER}/config/configuration/value")).unwrap();
    assert_eq!(
        document,
        &json!({"ip": {"trusted_hops": 2}, "limits": [
            {"url": "/api", "rules": [{"name": "api-user", "actor": "user", "rpu": 7, "unit": "minute"}]},
            {"url": "/", "rules": [{"name": "ip", "actor": "ip", "rpu": 9, "unit": "hour"}]}
        ]})
    );
}
