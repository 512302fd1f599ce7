//! Wrong or late replies are treated like none. The server speaks HTTP, as a tunnel does.

use super::{PATIENCE, assert_alone, gateways, in_redis, quota, store_counted};
use gateway::config::cluster;
use gateway::{Carrier, Config, Ending, Gateway, Received, Redis, Reply, Upstream, wait_until};
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

/// Placeholder in a reply for the number of the call.
const NUMBER: &str = "NUMBER";

/// The number of a call, which follows its keys: `EVALSHA`, the script, how many keys, the keys.
fn number(body: &[u8]) -> String {
    let text = str::from_utf8(body).unwrap();
    // A word is its length and then its bytes. No word has a line break but the script itself.
    let mut words = text.split("\r\n").skip(2).step_by(2).skip(2);
    let keys: usize = words.next().unwrap().parse().unwrap();
    words.nth(keys).unwrap().to_owned()
}

/// The server's reply to queries, and how often it was sent. Probes always get a good reply, so that
/// all workers go on querying.
#[derive(Clone)]
struct OwnAnswer {
    reply: Arc<Mutex<Reply>>,
    late: Arc<Mutex<Duration>>,
    times: Arc<AtomicU64>,
}

impl OwnAnswer {
    fn to(&self, request: &Received) -> Reply {
        let number = number(&request.body);
        if request.body.windows(6).any(|part| part == b":probe") {
            return Reply::new(200, list(&number, &[]));
        }
        self.times.fetch_add(1, Ordering::SeqCst);
        let late = *self.late.lock().unwrap();
        thread::sleep(late); // a slow server
        let reply = self.reply.lock().unwrap().clone();
        match str::from_utf8(&reply.body) {
            Ok(text) => Reply { body: text.replace(NUMBER, &number).into(), ..reply },
            Err(_) => reply,
        }
    }

    /// Checks that requests by users of this name are counted locally after such a reply.
    fn is_as_good_as_none(&self, all: &[Gateway], name: &str) {
        let before = self.times.load(Ordering::SeqCst);
        let mut tries = 0;
        wait_until("queries after the probe", PATIENCE, || {
            tries += 1;
            let user = format!("{name}, {tries}");
            let statuses = all.iter().map(|one| one.get("/", &[("x-user-id", &user)]).unwrap().status);
            assert!(statuses.eq([200, 200]), "{user}");
            (self.times.load(Ordering::SeqCst) > before).then_some(())
        })
        .unwrap();
        assert_alone(all, name);
    }
}

/// A list of whole numbers in Redis' protocol, the call's number first.
fn list(number: &str, rest: &[i64]) -> String {
    let rest: String = rest.iter().map(|number| format!(":{number}\r\n")).collect();
    format!("*{}\r\n:{number}\r\n{rest}", 1 + rest.matches(':').count())
}

fn garbage() -> Vec<(&'static str, Reply)> {
    let text = |text: &str| Reply::new(200, text);
    let numbers = |rest: &[i64]| text(&list(NUMBER, rest));
    let mut unknown = [0; 13];
    unknown[0] = 3;
    let mut negative = [-1; 13];
    negative[0] = 0;
    let other = [0, 0, 9, 0, 0, 1, 7, 7, 0, 0, 0, 0, 0];
    let words = format!("*14\r\n:{NUMBER}\r\n{}", "$1\r\na\r\n".repeat(13));
    vec![
        ("nothing", text("")),
        ("words", text("<html>welcome</html>")),
        ("bytes", Reply::new(200, vec![0xff; 300])),
        ("a list too short", numbers(&[0; 12])),
        ("a list too long", numbers(&[0; 14])),
        ("no list", text(":7\r\n")),
        ("an unknown outcome", numbers(&unknown)),
        ("numbers below zero", numbers(&negative)),
        ("no whole numbers", text(&list(NUMBER, &[0; 13]).replace(":0\r\n", ":0.5\r\n"))),
        ("text in the list", text(&words)),
        ("a wait that no such rule has", numbers(&[0, 9_000_000, 9, 0, 0, 1, 7, 7, 0, 0, 0, 0, 0])),
        ("a reply to another call", text(&list("7", &other))),
        ("a reply without a number", text(&list("0", &other[1..]))),
        ("two replies", text(&[list(NUMBER, &other), list(NUMBER, &other)].concat())),
        ("depth", Reply::new(200, "*1\r\n".repeat(100_000))),
        ("two megabytes", Reply::new(200, vec![b' '; 2 << 20])),
        ("always without the script", text("-NOSCRIPT No matching script.\r\n")),
        ("forbidden", Reply::new(403, "")),
        ("a failure", Reply::new(500, "{}")),
        ("a part", text("*0\r\n").ending(Ending::HangUp)),
        ("a part and silence", text("*0\r\n").ending(Ending::Stall)),
        ("an end", text("").ending(Ending::Closed)),
        ("silence", text("").ending(Ending::Silence)),
    ]
}

/// Two gateways that send their calls to this address as HTTP.
fn called(document: &Value, address: SocketAddr) -> Vec<Gateway> {
    let clusters = vec![cluster(Carrier::CLUSTER, address, false)];
    gateways(document, |config| Config { clusters: clusters.clone(), ..config })
}

#[test]
fn garbage_replies_count_as_a_store_that_is_down() {
    let late = Arc::new(Mutex::new(Duration::ZERO));
    let reply = Arc::new(Mutex::new(Reply::new(200, "")));
    let answer = OwnAnswer { reply, late, times: Arc::default() };
    let server = Upstream::start({
        let answer = answer.clone();
        move |request| answer.to(request)
    })
    .unwrap();
    let store = in_redis(json!({"timeout": "50ms"}));
    let document = json!({"limits": quota(), "store": store});
    let all = called(&document, server.address());
    for (name, reply) in garbage() {
        *answer.reply.lock().unwrap() = reply;
        answer.is_as_good_as_none(&all, name);
    }
    // A reply that would refuse if it arrived in time.
    let refusal = [1, 9_000_000, 0, 9_000_000, 9_000_000, 0, 0, 0, 0, 0, 0, 0, 0];
    *answer.reply.lock().unwrap() = Reply::new(200, list(NUMBER, &refusal));
    *answer.late.lock().unwrap() = Duration::from_millis(150);
    answer.is_as_good_as_none(&all, "too late");
    println!("{} answers that make no sense, or come too late", answer.times.load(Ordering::SeqCst));
}

/// Redis hangs up without a reply if it is sent HTTP: its cluster lacks a bridge or a tunnel.
#[test]
fn redis_behind_a_plain_cluster_counts_as_down() {
    let redis = Redis::start().unwrap();
    let document = json!({"limits": quota(), "store": in_redis(json!({"timeout": "2s"}))});
    let all = called(&document, redis.address());
    assert_alone(&all, "ann");
    for gateway in &all {
        let says =
            || gateway.log_contains("is not asked until it answers a probe: status 503, from").then_some(());
        wait_until("the log to say so", PATIENCE, says)
            .unwrap_or_else(|error| panic!("{error}\n{}", gateway.logs()));
    }
    assert!(store_counted(&all, "failed_calls") > 0);
}
