//! Writes a second and bytes a second, for bodies of mixed sizes: declared, chunked and cut off.

use crate::ledger::{Bucket, Entry, Ledger};
use crate::left;
use diana_base::prng;
use gateway::{Config, Connection, Gateway, Received, Reply, Stage, Upstream, wait_until};
use serde_json::{Value, json};
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(20);
const LENGTH: Duration = Duration::from_secs(6);
const SECOND: Duration = Duration::from_secs(1);
const WRITES: Bucket = Bucket { burst: 5, rpu: 5, unit: SECOND };
const BYTES: Bucket = Bucket { burst: 1_000_000, rpu: 1_000_000, unit: SECOND };
/// Enough that nothing is forgiven.
const BORROW: u64 = 4_000_000;
const TOTAL: u64 = 1_000_000_000;
/// Each user has so many clients.
const CLIENTS: u64 = 3;

/// Users, and the sizes of their bodies. Bytes are scarce for the second, writes for the third.
const USERS: [(&str, RangeInclusive<u32>); 3] =
    [("mixed", 0..=400_000), ("large", 300_000..=400_000), ("small", 0..=100)];

fn document() -> Value {
    let rule = |name: &str, keys: Value| {
        let mut rule = json!({"name": name, "actor": "user"});
        rule.as_object_mut().unwrap().extend(keys.as_object().unwrap().clone());
        rule
    };
    json!({"headers": "ietf", "limits": [
        {"url": "/", "methods": ["POST", "PUT"], "rules": [
            rule("writes", json!({"rpu": 5, "unit": "second"})),
            rule("bytes", json!({"rpu": "1M", "unit": "second", "cost": "request_bytes", "borrow": BORROW})),
        ]},
        {"url": "/", "rules": [
            rule("total", json!({"algo": "W", "rpu": "1G", "unit": "7d", "cost": "request_bytes"})),
        ]},
    ]})
}

/// A body, and how a client sends it.
struct Body {
    bytes: usize,
    /// The size of a chunk; `None` for a declared length.
    chunk: Option<usize>,
    /// The client leaves after so many bytes.
    cut: Option<usize>,
}

impl Body {
    fn random(state: &mut u64, sizes: &RangeInclusive<u32>) -> Body {
        let mut below = |end: u32| prng::next(state) % end.max(1);
        let bytes = match below(8) {
            0 => *sizes.start(),
            _ => sizes.start() + below(sizes.end() - sizes.start() + 1),
        };
        let chunk = (below(2) == 0).then(|| 1 + below(bytes.min(70_001)) as usize);
        let cut = (bytes > 0 && below(6) == 0).then(|| below(bytes) as usize);
        Body { bytes: bytes as usize, chunk, cut }
    }

    fn entry(&self, user: usize, sent: u64) -> Entry {
        let bytes = self.bytes as u64;
        let estimate = if self.chunk.is_some() { 0 } else { bytes };
        Entry { user, estimate, needs: estimate.max(1), sent, ..Entry::default() }
    }

    fn head(&self, number: u64, user: &str) -> String {
        let length = match self.chunk {
            Some(_) => "transfer-encoding: chunked".into(),
            None => format!("content-length: {}", self.bytes),
        };
        let method = ["POST", "PUT"][(number % 2) as usize];
        format!(
            "{method} / HTTP/1.1\r\nhost: a\r\nx-user-id: {user}\r\nx-number: {number}\r\n{length}\r\n\r\n"
        )
    }

    /// The parts in which the body is sent.
    fn parts(&self) -> impl Iterator<Item = Vec<u8>> {
        let (size, is_chunked) = (self.chunk.unwrap_or(16_384), self.chunk.is_some());
        let sent = self.cut.unwrap_or(self.bytes);
        let lengths = (0..sent.div_ceil(size)).map(move |part| size.min(sent - part * size));
        let end = (is_chunked && self.cut.is_none()).then(|| b"0\r\n\r\n".to_vec());
        lengths
            .map(move |length| match is_chunked {
                true => [format!("{length:x}\r\n").as_bytes(), &vec![b'c'; length], b"\r\n"].concat(),
                false => vec![b'd'; length],
            })
            .chain(end)
    }
}

/// The upstream counts what arrives.
fn upstream(ledger: &Arc<Ledger>) -> Upstream {
    let ledger = Arc::clone(ledger);
    let watch = move |request: &Received, stage: Stage| {
        let Some(number) = request.header("x-number").and_then(|number| number.parse().ok()) else { return };
        ledger.note(number, |entry, now| {
            entry.used.0 = request.body.len() as u64;
            match stage {
                Stage::Begun => entry.begun = Some(now),
                Stage::Answered => entry.answered = Some(now),
                Stage::Over => entry.over = Some(now),
            }
        });
    };
    Upstream::start_watched(|_| Reply::new(200, "written"), watch).unwrap()
}

