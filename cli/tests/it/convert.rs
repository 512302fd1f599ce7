//! `diana convert`: a corpus of sources with their documents and notes, the traps of each source
//! with their arithmetic, and hostile input.

use super::explain::{explained, text as explanation};
use diana_cli::convert::{Conversion, Fate, SourceKind, convert};
use proptest::prelude::*;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::{env, fs};

fn corpus() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus/convert")
}

const FROMS: [(&str, SourceKind); 6] = [
    ("envoy-local", SourceKind::EnvoyLocal),
    ("envoy-ratelimit", SourceKind::EnvoyRatelimit),
    ("envoy-gateway", SourceKind::EnvoyGateway),
    ("ingress-nginx", SourceKind::IngressNginx),
    ("nginx", SourceKind::Nginx),
    ("kong", SourceKind::Kong),
];

/// The cases of the corpus: the folder, the limiter, and the files of the source.
fn cases() -> Vec<(PathBuf, &'static str, Vec<String>)> {
    let mut cases = Vec::new();
    for entry in fs::read_dir(corpus()).unwrap() {
        let folder = entry.unwrap().path();
        let name = folder.file_name().unwrap().to_str().unwrap().to_owned();
        let (from, _) = FROMS.into_iter().find(|(from, _)| name.starts_with(from)).unwrap();
        let files =
            fs::read_dir(&folder).unwrap().map(|file| file.unwrap().file_name().into_string().unwrap());
        let mut files: Vec<String> =
            files.filter(|file| !["document.yaml", "notes.txt"].contains(&file.as_str())).collect();
        files.sort();
        cases.push((folder, from, files));
    }
    cases.sort();
    cases
}

fn diana(folder: &Path, words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_diana")).args(words).current_dir(folder).output().unwrap()
}

#[test]
fn the_corpus_is_converted() {
    let mut seen = BTreeSet::new();
    for (folder, from, files) in cases() {
        let words: Vec<&str> =
            ["convert", from].into_iter().chain(files.iter().map(String::as_str)).collect();
        let output = diana(&folder, &words);
        let code = output.status.code().unwrap();
        let notes = format!("exit code {code}\n{}", String::from_utf8(output.stderr).unwrap());
        for (file, actual) in
            [("document.yaml", String::from_utf8(output.stdout).unwrap()), ("notes.txt", notes)]
        {
            let path = folder.join(file);
            if env::var_os("UPDATE").is_some() {
                fs::write(&path, &actual).unwrap();
            }
            let expected = fs::read_to_string(&path).unwrap_or_default();
            assert!(actual == expected, "{} differs; UPDATE=1 writes it.\n{actual}", path.display());
        }
        let checked = diana(&folder, &["check", "document.yaml"]);
        assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stdout));
        let has_lost = fs::read_to_string(folder.join("notes.txt")).unwrap().contains(": lost: ");
        assert_eq!(code, i32::from(has_lost), "{}", folder.display());
        seen.insert(from);
    }
    assert_eq!(seen.len(), FROMS.len(), "each source has a case");
}

/// No secret of a source is in the output.
#[test]
fn the_corpus_shows_no_secret() {
    for (folder, ..) in cases() {
        for file in ["document.yaml", "notes.txt"] {
            let text = fs::read_to_string(folder.join(file)).unwrap();
            for secret in ["hunter2", "not-a-real-key"] {
                assert!(!text.contains(secret), "{}", folder.display());
            }
        }
    }
}

fn converted(from: SourceKind, files: &[&str]) -> Result<Conversion, String> {
    let folder = tempfile::tempdir().unwrap();
    let mut paths = Vec::new();
    for (index, text) in files.iter().enumerate() {
        let path = folder.path().join(format!("source-{index}"));
        fs::write(&path, text).unwrap();
        paths.push(path);
    }
    convert(from, &paths).map_err(|error| error.to_string())
}

fn document(from: SourceKind, files: &[&str]) -> Value {
    converted(from, files).unwrap().document
}

/// How many of `times` requests at one instant pass.
fn passing(document: &Value, words: &[&str], times: u32) -> u32 {
    let times = times.to_string();
    let words = [words, &["--times", &times, "--at", "2026-01-31T12:00:00Z"]].concat();
    let explained = explained(&document.to_string(), &words);
    let passed = |outcome: &str| ["pass", "delayed", "allowed"].contains(&outcome);
    explained.outcomes.iter().filter(|run| passed(run.outcome)).map(|run| run.to - run.from + 1).sum()
}

/// The names of the rules that count a request.
fn counting(document: &Value, words: &[&str]) -> BTreeSet<String> {
    let explained = explained(&document.to_string(), words);
    explained.limits.iter().flat_map(|limit| &limit.rules).map(|rule| rule.name.clone()).collect()
}

