//! No excerpt and no message shows a secret, in any form of the output.

use diana_cli::check::render;
use diana_cli::check::report::{Fleet, Report};
use diana_cli::source::content::File;

/// A part of each secret of these tests.
const SECRET: &str = "hunter";

/// What the command shows of a file, as text and as JSON.
fn shown(name: &str, text: &str) -> String {
    let reports = [Report::of(File::new(name, text), Fleet::default())];
    assert!(!reports[0].findings.is_empty(), "{text}");
    let json: Vec<String> = render::findings(&reports[0]).map(|finding| finding.to_string()).collect();
    render::text(&reports, false) + &json.join("\n")
}

/// Each document has a mistake beside its secret.
const DOCUMENTS: [&str; 32] = [
    "limits: []\nstore:\n  redis:\n    cluster: 7\n    secret: hunter2hunter2hunter2\n    timout: 1s\n",
    "limits: []\nstore: {redis: {cluster: a, secrt: 'hunter2,hunter2 hunter'}}\n",
    "limits: []\nstore:\n  redis:\n    secret: >-\n      hunter2\n\n      hunter3\n    cluster: 7\n",
    "limits: []\nstore:\n  redis:\n    secret: \"hunter2\n      hunter3\"\n    cluster: 7\n",
    "limits: []\nstore:\n  redis:\n    cluster: 7\n    headers: {x-any: hunter2}  # authorization: hunter3\n",
    "limits: []\nremote:\n  cluster: 7\n  headers:\n    - x-any: hunter2\n  path: /x?token=hunter3&a=b\n",
    "limits: []\nremote: {cluster: 7, path: /, body: {auth: {user: a, pass: hunter2}}}\n",
    "limits:\n  - url: 7\n    headers: {x-api-key: hunter2, authorization: {prefix: hunter3}}\n    rules: []\n",
    "limits:\n  - url: /\n    query: {api_key: [hunter2]}\n    rules: [{rpu: 1, unit: dya}]\n",
    "limits:\n  - url: /\n    rules: [{actor: apikey, rpu: 1, unit: day, overrides: {hunter2: {rpu: -1}}}]\n",
    "limits:\n  - url: /\n    rules: [{actor: client, rpu: 1, unit: day, overrides: {hunter2: {rpu: -1}}}]\nactors: {client: {header: x-api-key}}\n",
    "limits:\n  - url: /\n    rules: [{actor: client, rpu: -1, unit: day}]\nactors: {client: {header: x-api-key}}\nplan: {actor: client, members: {gold: [hunter2], gld: [hunter2]}}\n",
    "limits: []\ndeny: [{client: hunter2}, 7]\nactors: {client: {cookie: session-id}}\n",
    // Reached by a merge key.
    "x: &h {headers: {x-any: hunter2}}\nlimits: []\nstore: {redis: {<<: *h}}\n",
    "x: &h {cookie: session=hunter2}\nlimits: [{url: /, headers: {<<: *h}, rules: []}]\n",
    // Of an unknown store, or deeper than a store has it.
    "limits: []\nstore: {valkey: {headers: {x-any: hunter2}}}\n",
    "limits: []\nstore: {valkey: {a: {b: [{body: hunter2, pasword: hunter3}]}}}\n",
    "limits: []\nremote: {calls: {headers: {x-any: hunter2}}}\n",
    // A session is a secret of a request.
    "limits: [{url: 7, headers: {cookie: \"session=hunter2\"}, rules: []}]\n",
    "limits: [{url: 7, query: {session: hunter2, JSESSIONID: hunter3}, rules: []}]\n",
    "limits: []\ndeny: [{client: hunter2}, 7]\nactors: {client: {cookie: session}}\n",
    // The tokens of those who may ask, by any names.
    "limits: []\ninspect: {path: 7, tokens: {ann: hunter2, path: hunter3, ci: {token: hunter4, read: true}}}\n",
    "limits: []\ninspct: {path: 7, tokns: {ann: hunter2, name: {tokn: hunter3}}}\n",
    "limits: []\ninspect: {path: 7, tokens: [hunter2], token: hunter3}\n",
    "limits: []\ninspect:\n  path: /a\n  tokens:\n    ann: hunter2\n\tci: [\n",
    // The keys of tickets.
    "limits: []\ntickets: hunter2\n",
    "limits: []\ntickets: {secret: hunter2, previous_secret: hunter3}\n",
    "limits: []\ntickts: {secrt: hunter2hunter2hunter2, previous_secret: hunter2hunter2hunter3}\n",
    "limits: []\ntickets:\n  previous_secret: hunter2\n\tsecret: [\n",
    // Texts that cannot be read.
    "limits: []\nstore:\n  redis:\n    secret: hunter2\n\tcluster: [\n",
    "limits: [\nstore:\n  redis:\n    headers:\n      x-any: hunter2\n      y: hunter3\n",
    "limits: []\nstore: {redis: {cluster: a, secret: \"hunter2\n  hunter3",
];

