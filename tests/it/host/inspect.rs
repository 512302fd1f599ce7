//! Operators ask one of several workers, and get the numbers of all.

use super::faults::FaultKind;
use super::gateway::{Fate, Gateway};
use diana_limiter::cells::store::CasSemantics;
use diana_limiter::request::Part;
use serde_json::{Value, json};

const TOKEN: &str = "0123456789abcdef0123456789abcdef";

fn document(rules: &Value) -> String {
    let inspect = json!({"path": "/.diana", "token": TOKEN, "top": true});
    let actors = json!({"apikey": {"header": "x-api-key"}});
    json!({"inspect": inspect, "actors": actors, "limits": [{"url": "/", "rules": rules}]}).to_string()
}

fn per_user() -> Value {
    json!([{"name": "per-user", "actor": "user", "algo": "W", "rpu": 2, "unit": "day"}])
}

fn parts(question: &str) -> Vec<(Part, Vec<u8>)> {
    let parts = [
        (Part::Path, format!("/.diana/{question}")),
        (Part::Method, "GET".into()),
        (Part::Address, "127.0.0.1:9".into()),
        (Part::Header("authorization".into()), format!("Bearer {TOKEN}")),
    ];
    parts.map(|(part, line)| (part, line.into_bytes())).into()
}

/// The answer of a worker: its status and its body.
fn ask(gateway: &Gateway, worker: usize, question: &str) -> (u32, Value) {
    send(gateway, worker, "GET", question, &[])
}

fn send(
    gateway: &Gateway,
    worker: usize,
    method: &str,
    question: &str,
    headers: &[(&str, &str)],
) -> (u32, Value) {
    let mut parts = parts(question);
    parts.retain(|(part, _)| *part != Part::Method);
    parts.push((Part::Method, method.into()));
    parts.extend(headers.iter().map(|(name, value)| (Part::Header((*name).into()), (*value).into())));
    let request = gateway.vms[worker].ask(parts);
    let Fate::Answered(status) = gateway.fate(request) else { panic!("{question} is not answered") };
    let (_, body) = gateway.world.sent.borrow().last().cloned().unwrap();
    (status, serde_json::from_str(&body).unwrap_or_else(|error| panic!("{error}: {body}")))
}

/// Gateways with different secrets count apart in one Redis, so the log and `GET policy` show a
/// fingerprint of the secret.
#[test]
fn the_policy_shows_the_secret_of_the_store_as_the_log_does() {
    let of = |secret: &str| {
        let mut document: Value = serde_json::from_str(&document(&per_user())).unwrap();
        document["store"] = json!({"redis": {"cluster": "redis", "secret": secret}});
        let gateway = Gateway::start(CasSemantics::Lenient, 2, &document.to_string());
        let (_, policy) = ask(&gateway, 1, "policy");
        assert!(!policy.to_string().contains(secret), "{policy}");
        let shown = policy["store_secret"].as_str().unwrap_or_else(|| panic!("{policy}")).to_owned();
        assert_eq!(gateway.world.logged(&format!("fingerprint of its secret {shown}")), 1, "{shown}");
        shown
    };
    let (one, other) = (of("a secret of sixteen bytes"), of("another secret of sixteen"));
    assert_eq!((one.len(), &one), (4, &of("a secret of sixteen bytes")));
    assert_ne!(one, other);
    let alone = Gateway::start(CasSemantics::Lenient, 1, &document(&per_user()));
    assert_eq!(ask(&alone, 0, "policy").1.get("store_secret"), None);
}