fn names(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

const INGRESS: &str = r#"
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata:
  name: shop
  annotations:
ANNOTATIONS
spec:
  rules:
    - http: {paths: [{path: /a, pathType: Prefix}, {path: /b, pathType: Prefix}]}
"#;

fn ingress(annotations: &[(&str, &str)]) -> Value {
    let lines: Vec<String> = annotations
        .iter()
        .map(|(name, value)| format!("    nginx.ingress.kubernetes.io/{name}: \"{value}\""))
        .collect();
    document(SourceKind::IngressNginx, &[&INGRESS.replace("ANNOTATIONS", &lines.join("\n"))])
}

/// 10 requests a second, times 5, and the one that nginx admits beyond its burst: 10 · 5 + 1 = 51.
#[test]
fn a_burst_of_ingress_nginx_is_the_limit_times_five_and_one() {
    let five = ingress(&[("limit-rps", "10")]);
    assert_eq!(passing(&five, &["--url", "/a"], 60), 51);
    // 10 · 3 + 1.
    let three = ingress(&[("limit-rps", "10"), ("limit-burst-multiplier", "3")]);
    assert_eq!(passing(&three, &["--url", "/a"], 60), 31);
    // A minute's limit has the same burst: 4 · 5 + 1.
    assert_eq!(passing(&ingress(&[("limit-rpm", "4")]), &["--url", "/a"], 60), 21);
}

/// One zone of an Ingress counts all its paths, by address.
#[test]
fn paths_of_an_ingress_share_their_zone() {
    let shared = ingress(&[("limit-rps", "10")]);
    assert_eq!(shared["limits"].as_array().unwrap().len(), 1);
    assert_eq!(shared["limits"][0]["url"], json!(["/a", "/b"]));
    assert_eq!(shared["limits"][0]["rules"][0]["actor"], "ip");
    assert_eq!(counting(&shared, &["--url", "/a"]), counting(&shared, &["--url", "/b/c"]));
    assert_eq!(counting(&shared, &["--url", "/c"]), names(&[]));
}

#[test]
fn networks_of_an_allowlist_have_no_limit() {
    for list in ["limit-allowlist", "limit-whitelist"] {
        let exempt = ingress(&[("limit-rps", "1"), (list, "10.0.0.0/8, 192.0.2.1")]);
        assert_eq!(passing(&exempt, &["--url", "/a", "--ip", "10.1.2.3"], 50), 50, "{list}");
        assert_eq!(passing(&exempt, &["--url", "/a", "--ip", "192.0.2.1"], 50), 50, "{list}");
        // 1 · 5 + 1.
        assert_eq!(passing(&exempt, &["--url", "/a", "--ip", "192.0.2.2"], 50), 6, "{list}");
    }
}

fn nginx(http: &str) -> Value {
    document(SourceKind::Nginx, &[&format!("http {{\n{http}\n}}\n")])
}

/// 1 + burst pass at one instant; `delay=` lets 1 + delay pass at once, and holds the rest.
#[test]
fn nginx_admits_its_burst_and_one() {
    let zone = "limit_req_zone $binary_remote_addr zone=a:1m rate=1r/s;";
    for (arguments, pass) in [("", 1), ("burst=5 nodelay", 6), ("burst=5", 6), ("burst=5 delay=2", 6)] {
        let limited = nginx(&format!("{zone} server {{ limit_req zone=a {arguments}; }}"));
        assert_eq!(passing(&limited, &["--url", "/"], 20), pass, "{arguments}");
    }
}

#[test]
fn an_empty_key_is_not_limited() {
    let limited = nginx(
        "geo $inner { default 0; 10.0.0.0/8 1; }\n\
         map $inner $key { 0 $binary_remote_addr; 1 \"\"; }\n\
         limit_req_zone $key zone=a:1m rate=1r/s;\n\
         limit_req_zone $http_x_key zone=b:1m rate=1r/s;\n\
         server { location /a { limit_req zone=a; } location /b { limit_req zone=b; } }",
    );
    assert_eq!(passing(&limited, &["--url", "/a", "--ip", "10.9.9.9"], 9), 9);
    assert_eq!(passing(&limited, &["--url", "/a", "--ip", "11.9.9.9"], 9), 1);
    assert_eq!(passing(&limited, &["--url", "/b"], 9), 9);
    assert_eq!(passing(&limited, &["--url", "/b", "-H", "x-key: k"], 9), 1);
}

/// A location with `limit_req` inherits none, one without inherits all, and each request is in one
/// location.
#[test]
fn a_location_of_nginx_replaces_those_around_it() {
    let limited = nginx(
        "limit_req_zone $binary_remote_addr zone=site:1m rate=9r/s;\n\
         limit_req_zone $binary_remote_addr zone=api:1m rate=3r/s;\n\
         server {\n\
           limit_req zone=site;\n\
           location /api { limit_req zone=api; }\n\
           location /api/both { limit_req zone=api; limit_req zone=site; }\n\
           location /static { }\n\
         }",
    );
    for (url, rules) in [
        ("/", names(&["site"])),
        ("/static/x", names(&["site"])),
        ("/api/x", names(&["api"])),
        ("/api/both", names(&["api", "site"])),
    ] {
        assert_eq!(counting(&limited, &["--url", url]), rules, "{url}");
    }
}

#[test]
fn a_zone_with_two_bursts_counts_apart_and_says_so() {
    let converted = converted(
        SourceKind::Nginx,
        &["limit_req_zone $binary_remote_addr zone=a:1m rate=1r/s;\n\
           server { location /a { limit_req zone=a burst=1; } location /b { limit_req zone=a burst=2; } }"],
    );
    let converted = converted.unwrap();
    let lost: Vec<&str> =
        converted.notes.iter().filter(|note| note.fate == Fate::Lost).map(|note| note.why.as_str()).collect();
    assert!(lost.len() == 1 && lost[0].contains("different numbers"), "{lost:?}");
}

const POLICY: &str = "
apiVersion: gateway.envoyproxy.io/v1alpha1
kind: BackendTrafficPolicy
metadata: {name: p, namespace: shop}
spec:
  targetRefs: [{kind: HTTPRoute, name: r}]
  rateLimit:
RULES
";

fn policy(rules: &str) -> Value {
    document(SourceKind::EnvoyGateway, &[&POLICY.replace("RULES", rules)])
}

/// Of 3 and 8 a minute, the strictest admits 3; a rule without selectors, however strict, counts
/// only what no other rule selects.
#[test]
fn of_local_rules_the_strictest_applies() {
    let limited = policy(
        "    local:
      rules:
        - {clientSelectors: [{headers: [{name: x-a, value: '1'}]}], limit: {requests: 8, unit: Minute}}
        - {clientSelectors: [{headers: [{name: x-b, type: Distinct}]}], limit: {requests: 3, unit: Minute}}
        - {limit: {requests: 2, unit: Minute}}",
    );
    let route = ["--property", "xds.route_name=httproute/shop/r/rule/0/match/0/any", "--url", "/"];
    let with = |headers: &[&'static str]| [&route[..], headers].concat();
    assert_eq!(passing(&limited, &with(&["-H", "x-a: 1"]), 20), 8);
    assert_eq!(passing(&limited, &with(&["-H", "x-a: 1", "-H", "x-b: b"]), 20), 3);
    assert_eq!(passing(&limited, &with(&[]), 20), 2);
    assert_eq!(passing(&limited, &with(&["-H", "x-a: 2"]), 20), 2);
    let other = ["--property", "xds.route_name=httproute/shop/other/rule/0/match/0/any", "--url", "/"];
    assert_eq!(passing(&limited, &other, 20), 20, "another route");
}

/// Each route of Envoy is an actor, unless a global rule is shared.
#[test]
fn each_route_has_counters_of_its_own() {
    let rule = |rules: &str| policy(rules)["limits"][0]["rules"][0].clone();
    assert_eq!(rule("    local: {rules: [{limit: {requests: 2, unit: Minute}}]}")["actor"], "route");
    assert_eq!(rule("    global: {rules: [{limit: {requests: 2, unit: Minute}}]}")["actor"], "route");
    let shared = rule("    global: {rules: [{limit: {requests: 2, unit: Minute}, shared: true}]}");
    assert_eq!(shared.get("actor"), None);
}

/// A month has 30 days: 600 requests in 2,592,000 s are one in 4,320 s, or 72 minutes.
#[test]
fn a_month_of_envoy_gateway_has_thirty_days() {
    let limited = policy("    local: {rules: [{limit: {requests: 600, unit: Month}}]}");
    let rule = &limited["limits"][0]["rules"][0];
    assert_eq!((&rule["rpu"], &rule["unit"], &rule["burst"]), (&json!(1), &json!("72m"), &json!(600)));
    let global = policy("    global: {rules: [{limit: {requests: 600, unit: Month}}]}");
    assert_eq!(global["limits"][0]["rules"][0]["unit"], "month");
}

const KONG: &str = "
_format_version: '3.0'
services:
  - name: s
    url: http://a
    routes:
      - {name: r, paths: [/r], plugins: [{name: rate-limiting, config: {day: 20, policy: local, limit_by: ip}}]}
      - {name: other, paths: [/other]}
    plugins: [{name: rate-limiting, config: {day: 30, policy: local, limit_by: ip}}]
  - {name: t, url: http://b, routes: [{name: t, paths: [/t]}]}
consumers:
  - {username: ann, plugins: [{name: rate-limiting, config: {day: 40, policy: local}}]}
plugins:
  - {name: rate-limiting, config: {day: 10, policy: local, limit_by: ip}}
  - {name: rate-limiting, route: r, consumer: ann, config: {day: 50, policy: local}}
";

/// The consumer's plugin wins over that of the route, which wins over that of the service, which
/// wins over the global one; a consumer's plugin of a route wins over all.
#[test]
fn the_most_specific_plugin_of_kong_replaces_the_others() {
    let limited = document(SourceKind::Kong, &[KONG]);
    let ann = ["-H", "x-consumer-username: ann"];
    for (url, headers, pass) in [
        ("/t", &[][..], 10),
        ("/r", &[], 20),
        ("/other", &[], 30),
        ("/t", &ann, 40),
        ("/other", &ann, 40),
        ("/r", &ann, 50),
    ] {
        assert_eq!(passing(&limited, &[&["--url", url], headers].concat(), 60), pass, "{url} {headers:?}");
    }
}

const ROUTES: &str = "
virtual_hosts:
  - name: all
    domains: ['*']
    routes:
      - match: {prefix: /}
        route:
          rate_limits:
            - actions:
                - {generic_key: {descriptor_value: a}}
                - {request_headers: {header_name: x-user, descriptor_key: user}}
";

/// The value itself wins over any value, an unlimited one has no limit, and a limit in shadow
/// refuses nobody.
#[test]
fn nested_descriptors_find_one_limit() {
    let limits = "
domain: d
descriptors:
  - key: generic_key
    value: a
    descriptors:
      - {key: user, rate_limit: {unit: hour, requests_per_unit: 2}}
      - {key: user, value: vip, rate_limit: {unit: minute, requests_per_unit: 7}}
      - {key: user, value: root, rate_limit: {unlimited: true}}
      - {key: user, value: seen, rate_limit: {unit: hour, requests_per_unit: 1}, shadow_mode: true}
";
    let limited = document(SourceKind::EnvoyRatelimit, &[ROUTES, limits]);
    let user = |user: &str| {
        let header = format!("x-user: {user}");
        passing(&limited, &["--url", "/x", "-H", &header, "--store-down"], 9)
    };
    // Without Redis each rule passes by `on_error: allow`, so count in the gateway.
    let local = limited.to_string().replace("\"on_error\":\"allow\"", "\"on_error\":\"local\"");
    let local: Value = serde_json::from_str(&local).unwrap();
    assert_eq!(user("ann"), 9, "an outage lets all pass");
    for (user, pass) in [("ann", 2), ("vip", 7), ("root", 9), ("seen", 9)] {
        let header = format!("x-user: {user}");
        assert_eq!(passing(&local, &["--url", "/x", "-H", &header, "--store-down"], 9), pass, "{user}");
    }
    assert_eq!(passing(&local, &["--url", "/x", "--store-down"], 9), 9, "no header, no descriptor");
}

/// The notes of a fate as text, each with its line.
fn notes_of(conversion: &Conversion, fate: Fate) -> Vec<String> {
    let notes = conversion.notes.iter().filter(|note| note.fate == fate);
    notes.map(|note| format!("{}: {}", note.line, note.why)).collect()
}

/// The numbers of all rules.
fn rules_of(document: &Value) -> Vec<Value> {
    let limits = document["limits"].as_array().unwrap();
    limits.iter().flat_map(|limit| limit["rules"].as_array().cloned().unwrap_or_default()).collect()
}

fn has(notes: &[String], start: &str, part: &str) -> bool {
    notes.iter().any(|note| note.starts_with(start) && note.contains(part))
}

#[test]
fn a_plugin_of_a_route_for_all_paths_replaces_the_global_one() {
    let kong = |second: &str| {
        format!(
            "plugins:\n  - {{name: rate-limiting, config: {{minute: 100, policy: local, limit_by: ip}}}}\n\
             routes:\n  - {{name: r, paths: [/], plugins: [{{name: rate-limiting, config: {{minute: 1, policy: local, limit_by: ip}}}}]}}\n{second}"
        )
    };
    let one = converted(SourceKind::Kong, &[&kong("")]).unwrap();
    assert_eq!(passing(&one.document, &["--url", "/x"], 9), 1, "{}", one.document);
    assert_eq!(notes_of(&one, Fate::Lost), Vec::<String>::new());
    let second = "  - {name: s, paths: [/], plugins: [{name: rate-limiting, config: {minute: 2, policy: local, limit_by: ip}}]}\n";
    let two = converted(SourceKind::Kong, &[&kong(second)]).unwrap();
    assert_eq!(passing(&two.document, &["--url", "/x"], 9), 1, "{}", two.document);
    assert!(has(&notes_of(&two, Fate::Lost), "5: ", "the same url and conditions"), "{}", two.text());
}

const LOCAL: &str = "
http_filters:
  - name: envoy.filters.http.local_ratelimit
    typed_config:
      '@type': type.googleapis.com/envoy.extensions.filters.http.local_ratelimit.v3.LocalRateLimit
      filter_enabled: {default_value: {numerator: 100}}
      filter_enforced: {default_value: {numerator: 100}}
      always_consume_default_token_bucket: false
      token_bucket: {max_tokens: 10, tokens_per_fill: 10, fill_interval: 60s}
      descriptors:
        - {entries: [{key: a}], token_bucket: {max_tokens: 2, tokens_per_fill: 2, fill_interval: 60s}}
        - {entries: [{key: b}], token_bucket: {max_tokens: 3, tokens_per_fill: 3, fill_interval: 60s}}
route_config:
  virtual_hosts:
    - name: all
      domains: ['*']
      routes:
";

#[test]
fn a_default_bucket_of_envoy_spares_the_descriptors_of_each_route() {
    let route = |name: &str| {
        let action = format!("{{request_headers: {{header_name: x-{name}, descriptor_key: {name}}}}}");
        format!(
            "        - {{match: {{prefix: /{name}}}, route: {{cluster: c, rate_limits: [{{actions: [{action}]}}]}}}}\n"
        )
    };
    let found =
        converted(SourceKind::EnvoyLocal, &[&format!("{LOCAL}{}{}", route("a"), route("b"))]).unwrap();
    let limited = &found.document;
    assert_eq!(passing(limited, &["--url", "/b/x", "-H", "x-a: 1"], 30), 10, "{limited}");
    assert_eq!(passing(limited, &["--url", "/b/x", "-H", "x-b: 1"], 30), 3, "{limited}");
    assert_eq!(passing(limited, &["--url", "/a/x", "-H", "x-b: 1"], 30), 10, "{limited}");
    assert!(has(&notes_of(&found, Fate::Lost), "9: ", "counts apart"), "{}", found.text());
    let alone = converted(SourceKind::EnvoyLocal, &[LOCAL]).unwrap();
    assert_eq!(notes_of(&alone, Fate::Lost), Vec::<String>::new());
}

/// Routes with the same descriptor share its bucket.
#[test]
fn a_bucket_of_envoy_has_one_rule_for_two_routes() {
    let route = |path: &str| {
        format!(
            "        - {{match: {{prefix: {path}}}, route: {{cluster: c, rate_limits: [{{actions: [{{request_headers: {{header_name: x-a, descriptor_key: a}}}}]}}]}}}}\n"
        )
    };
    let found =
        converted(SourceKind::EnvoyLocal, &[&format!("{LOCAL}{}{}", route("/p"), route("/q"))]).unwrap();
    let rules = rules_of(&found.document);
    let of_bucket = rules.iter().filter(|rule| rule["burst"] == json!(2)).count();
    assert_eq!(of_bucket, 1, "{}", found.document);
}

const FILTER: &str = "{name: NAME, typed_config: {'@type': type.googleapis.com/envoy.extensions.filters.http.ratelimit.v3.RateLimit, domain: NAME}}";
const SERVICE: &str = "
domain: a
descriptors:
  - {key: generic_key, value: x, rate_limit: {unit: minute, requests_per_unit: 5}}
  - {key: generic_key, value: y, rate_limit: {unit: minute, requests_per_unit: 6}}
";

/// Envoy's configuration with one filter, and these routes.
fn service_routes(filters: &[&str], routes: &str) -> String {
    let filters: Vec<String> =
        filters.iter().map(|name| format!("  - {}\n", FILTER.replace("NAME", name))).collect();
    format!(
        "http_filters:\n{}route_config:\n  virtual_hosts:\n    - name: all\n      domains: ['*']\n      routes:\n{routes}",
        filters.concat()
    )
}

#[test]
fn a_second_filter_of_the_service_is_lost() {
    let routes = "        - {match: {prefix: /}, route: {rate_limits: [{actions: [{generic_key: {descriptor_value: x}}]}]}}\n";
    let one = converted(SourceKind::EnvoyRatelimit, &[&service_routes(&["a"], routes), SERVICE]).unwrap();
    assert_eq!(notes_of(&one, Fate::Lost), Vec::<String>::new());
    let two =
        converted(SourceKind::EnvoyRatelimit, &[&service_routes(&["a", "b"], routes), SERVICE]).unwrap();
    assert!(has(&notes_of(&two, Fate::Lost), "3: ", "only the first"), "{}", two.text());
}

#[test]
fn limits_of_the_filter_for_a_route_replace_those_of_the_route() {
    let of_filter = |key: &str, more: &str| {
        let routes = format!(
            "        - match: {{prefix: /}}\n          route: {{rate_limits: [{{actions: [{{generic_key: {{descriptor_value: y}}}}]}}]}}\n          \
             typed_per_filter_config: {{{key}: {{'@type': type.googleapis.com/envoy.extensions.filters.http.ratelimit.v3.RateLimitPerRoute, \
             rate_limits: [{{actions: [{{generic_key: {{descriptor_value: x}}}}]}}]{more}}}}}\n"
        );
        converted(SourceKind::EnvoyRatelimit, &[&service_routes(&["a"], &routes), SERVICE]).unwrap()
    };
    let rpus = |found: &Conversion| -> Vec<Value> {
        rules_of(&found.document).iter().map(|rule| rule["rpu"].clone()).collect()
    };
    let simple = of_filter("a", "");
    assert_eq!(rpus(&simple), [json!(5)], "{}", simple.document);
    assert_eq!(notes_of(&simple, Fate::Lost), Vec::<String>::new());
    for (key, more, rpu) in [
        ("a", ", domain: b", vec![]),
        ("a", ", vh_rate_limits: IGNORE", vec![json!(5)]),
        ("other", "", vec![json!(6)]),
    ] {
        let found = of_filter(key, more);
        assert_eq!(rpus(&found), rpu, "{}", found.document);
        assert!(has(&notes_of(&found, Fate::Lost), "10: ", ""), "{}", found.text());
    }
}

#[test]
fn a_route_of_envoy_hides_later_ones_that_ask_more() {
    let x = "route: {rate_limits: [{actions: [{generic_key: {descriptor_value: x}}]}]}";
    let admin = "        - {match: {prefix: /admin, headers: [{name: x-a, string_match: {exact: '1'}}]}, route: {}}\n";
    let root = format!("        - {{match: {{prefix: /}}, {x}}}\n");
    let counted = |routes: &str, url: &str| {
        let limited = document(SourceKind::EnvoyRatelimit, &[&service_routes(&["a"], routes), SERVICE]);
        counting(&limited, &["--url", url, "-H", "x-a: 1"])
    };
    assert_eq!(counted(&format!("{root}{admin}"), "/admin"), names(&["x"]), "the first one decides");
    assert_eq!(counted(&format!("{admin}{root}"), "/admin"), names(&[]));
    let same = format!("{root}        - {{match: {{prefix: /}}, {}}}\n", x.replace(": x}", ": y}"));
    assert_eq!(counted(&same, "/p"), names(&["x"]), "the second one is never reached");
    let twice = format!("        - {{match: {{path: /p}}, {x}}}\n").repeat(2);
    let twice = converted(SourceKind::EnvoyRatelimit, &[&service_routes(&["a"], &twice), SERVICE]).unwrap();
    assert_eq!(notes_of(&twice, Fate::Lost), Vec::<String>::new());
    // A path in another case, or with a slash less, is not the earlier route's.
    let any_case = format!(
        "        - {{match: {{prefix: /p}}, route: {{}}}}\n        - {{match: {{prefix: /p, case_sensitive: false}}, {x}}}\n"
    );
    assert_eq!(counted(&any_case, "/P"), names(&["x"]));
    let slash = format!(
        "        - {{match: {{prefix: /p/}}, route: {{}}}}\n        - {{match: {{path: /p}}, {x}}}\n"
    );
    let found = converted(SourceKind::EnvoyRatelimit, &[&service_routes(&["a"], &slash), SERVICE]).unwrap();
    assert!(has(&notes_of(&found, Fate::Lost), "9: ", "count its requests"), "{}", found.text());
}

#[test]
fn a_map_whose_entries_overlap_is_lost() {
    let found = |entries: &str| {
        let text = format!(
            "map $http_x_client $key {{ {entries} }}\nlimit_req_zone $key zone=a:1m rate=1r/s;\nserver {{ location / {{ limit_req zone=a; }} }}"
        );
        converted(SourceKind::Nginx, &[&text]).unwrap()
    };
    for entries in [
        "default $binary_remote_addr; ~^goodbad $binary_remote_addr; ~^good '';",
        "default ''; ~^a $binary_remote_addr; ~^ab $http_x_key;",
        "default ''; ~*^A $binary_remote_addr; ~^ab $http_x_key;",
        "default ''; ~^a|b $binary_remote_addr; ~^c $http_x_key;",
        "default ''; ~^ab* $binary_remote_addr; ~^ac $http_x_key;",
        "default $binary_remote_addr; good $binary_remote_addr; ~^goo '';",
        "default $binary_remote_addr; ~.* '';",
        "default $binary_remote_addr; ~^(?=x) '';",
    ] {
        let found = found(entries);
        assert!(has(&notes_of(&found, Fate::Lost), "3: ", ""), "{entries}\n{}", found.text());
    }
    for entries in
        ["default $binary_remote_addr; ~^good '';", "default ''; ~^a $binary_remote_addr; ~^b $http_x_key;"]
    {
        let found = found(entries);
        assert_eq!(notes_of(&found, Fate::Lost), Vec::<String>::new(), "{entries}");
    }
}

/// nginx counts a key that lacks a part as it is; only an empty one is not counted.
#[test]
fn a_key_without_an_address_never_counts_by_address() {
    for (key, missing, shared) in [
        ("$host$http_x_key", json!("share"), true),
        ("$server_name$http_x_key", json!("share"), false),
        ("api-$http_x_key", json!("share"), false),
        ("$http_x_key$cookie_s", json!("share"), true),
        ("\"${http_x_key}\"", json!("skip"), false),
        ("$binary_remote_addr$http_x_key", Value::Null, false),
        ("$host$request_method", Value::Null, false),
    ] {
        let text = format!(
            "limit_req_zone {key} zone=a:1m rate=1r/s;\nserver {{ location / {{ limit_req zone=a; }} }}"
        );
        let found = converted(SourceKind::Nginx, &[&text]).unwrap();
        assert_eq!(rules_of(&found.document)[0]["missing"], missing, "{key}");
        assert_eq!(has(&notes_of(&found, Fate::Changed), "1: ", "count together"), shared, "{key}");
    }
}

#[test]
fn a_zone_of_each_server_with_two_bursts_counts_apart_and_says_so() {
    let found = |key: &str, second: &str| {
        let text = format!(
            "limit_req_zone {key} zone=a:1m rate=1r/s;\nserver {{ server_name a.com; location /a {{ limit_req zone=a burst=5; }} {second}location /b {{ limit_req zone=a burst=10; }} }}"
        );
        let found = converted(SourceKind::Nginx, &[&text]).unwrap();
        has(&notes_of(&found, Fate::Lost), "1: ", "separate rules")
    };
    assert!(found("$server_name", ""));
    assert!(found("$http_server_name", ""));
    assert!(!found("$server_name", "}\nserver { server_name b.com; "), "another server has another key");
    assert!(found("$http_server_name", "}\nserver { server_name b.com; "), "a header, not the server");
}

#[test]
fn all_addresses_of_one_family_are_no_default() {
    let found = |networks: &str| {
        let text = format!(
            "geo $l {{ {networks} }}\nmap $l $key {{ 0 ''; 1 $binary_remote_addr; }}\nlimit_req_zone $key zone=a:1m rate=1r/s;\nserver {{ location / {{ limit_req zone=a; }} }}"
        );
        converted(SourceKind::Nginx, &[&text]).unwrap()
    };
    for networks in ["default 1; 0.0.0.0/0 0;", "default 1; ::/0 0;", "default 0; 0.0.0.0/0 1; ::/0 0;"] {
        let found = found(networks);
        assert!(has(&notes_of(&found, Fate::Lost), "4: ", "IPv4 and IPv6"), "{}", found.text());
    }
    let text = "map $remote_addr $key { default $binary_remote_addr; 10.0.0.0/8 ''; }\nlimit_req_zone $key zone=a:1m rate=1r/s;\n\
         server { location / { limit_req zone=a; } }";
    let of_map = converted(SourceKind::Nginx, &[text]).unwrap();
    assert!(has(&notes_of(&of_map, Fate::Lost), "3: ", "compares text"), "{}", of_map.text());
    let both = found("default 0; 0.0.0.0/0 1; ::/0 1; 10.0.0.0/8 0;");
    assert_eq!(rules_of(&both.document).len(), 1, "{}", both.document);
    let none = found("default 0;");
    assert!(none.text().contains("no rule: the key is always empty"), "{}", none.text());
}

#[test]
fn a_server_name_that_is_no_host_is_lost() {
    let text = "limit_req_zone $host zone=a:1m rate=1r/s;\nserver { server_name : a.com; location / { limit_req zone=a; } }\n\
         server { server_name b.com; location / { } }";
    let found = converted(SourceKind::Nginx, &[text]).unwrap();
    assert!(has(&notes_of(&found, Fate::Lost), "2: ", "but not `:`"), "{}", found.text());
}

/// The guides' own files, by hand and by the command: the same rules.
#[test]
fn the_guides_convert_as_by_hand() {
    let guide = |name: &str, title: &str| {
        let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/migrate").join(name);
        let page = fs::read_to_string(page).unwrap();
        let (_, rest) = page.split_once(&format!("\n# {title}\n")).unwrap();
        rest.split("\n```").next().unwrap().to_owned() + "\n"
    };
    let by_hand = |name: &str| {
        let yaml: Value = serde_norway::from_str(&guide(name, "after: envoy.yaml")).unwrap();
        let filter = "/static_resources/listeners/0/filter_chains/0/filters/0/typed_config/http_filters/0";
        yaml.pointer(&format!("{filter}/typed_config/config/configuration/value")).unwrap().clone()
    };
    let numbers = |document: &Value| -> BTreeSet<String> {
        let limits = document["limits"].as_array().unwrap();
        let rules = limits.iter().flat_map(|limit| limit["rules"].as_array().into_iter().flatten());
        let rule = |rule: &Value| {
            let shown = ["algo", "rpu", "unit", "burst", "queue", "max_wait", "max_hold", "missing"];
            shown.map(|key| rule.get(key).map_or_else(String::new, Value::to_string)).join(" ")
        };
        rules.map(rule).collect()
    };
    for (name, title, from) in [
        ("nginx.md", "before: nginx.conf", SourceKind::Nginx),
        ("local-ratelimit.md", "before: envoy.yaml", SourceKind::EnvoyLocal),
        ("kong.md", "before: kong.yml", SourceKind::Kong),
    ] {
        assert_eq!(numbers(&document(from, &[&guide(name, title)])), numbers(&by_hand(name)), "{name}");
    }
}

#[test]
fn files_that_cannot_be_read_show_the_place() {
    let local = |bucket: &str| {
        format!(
            "typed_config:\n  '@type': type.googleapis.com/envoy.extensions.filters.http.local_ratelimit.v3.LocalRateLimit\n  \
             filter_enabled: {{default_value: {{numerator: 100}}}}\n  token_bucket: {bucket}\n"
        )
    };
    for (from, text, expected) in [
        (SourceKind::Nginx, String::new(), "no `limit_req`"),
        (SourceKind::Nginx, "limit_req_zone $a zone=x:1m rate=-1r/s;".into(), "this is not a rate"),
        (
            SourceKind::Nginx,
            "limit_req_zone $a zone=x:1m rate=99999999999999999999r/s;".into(),
            "this is not a rate",
        ),
        (SourceKind::Nginx, "limit_req_zone;".into(), "the zone has no key"),
        (
            SourceKind::Nginx,
            "server { limit_req zone=none; }".into(),
            "no `limit_req_zone` has the name `none`",
        ),
        (SourceKind::Nginx, "server { limit_req 'zone=a; }".into(), "does not end"),
        (SourceKind::EnvoyLocal, String::new(), "the file is empty"),
        (SourceKind::EnvoyLocal, "[1, 2]".into(), "no `LocalRateLimit`"),
        (SourceKind::EnvoyLocal, "a: [".into(), "not valid YAML"),
        (SourceKind::EnvoyLocal, local("{max_tokens: 1}"), "`fill_interval` is missing"),
        (
            SourceKind::EnvoyLocal,
            local("{max_tokens: -1, fill_interval: 1s}"),
            "`max_tokens` is not a number",
        ),
        (
            SourceKind::EnvoyLocal,
            local("{max_tokens: 1, fill_interval: 1 fortnight}"),
            "this is not an interval",
        ),
        (
            SourceKind::EnvoyLocal,
            local("{max_tokens: 1, fill_interval: 99999999999999999999s}"),
            "this is not an interval",
        ),
        (SourceKind::EnvoyLocal, local("7"), "`max_tokens` is missing"),
        (SourceKind::EnvoyRatelimit, ROUTES.into(), "no file has the limits of the service"),
        (
            SourceKind::EnvoyRatelimit,
            "{domain: d, descriptors: []}".into(),
            "no file has Envoy's configuration",
        ),
        (SourceKind::EnvoyGateway, "kind: Service".into(), "no `BackendTrafficPolicy`"),
        (
            SourceKind::EnvoyGateway,
            POLICY.replace("RULES", "    local: {rules: [{limit: {requests: 1, unit: Week}}]}"),
            "unknown `unit`",
        ),
        (
            SourceKind::EnvoyGateway,
            POLICY.replace("RULES", "    local: {rules: [{limit: {requests: -1, unit: Day}}]}"),
            "is not a number of requests",
        ),
        (SourceKind::IngressNginx, "kind: Pod".into(), "no `Ingress`"),
        (
            SourceKind::IngressNginx,
            INGRESS.replace("ANNOTATIONS", "    nginx.ingress.kubernetes.io/limit-rps: many"),
            "this is not a whole number",
        ),
        (SourceKind::Kong, "plugins: []".into(), "no `rate-limiting` plugin"),
        (
            SourceKind::Kong,
            "plugins: [{name: rate-limiting, config: {minute: 0}}]".into(),
            "is not a number of requests",
        ),
        (
            SourceKind::Kong,
            "plugins: [{name: rate-limiting, config: {fortnight: 1}}]".into(),
            "the plugin has no limit",
        ),
    ] {
        let error = converted(from, &[&text]).map(|conversion| conversion.yaml).unwrap_err();
        assert!(error.contains(expected), "{from:?}: {text}\n{error}");
        assert!(error.contains("source-0:"), "{from:?}: {text}\n{error}");
    }
    let absent = convert(SourceKind::Kong, &[PathBuf::from("/nonexistent")]).unwrap_err().to_string();
    assert!(absent.contains("cannot read `/nonexistent`"), "{absent}");
}

#[test]
fn an_error_has_the_line_and_a_caret() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("a.conf"), "limit_req_zone $a zone=x:1m\n    rate=10r/h;\n").unwrap();
    let output = diana(folder.path(), &["convert", "nginx", "a.conf"]);
    let shown = String::from_utf8(output.stderr).unwrap();
    assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0));
    assert!(shown.contains("a.conf:2:5") && shown.contains("^^^^^^^^^^"), "{shown}");
}