#[test]
fn no_secret_of_a_document_is_shown() {
    for text in DOCUMENTS {
        let shown = shown("a.yaml", text);
        assert!(!shown.contains(SECRET), "{text}\n{shown}");
    }
}

#[test]
fn a_masked_excerpt_keeps_the_rest() {
    let text = "limits: []\nstore: {redis: {cluster: a, secret: hunter2, timout: 1s}}\n";
    let shown = shown("a.yaml", text);
    assert!(shown.contains("store: {redis: {cluster: a, secret: *******, timout: 1s}}"), "{shown}");
    // The place stays true.
    assert!(shown.contains("[a.yaml:2:46]") && shown.contains("did you mean `timeout`?"), "{shown}");
    let names = "limits: []\nactors: {token: {header: x-token}, auth: {cookie: auth}}\nplna: 1\n";
    assert!(
        super::secrets::shown("a.yaml", names).contains("{token: {header: x-token}, auth: {cookie: auth}}")
    );
}

#[test]
fn a_message_does_not_quote_a_secret() {
    for condition in [
        "12.5678",
        r#"{"regex": "(hunter2"}"#,
        r#"{"exact": ["hunter2"]}"#,
        r#"{"regex": "hunter`2(("}"#,
        r#"{"regex": "`hunter`(("}"#,
    ] {
        let rules = r#"[{"rpu": 1, "unit": "day"}]"#;
        let text = format!(
            r#"{{"limits": [{{"url": "/", "headers": {{"x-api-key": {condition}}}, "rules": {rules}}}]}}"#
        );
        let shown = shown("a.json", &text);
        assert!(!shown.contains(SECRET) && !shown.contains("12.5678"), "{shown}");
    }
}

