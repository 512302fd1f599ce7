//! `diana init`: the text of the files that it writes, and its refusals.

mod access_log;
pub mod command;

use clap::Parser;
use diana_cli::check::report::{Fleet, Report};
use diana_cli::init;
use diana_cli::source::content::File;
use diana_cli::{Arguments, Command};
use serde_json::{Value, json};
use std::path::Path;

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
    for kind in ["envoy", "envoy-native"] {
        let words = [&limits[..], &["--store", "redis=r.internal:6379", "--replicas", "3"]].concat();
        let document = document(kind, &words);
        assert_eq!(document["limits"][0]["rules"][0]["scope"], "global");
        let options = &document["store"]["redis"];
        assert_eq!(options["cluster"], "redis");
        assert_eq!(options["replicas"], 3);
        assert_eq!(options["secret"].as_str().unwrap().len(), 32);
        let clusters =
            yaml(&[&["--kind", kind], &words[..]].concat())["static_resources"]["clusters"].clone();
        let names: Vec<&str> =
            clusters.as_array().unwrap().iter().map(|c| c["name"].as_str().unwrap()).collect();
        assert_eq!(names, ["upstream", "redis"]);
        assert!(clusters[1].get("upstream_config").is_some());
    }
    let words = [&limits[..], &["--store", "redis=a:1", "--replicas", "1"]].concat();
    let secret = || document("envoy", &words)["store"].clone();
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
    let listen = "/static_resources/listeners/0/address/socket_address";
    assert_eq!(yaml(&limits).pointer(listen), Some(&json!({"address": "127.0.0.1", "port_value": 10000})));
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
    for kind in ["envoy", "envoy-native"] {
        let file = yaml(&words(&["--kind", kind, "--admin", "[::1]:9902"]));
        let admin = file.pointer("/admin/address/socket_address");
        assert_eq!(admin, Some(&json!({"address": "::1", "port_value": 9902})), "{kind}");
        let file = yaml(&words(&["--kind", kind]));
        let admin = file.pointer("/admin/address/socket_address");
        assert_eq!(admin, Some(&json!({"address": "127.0.0.1", "port_value": 9901})), "{kind}");
    }
    assert!(text(&words(&["--admin", "[::1]:9902"])).unwrap().contains("http://[::1]:9902/stats/prometheus"));
    let nginx = text(&words(&["--kind", "nginx", "--upstream", "[::1]:81"])).unwrap();
    assert!(nginx.contains("server [::1]:81;") && nginx.contains("listen 127.0.0.1:10000;"), "{nginx}");
}

