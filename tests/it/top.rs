//! Whom a rule refuses and charges most is the same on every path of a decision.

use diana_base::time::{Span, Time};
use diana_inspect::top::{self, By, TopActors, WorkerTop};
use diana_limiter::cells::store::{CasSemantics, SharedDataStore};
use diana_limiter::policy::Policy;
use diana_limiter::request::{Part, Values};
use diana_limiter::session::{Session, Worker};
use diana_testing::shared_data::Simulated;
use std::sync::Arc;

fn compiled(document: &str) -> Arc<Policy> {
    diana_config::compile(document.as_bytes()).unwrap().policy
}

type TestWorker = Worker<SharedDataStore<Simulated>>;

/// A worker of a gateway of its own.
fn worker(policy: Arc<Policy>) -> TestWorker {
    let store = SharedDataStore::probe(Simulated::new(CasSemantics::Strict)).unwrap();
    Worker::new(policy, store, &[7; 16])
}

/// Sends a request of each client, 10 ms apart, and returns the answers for each rule.
fn top(mut worker: TestWorker, clients: &[(&str, Option<&str>)]) -> Vec<(TopActors, TopActors)> {
    let (policy, mut counts) = (worker.policy().clone(), WorkerTop::default());
    let mut now = Time::from_ns(1_795_392_000_000_000_000);
    for (address, user) in clients {
        let mut values = Values::default().with(Part::Path, "/").with(Part::Address, *address);
        if let Some(user) = user {
            values = values.with(Part::Header("x-user-id".into()), *user);
        }
        let request = policy.request(&values);
        let (_, _) = Session::start(&mut worker, &request, || now);
        counts.note(&worker, &|| None);
        now = now.after(Span::from_ms(10));
    }
    counts.publish(&policy, worker.store(), now).unwrap();
    let of = |rule, by| top::top(&policy, worker.store(), rule, by, now).unwrap();
    policy.rules().map(|(rule, _)| (of(rule, By::Refused), of(rule, By::Used))).collect()
}

fn shown(top: &TopActors) -> Vec<(String, u64)> {
    let text = |(name, value): &(String, String)| format!("{name}={value}");
    let all = top.actors.iter().map(|actor| {
        let values: Vec<String> = actor.values.iter().map(text).collect();
        (values.join(" "), actor.count)
    });
    all.collect()
}

#[test]
fn the_fast_path_counts_the_same_actors() {
    let policy = compiled(
        r#"{"limits": [
            {"url": "/", "rules": [
                {"name": "few", "actor": "user", "algo": "W", "rpu": 40, "unit": "day"},
                {"name": "many", "actor": "user", "rpu": 600, "unit": "minute"}]},
            {"url": "/", "rules": [{"name": "all", "rpu": 1000, "unit": "minute"}]}]}"#,
    );
    let clients: Vec<(&str, Option<&str>)> =
        (0..400).map(|turn| ("192.0.2.7", Some(["ann", "ann", "bob", "cyd"][turn * 7 % 4]))).collect();
    let mut full = worker(policy.clone());
    full.disable_fast_path();
    let (fast, full) = (top(worker(policy), &clients), top(full, &clients));
    assert_eq!(fast, full);
    let of = |rule: usize| (shown(&fast[rule].0), shown(&fast[rule].1));
    let user = |user: &str, count| (format!("user={user}"), count);
    let used = vec![user("ann", 40), user("bob", 40), user("cyd", 40)];
    let refused = vec![user("ann", 160), user("bob", 60), user("cyd", 60)];
    let sorted = |(refused, mut used): (Vec<_>, Vec<(String, u64)>)| {
        used.sort();
        (refused, used)
    };
    let (mut found, expected) = (sorted(of(0)), (refused, used.clone()));
    found.0.sort();
    assert_eq!(found, expected);
    assert_eq!(sorted(of(1)), (vec![], used), "a refused request is charged nowhere");
    assert_eq!(of(2), (vec![], vec![(String::new(), 120)]), "the rule counts all together");
}