#[test]
fn json_has_the_document_and_the_notes() {
    let folder = corpus().join("nginx-zone-shared-by-locations");
    let output = diana(&folder, &["convert", "nginx", "site.conf", "--format", "json"]);
    assert_eq!((output.status.code(), output.stderr.len()), (Some(1), 0));
    let value: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(diana_config::compile(value["document"].to_string().as_bytes()).is_ok());
    let note = &value["notes"][0];
    assert_eq!((&note["file"], &note["line"]), (&json!("site.conf"), &json!(1)));
    assert!(["kept", "changed", "lost"].contains(&note["fate"].as_str().unwrap()), "{note}");
}

#[test]
fn a_file_takes_the_document() {
    let folder = tempfile::tempdir().unwrap();
    let source = corpus().join("kong-consumers/kong.yaml");
    let words = ["convert", "kong", source.to_str().unwrap(), "-o", "limits.yaml"];
    let output = diana(folder.path(), &words);
    assert_eq!(output.stdout.len(), 0);
    let checked = diana(folder.path(), &["check", "limits.yaml"]);
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stdout));
}

/// The YAML means what the JSON does.
#[test]
fn both_forms_are_one_document() {
    for (folder, name, files) in cases() {
        let (_, from) = FROMS.into_iter().find(|(known, _)| *known == name).unwrap();
        let paths: Vec<PathBuf> = files.iter().map(|file| folder.join(file)).collect();
        let Conversion { document, yaml, .. } = convert(from, &paths).unwrap();
        let read: Value = serde_norway::from_str(&yaml).unwrap();
        assert_eq!(read, document, "{}", folder.display());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None, ..ProptestConfig::default() })]

    /// Damaged sources give a valid document or an error, and never a panic.
    #[test]
    fn a_damaged_source_is_refused_or_converted(
        case in 0usize..1_000,
        at in 0.0..1.0f64,
        length in 0usize..60,
        put in prop::sample::select(vec![
            "", "{", "}", "[", "]", "'", "\"", "\n", ": ", "- ", "é", "&a ", "*a", "|\n", "\\", "\t", "-1",
            "99999999999999999999", "0", "null", "1.5", "~", ";", "$x", "<<: {}", "/{a}/*", "\u{1b}",
        ]),
    ) {
        let cases = cases();
        let (folder, name, files) = &cases[case % cases.len()];
        let (_, from) = FROMS.into_iter().find(|(known, _)| known == name).unwrap();
        let mut texts: Vec<String> =
            files.iter().map(|file| fs::read_to_string(folder.join(file)).unwrap()).collect();
        let index = case / cases.len() % texts.len();
        let mut bytes = texts[index].clone().into_bytes();
        let start = (at * bytes.len() as f64) as usize;
        let end = (start + length).min(bytes.len());
        bytes.splice(start..end, put.bytes());
        texts[index] = String::from_utf8_lossy(&bytes).into_owned();
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        match converted(from, &texts) {
            Ok(conversion) => prop_assert!(!conversion.text().is_empty()),
            Err(error) => prop_assert!(!error.contains("which is a bug"), "{error}"),
        }
    }
}

/// What explains an unexpected count in these tests.
#[test]
fn a_converted_document_is_explained() {
    let limited = document(SourceKind::Kong, &[KONG]);
    let shown = explanation(&limited.to_string(), &["--url", "/r", "--at", "2026-01-31T12:00:00Z"]);
    assert!(shown.contains("r-day"), "{shown}");
}
