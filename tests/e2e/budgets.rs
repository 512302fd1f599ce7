//! Budgets whose costs are known only when a response ends, under many streams at once, a tenth of
//! them cut: what is spent beyond the budget, and what is refused although it would have fit.

use gateway::{Config, Ending, Gateway, Received, Reply, Upstream, wait_until};
use serde_json::{Value, json};
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(60);
/// How long after a client the gateway notices the end of its stream, on a busy machine.
const NOTICED: Duration = Duration::from_millis(500);
const QUOTA: u64 = 60_000;
/// The quota of a rule that counts the same, and that no request exhausts.
const ALL: u64 = 100_000_000;
const STREAMS: usize = 64;
const EACH: usize = 6;
const STATED: u64 = 8_000;

/// The ways to charge on arrival: the path, the estimate, and whether no request costs more.
fn charges() -> [(&'static str, Value, bool); 3] {
    let input = json!({"request_bytes": true, "per": 4});
    [
        ("nothing", json!(0), false),
        ("stated", json!({"output": {"request_json": "/max_tokens", "max": STATED}}), true),
        (
            "learned",
            json!({"input": input, "output": {"request_json": "/max_tokens", "learned": "p95", "max": STATED}}),
            false,
        ),
    ]
}

fn document() -> Value {
    let limit = |(name, estimate, is_worst): (&str, Value, bool)| {
        let short = if is_worst { "refuse" } else { "take_rest" };
        let cost = json!({"response_json": "/n", "default": 500, "estimate": estimate, "short": short});
        let rule = |name: String, rpu: u64| {
            json!({"name": name, "actor": "user", "algo": "W", "rpu": rpu, "unit": "7d", "cost": cost,
                   "borrow": "100M"})
        };
        json!({"url": format!("/{name}"), "rules": [rule(name.into(), QUOTA), rule(format!("{name}-all"), ALL)]})
    };
    json!({"headers": "ietf", "limits": charges().map(limit)})
}

/// What one request was.
#[derive(Clone, Copy, Debug)]
struct Seen {
    began: Instant,
    ended: Instant,
    cost: u64,
    passed: bool,
}

/// The number in a path `/learned/700/cut`, and whether the stream is cut.
fn of_path(path: &str) -> (u64, bool) {
    let mut steps = path.split('/').skip(2);
    let number = steps.next().and_then(|number| number.parse().ok()).unwrap_or(0);
    (number, steps.next() == Some("cut"))
}

fn upstream() -> Upstream {
    Upstream::start(|request: &Received| {
        let (number, is_cut) = of_path(&request.path);
        let body = format!("{{\"n\": {number}, \"text\": \"{}\"}}", "x".repeat(300));
        let reply = Reply::new(200, body).header("content-type", "application/json");
        match (number, is_cut) {
            (0, _) => reply,
            // The number has been sent.
            (_, true) => reply.ending(Ending::StallAfter(200)),
            (_, false) => reply.pace(30, Duration::from_millis(10)),
        }
    })
    .unwrap()
}

/// One client, whose requests use about 600, a few much more.
fn client(gateway: &Gateway, charge: &str, client: usize, seen: &Mutex<Vec<Seen>>) {
    for round in 0..EACH {
        let at = (client * EACH + round) as u64;
        let (cost, is_cut) =
            (200 + at * 37 % 800 + if at.is_multiple_of(29) { 4_000 } else { 0 }, at % 10 == 3);
        let cut = if is_cut { "/cut" } else { "" };
        let body = format!(r#"{{"max_tokens": {STATED}, "text": "{}"}}"#, "y".repeat(100));
        let head = format!(
            "POST /{charge}/{cost}{cut} HTTP/1.1\r\nhost: a\r\nx-user-id: ann\r\n\
             content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        );
        let began = Instant::now();
        let mut connection = gateway.connect().unwrap();
        connection.send(head.as_bytes()).unwrap();
        let passed = connection.receive(true).unwrap().status == 200;
        if passed {
            connection.receive_part(if is_cut { 100 } else { 300 }).unwrap();
        }
        drop(connection);
        seen.lock().unwrap().push(Seen { began, ended: Instant::now(), cost, passed });
    }
}

/// What the rule that counts everything has counted, seen by a request that states a maximum of 0
/// and costs nothing. If it passes, it is charged its input on arrival.
fn counted(gateway: &Gateway, charge: &str) -> Option<u64> {
    let headers = [("x-user-id", "ann"), ("content-type", "application/json")];
    let body = br#"{"max_tokens":0}"#;
    let answer = gateway.request("POST", &format!("/{charge}/0"), &headers, body).ok()?;
    let rest = answer.header("ratelimit")?.split(&format!("\"{charge}-all\";r=")).nth(1)?;
    let left: u64 = rest.split([';', ',']).next()?.parse().ok()?;
    let input = if charge == "learned" && answer.status == 200 { body.len() as u64 / 4 } else { 0 };
    Some(ALL - left - input)
}

#[test]
fn many_streams_exceed_a_budget_by_no_more_than_the_bound() {
    let upstream = upstream();
    let address = Some(upstream.address());
    let config = Config { stop_iteration: true, upstream: address, ..Config::new(document()) };
    let gateway = Gateway::start(config).unwrap();
    let mut results = Vec::new();
    for (charge, _, is_worst) in charges() {
        let seen = Mutex::new(Vec::new());
        thread::scope(|scope| {
            for at in 0..STREAMS {
                let (gateway, seen) = (&gateway, &seen);
                scope.spawn(move || client(gateway, charge, at, seen));
            }
        });
        let seen = seen.into_inner().unwrap();
        let passed = || seen.iter().filter(|request| request.passed);
        let spent: u64 = passed().map(|request| request.cost).sum();
        // Nothing leaks: exactly the costs stay charged, whoever left early.
        let counted = || counted(&gateway, charge);
        wait_until("the streams to be settled", PATIENCE, || (counted()? == spent).then_some(()))
            .unwrap_or_else(|error| panic!("{error}: {charge}: {:?}, not {spent}", counted()));
        let last = passed().map(|request| request.began).max().unwrap();
        // The gateway notices the end of a stream, above all of one that is cut, after its client.
        let in_flight = |request: &&Seen| request.ended + NOTICED >= last;
        let bound: u64 = passed().filter(in_flight).map(|request| request.cost).sum();
        let over = spent.saturating_sub(QUOTA);
        assert!(over <= bound, "{charge}: {over} beyond the budget, of at most {bound}");
        if is_worst {
            assert_eq!(over, 0, "{charge}");
        }
        let fits = |refused: &&Seen| {
            let before: u64 =
                passed().filter(|other| other.began < refused.ended).map(|other| other.cost).sum();
            before + refused.cost <= QUOTA
        };
        let in_error = seen.iter().filter(|request| !request.passed).filter(fits).count();
        println!(
            "{charge}: {over} beyond {QUOTA}, at most {bound}; {in_error} of {} refused in error",
            seen.len()
        );
        results.push((over, in_error));
    }
    let [nothing, stated, learned] = results[..] else { panic!("{results:?}") };
    assert!(learned.0 < nothing.0 && learned.1 < stated.1, "{results:?}");
}
