//! A front with wrong or late replies is treated like no front.

use super::{PATIENCE, assert_alone, counted, gateways, in_redis, quota};
use gateway::{Ending, Gateway, Received, Redis, Reply, Upstream, wait_until};
use serde_json::json;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

/// Placeholder in a reply for the number of the call.
const NUMBER: &str = "NUMBER";

/// The number of a call, which follows its keys.
fn number(body: &[u8]) -> String {
    let text = String::from_utf8(body.to_vec()).unwrap();
    let mut parts = text.split('/').skip(2);
    let keys = parts.next().unwrap().parse().unwrap();
    parts.nth(keys).unwrap().to_owned()
}

/// A front's reply to queries, and how often it was sent. Probes always get a good reply, so that
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
        if request.body.windows(7).any(|part| part == b":probe/") {
            return Reply::new(200, format!(r#"{{"EVALSHA":[{number}]}}"#));
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

fn garbage() -> Vec<(&'static str, Reply)> {
    let text = |text: &str| Reply::new(200, text);
    let list = |rest: &str| Reply::new(200, format!(r#"{{"EVALSHA":[{NUMBER},{rest}]}}"#));
    let numbers = |count: usize| list(&vec!["0"; count].join(","));
    vec![
        ("nothing", text("")),
        ("words", text("<html>welcome</html>")),
        ("bytes", Reply::new(200, vec![0xff; 300])),
        ("a list too short", numbers(12)),
        ("a list too long", numbers(14)),
        ("no list", text(r#"{"EVALSHA":7}"#)),
        ("an unknown outcome", list("3,0,0,0,0,0,0,0,0,0,0,0,0")),
        ("numbers below zero", list("0,-1,-1,-1,-1,-1,-1,-1,-1,-1,-1,-1,-1")),
        ("no whole numbers", list("0.5,0,0,0,0,0,0,0,0,0,0,0,0")),
        ("text in the list", list(r#""a","b","c","d","e","f","g","h","i","j","k","l","m""#)),
        ("a wait that no such rule has", list("0,9000000,9,0,0,1,7,7,0,0,0,0,0")),
        ("a reply to another call", text(r#"{"EVALSHA":[7,0,0,9,0,0,1,7,7,0,0,0,0,0]}"#)),
        ("a reply without a number", text(r#"{"EVALSHA":[0,0,9,0,0,1,7,7,0,0,0,0,0]}"#)),
        ("depth", Reply::new(200, "[".repeat(100_000))),
        ("two megabytes", Reply::new(200, vec![b' '; 2 << 20])),
        ("always without the script", text(r#"{"EVALSHA":[false,"NOSCRIPT No matching script."]}"#)),
        ("forbidden", Reply::new(403, "")),
        ("a failure", Reply::new(500, "{}")),
        ("a part", text(r#"{"EVALSHA":[]}"#).ending(Ending::HangUp)),
        ("a part and silence", text(r#"{"EVALSHA":[]}"#).ending(Ending::Stall)),
        ("an end", text("").ending(Ending::Closed)),
        ("silence", text("").ending(Ending::Silence)),
    ]
}

#[test]
fn garbage_replies_count_as_a_store_that_is_down() {
    let late = Arc::new(Mutex::new(Duration::ZERO));
    let reply = Arc::new(Mutex::new(Reply::new(200, "")));
    let answer = OwnAnswer { reply, late, times: Arc::default() };
    let front = Upstream::start({
        let answer = answer.clone();
        move |request| answer.to(request)
    })
    .unwrap();
    let store = in_redis(json!({"timeout": "50ms"}));
    let document = json!({"limits": quota(), "store": store});
    let all = gateways(&document, &[("webdis", front.address(), false)], |config| config);
    for (name, reply) in garbage() {
        *answer.reply.lock().unwrap() = reply;
        answer.is_as_good_as_none(&all, name);
    }
    // A reply that would refuse if it arrived in time.
    let refusal = format!(r#"{{"EVALSHA":[{NUMBER},1,9000000,0,9000000,9000000,0,0,0,0,0,0,0,0]}}"#);
    *answer.reply.lock().unwrap() = Reply::new(200, refusal);
    *answer.late.lock().unwrap() = Duration::from_millis(150);
    answer.is_as_good_as_none(&all, "too late");
    println!("{} answers that make no sense, or come too late", answer.times.load(Ordering::SeqCst));
}

/// Redis hangs up without a reply if it is sent HTTP.
#[test]
fn redis_itself_behind_the_dialect_of_webdis_is_named() {
    let redis = Redis::start().unwrap();
    let document = json!({"limits": quota(), "store": in_redis(json!({"timeout": "2s"}))});
    let all = gateways(&document, &[("webdis", redis.address(), false)], |config| config);
    assert_alone(&all, "ann");
    for gateway in &all {
        let says = || gateway.logs().contains("Redis itself does so if it is sent HTTP").then_some(());
        wait_until("the log to name the mistake", PATIENCE, says)
            .unwrap_or_else(|error| panic!("{error}\n{}", gateway.logs()));
    }
    assert!(counted(&all, "store.webdis.failed_calls") > 0);
}
