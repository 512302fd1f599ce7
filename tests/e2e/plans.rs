//! Plans in Envoy: larger quotas for some clients, who share every other rule with the rest.

use crate::start;
use gateway::{Config, Gateway};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

fn document(plan: Value) -> Value {
    json!({
        "plan": plan,
        "actors": {"apikey": {"header": "x-api-key"}},
        "headers": "ietf",
        "limits": [{"url": "/", "rules": [
            {"name": "key", "actor": "apikey", "algo": "W", "rpu": 2, "unit": "day",
             "plans": {"gold": {"rpu": 4}, "internal": "unlimited"}},
            {"name": "total", "algo": "W", "rpu": 9, "unit": "day"},
        ]}],
    })
}

#[test]
fn gold_and_free_keys_share_every_other_rule() {
    let members = json!({"actor": "apikey", "members": {"gold": ["g1", "g2"], "internal": "i1"}});
    let format = "%REQ(X-API-KEY)% %RESPONSE_CODE% %FILTER_STATE(wasm.diana.rule:PLAIN)% \
        %FILTER_STATE(wasm.diana.plan:PLAIN)%";
    let config = Config { access_log: Some(format.into()), ..Config::new(document(members)) };
    let gateway = Gateway::start(config).unwrap();
    let get = |key: &str| gateway.get("/", &[("x-api-key", key)]).unwrap();

    let policy = get("g1").header("ratelimit-policy").map(str::to_owned).unwrap();
    assert!(policy.contains(r#""key";q=4;w=86400"#) && policy.contains(r#""total";q=9"#), "{policy}");
    assert_eq!(
        [get("g1").status, get("g1").status, get("g1").status, get("g1").status],
        [200, 200, 200, 429]
    );
    let policy = get("f1").header("ratelimit-policy").map(str::to_owned).unwrap();
    assert!(policy.contains(r#""key";q=2;w=86400"#), "{policy}");
    assert_eq!([get("f1").status, get("f1").status], [200, 429]);
    // Six are counted in `total`, the rule of everybody.
    let inside = get("i1");
    assert_eq!((inside.status, inside.header("ratelimit-policy")), (200, Some(r#""total";q=9;w=86400"#)));
    assert_eq!(
        [get("i1").status, get("g2").status, get("i1").status, get("g2").status],
        [200, 200, 429, 429]
    );
    let log = gateway.access_log_of(13).unwrap();
    assert_eq!([&*log[4], &log[7], &log[11]], ["g1 429 key gold", "f1 429 key -", "i1 429 total internal"]);
}

#[test]
fn a_client_that_changes_its_plan_gets_the_larger_quota_once() {
    let gateway = start(document(json!({"header": "x-plan"})));
    let get = |plan: &str| gateway.get("/", &[("x-api-key", "k"), ("x-plan", plan)]).unwrap().status;
    assert_eq!(
        ["", "gold", "silver", "gold", "", "gold", "gold"].map(get),
        [200, 200, 429, 200, 429, 200, 429]
    );
}

/// For how many seconds a client alternates two plans.
const ALTERNATES_FOR: &str = "ALTERNATES_FOR";

#[test]
fn a_client_that_alternates_two_plans_gets_no_more_than_the_larger_quota() {
    let (burst, a_minute) = (40, 600);
    let gateway = start(json!({
        "plan": {"header": "x-plan"},
        "limits": [{"url": "/", "rules": [{"name": "key", "actor": "user", "rpu": 60, "unit": "minute",
            "burst": 10, "plans": {"gold": {"rpu": a_minute, "burst": burst}}}]}],
    }));
    let secs = std::env::var(ALTERNATES_FOR).map_or(3, |secs| secs.parse().unwrap());
    let mut connections: Vec<_> = (0..4).map(|_| gateway.connect().unwrap()).collect();
    let (began, mut passed, mut of_free) = (Instant::now(), 0_u64, 0_u64);
    let mut turn = 0;
    while began.elapsed() < Duration::from_secs(secs) {
        let plan = if turn % 2 == 0 { "gold" } else { "free" };
        let headers = [("x-user-id", "ann"), ("x-plan", plan)];
        let answer = connections[turn % 4].request("GET", "/", &headers, b"").unwrap();
        passed += u64::from(answer.status == 200);
        of_free += u64::from(answer.status == 200 && plan == "free");
        turn += 1;
        std::thread::sleep(Duration::from_millis(1)); // the client's pace
    }
    // A token comes in 100 ms.
    let most = burst + u64::try_from(began.elapsed().as_millis()).unwrap() * a_minute / 60_000 + 1;
    println!("{passed} of {turn} requests passed, {of_free} of them without a plan, of {most}");
    assert!(passed <= most, "{passed} of {most}");
    assert!(passed >= burst, "{passed}");
}

/// Like a zone of nginx that several locations share, each with its own burst.
#[test]
fn locations_share_a_count_by_the_names_of_their_routes() {
    let document = json!({
        "plan": {"property": ["xds", "route_name"]},
        "limits": [{
            "url": "/",
            "property": {"xds.route_name": {"regex": "search|export"}},
            "rules": [{
                "name": "zone", "actor": "user", "algo": "W", "rpu": 2, "unit": "day",
                "plans": {"search": {"rpu": 4}},
            }],
        }],
    });
    let route = |name: &str| {
        json!({
            "name": name, "match": {"prefix": format!("/{name}")},
            "route": {"cluster": "upstream"},
        })
    };
    let routes = vec![route("search"), route("export"), route("other")];
    let gateway = Gateway::start(Config { routes, ..Config::new(document) }).unwrap();
    let get = |path: &str| gateway.get(path, &[("x-user-id", "ann")]).unwrap().status;
    let paths = ["/search", "/export", "/export", "/search", "/search", "/search", "/other", "/"];
    assert_eq!(paths.map(get), [200, 200, 429, 200, 200, 429, 200, 200]);
}