#[test]
fn whoever_lacks_the_actor_is_shown_as_counted() {
    let policy = compiled(
        r#"{"limits": [{"url": "/", "rules": [
            {"name": "by-ip", "actor": "user", "algo": "W", "rpu": 1, "unit": "day", "mode": "shadow"},
            {"name": "together", "actor": "user", "missing": "share", "algo": "W", "rpu": 3, "unit": "day"},
            {"name": "never", "actor": "user", "missing": "deny", "algo": "W", "rpu": 3, "unit": "day", "mode": "shadow"},
            {"name": "net", "actor": {"ip": {"v4_prefix": 24}}, "algo": "W", "rpu": 9, "unit": "day", "mode": "shadow"}]}]}"#
            .replace(r#"{"ip": {"v4_prefix": 24}}"#, r#""net""#)
            .replace(r#"{"limits""#, r#"{"actors": {"net": {"ip": {"v4_prefix": 24}}}, "limits""#)
            .as_str(),
    );
    let long = "x".repeat(200);
    let clients =
        [("192.0.2.7", None), ("192.0.2.7", None), ("192.0.2.8", Some(&*long)), ("192.0.2.8", Some("ann"))];
    let all = top(worker(policy), &clients);
    let one = |name: String, count: u64| (name, count);
    assert_eq!(shown(&all[0].0), [one("ip=192.0.2.7".into(), 1)], "in shadow, it would refuse");
    let cut = format!("user={}…", "x".repeat(64));
    let mut used = shown(&all[1].1);
    used.sort();
    assert_eq!(used, [one(String::new(), 2), one("user=ann".into(), 1), one(cut, 1)]);
    assert_eq!(shown(&all[2].0), [], "nobody lacks an actor that nobody has");
    assert_eq!(shown(&all[3].1), [one("net=192.0.2.0/24".into(), 4)]);
}

/// While its store is down, the gateway counts in the place of the store.
#[test]
fn a_global_rule_counts_its_actors_too() {
    let policy = compiled(
        r#"{"store": {"redis": {"cluster": "redis", "secret": "a secret of sixteen bytes"}},
            "limits": [{"url": "/", "rules": [{"name": "everywhere", "actor": "user", "algo": "W", "rpu": 2,
                "unit": "day", "scope": "global", "on_error": "local"}]}]}"#,
    );
    let clients: Vec<_> = (0..6).map(|_| ("192.0.2.7", Some("ann"))).collect();
    let all = top(worker(policy), &clients);
    let [(refused, used)] = &all[..] else { unreachable!() };
    assert_eq!((refused.actors[0].count, used.actors[0].count), (4, 2));
}

/// The hash in place of a secret is the same in gateways that share a store, and nobody can compute
/// it without the store's secret.
#[test]
fn gateways_with_one_secret_of_the_store_show_one_hash() {
    let shown_by = |store: &str, seed: u8| {
        let document = format!(
            r#"{{{store} "actors": {{"who": {{"header": "x-api-key"}}}},
                "limits": [{{"url": "/", "rules": [{{"name": "a", "actor": "who", "rpu": 1, "unit": "day"}}]}}]}}"#
        );
        let policy = compiled(&document);
        let store = SharedDataStore::probe(Simulated::new(CasSemantics::Strict)).unwrap();
        let mut worker = Worker::new(policy.clone(), store, &[seed; 16]);
        let now = Time::from_ns(1_795_392_000_000_000_000);
        let values = Values::default().with(Part::Path, "/").with(Part::Header("x-api-key".into()), "k-4711");
        let mut counts = WorkerTop::default();
        let (_, _) = Session::start(&mut worker, &policy.request(&values), || now);
        counts.note(&worker, &|| None);
        counts.publish(&policy, worker.store(), now).unwrap();
        let (rule, _) = policy.rules().next().unwrap();
        shown(&top::top(&policy, worker.store(), rule, By::Used, now).unwrap())[0].0.clone()
    };
    let with =
        |secret: &str| format!(r#""store": {{"redis": {{"cluster": "redis", "secret": "{secret}"}}}},"#);
    let ours = with("a secret of sixteen bytes");
    assert_eq!(shown_by(&ours, 7), shown_by(&ours, 8));
    assert_ne!(shown_by(&ours, 7), shown_by(&with("the secret of another store"), 7));
    assert_ne!(shown_by("", 7), shown_by("", 8));
}