#[test]
fn mistakes_name_what_is_allowed() {
    for (words, expected) in [
        (vec!["--limit", "100 per ip"], "expected a limit such as `100/minute per ip on /api`"),
        (vec!["--limit", "100/minute per nobody"], "unknown actor `nobody`, expected ip, user, device, all"),
        (vec!["--limit", "100/minute on api"], "api"),
        (vec!["--limit", "100/minute on G;T /api"], "`G;T` is not a method"),
        (vec!["--limit", "100/minute whom ip"], "expected a limit such as `100/minute per ip on /api`"),
        (vec!["--limit", "100/minute per ip on"], "expected a limit such as `100/minute per ip on /api`"),
        (vec!["--limit", "100/minute per"], "unknown actor ``"),
        (vec!["--limit", ""], "expected a limit such as `100/minute per ip on /api`"),
        (vec!["--limit=-1/minute"], "`-1` is not a number of requests"),
        (vec!["--limit", "1/minit"], "'--limit <LIMIT>': unknown unit `minit`, expected second, minute"),
        (vec!["--rpu", "1"], "--unit is missing: expected second, minute, hour, day"),
        (vec!["--limit", "1/second", "--upstream", "localhost"], "expected HOST:PORT"),
        (vec!["--limit", "1/second", "--upstream", "a b:1"], "expected HOST:PORT"),
        (vec!["--limit", "1/second", "--store", "redis"], "expected `redis=HOST:PORT`"),
        (vec!["--limit", "1/second", "--store", "redis=a:1", "--kind", "nginx"], "supports no store"),
        (
            vec!["--limit", "1/second", "--store", "redis=a:1"],
            "--replicas is missing: `--store` needs the number",
        ),
        (
            vec!["--limit", "1/second", "--replicas", "2"],
            "--replicas: without `--store`, each gateway counts alone",
        ),
        (vec!["--limit", "1/second", "--store", "redis=a:1", "--replicas", "0"], "1 to 10000"),
        (vec!["--limit", "1/second", "--admin", "localhost:1"], "expected an IP address and a port"),
        (
            vec!["--limit", "1/second", "--admin", "[::1]:1", "--kind", "nginx"],
            "--admin: nginx has no admin interface",
        ),
        (
            vec!["--limit", "1/second", "--admin", "[::1]:1", "--kind", "document"],
            "--admin: a document alone names",
        ),
        (vec!["--limit", "1/second", "--store", "memcached=a:1"], "expected `redis=HOST:PORT`"),
        (
            vec!["--limit", "1/second", "--listen", "localhost:80"],
            "expected an IP address and a port: `127.0.0.1:80` serves this machine, and `0.0.0.0:80` all machines",
        ),
        (vec!["--limit", "1/second", "--listen", "10.0.0.1"], "`127.0.0.1:10000` serves this machine"),
        (
            vec!["--limit", "1/second", "--kind", "nginx", "--filter", "diana.wasm"],
            "--filter: `diana.wasm` is not for nginx, which crashes if a callback is missing: load \
             `diana-nginx.wasm`",
        ),
        (
            vec!["--limit", "1/second", "--proxies", "32"],
            "'--proxies <NUMBER>': expected a whole number from 0 to 31",
        ),
        (vec!["--limit", "1/second", "--filter", ""], "--filter: expected a path"),
        (
            vec!["--limit", "1/second", "--kind", "envoy-native", "--filter", "a"],
            "--filter: only files of the kinds",
        ),
        (
            vec!["--limit", "1/second", "--kind", "document", "--upstream", "a:1"],
            "--upstream: a document alone",
        ),
        (
            vec!["--limit", "1/second", "--kind", "document", "--listen", "[::1]:1"],
            "--listen: a document alone",
        ),
        (
            vec!["--limit", "1/second", "-o", "gateway.JSON"],
            "--output: a file of this kind is written in YAML: expected a name that ends in `.yaml`, found `gateway.JSON`",
        ),
        (vec!["--limit", "1/second", "--kind", "nginx", "-o", "n.yml"], "ends in `.conf`, found `n.yml`"),
        (
            vec!["--limit", "1/second", "--kind", "document", "-o", "n.conf"],
            "ends in `.yaml` or `.json`, found",
        ),
        (vec!["--limit", "1/second per header host"], "the actor `host` reads the host"),
        (vec!["--limit", "1/second", "--filter", "a\"b"], "--filter: expected a path"),
        (vec!["--limit", "1/second per ip; gold"], "`gold`: expected a plan such as `gold 1000/minute` or"),
        (vec!["--limit", "1/second per ip; penalty 10m"], "`penalty 10m`: expected a plan such as"),
        (vec!["--limit", "1/second per ip; penalty 10x after 5"], "expected a span"),
        (vec!["--limit", "1/second per ip; a 2/second; a 3/second"], "the plan `a` is given twice"),
        (vec!["--limit", "1/second per ip; gold 2/minit"], "unknown unit `minit`"),
        (vec!["--limit", "1/second", "--plan", "header x-plan"], "--plan: no limit has plans"),
        (
            vec!["--limit", "1/second per ip; a 2/second", "--plan", "x-plan"],
            "--plan: expected `header NAME`",
        ),
        (vec!["--limit", "1/second", "--exempt", "10.0.0.1/8"], "did you mean `10.0.0.0/8`?"),
        (
            vec!["--limit", "1/second", "--remote", "a:1", "--kind", "nginx"],
            "--remote: the filter in nginx has no timer",
        ),
        (vec!["--limit", "1/second", "--remote", "a:1", "--document"], "--remote: a document alone"),
        (vec!["--limit", "1/second", "--remote", "a"], "expected HOST:PORT"),
        (vec!["--limit", "1/second", "--document", "--kind", "nginx"], "cannot be used with"),
    ] {
        let error = text(&words).unwrap_err();
        assert!(error.contains(expected), "{words:?}: {error}");
    }
}

#[test]
fn a_limit_may_be_spelt_as_people_say_it() {
    let limits = |line: &str| document("document", &["--limit", line])["limits"].clone();
    for (said, line) in [
        ("100 per minute per ip", "100/minute per ip"),
        ("100 per 30s by user on /api", "100/30s per user on /api"),
        ("100 / minute by ip and user", "100/minute per ip and user"),
        ("5/second on GET,POST /a", "5/second on GET POST /a"),
        ("5/second on GET, POST /a", "5/second on GET POST /a"),
        ("8 in flight by user", "8 in flight per user"),
    ] {
        assert_eq!(limits(said), limits(line), "{said}");
    }
}

#[test]
fn a_document_in_a_json_file_is_json() {
    let words =
        ["--kind", "document", "--limit", "100/minute per header x-key", "--shadow", "-o", "limits.json"];
    let written: Value = serde_json::from_str(&text(&words).unwrap()).unwrap();
    assert_eq!(written, document("document", &words[2..5]));
}

