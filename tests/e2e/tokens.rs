//! A budget of tokens a minute, under many clients of a model whose responses tell what they cost.

use crate::ledger::{Bucket, Entry, Ledger};
use crate::left;
use diana_base::prng;
use gateway::{Config, Connection, Ending, Gateway, Received, Reply, Stage, Upstream, wait_until};
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(20);
const LENGTH: Duration = Duration::from_secs(8);
const BUDGET: Bucket = Bucket { burst: 100_000, rpu: 100_000, unit: Duration::from_secs(60) };
const ESTIMATE: u64 = 500;
const TOTAL: u64 = 1_000_000_000;
const USERS: usize = 6;
const CLIENTS: u64 = 6;

fn document() -> Value {
    let cost = json!({"response_json": "/usage/total_tokens", "estimate": ESTIMATE, "max": "200k"});
    json!({"headers": "ietf", "limits": [
        {"url": "/chat", "rules": [
            {"name": "tokens", "actor": "user", "rpu": "100k", "unit": "minute", "cost": cost},
        ]},
        {"url": "/", "rules": [
            {"name": "total", "actor": "user", "algo": "W", "rpu": "1G", "unit": "7d", "cost": cost},
        ]},
    ]})
}

/// A response of the model, as its client wishes it.
#[derive(Clone, Copy, Debug)]
struct Wish {
    kind: Kind,
    tokens: u64,
    /// The model works so long before it responds, and a tenth of it before each part.
    work: Duration,
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    /// A JSON document with the number.
    Json,
    /// Without it.
    JsonWithout,
    /// Events that tell growing numbers, and the right one at last.
    Events,
    EventsWithout,
    /// The client leaves after the first number.
    LeavesAfterNumber,
    /// The client leaves in the stream before any number.
    LeavesBeforeNumber,
    /// The client leaves before the response, which never comes.
    LeavesAtOnce,
    /// The model ends the connection within its response.
    BreaksOff,
}

const KINDS: [Kind; 8] = [
    Kind::Json,
    Kind::JsonWithout,
    Kind::Events,
    Kind::EventsWithout,
    Kind::LeavesAfterNumber,
    Kind::LeavesBeforeNumber,
    Kind::LeavesAtOnce,
    Kind::BreaksOff,
];

impl Wish {
    fn random(state: &mut u64) -> Wish {
        let mut below = |end: u32| prng::next(state) % end;
        let kind = match below(16) {
            kind @ 0..8 => KINDS[kind as usize],
            8..11 => Kind::Json,
            _ => Kind::Events,
        };
        Wish { kind, tokens: below(5_001).into(), work: Duration::from_millis(below(120).into()) }
    }

    /// What the request costs in the end.
    fn used(self) -> u64 {
        match self.kind {
            Kind::Json | Kind::Events => self.tokens,
            // A later event might have a larger number.
            Kind::LeavesAfterNumber => self.tokens.max(ESTIMATE),
            _ => ESTIMATE,
        }
    }