/// A header keeps the actor out of access logs, and has names of its own.
#[test]
fn an_actor_comes_in_the_header_or_in_the_query() {
    let mut document: Value = serde_json::from_str(&document(&json!([
        {"name": "per-user", "actor": "user", "algo": "W", "rpu": 2, "unit": "day"},
        {"name": "odd", "actor": ["amount", "rule"], "algo": "W", "rpu": 9, "unit": "day"},
    ])))
    .unwrap();
    document["actors"] = json!({"amount": {"header": "x-user-id"}, "rule": {"header": "x-rule"}});
    let gateway = Gateway::start(CasSemantics::Lenient, 1, &document.to_string());
    let parts =
        [(Part::Path, "/"), (Part::Header("x-user-id".into()), "a&b"), (Part::Header("x-rule".into()), "c")];
    gateway.vms[0].ask(parts.map(|(part, line)| (part, line.into())).into());

    let used = |method: &str, question: &str, header: &str| {
        let headers = if header.is_empty() { vec![] } else { vec![("diana-actor", header)] };
        let (status, answer) = send(&gateway, 0, method, question, &headers);
        if status == 200 { Ok(answer["used"].as_u64().unwrap()) } else { Err(answer["error"].to_string()) }
    };
    assert_eq!(used("GET", "actor?rule=per-user", "user=a%26b"), Ok(1));
    assert_eq!(used("GET", "actor?rule=per-user&user=a%26b", ""), Ok(1));
    assert_eq!(used("GET", "actor?rule=per-user&user=a%26b", "user=bob"), Ok(0), "the header alone counts");
    assert_eq!(
        used("GET", "actor?rule=per-user&user=a%26b", "none=bob"),
        Err("\"expected `user=VALUE`\"".into())
    );

    // A parameter is never taken for an actor, nor an actor for a parameter.
    assert_eq!(used("GET", "actor?rule=odd", "amount=a%26b&rule=c"), Ok(1));
    let (_, granted) = send(
        &gateway,
        0,
        "POST",
        "grant?rule=odd&amount=5&for=1h",
        &[("diana-actor", "amount=a%26b&rule=c")],
    );
    assert_eq!((&granted["granted"], &granted["used"]), (&json!(5), &json!(1)), "{granted}");
    for (method, question) in [("GET", "actor?rule=odd&amount=5"), ("POST", "grant?rule=odd&amount=5&for=1h")]
    {
        let why = "\"the actor `rule` has the name of a parameter: send it in the header `diana-actor`\"";
        assert_eq!(used(method, question, ""), Err(why.into()));
    }
    assert_eq!(used("GET", "actor?rule=odd", "amount=5&rule=odd"), Ok(0), "nobody else has a grant");
}

fn rates(gateway: &Gateway, worker: usize, query: &str) -> Value {
    let (status, answer) = ask(gateway, worker, &format!("rates{query}"));
    assert_eq!(status, 200, "{answer}");
    answer
}

fn sum(rule: &Value, result: &str) -> u64 {
    rule[result].as_array().map_or(0, |all| all.iter().filter_map(Value::as_u64).sum())
}

#[test]
fn every_worker_shows_what_all_have_counted_in_each_second() {
    let gateway = Gateway::start(CasSemantics::Lenient, 3, &document(&per_user()));
    // The clock stands at the beginning of a second.
    gateway.pass(500);
    for (worker, user) in [(0, "ann"), (1, "ann"), (2, "ann"), (1, "bob")] {
        gateway.request(worker, "/", user);
    }
    gateway.pass(1_000);
    gateway.request(2, "/", "bob");
    gateway.pass(1_700);
    for worker in 0..3 {
        let answer = rates(&gateway, worker, "?seconds=4");
        let rule = &answer["rules"][0];
        assert_eq!(answer["at_ms"], 1_700_000_003_000_u64, "{answer}");
        assert_eq!((&rule["rule"], &rule["ok"]), (&json!("per-user"), &json!([0, 3, 1, 0])), "{answer}");
        assert_eq!((&rule["refused"], &rule["error"]), (&json!([0, 1, 0, 0]), &json!([0, 0, 0, 0])));
        assert_eq!((&answer["waiting"], &answer["left_off"]), (&json!(0), &json!(0)));
    }
    // No request pays for it.
    let calls = gateway.world.called.get();
    gateway.request(0, "/", "cyd");
    let with = gateway.world.called.get() - calls;
    let plain = Gateway::start(
        CasSemantics::Lenient,
        3,
        &json!({"limits": [{"url": "/", "rules": per_user()}]}).to_string(),
    );
    plain.request(0, "/", "ann");
    let calls = plain.world.called.get();
    plain.request(0, "/", "cyd");
    assert_eq!(with, plain.world.called.get() - calls);
}

#[test]
fn rates_go_on_over_a_reload_and_in_the_host_of_another_plugin() {
    let gateway = Gateway::start(CasSemantics::Lenient, 2, &document(&per_user()));
    gateway.request(0, "/", "ann");
    gateway.pass(1_300);
    let more = json!([
        {"name": "other", "rpu": 100, "unit": "day"},
        {"name": "per-user", "actor": "user", "rpu": 9, "unit": "hour"},
    ]);
    assert!(gateway.configure(&document(&more)));
    gateway.request(1, "/", "ann");
    gateway.pass(1_000);
    let answer = rates(&gateway, 0, "");
    let rules = answer["rules"].as_array().unwrap();
    assert_eq!((&rules[0]["rule"], sum(&rules[0], "ok")), (&json!("other"), 1), "{answer}");
    assert_eq!(sum(&rules[1], "ok"), 2);
    // The first plugin still stands beside the second one, and samples for both.
    gateway.vms.iter().for_each(|vm| vm.delete_root(vm.oldest_root().unwrap()));
    gateway.request(0, "/", "ann");
    gateway.pass(5_000);
    let answer = rates(&gateway, 1, "?rule=per-user");
    assert_eq!((answer["rules"].as_array().unwrap().len(), sum(&answer["rules"][0], "ok")), (1, 3));
    gateway.no_crash();
}