/// Sends one request. The body follows once the request has passed, as after `100 Continue`.
/// Returns the connection if it can be used again.
fn write(
    ledger: &Ledger,
    mut connection: Connection,
    number: u64,
    user: usize,
    body: &Body,
) -> Option<Connection> {
    let head = body.head(number, USERS[user].0);
    ledger.note(number, |entry, now| *entry = body.entry(user, now));
    connection.send(head.as_bytes()).ok()?;
    let is_refused = wait_for_decision(ledger, &mut connection, number)?;
    if !is_refused {
        for part in body.parts() {
            connection.send(&part).unwrap();
        }
        // The gateway counts a body that is cut off until it notices.
        let sent = body.cut.unwrap_or(body.bytes) as u64;
        ledger.note(number, |entry, now| {
            entry.used.1 = sent;
            entry.left = body.cut.map(|_| now);
        });
        body.cut.is_none().then_some(())?;
    }
    let response = connection.receive(false).unwrap();
    assert_eq!(response.status, if is_refused { 429 } else { 200 }, "{}", response.text());
    ledger.note(number, |entry, now| {
        entry.received = Some(now);
        if is_refused {
            let problem: Value = serde_json::from_slice(&response.body).unwrap();
            let names = problem["violated-policies"].as_array().unwrap();
            entry.refused_by = names.iter().map(|name| name.as_str().unwrap().to_owned()).collect();
        }
    });
    (response.header("connection") != Some("close")).then_some(connection)
}

/// Whether the request is refused; `None` if the connection has ended before.
fn wait_for_decision(ledger: &Ledger, connection: &mut Connection, number: u64) -> Option<bool> {
    let deadline = Instant::now() + PATIENCE;
    while Instant::now() < deadline {
        if ledger.has_begun(number) {
            return Some(false);
        }
        if connection.has_response(Duration::from_millis(1)).ok()? {
            return Some(!ledger.has_begun(number));
        }
    }
    panic!("no decision about request {number}")
}

fn client(ledger: &Ledger, gateway: &Gateway, numbers: &AtomicU64, user: usize, seed: u64) {
    let (mut state, mut connection) = (seed, None);
    let end = Instant::now() + LENGTH;
    while Instant::now() < end {
        let number = numbers.fetch_add(1, Ordering::Relaxed);
        let body = Body::random(&mut state, &USERS[user].1);
        let open = connection.take().unwrap_or_else(|| gateway.connect().unwrap());
        connection = write(ledger, open, number, user, &body);
        thread::sleep(Duration::from_millis(10)); // the client's own work
    }
}

#[test]
fn writes_and_bytes_hold_together_for_bodies_of_all_kinds() {
    let ledger = Arc::new(Ledger::new());
    let upstream = upstream(&ledger);
    let config = Config { upstream: Some(upstream.address()), ..Config::new(document()) };
    let gateway = Gateway::start(config).unwrap();
    let numbers = AtomicU64::new(0);
    thread::scope(|scope| {
        for user in 0..USERS.len() {
            for seed in 0..CLIENTS {
                let (ledger, gateway, numbers) = (&ledger, &gateway, &numbers);
                scope.spawn(move || client(ledger, gateway, numbers, user, seed + CLIENTS * user as u64));
            }
        }
    });
    wait_until("all requests to end", PATIENCE, || ledger.is_over().then_some(())).unwrap();
    for (user, (name, _)) in USERS.iter().enumerate() {
        let (passed, refused) = ledger.of(user);
        let by = |rule: &str| -> Vec<Entry> {
            refused.iter().filter(|entry| entry.refused_by.iter().any(|name| name == rule)).cloned().collect()
        };
        let as_writes = |entries: &[Entry]| -> Vec<Entry> {
            entries
                .iter()
                .map(|entry| Entry { estimate: 1, needs: 1, used: (1, 1), ..entry.clone() })
                .collect()
        };
        let writes = WRITES.check(&as_writes(&passed), &as_writes(&by("writes")));
        let bytes = BYTES.check(&passed, &by("bytes"));
        let count = |is: fn(&Entry) -> bool| passed.iter().filter(|entry| is(entry)).count();
        println!(
            "{name}: {} requests, {} chunked and {} cut off among those that passed; writes {writes:?}; bytes {bytes:?}",
            passed.len() + refused.len(),
            count(|entry| entry.estimate == 0 && entry.used.1 > 0),
            count(|entry| entry.left.is_some()),
        );
        match *name {
            "small" => assert!(writes.used + 1 >= writes.budget, "writes are left"),
            "large" => assert!(bytes.used * 10 >= bytes.budget * 9, "bytes are left"),
            _ => assert!(!by("writes").is_empty() && !by("bytes").is_empty(), "a rule has refused nothing"),
        }
        // What the clients sent was counted once, whatever they declared.
        let least: u64 = passed.iter().map(|entry| entry.used.0).sum();
        let most: u64 = passed.iter().map(|entry| entry.used.1).sum();
        wait_until("all bytes to be charged", PATIENCE, || {
            (TOTAL - most..=TOTAL - least).contains(&left(&gateway, "total", "/", name)?).then_some(())
        })
        .unwrap();
    }
}
