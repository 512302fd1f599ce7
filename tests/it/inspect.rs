//! What operators see of a count is what the next response would show.

use diana_base::time::{Span, Time};
use diana_limiter::cells::store::{CasSemantics, SharedDataStore, Simulated};
use diana_limiter::inspect::{ActorCount, Target};
use diana_limiter::policy::Policy;
use diana_limiter::request::{Part, Values};
use diana_limiter::response::ResponseOptions;
use diana_limiter::session::{Session, Worker};
use std::cell::Cell;

const RULES: [&str; 8] = [
    r#""rpu": 6, "unit": "minute""#,
    r#""rpu": 6, "unit": "minute", "start": "empty""#,
    r#""algo": "W", "rpu": 6, "unit": "minute""#,
    r#""algo": "SW", "rpu": 6, "unit": "minute""#,
    r#""algo": "SL", "rpu": 6, "unit": "minute""#,
    r#""algo": "LB", "rpu": 6, "unit": "minute", "queue": 3"#,
    r#""algo": "W", "rpu": 6, "unit": "minute", "headroom": 2"#,
    r#""algo": "W", "rpu": 6, "unit": "minute", "penalty": {"after": 2, "for": "1h"}"#,
];

/// A rule, a worker that reserves, and a clock.
struct Gateway {
    policy: Policy,
    response: ResponseOptions,
    store: SharedDataStore<Simulated>,
    worker: Worker,
    now: Cell<Time>,
}

impl Gateway {
    fn new(rule: &str) -> Gateway {
        let document = format!(
            r#"[{{"url": "/", "rules": [{{"name": "rule", "actor": "user", {rule}}}]}},
                {{"url": "/high", "priority": "high", "rules": [{{"name": "other", "rpu": "1M", "unit": "second"}}]}}]"#
        );
        let compiled = diana_config::compile(document.as_bytes()).unwrap();
        let store = SharedDataStore::probe(Simulated::new(CasSemantics::Strict)).unwrap();
        let worker = Worker::new(&compiled.policy, &[7; 16]);
        let now = Cell::new(Time::from_ns(1_795_392_000_000_000_000));
        Gateway { policy: compiled.policy, response: compiled.response, store, worker, now }
    }

    /// Sends a request of the user. Returns what the response shows as left, and whether it passes.
    fn request(&mut self, user: &str) -> (u64, bool) {
        let values = Values::default().with(Part::Path, "/").with(Part::Header("x-user-id".into()), user);
        let request = self.policy.request(&values);
        let now = || self.now.get();
        let (_, decision) = Session::start(&self.policy, &mut self.worker, &self.store, &request, now);
        let headers = self.response.headers(&self.policy, decision);
        let (_, shown) = headers.iter().find(|(name, _)| *name == "ratelimit").unwrap();
        let left = shown.split(r#""rule";r="#).nth(1).unwrap().split(';').next().unwrap();
        (left.parse().unwrap(), !decision.is_rejected())
    }

    fn target(&self, user: &str) -> Target {
        let parameter = |name: &str| match name {
            "rule" => Some("rule".to_owned()),
            "user" => Some(user.to_owned()),
            _ => None,
        };
        Target::find(&self.policy, &self.worker, parameter).unwrap()
    }

    fn count(&self, user: &str) -> ActorCount {
        self.target(user).count(&self.policy, &self.worker, &self.store, || self.now.get()).unwrap()
    }

    fn end_penalty(&mut self, user: &str) {
        let target = self.target(user);
        target.end_penalty(&self.policy, &mut self.worker, &self.store, || self.now.get()).unwrap();
    }

    fn reset(&mut self, user: &str) {
        let target = self.target(user);
        target.reset(&self.policy, &mut self.worker, &self.store, || self.now.get()).unwrap();
    }
}

#[test]
fn a_look_is_what_the_next_response_shows_and_changes_nothing() {
    for rule in RULES {
        let mut gateway = Gateway::new(rule);
        let mut other = Gateway::new(rule);
        for round in 0..40 {
            let before = gateway.count("ann");
            let (left, passes) = gateway.request("ann");
            assert_eq!((left, passes), other.request("ann"), "{rule}, {round}: a look changes nothing");
            assert_eq!(before.is_refused, !passes, "{rule}, {round}: {before:?}");
            assert_eq!(gateway.count("ann").remaining, left, "{rule}, {round}");
            assert_eq!(gateway.count("bob"), other.count("bob"), "{rule}");
            for gateway in [&gateway, &other] {
                let later = gateway.now.get().after(Span::from_ms(if round % 7 == 6 { 20_000 } else { 30 }));
                gateway.now.set(later);
            }
        }
    }
}

#[test]
fn a_reset_actor_is_like_a_new_one_and_nobody_else_is() {
    for rule in RULES {
        let mut gateway = Gateway::new(rule);
        let new = gateway.count("ann");
        for _ in 0..12 {
            gateway.request("ann");
            gateway.request("bob");
        }
        let bob = gateway.count("bob");
        gateway.reset("ann");
        assert_eq!((gateway.count("ann"), gateway.count("bob")), (new, bob), "{rule}");
        assert_eq!((gateway.request("ann").1, gateway.request("bob").1), (!new.is_refused, !bob.is_refused));
        gateway.reset("nobody");
    }
}

#[test]
fn the_end_of_a_penalty_leaves_the_count_and_the_next_penalty() {
    let mut gateway =
        Gateway::new(r#""algo": "SW", "rpu": 6, "unit": "minute", "penalty": {"after": 2, "for": "1h"}"#);
    let mut other = Gateway::new(r#""algo": "SW", "rpu": 6, "unit": "minute""#);
    for gateway in [&mut gateway, &mut other] {
        (0..9).for_each(|_| _ = gateway.request("ann"));
        (0..9).for_each(|_| _ = gateway.request("bob"));
    }
    let bob = gateway.count("bob");
    assert_eq!(gateway.count("ann").penalty, Span::from_secs(3_600));
    gateway.end_penalty("ann");
    assert_eq!((gateway.count("ann"), gateway.count("bob")), (other.count("ann"), bob));
    assert_eq!(gateway.request("ann"), other.request("ann"), "the quota still refuses");

    // One more refusal, and the next penalty begins. Counted refusals stay counted without one.
    gateway.end_penalty("ann");
    assert_eq!(gateway.request("ann"), other.request("ann"));
    assert_eq!(gateway.count("ann").penalty, Span::from_secs(3_600));
    gateway.end_penalty("ann");
    gateway.now.set(gateway.now.get().after(Span::from_secs(120)));
    assert_eq!(gateway.request("ann"), (5, true));
}