#[test]
fn the_zone_of_nginx_holds_the_counts() {
    let lines: Vec<String> = (1..31).map(|n| format!("{n}/minute per header x-{n}")).collect();
    for (lines, is_least) in [(&lines[..1], true), (&lines[..], false)] {
        let words: Vec<&str> = lines.iter().flat_map(|line| ["--limit", line.as_str()]).collect();
        let text = text(&[&["--kind", "nginx"], &words[..]].concat()).unwrap();
        assert_eq!(text.contains("shm_kv diana 64m "), is_least);
        let report = Report::of(File::new("nginx.conf", text), Fleet::default());
        assert!(report.findings.is_empty(), "{:?}", report.findings);
    }
}

#[test]
fn files_of_every_kind_have_no_findings() {
    for kind in KINDS {
        for more in [&["--shadow", "--proxies", "2"][..], &["--limit", "8 in flight per jwt sub on /x"]] {
            let text = text(&[&["--kind", kind, "--limit", "9/hour per ip"], more].concat()).unwrap();
            let name = if kind == "nginx" { "nginx.conf" } else { "envoy.yaml" };
            let report = Report::of(File::new(name, text), Fleet::default());
            assert!(
                report.findings.is_empty() && report.documents.len() == 1,
                "{kind}: {:?}",
                report.findings
            );
        }
    }
}

#[test]
fn a_limit_has_plans_and_a_penalty() {
    let line = "100/minute per ip on /api; gold 1000/minute; silver 20 per second; internal unlimited; penalty 10m after 5";
    let exempt = ["--exempt", "10.0.0.0/8", "--exempt", "192.0.2.7"];
    for kind in KINDS {
        let words = [&["--limit", line, "--plan", "query plan"], &exempt[..]].concat();
        let document = document(kind, &words);
        assert_eq!(
            document["limits"][0]["rules"][0],
            json!({
                "name": "api-ip", "actor": "ip", "rpu": 100, "unit": "minute",
                "plans": {"gold": {"rpu": 1000}, "silver": {"rpu": 20, "unit": "second"}, "internal": "unlimited"},
                "penalty": {"after": 5, "for": "10m"},
            }),
            "{kind}"
        );
        assert_eq!(
            (&document["plan"], &document["allow"]),
            (&json!({"query": "plan"}), &json!(["10.0.0.0/8", "192.0.2.7"]))
        );
    }
    let document = document("document", &["--limit", "1/second per ip; a 2/second"]);
    assert_eq!(document["plan"], json!({"header": "x-plan"}));
}

#[test]
fn a_document_alone_names_its_schema() {
    let written = text(&["--document", "--limit", "1/second per ip"]).unwrap();
    let schema = "https://github.com/diana-limiter/diana/raw/main/docs/schema/diana.schema.json";
    assert_eq!(written.lines().next(), Some(&*format!("# yaml-language-server: $schema={schema}")));
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    assert!(root.join(schema.split_once("/main/").unwrap().1).exists());
    assert_eq!(written, text(&["--kind", "document", "--limit", "1/second per ip"]).unwrap());
    assert!(!text(&["--limit", "1/second per ip"]).unwrap().contains("$schema"));
}

#[test]
fn a_server_may_change_the_limits() {
    for kind in ["envoy", "envoy-native"] {
        let words = ["--kind", kind, "--limit", "1/second per ip", "--remote"];
        let file = yaml(&[&words[..], &["docs.internal:81/a/b.json"]].concat());
        let clusters = file["static_resources"]["clusters"].as_array().unwrap();
        let endpoint = clusters[1]
            .pointer("/load_assignment/endpoints/0/lb_endpoints/0/endpoint/address/socket_address");
        assert_eq!(clusters[1]["name"], "documents");
        assert_eq!(endpoint, Some(&json!({"address": "docs.internal", "port_value": 81})));
        let remote = |path: &str| json!({"cluster": "documents", "path": path});
        assert_eq!(
            document(kind, &[&words[2..], &["docs.internal:81/a/b.json"]].concat())["remote"],
            remote("/a/b.json")
        );
        assert_eq!(
            document(kind, &[&words[2..], &["10.0.0.1:81"]].concat())["remote"],
            remote("/diana.json")
        );
        let report = Report::of(
            File::new("envoy.yaml", text(&[&words[..], &["a:1"]].concat()).unwrap()),
            Fleet::default(),
        );
        assert!(report.findings.is_empty(), "{:?}", report.findings);
    }
}

#[test]
fn the_file_names_the_envoy_that_it_needs() {
    let needs = |words: &[&str]| {
        let text = text(&[&["--limit", "1/second"], words].concat()).unwrap();
        text.lines().find_map(|line| line.strip_prefix("# Needs Envoy ").map(str::to_owned))
    };
    let store = ["--store", "redis=a:1", "--replicas", "1"];
    let native = ["--kind", "envoy-native"];
    assert_eq!(needs(&native).as_deref(), Some("1.38 or later."));
    assert_eq!(needs(&[&native[..], &store].concat()).as_deref(), Some("1.39 or later."));
    assert_eq!(needs(&store).as_deref(), Some("1.39 or later."));
    assert_eq!(needs(&[]), None);
}
