//! An operator looks up one customer in Envoy, and lets the customer begin anew.

use crate::start;
use gateway::{Config, Gateway, Received, Reply, Response, Upstream};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

const TOKEN: &str = "0123456789abcdef0123456789abcdef";

fn document(inspect: &Value) -> Value {
    json!({
        "inspect": inspect,
        "limits": [{"url": "/", "rules": [
            {"name": "per-user", "actor": "user", "algo": "W", "rpu": 5, "unit": "day", "penalty": {"after": 3, "for": "1h"}},
            {"name": "per-ip", "actor": "ip", "rpu": 100_000, "unit": "day"},
        ]}],
    })
}

fn inspect() -> Value {
    json!({"path": "/.diana", "token": TOKEN})
}

fn body(response: &Response) -> Value {
    serde_json::from_str(&response.text()).unwrap_or_else(|error| panic!("{error}: {}", response.text()))
}

#[test]
fn a_count_is_that_of_the_next_response_and_a_reset_lets_one_actor_pass_in_every_worker() {
    let gateway = start(document(&inspect()));
    let bearer = format!("Bearer {TOKEN}");
    let ask = |method: &str, question: &str| {
        let headers = [("authorization", &*bearer)];
        gateway.connect().unwrap().request(method, &format!("/.diana/{question}"), &headers, b"").unwrap()
    };
    let get = |user: &str| gateway.get("/", &[("x-user-id", user)]).unwrap();
    let remaining = |response: &Response| {
        let shown = response.header("ratelimit").unwrap().to_owned();
        shown.split(r#""per-user";r="#).nth(1).unwrap().split(';').next().unwrap().parse::<u64>().unwrap()
    };

    let policy = body(&ask("GET", "policy"));
    assert_eq!(policy["rules"][0]["name"], "per-user", "{policy}");
    assert_eq!(policy["rules"][0]["actors"], json!(["user"]), "{policy}");
    assert!(gateway.log_contains(policy["fingerprint"].as_str().unwrap()), "{policy}");

    let new = body(&ask("GET", "actor?rule=per-user&user=ann"));
    assert_eq!((&new["used"], &new["remaining"], &new["is_refused"]), (&json!(0), &json!(5), &json!(false)));
    for used in 1..=3 {
        let left = remaining(&get("ann"));
        let count = body(&ask("GET", "actor?rule=per-user&user=ann"));
        assert_eq!((&count["used"], &count["remaining"]), (&json!(used), &json!(left)), "{count}");
    }
    for user in ["ann", "bob"] {
        while get(user).status == 200 {}
        (0..3).for_each(|_| assert_eq!(get(user).status, 429));
    }
    let refused = body(&ask("GET", "actor?rule=per-user&user=ann"));
    assert!(
        refused["is_refused"] == true && refused["penalty_ms"].as_u64().unwrap() > 3_590_000,
        "{refused}"
    );

    // Several connections, so that each worker has refused her in the last 100 ms.
    let mut connections: Vec<_> = (0..8).map(|_| gateway.connect().unwrap()).collect();
    let mut asked = |user: &str| -> Vec<u32> {
        let answers = connections.iter_mut().map(|connection| {
            connection.request("GET", "/", &[("x-user-id", user)], b"").unwrap().status.into()
        });
        answers.collect()
    };
    assert_eq!(asked("ann"), [429; 8]);
    let reset = body(&ask("POST", "reset?rule=per-user&user=ann"));
    assert_eq!((&reset["used"], &reset["penalty_ms"]), (&json!(0), &json!(0)), "{reset}");
    let began = Instant::now();
    let mut passed = 0;
    while passed < 5 && began.elapsed() < Duration::from_secs(20) {
        passed += asked("ann").iter().filter(|status| **status == 200).count();
    }
    println!("after {:?} the actor had the whole quota again", began.elapsed());
    assert_eq!(passed, 5, "what the quota admits, and no more");
    let count = body(&ask("GET", "actor?rule=per-user&user=bob"));
    assert_eq!(asked("bob"), [429; 8], "nobody else is reset");
    let ended = body(&ask("POST", "penalty?rule=per-user&user=bob"));
    assert_eq!((&ended["used"], &ended["penalty_ms"]), (&count["used"], &json!(0)), "{ended}");
    for does in ["ends the penalty of", "resets"] {
        assert!(gateway.log_contains(&format!("inspect: 127.0.0.1 {does} actor ")), "{does}");
    }
    // Lines of the log name the files of the code.
    assert!(!gateway.logs().replace("announce", "").contains("ann"), "the log does not name actors");
}

/// Envoy logs the path of each request, which must not contain the customer's key.
#[test]
fn a_header_keeps_the_actor_out_of_every_log() {
    const KEY: &str = "k-4711-of-a-customer";
    let document = json!({
        "inspect": inspect(),
        "actors": {"apikey": {"header": "x-api-key"}},
        "limits": [{"url": "/", "rules": [
            {"name": "per-key", "actor": "apikey", "algo": "W", "rpu": 5, "unit": "day"},
        ]}],
    });
    let config = Config { access_log: Some("%REQ(:METHOD)% %REQ(:PATH)%".into()), ..Config::new(document) };
    let gateway = Gateway::start(config).unwrap();
    assert_eq!(gateway.get("/", &[("x-api-key", KEY)]).unwrap().status, 200);
    let (bearer, actor) = (format!("Bearer {TOKEN}"), format!("apikey={}", KEY.replace('-', "%2D")));
    let questions = [
        ("GET", "/.diana/actor?rule=per-key"),
        ("POST", "/.diana/grant?rule=per-key&amount=5&for=1h"),
        ("POST", "/.diana/reset?rule=per-key"),
    ];
    for ((method, target), used) in questions.into_iter().zip([1, 1, 0]) {
        let headers = [("authorization", &*bearer), ("diana-actor", &actor)];
        let answer = body(&gateway.connect().unwrap().request(method, target, &headers, b"").unwrap());
        assert_eq!(answer["used"], used, "{answer}");
    }
    let log = gateway.access_log_of(4).unwrap();
    for (method, target) in questions {
        assert!(log.contains(&format!("{method} {target}")), "{log:?}");
    }
    for text in [log.join("\n"), gateway.logs()] {
        assert!(!text.contains("4711") && !text.contains(TOKEN), "{text}");
    }
}

#[test]
fn what_cannot_be_answered_is_explained() {
    let gateway = start(document(&inspect()));
    let bearer = format!("bearer {TOKEN}");
    let ask = |method: &str, question: &str| {
        let headers = [("authorization", &*bearer)];
        let target = format!("/.diana/{question}");
        let response = gateway.connect().unwrap().request(method, &target, &headers, b"").unwrap();
        (response.status, body(&response)["error"].as_str().unwrap_or_default().to_owned())
    };
    assert_eq!(ask("GET", "actor?user=ann").0, 400);
    assert_eq!(
        ask("GET", "actor?rule=no%22ne&user=ann"),
        (400, "there is no rule `no\"ne`: the rules are per-user, per-ip".into())
    );
    assert_eq!(ask("GET", "actor?rule=per-user"), (400, "expected `user=VALUE`".into()));
    assert_eq!(ask("GET", "actor?rule=per-ip&ip=no-address").0, 400);
    assert_eq!(ask("GET", "actor?rule=per-ip&ip=127.0.0.1"), (200, String::new()));
    assert_eq!(ask("GET", "reset?rule=per-user&user=ann").0, 405);
    assert_eq!(ask("GET", "penalty?rule=per-user&user=ann").0, 405);
    let none = ask("POST", "penalty?rule=per-ip&ip=127.0.0.1");
    assert_eq!(none, (400, "the rule `per-ip` has no penalty".into()));
    assert_eq!(ask("POST", "policy").0, 405);
    assert_eq!(ask("GET", "").0, 404);
    let none = ask("POST", "grant?rule=per-user&user=ann&amount=0&for=1h");
    assert_eq!(none.0, 400, "{}", none.1);
    let none = ask("POST", "grant?rule=per-user&user=ann&amount=5&for=25h");
    assert_eq!(none, (400, "for: expected a span from 1s to 1d, found `25h`".into()));
}

#[test]
fn a_grant_adds_exactly_its_amount_in_every_worker() {
    let gateway = start(document(&inspect()));
    let bearer = format!("Bearer {TOKEN}");
    let ask = |method: &str, question: &str| {
        let headers = [("authorization", &*bearer)];
        body(
            &gateway
                .connect()
                .unwrap()
                .request(method, &format!("/.diana/{question}"), &headers, b"")
                .unwrap(),
        )
    };
    let mut connections: Vec<_> = (0..8).map(|_| gateway.connect().unwrap()).collect();
    let mut passed = |user: &str| -> usize {
        let answers = connections
            .iter_mut()
            .map(|connection| connection.request("GET", "/", &[("x-user-id", user)], b"").unwrap().status);
        answers.filter(|status| *status == 200).count()
    };
    // Two refusals: the third one would begin a penalty.
    for user in ["ann", "bob"] {
        assert_eq!(
            (0..7).filter(|_| gateway.get("/", &[("x-user-id", user)]).unwrap().status == 200).count(),
            5
        );
    }
    let granted = ask("POST", "grant?rule=per-user&user=ann&amount=20&for=1h");
    assert_eq!((&granted["granted"], &granted["is_refused"]), (&json!(20), &json!(false)), "{granted}");
    let (began, mut sum) = (Instant::now(), 0);
    while sum < 20 && began.elapsed() < Duration::from_secs(20) {
        sum += passed("ann");
    }
    println!("after {:?} the actor had passed {sum} times", began.elapsed());
    assert_eq!((sum + passed("ann"), passed("bob")), (20, 0));
    assert!(gateway.log_contains("inspect: 127.0.0.1 grants 20 units for 1h to actor "));
    assert_eq!(gateway.counted("inspect.result.grant.changes").unwrap(), 1);
}

/// A guesser learns nothing more after ten wrong tokens, whatever comes next.
#[test]
fn after_many_wrong_tokens_none_is_compared() {
    let config = Config { concurrency: 1, ..Config::new(json!({"inspect": inspect(), "limits": []})) };
    let gateway = Gateway::start(config).unwrap();
    let (wrong, right) = (format!("Bearer {TOKEN}0"), format!("Bearer {TOKEN}"));
    let get = |token: &str| gateway.get("/.diana/policy", &[("authorization", token)]).unwrap();
    (0..9).for_each(|_| _ = get(&wrong));
    assert!(get(&right).text().contains("fingerprint"));
    let refused = get(&wrong);
    assert_eq!((refused.status, refused.header("www-authenticate")), (401, Some("Bearer")));
    for token in [&right, &wrong] {
        let answer = get(token);
        assert_eq!((answer.status, answer.text()), (401, refused.text()));
    }
    let counted = |result: &str| gateway.counted(&format!("inspect.result.{result}.questions")).unwrap();
    assert_eq!(["answered", "refused", "limited"].map(counted), [1, 10, 2]);
}

/// No token reaches an upstream from where questions are allowed, right or wrong. Everything else is
/// an ordinary request, byte for byte.
#[test]
fn only_who_sends_a_token_from_an_allowed_address_sees_that_the_path_exists() {
    let bearer = format!("Bearer {TOKEN}");
    let wrong = ["", "Bearer ", "Bearer 0123456789abcdef0123456789abcdee", "Basic 0123", TOKEN];
    let (tell, told) = std::sync::mpsc::channel();
    let tell = std::sync::Mutex::new(tell);
    let upstream = Upstream::start(move |received: &Received| {
        let words = received.headers.iter().filter(|(name, _)| name != "x-request-id");
        let words = words.map(|(name, value)| format!("{name}: {value}")).collect::<Vec<_>>().join("\n");
        tell.lock().unwrap().send(words).unwrap();
        Reply::new(404, "no such page")
    });
    let upstream = upstream.unwrap();
    let start = |document: Value| {
        let upstream = Some(upstream.address());
        Gateway::start(Config { upstream, ..Config::new(document) }).unwrap()
    };
    let passes = |gateway: &Gateway, headers: &[(&str, &str)]| {
        let get = |path: &str| {
            let response = gateway.get(path, headers).unwrap();
            let type_of = response.header("content-type").map(str::to_owned);
            (response.status, response.text(), type_of, told.try_recv().unwrap().replace(path, ""))
        };
        assert_eq!(get("/.diana/policy"), get("/elsewhere/page"));
    };
    let gateway = start(json!({"inspect": inspect(), "limits": []}));
    passes(&gateway, &[]);
    passes(&gateway, &[("diana-actor", "user=ann"), ("cookie", "a=b")]);
    for wrong in wrong {
        let answer = gateway.get("/.diana/policy", &[("authorization", wrong)]).unwrap();
        assert_eq!((answer.status, answer.header("www-authenticate")), (401, Some("Bearer")), "{wrong}");
        assert!(body(&answer)["error"].as_str().unwrap().starts_with("the token is wrong"));
        assert!(told.try_recv().is_err(), "the upstream has got the token");
    }
    // The name of the path alone is no such path.
    for beside in ["/.diana", "/.dianas/policy"] {
        assert_eq!(gateway.get(beside, &[("authorization", &bearer)]).unwrap().status, 404);
        assert!(told.try_recv().unwrap().contains(TOKEN));
    }
    assert_eq!(gateway.counted("inspect.result.refused.questions").unwrap(), 5);
    assert_eq!(gateway.counted("inspect.result.answered.questions").unwrap(), 0);

    let elsewhere = json!({"path": "/.diana", "token": TOKEN, "allow": ["192.0.2.0/24"]});
    for document in [json!({"inspect": elsewhere, "limits": []}), json!({"limits": []})] {
        let gateway = start(document);
        passes(&gateway, &[("authorization", &bearer)]);
        passes(&gateway, &[("authorization", wrong[2])]);
    }
}

/// A single token without a name may do everything; the log shows the names of others.
#[test]
fn a_token_that_only_reads_changes_nothing_and_a_change_has_a_name() {
    const READS: &str = "fedcba9876543210fedcba9876543210";
    let tokens = json!({"ann": TOKEN, "ci": {"token": READS, "read": true}});
    let mut document = document(&json!({"path": "/.diana", "tokens": tokens}));
    document["access_log"] = json!({"actor": "hash", "secret": "0123456789abcdef"});
    let gateway = start(document);
    let ask = |token: &str, method: &str, question: &str| {
        let headers = [("authorization", &*format!("Bearer {token}")), ("diana-actor", "user=ann")];
        let target = format!("/.diana/{question}");
        let response = gateway.connect().unwrap().request(method, &target, &headers, b"").unwrap();
        (response.status, body(&response))
    };
    assert_eq!(gateway.get("/", &[("x-user-id", "ann")]).unwrap().status, 200);
    for question in ["reset?rule=per-user", "grant?rule=per-user&amount=5&for=1h", "penalty?rule=per-user"] {
        assert_eq!(
            ask(READS, "POST", question),
            (403, json!({"error": "the token `ci` may only read"})),
            "{question}"
        );
    }
    for token in [READS, TOKEN] {
        let (status, count) = ask(token, "GET", "actor?rule=per-user");
        assert_eq!((status, &count["used"], &count["granted"]), (200, &json!(1), &json!(0)), "{count}");
    }
    assert_eq!(ask(TOKEN, "POST", "grant?rule=per-user&amount=5&for=1h").0, 200);
    assert_eq!(ask(TOKEN, "POST", "reset?rule=per-user").1["used"], 0);
    // The hash of the access log: printf %s ann | openssl dgst -sha256 -hmac 0123456789abcdef
    for does in ["grants 5 units for 1h to", "resets"] {
        let line = format!("inspect: ann at 127.0.0.1 {does} actor fb385915a0623c0b of rule per-user");
        assert!(gateway.log_contains(&line), "{line}: {}", gateway.logs());
    }
    assert!(!gateway.log_contains("ci at"));
}
