//! The recipe for browsers, `docs/cookbook/browsers.md`: what a page of another origin can read of
//! a refusal.

use crate::browser::Browser;
use gateway::{Config, Gateway, Reply, Upstream, root};
use serde_json::{Value, json};
use std::fs;

/// The place of the CORS filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cors {
    BeforeDiana,
    BehindDiana,
}

/// The YAML blocks of the recipe, for this origin and the cluster of the tests.
fn recipe(origin: &str) -> Vec<Value> {
    let page = fs::read_to_string(root().join("docs/cookbook/browsers.md")).unwrap();
    let page = page.replace("https://app.example.com", origin).replace("cluster: api}", "cluster: upstream}");
    let blocks = page.split("```yaml").skip(1).map(|rest| {
        let (_, rest) = rest.split_once('\n').unwrap();
        serde_norway::from_str(rest.split("```").next().unwrap()).unwrap()
    });
    blocks.collect()
}

/// Requests until one is refused: how many pass, and what the page can read of the refusal.
fn read(browser: &Browser, origin: &str, cors: Cors) -> (u64, Value, Gateway) {
    let [filters, routes, document] = recipe(origin).try_into().unwrap();
    let list = |value: &Value| value.as_array().unwrap().clone();
    let filters = list(&filters["http_filters"]);
    let mut config = Config { routes: list(&routes["routes"]), ..Config::new(document) };
    match cors {
        Cors::BeforeDiana => config.before = filters,
        Cors::BehindDiana => config.behind = filters,
    }
    let gateway = Gateway::start(config).unwrap();
    let script = format!(
        "(async () => {{
            let passed = 0;
            for (let sent = 0; sent < 2000; sent += 1) {{
                try {{
                    const response = await fetch('http://{}/api', {{headers: {{authorization: 'Bearer token'}}}});
                    if (response.status !== 200) {{
                        const headers = ['retry-after', 'ratelimit', 'ratelimit-policy'];
                        return [passed, response.status, ...headers.map(name => response.headers.get(name))];
                    }}
                    passed += 1;
                }} catch (error) {{
                    return [passed, error.name];
                }}
            }}
            return [passed, 'nothing was refused'];
        }})()",
        gateway.address()
    );
    let mut found = list(&browser.resolved(&script));
    let passed = found.remove(0).as_u64().unwrap();
    (passed, json!(found), gateway)
}

#[test]
fn a_page_of_another_origin_reads_a_refusal_if_cors_is_before_diana() {
    let server =
        Upstream::start(|_| Reply::new(200, "<title>a page</title>").header("content-type", "text/html"));
    let server = server.unwrap();
    let origin = format!("http://{}", server.address());
    let browser = Browser::start();
    browser.visit(&format!("{origin}/"));

    let (passed, found, gateway) = read(&browser, &origin, Cors::BeforeDiana);
    assert_eq!(found[0], 429, "{found}");
    let wait: u64 = found[1].as_str().unwrap().parse().unwrap();
    assert!((1..=2).contains(&wait), "{found}");
    assert!(found[2].as_str().unwrap().starts_with("\"per-user\";r=0;t="), "{found}");
    assert_eq!(found[3], "\"per-user\";q=100;w=60");
    let counted = gateway.counted("rule.per-user.result.ok.requests").unwrap();
    assert_eq!(counted, passed, "preflights do not count");

    let (passed, found, gateway) = read(&browser, &origin, Cors::BehindDiana);
    assert_eq!(found, json!(["TypeError"]), "the page cannot read the refusal");
    let counted = gateway.counted("rule.per-user.result.ok.requests").unwrap();
    assert!(counted > passed, "preflights count: {counted}, {passed}");
}