#[test]
fn what_comes_too_late_is_spread_and_nothing_is_lost_when_calls_fail() {
    let gateway = Gateway::start(CasSemantics::Lenient, 2, &document(&per_user()));
    gateway.pass(1_500);
    gateway.fail(FaultKind::Store);
    gateway.pass(4_000);
    for user in 0..10 {
        // Rules that cannot count let requests pass, uncounted.
        gateway.request(0, "/", &format!("user-{user}"));
    }
    gateway.fail(FaultKind::Nothing);
    gateway.pass(1_000);
    let answer = rates(&gateway, 1, "?seconds=7");
    assert_eq!(sum(&answer["rules"][0], "error"), 10, "{answer}");
    assert!(gateway.counter("diana.shared_data_errors") > 0);
    let last = answer["rules"][0]["error"].as_array().unwrap().iter().rev();
    assert_eq!(last.take_while(|count| **count == json!(2)).count(), 5, "{answer}");
}

#[test]
fn questions_that_cannot_be_answered_are_explained() {
    let mut rules = per_user();
    rules.as_array_mut().unwrap().push(json!({"name": "all", "rpu": 9, "unit": "day"}));
    let gateway = Gateway::start(CasSemantics::Lenient, 1, &document(&rules));
    let why = |question: &str| {
        let (status, answer) = ask(&gateway, 0, question);
        (status, answer["error"].as_str().unwrap_or_default().to_owned())
    };
    for seconds in ["0", "301", "-1", "x", "", "99999999999999999999"] {
        assert_eq!(
            why(&format!("rates?seconds={seconds}")),
            (400, "expected `seconds` from 1 to 300".into())
        );
    }
    let none = |rule: &str| (400, format!("there is no rule `{rule}`: the rules are per-user, all"));
    assert_eq!(why("rates?rule=no%22ne"), none("no\"ne"));
    assert_eq!(why("top"), (400, "which rule? expected `rule=NAME`: the rules are per-user, all".into()));
    for question in ["top", "actor"] {
        assert_eq!(why(&format!("{question}?rule=none")), none("none"));
    }
    assert_eq!(why("top?rule=per-user&by=size"), (400, "expected `by=refused` or `by=used`".into()));
    // Envoy turns the answer to gRPC into a status of gRPC with a message.
    let grpc = [parts("policy"), vec![(Part::Header("content-type".into()), "application/grpc".into())]];
    let request = gateway.vms[0].ask(grpc.concat());
    let headers = gateway.world.records.borrow()[request].headers.clone();
    let message = &headers.iter().find(|(name, _)| name == "grpc-message").unwrap().1;
    let expected = "a question is plain HTTP, without `content-type: application/grpc`";
    assert_eq!(message, &json!({"error": expected}).to_string());
    let off = document(&per_user()).replace(r#","top":true"#, "");
    assert!(gateway.configure(&off));
    gateway.vms[0].delete_root(gateway.vms[0].oldest_root().unwrap());
    assert_eq!(why("top?rule=per-user"), (404, "actors are ranked only with `inspect: {top: true}`".into()));

    let nginx = Gateway::start(CasSemantics::Strict, 1, &off);
    assert_eq!(ask(&nginx, 0, "rates").0, 404);
    assert!(!nginx.configure(&document(&per_user())), "nginx has no timer to merge counts by");
    assert_eq!(nginx.world.logged("inspect.top: this host has no timer"), 1);
}

#[test]
fn the_most_refused_actor_is_first_whichever_workers_refuse_it() {
    let gateway = Gateway::start(CasSemantics::Lenient, 3, &document(&per_user()));
    for turn in 0..30 {
        gateway.request(turn, "/", "ann");
        if turn % 2 == 0 {
            gateway.request(turn + 1, "/", "bob\" \u{1b}");
        }
        gateway.request(turn, "/", &format!("once-{turn}"));
        gateway.pass(100);
    }
    gateway.pass(1_500);
    let top = |query: &str| ask(&gateway, 1, &format!("top?rule=per-user{query}")).1;
    let refused = top("");
    let actor = |user: &str, count: u64| json!({"actor": {"user": user}, "count": count, "error": 0});
    assert_eq!(refused["actors"], json!([actor("ann", 28), actor("bob\" \u{1b}", 13)]), "{refused}");
    assert_eq!((&refused["by"], &refused["error_bound"]), (&json!("refused"), &json!(0)));
    // The first one was refused 200 ms after the beginning, and published within a tick.
    let since = refused["since_ms"].as_u64().unwrap() - 1_700_000_000_000;
    assert!((200..=1_500).contains(&since), "{since}");
    let used = top("&by=used");
    assert_eq!(used["actors"].as_array().unwrap().len(), 32);
    assert_eq!(used["actors"][0]["count"], 2);
    assert!(rates(&gateway, 0, "").get("rules").is_some());
    // Old actors fade.
    gateway.pass(300_000);
    assert_eq!(
        (top("")["actors"].as_array().unwrap().len(), &top("")["since_ms"]),
        (2, &refused["since_ms"])
    );
    gateway.pass(300_000);
    assert_eq!(top("")["actors"], json!([]));
    gateway.no_crash();
}

/// A list leads to an actor whatever bytes a client sends.
#[test]
fn a_value_that_is_not_text_is_found_as_it_is_shown() {
    let gateway = Gateway::start(CasSemantics::Lenient, 1, &document(&per_user()));
    for _ in 0..4 {
        let parts = [(Part::Path, b"/".to_vec()), (Part::Header("x-user-id".into()), b"caf\xe9\\".to_vec())];
        gateway.vms[0].ask(parts.into());
    }
    gateway.pass(1_500);
    let (_, answer) = ask(&gateway, 0, "top?rule=per-user");
    assert_eq!(answer["actors"][0]["actor"]["user"], r"caf\xe9\\", "{answer}");
    let (_, count) = ask(&gateway, 0, "actor?rule=per-user&user=caf%5Cxe9%5C%5C");
    assert_eq!((&count["used"], &count["is_refused"]), (&json!(2), &json!(true)), "{count}");
    assert!(count.get("actor").is_none(), "nothing is hidden: {count}");
}

/// What gives access is never shown, wherever a request brings it.
#[test]
fn a_secret_is_shown_as_a_hash() {
    let rules =
        json!([{"name": "per-key", "actor": ["apikey", "user"], "algo": "W", "rpu": 1, "unit": "day"}]);
    let gateway = Gateway::start(CasSemantics::Lenient, 2, &document(&rules));
    for worker in [0, 1, 0, 1] {
        let parts = [
            (Part::Path, "/"),
            (Part::Header("x-api-key".into()), "k-4711"),
            (Part::Header("x-user-id".into()), "ann"),
        ];
        gateway.vms[worker].ask(parts.map(|(part, line)| (part, line.into())).into());
    }
    gateway.pass(1_500);
    let (_, answer) = ask(&gateway, 0, "top?rule=per-key");
    let [only] = answer["actors"].as_array().unwrap().as_slice() else { panic!("{answer}") };
    assert_eq!((&only["count"], &only["actor"]["user"]), (&json!(3), &json!("ann")), "{answer}");
    let hash = only["actor"]["apikey"].as_str().unwrap();
    assert!(hash.len() == 17 && hash.starts_with('#'), "{hash}");
    assert!(!gateway.world.holds(b"k-4711"), "not in the shared data either");
    assert!(only.get("name").is_none(), "{only}");
    // An operator who knows the value finds its hash in the list.
    let (_, count) = ask(&gateway, 1, "actor?rule=per-key&apikey=k-4711&user=ann");
    assert_eq!(count["actor"], only["actor"], "{count}");
}

/// A claim of the bearer token names the customer, but only if the value is hidden.
#[test]
fn a_claim_names_the_customer_behind_a_hash() {
    let rules = json!([
        {"name": "per-token", "actor": "token", "algo": "W", "rpu": 1, "unit": "day"},
        {"name": "per-user", "actor": "user", "algo": "W", "rpu": 1, "unit": "day"},
    ]);
    let document = document(&rules)
        .replace(r#""top":true"#, r#""top":{"claim":"org.name"}"#)
        .replace(r#""apikey":{"header":"x-api-key"}"#, r#""token":{"header":"authorization"}"#);
    let gateway = Gateway::start(CasSemantics::Lenient, 1, &document);
    // {"org":{"name":"Acme"}}, and no token.
    for line in ["Bearer e30.eyJvcmciOnsibmFtZSI6IkFjbWUifX0.c2ln", "Basic YW5uOmFubg=="] {
        let parts = [
            (Part::Path, "/"),
            (Part::Header("authorization".into()), line),
            (Part::Header("x-user-id".into()), line),
        ];
        gateway.vms[0].ask(parts.map(|(part, line)| (part, line.into())).into());
    }
    gateway.pass(1_500);
    let names = |rule: &str| {
        let (_, answer) = ask(&gateway, 0, &format!("top?rule={rule}&by=used"));
        let mut names: Vec<Value> =
            answer["actors"].as_array().unwrap().iter().map(|actor| actor["name"].clone()).collect();
        names.sort_by_key(Value::is_null);
        names
    };
    assert_eq!(
        (names("per-token"), names("per-user")),
        (vec![json!("Acme"), json!(null)], vec![json!(null); 2])
    );
}