#[test]
fn no_secret_around_a_document_is_shown() {
    let envoy = "
static_resources:
  listeners:
    - filter_chains:
        - filters:
            - name: a
              typed_config:
                \"@type\": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
                http_filters:
                  - name: envoy.filters.http.wasm
                    typed_config:
                      \"@type\": type.googleapis.com/envoy.extensions.filters.http.wasm.v3.Wasm
                      config: {name: diana, configuration: {\"@type\": type.googleapis.com/google.protobuf.StringValue, value: DOCUMENT}}
                  BESIDE
";
    let document = r#"'{"limits": 7, "store": {"redis": {"secret": "hunter2"}}}'"#;
    for (document, beside) in [
        (document, "- name: envoy.filters.http.router"),
        ("'[7]'", "- {name: lua, x: {header: {key: Authorization, value: Bearer hunter2}}}"),
        ("'[7]'", "- {name: lua, secrets: [{name: a, generic_secret: {secret: {inline_string: hunter2}}}]}"),
        ("'[7]'", "- {name: redis, downstream_auth_password: {inline_string: hunter2}}"),
        ("'[7]'", "- {name: basic, uri: 'https://user:hunter2@host/'} # password=hunter3"),
    ] {
        let text = envoy.replace("DOCUMENT", document).replace("BESIDE", beside);
        let shown = shown("envoy.yaml", &text);
        assert!(!shown.contains(SECRET), "{text}\n{shown}");
    }
    for beside in [
        "- {name: lua, x: {y: {inline_bytes: aHVudGVyMg==}}}",
        "- {name: lua, typed_config: {\"@type\": type.googleapis.com/google.protobuf.BytesValue, value: aHVudGVyMg==}}",
        "- {name: rbac, headers: [{name: cookie, string_match: {exact: session=hunter2}}]}",
    ] {
        let text = envoy.replace("DOCUMENT", "'[7]'").replace("BESIDE", beside);
        let shown = shown("envoy.yaml", &text);
        assert!(!shown.contains(SECRET) && !shown.contains("aHVudGVy"), "{text}\n{shown}");
    }
    let nginx = "wasm {\n shm_kv diana 64m eviction=lru;\n}\nhttp {\n proxy_set_header Authorization 'Basic hunter2';\n \
                 proxy_wasm diana '{\"limits\": 7, \"password\": \"hunter3\"}';\n}\n";
    let shown = shown("nginx.conf", nginx);
    assert!(!shown.contains(SECRET), "{shown}");
}

#[test]
fn no_secret_of_a_directive_is_shown() {
    for secret in [
        "secure_link_secret hunter2;",
        "proxy_set_header Authorization 'Basic hunter2';",
        "# proxy_set_header Authorization \"Basic hunter2\";",
        "proxy_set_header Accept a; #proxy_set_header X-Api-Key hunter2; # why",
    ] {
        for document in ["proxy_wasm diana '{\"limits\": 7}';", "proxy_wasm diana '{\"limits\": 7}'};"] {
            let nginx = format!("wasm {{\n}}\nhttp {{\n {secret}\n {document}\n {secret}\n}}\n");
            let shown = shown("nginx.conf", &nginx);
            assert!(shown.contains("**") && !shown.contains(SECRET), "{nginx}\n{shown}");
        }
    }
    // A `map` beside the mistake.
    for (map, use_of) in [
        ("map $uri $api_token { default hunter2; }", ""),
        (
            "map $uri $upstream { /a hunter2; default 'hunter3'; }",
            "proxy_set_header Authorization $upstream;",
        ),
        ("map $uri $of { /a hunter2; }", "proxy_set_header X-Api-Key \"Key ${of}\";"),
        ("set $of hunter2;", "proxy_set_header Authorization \"Basic $of\";"),
        ("map $http_x_api_key $client { hunter2 a; default b; }", ""),
        ("map $http_authorization $client { 'Bearer hunter2' a; }", ""),
    ] {
        let nginx = format!("http {{\n {map}\n proxy_wasm diana '{{\"limits\": 7}}'; {map}\n {use_of}\n}}\n");
        let shown = shown("nginx.conf", &nginx);
        assert!(shown.contains("**") && !shown.contains(SECRET), "{nginx}\n{shown}");
    }
    let open = "http {\n map $uri $upstream { /a pool; }\n proxy_wasm diana '{\"limits\": 7}';\n}\n";
    assert!(super::secrets::shown("nginx.conf", open).contains("{ /a pool; }"));
    // The quote does not end, so no directive can be read.
    let broken = "http {\n secure_link_secret hunter2;\n proxy_wasm diana '{\"limits\": 7};\n}\n";
    let shown = shown("nginx.conf", broken);
    assert!(shown.contains("secure_link_secret *******;") && !shown.contains(SECRET), "{shown}");
}

#[test]
fn a_secret_of_kubernetes_is_not_shown() {
    let text = "
apiVersion: v1
kind: Secret
metadata: {name: a}
stringData:
  any: hunter2
  diana.yaml: |
    limits: 7
    # hunter3
";
    let shown = shown("a.yaml", text);
    assert!(!shown.contains(SECRET), "{shown}");
    let env = "
apiVersion: apps/v1
kind: Deployment
spec:
  env: [{name: REDIS_PASSWORD, value: hunter2}, {name: REDIS_PASSWORD, name: b}]
";
    assert!(!super::secrets::shown("a.yaml", env).contains(SECRET));
}
