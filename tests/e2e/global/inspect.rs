//! An operator asks any gateway about an actor whom a store counts, and changes what it has.

use super::{Shared, connections, in_redis, passed, shared_rule};
use gateway::{Connection, Gateway};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

const TOKEN: &str = "0123456789abcdef0123456789abcdef";
const QUOTA: usize = 6;

fn document() -> Value {
    let penalty = json!({"after": 3, "for": "1h"});
    json!({
        "inspect": {"path": "/.diana", "token": TOKEN},
        "plan": {"header": "x-plan"},
        "limits": [
            shared_rule("=/", "quota", &json!({"algo": "W", "rpu": QUOTA, "unit": "7d"})),
            shared_rule("=/leased", "leased", &json!({"algo": "W", "rpu": 800, "unit": "7d", "lease": 100})),
            shared_rule("=/penalty", "penalty", &json!({"algo": "W", "rpu": 1, "unit": "7d", "penalty": penalty})),
            shared_rule("=/plan", "plan", &json!({
                "algo": "W", "rpu": 9, "unit": "7d", "plans": {"gold": {"rpu": 1, "penalty": penalty}},
            })),
            shared_rule("=/open", "open", &json!({"algo": "C", "rpu": 5})),
        ],
        "store": in_redis(json!({"timeout": "5s"})),
    })
}

fn ask(gateway: &Gateway, method: &str, question: &str) -> (u16, Value) {
    let headers = [("authorization", &*format!("Bearer {TOKEN}"))];
    let target = format!("/.diana/{question}");
    let response = gateway.connect().unwrap().request(method, &target, &headers, b"").unwrap();
    let text = response.text();
    let body = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"));
    (response.status, body)
}

/// Sends requests until one passes in each turn over all connections, or the time is over. Returns
/// how many pass, and waits until nothing more can.
fn passed_in_time(connections: &mut [Connection], user: &str, most: usize) -> (usize, Duration) {
    let (began, mut sum) = (Instant::now(), 0);
    while sum < most && began.elapsed() < super::PATIENCE {
        sum += passed(connections, "/", user, connections.len());
    }
    let took = began.elapsed();
    for _ in 0..4 {
        std::thread::sleep(Duration::from_millis(110)); // a worker repeats a refusal for 100 ms
        sum += passed(connections, "/", user, connections.len());
    }
    (sum, took)
}

#[test]
fn every_gateway_reads_and_changes_the_one_count() {
    let mut shared = Shared::start(&json!([]));
    let document = document();
    shared.gateways = vec![shared.another(&document), shared.another(&document)];
    let [one, other] = [&shared.gateways[0], &shared.gateways[1]];
    let mut all = connections(&shared.gateways, 4);

    // Both tell the same count, and a look changes nothing.
    assert_eq!(passed(&mut all, "/", "ann", 4), 4);
    for gateway in [one, other, one] {
        let (status, count) = ask(gateway, "GET", "actor?rule=quota&user=ann");
        assert_eq!(status, 200, "{count}");
        let seen = ["used", "remaining", "granted", "penalty_ms"].map(|name| count[name].as_u64().unwrap());
        assert_eq!((seen, &count["is_refused"]), ([4, 2, 0, 0], &json!(false)), "{count}");
    }
    for user in ["ann", "bob"] {
        passed(&mut all, "/", user, 40);
        assert_eq!(ask(other, "GET", &format!("actor?rule=quota&user={user}")).1["is_refused"], true);
    }

    // A reset by one gateway is one in both, for one actor.
    let (_, reset) = ask(one, "POST", "reset?rule=quota&user=ann");
    assert_eq!((&reset["used"], &reset["remaining"]), (&json!(0), &json!(QUOTA)), "{reset}");
    let (sum, took) = passed_in_time(&mut all, "ann", QUOTA);
    println!("after {took:?} the actor had passed {QUOTA} times in two gateways");
    assert_eq!(sum, QUOTA);
    assert_eq!(passed(&mut all, "/", "bob", 8), 0, "nobody else is reset");

    // A grant adds exactly its amount, whichever gateway spends it.
    let (status, granted) = ask(other, "POST", "grant?rule=quota&user=ann&amount=9&for=1h");
    assert_eq!((status, &granted["granted"], &granted["is_refused"]), (200, &json!(9), &json!(false)));
    assert!(granted["granted_for_ms"].as_u64().unwrap() > 3_590_000, "{granted}");
    let (sum, took) = passed_in_time(&mut all, "ann", 9);
    println!("after {took:?} the actor had passed 9 times by the grant");
    assert_eq!((sum, passed(&mut all, "/", "bob", 8)), (9, 0));
    assert_eq!(ask(one, "GET", "actor?rule=quota&user=ann").1["granted"], 0);

    // The end of a penalty, and nothing else.
    passed(&mut all, "/penalty", "ann", 8);
    let (_, refused) = ask(one, "GET", "actor?rule=penalty&user=ann");
    assert!(refused["penalty_ms"].as_u64().unwrap() > 3_590_000, "{refused}");
    let (_, ended) = ask(other, "POST", "penalty?rule=penalty&user=ann");
    assert_eq!((&ended["penalty_ms"], &ended["used"]), (&json!(0), &json!(1)), "{ended}");

    // A question without a plan also finds the penalty of a plan.
    let gold = [("x-user-id", "ann"), ("x-plan", "gold")];
    (0..8).for_each(|_| _ = one.get("/plan", &gold).unwrap());
    let seen = |plan: &str| {
        let count = ask(other, "GET", &format!("actor?rule=plan&user=ann{plan}")).1;
        (count["used"].as_u64().unwrap(), count["penalty_ms"].as_u64().unwrap() > 3_590_000)
    };
    assert_eq!([seen("&plan=gold"), seen("")], [(1, true); 2]);
    assert_eq!(ask(other, "POST", "penalty?rule=plan&user=ann").0, 200);
    assert_eq!([seen("&plan=gold"), seen("")], [(1, false); 2]);

    // Of the units that were not admitted, only leased ones count as used. Other workers return
    // what they have reserved of a lease within 100 ms.
    let admitted = passed(&mut all, "/leased", "ann", 8) as u64;
    let leased = |gateway, name| ask(gateway, "GET", "actor?rule=leased&user=ann").1[name].as_u64().unwrap();
    let seen = || (leased(one, "used"), leased(one, "reserved") + leased(other, "reserved"));
    let agrees = |(used, reserved)| (reserved > 0 && used - admitted == reserved).then_some(());
    gateway::wait_until("used - admitted = reserved", super::PATIENCE, || agrees(seen()))
        .unwrap_or_else(|error| panic!("{error}: {admitted} of {:?}", seen()));

    assert_eq!(ask(one, "GET", "actor?rule=open&user=ann").0, 400);
    assert!(one.log_contains("inspect: 127.0.0.1 resets actor "));
    assert!(one.log_contains(" of rule quota in the store"));
    // Lines of the log name the files of the code.
    assert!(!one.logs().replace("announce", "").contains("ann"), "the log does not name actors");
    assert_eq!(other.counted("inspect.result.grant.changes").unwrap(), 1);

    // A store that does not answer is waited for, and one that is down is not.
    shared.redis.stop_answering().unwrap();
    assert_eq!(ask(&shared.gateways[0], "GET", "actor?rule=quota&user=ann").0, 503);
    shared.redis.go_on().unwrap();
}