    fn body(self) -> String {
        let usage = |tokens: u64| format!(r#"{{"choices":[],"usage":{{"total_tokens":{tokens}}}}}"#);
        let words = |count: usize| "data: {\"choices\":[{\"delta\":\"a word\"}]}\n\n".repeat(count);
        match self.kind {
            Kind::Json | Kind::BreaksOff => usage(self.tokens),
            Kind::JsonWithout => r#"{"choices":[],"usage":{}}"#.into(),
            Kind::EventsWithout | Kind::LeavesBeforeNumber => words(60) + "data: [DONE]\n\n",
            Kind::LeavesAfterNumber => format!("data: {}\n\n{}", usage(self.tokens), words(60)),
            Kind::Events | Kind::LeavesAtOnce => {
                let growing =
                    (1..4).map(|part| format!("{}data: {}\n\n", words(15), usage(self.tokens * part / 4)));
                let growing: String = growing.collect();
                format!("{growing}data: {}\n\n{}data: [DONE]\n\n", usage(self.tokens), words(2))
            }
        }
    }

    /// Of a body of which the client sees a part only.
    fn seen(self) -> Option<usize> {
        match self.kind {
            Kind::LeavesAfterNumber => Some(self.body().find("word").unwrap_or_default()),
            Kind::LeavesBeforeNumber => Some(self.body().len() / 2),
            _ => None,
        }
    }

    fn reply(self) -> Reply {
        thread::sleep(self.work); // the model's work
        let body = self.body();
        let kind = if body.starts_with("data") { "text/event-stream" } else { "application/json" };
        let ending = match self.kind {
            Kind::BreaksOff => Ending::HangUp,
            Kind::LeavesAtOnce => Ending::Silence,
            _ => self.seen().map_or(Ending::Whole, Ending::StallAfter),
        };
        Reply::new(200, body).header("content-type", kind).ending(ending).pace(700, self.work / 10)
    }

    /// As headers of the request.
    fn headers(self) -> String {
        let Wish { kind, tokens, work } = self;
        let kind = KINDS.iter().position(|known| *known as u8 == kind as u8).unwrap();
        format!("x-kind: {kind}\r\nx-tokens: {tokens}\r\nx-work: {}\r\n", work.as_millis())
    }

    fn of(request: &Received) -> Option<Wish> {
        let number = |name| request.header(name)?.parse::<u64>().ok();
        let kind = KINDS[number("x-kind")? as usize];
        Some(Wish { kind, tokens: number("x-tokens")?, work: Duration::from_millis(number("x-work")?) })
    }
}

fn model(ledger: &Arc<Ledger>) -> Upstream {
    let ledger = Arc::clone(ledger);
    let watch = move |request: &Received, stage: Stage| {
        let Some(number) = request.header("x-number").and_then(|number| number.parse().ok()) else { return };
        ledger.note(number, |entry, now| match stage {
            Stage::Begun => entry.begun = Some(now),
            Stage::Answered => entry.answered = Some(now),
            Stage::Over => entry.over = Some(now),
        });
    };
    let free =
        || Reply::new(200, r#"{"usage":{"total_tokens":0}}"#).header("content-type", "application/json");
    let handler = move |request: &Received| Wish::of(request).map_or_else(free, Wish::reply);
    Upstream::start_watched(handler, watch).unwrap()
}

/// Sends one request. Returns the connection if it can be used again.
fn ask(
    ledger: &Ledger,
    mut connection: Connection,
    number: u64,
    user: usize,
    wish: Wish,
) -> Option<Connection> {
    ledger.note(number, |entry, now| {
        let used = (wish.used(), wish.used());
        *entry = Entry { user, estimate: ESTIMATE, needs: ESTIMATE, used, sent: now, ..Entry::default() };
    });
    let head = format!(
        "GET /chat HTTP/1.1\r\nhost: a\r\nx-user-id: user-{user}\r\nx-number: {number}\r\n{}\r\n",
        wish.headers()
    );
    connection.send(head.as_bytes()).unwrap();
    let leaves = || ledger.note(number, |entry, now| entry.left = Some(now));
    if let Kind::LeavesAtOnce = wish.kind {
        let mut decided =
            || ledger.has_begun(number) || connection.has_response(Duration::from_millis(1)).unwrap();
        wait_until("a decision", PATIENCE, || decided().then_some(())).unwrap();
        if ledger.has_begun(number) {
            leaves();
            return None;
        }
    }
    if let Some(bytes) = wish.seen() {
        let head = connection.receive(true).unwrap();
        if head.status == 200 {
            connection.receive_part(bytes).unwrap();
            leaves();
            return None;
        }
        // The body of the refusal is still to come.
        let length = head.header("content-length").unwrap().parse().unwrap();
        let body = connection.receive_part(length).unwrap();
        return conclude(ledger, connection, number, &gateway::Response { body, ..head });
    }
    match connection.receive(false) {
        Ok(response) => conclude(ledger, connection, number, &response),
        Err(error) => {
            assert!(matches!(wish.kind, Kind::BreaksOff), "{error}: {wish:?}");
            ledger.note(number, |entry, now| entry.received = Some(now));
            None
        }
    }
}

fn conclude(
    ledger: &Ledger,
    connection: Connection,
    number: u64,
    response: &gateway::Response,
) -> Option<Connection> {
    ledger.note(number, |entry, now| {
        entry.received = Some(now);
        if response.status == 429 {
            entry.refused_by.push("tokens".into());
        }
    });
    assert!([200, 429].contains(&response.status), "{} {}", response.status, response.text());
    (response.header("connection") != Some("close")).then_some(connection)
}

fn client(ledger: &Ledger, gateway: &Gateway, numbers: &AtomicU64, user: usize, seed: u64) {
    let (mut state, mut connection) = (seed, None);
    let end = Instant::now() + LENGTH;
    while Instant::now() < end {
        let number = numbers.fetch_add(1, Ordering::Relaxed);
        let open = connection.take().unwrap_or_else(|| gateway.connect().unwrap());
        connection = ask(ledger, open, number, user, Wish::random(&mut state));
        thread::sleep(Duration::from_millis(25)); // the client's own work
    }
}

#[test]
fn a_budget_of_tokens_is_exceeded_only_by_what_was_in_flight() {
    let ledger = Arc::new(Ledger::new());
    let model = model(&ledger);
    let config = Config { upstream: Some(model.address()), ..Config::new(document()) };
    let gateway = Gateway::start(config).unwrap();
    let numbers = AtomicU64::new(0);
    thread::scope(|scope| {
        for seed in 0..USERS as u64 * CLIENTS {
            let (ledger, gateway, numbers) = (&ledger, &gateway, &numbers);
            scope.spawn(move || client(ledger, gateway, numbers, seed as usize % USERS, seed));
        }
    });
    wait_until("all requests to end", PATIENCE, || ledger.is_over().then_some(())).unwrap();
    for user in 0..USERS {
        let (passed, refused) = ledger.of(user);
        let findings = BUDGET.check(&passed, &refused);
        let left_early = passed.iter().filter(|entry| entry.left.is_some()).count();
        println!(
            "user {user}: {} passed, {left_early} of them left early, {} refused; tokens {findings:?}",
            passed.len(),
            refused.len()
        );
        assert!(findings.used * 100 >= findings.budget * 95, "tokens are left");
        assert!(findings.excess > 0 && left_early > 0, "the load is too small");
        // Each request was settled once, to what it used. The request that looks is charged, too.
        let used: u64 = passed.iter().map(|entry| entry.used.0).sum();
        wait_until("all to be settled", PATIENCE, || {
            (left(&gateway, "total", "/free", &format!("user-{user}"))? == TOTAL - used - ESTIMATE)
                .then_some(())
        })
        .unwrap_or_else(|error| {
            panic!(
                "{error}: {:?}, not {}",
                left(&gateway, "total", "/free", &format!("user-{user}")),
                TOTAL - used - ESTIMATE
            )
        });
    }
}
