//! Updates of listeners, also while routes have documents.

use crate::envoy::world::{Stream, Thread, WORKERS, wait_for_event, with};
use crate::envoy::{self, check, flow, lifetimes};
use diana_envoy_module::held::{Held, held};
use std::time::{Duration, Instant};

const ACTORS: usize = 300;
const UPDATES: usize = 25;
/// More than each actor of the load uses: a refused request has no cell in a new table.
const QUOTA: usize = 100;
const PATIENCE: Duration = Duration::from_secs(20);

/// A listener's document. Its table of `changes` is another one in each version.
fn listener(version: usize) -> String {
    format!(
        r#"{{"limits": [
            {{"url": "/", "headers": {{"x-version": {{"regex": "any|{version}"}}}}, "rules": [
                {{"name": "changes", "actor": "user", "rpu": 9999, "unit": "hour"}}]}},
            {{"url": "/", "rules": [{{"name": "stays", "actor": "user", "algo": "W", "rpu": {QUOTA}, "unit": "7d"}}]}}
        ], "local": {{"max_actors": {ACTORS}}}}}"#
    )
}

/// Has a table of its own: those of one url and the same conditions share their keys.
const OWN: &str = r#"{"limits": [{"url": "/", "methods": "GET", "rules": [{"name": "own", "actor": "user", "algo": "W", "rpu": 2, "unit": "7d"}]}]}"#;
/// Takes the limits of the listener's document.
const PLAIN: &str = r#"{"access_log": "all"}"#;

/// A document without rules.
const PLAIN_LISTENER: &str = r#"{"limits": []}"#;

/// Sends a request by the newest listener. Returns whether it passes.
fn ask(worker: usize, route: Option<usize>, user: &str) -> bool {
    let config = with(|world| *world.configs.keys().next_back().unwrap());
    let request =
        [(":method", "GET"), (":path", "/"), (":authority", "a"), ("x-user-id", user), ("x-version", "any")];
    let own = |(name, value): (&str, &str)| (name.as_bytes().to_vec(), value.as_bytes().to_vec());
    let request = request.map(own).to_vec();
    let thread = Thread::Worker(worker);
    let stream = flow::begin(Stream { config, route, request, thread, ..Stream::default() });
    flow::request_headers(stream, true);
    let passes = with(|world| !world.streams[&stream].is_answered);
    flow::end(stream, true);
    check("a request");
    passes
}

fn end_all_but_newest() {
    with(|world| {
        let newest = *world.configs.keys().next_back().unwrap();
        world.configs.iter_mut().for_each(|(address, config)| config.is_removed = *address != newest);
    });
    lifetimes::end_unused(Thread::Main);
}

/// Lets the module do what is due until this holds.
fn run_until(holds: impl Fn(&Held) -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !holds(&held()) {
        assert!(Instant::now() < deadline, "{:?}", held());
        wait_for_event(Duration::from_millis(20));
        (0..with(|world| world.events.len())).for_each(|_| flow::deliver(0));
        check("events");
    }
}

/// Updates delete no counts: a count that a later document has again continues.
#[test]
fn updates_keep_counts_that_no_document_uses() {
    envoy::load();
    envoy::run(|| {
        assert!(lifetimes::add_config("updated", listener(0).as_bytes()));
        let own = lifetimes::add_route("own", OWN.as_bytes()).unwrap();
        let plain = lifetimes::add_route("plain", PLAIN.as_bytes()).unwrap();
        assert!(ask(0, Some(own), "idle"));
        assert!((0..QUOTA).all(|request| ask(request % WORKERS, None, "kept")));
        for version in 1..=UPDATES {
            for route in [None, Some(plain)] {
                ask(version % WORKERS, route, "other");
            }
            let before = held().keys;
            assert!(lifetimes::add_config("updated", listener(version).as_bytes()));
            end_all_but_newest();
            run_until(|held| held.configurations <= 2 * (WORKERS + 1));
            assert!(held().keys >= before);
            assert!(!ask(0, None, "kept") && !ask(1, Some(plain), "kept"), "a count in use has gone");
        }
        assert!(lifetimes::add_config("updated", PLAIN_LISTENER.as_bytes()));
        end_all_but_newest();
        assert!(lifetimes::add_config("updated", listener(0).as_bytes()));
        end_all_but_newest();
        assert!(!ask(0, None, "kept"), "as before the document without rules");
        // The count of a route that no request has used since the first update.
        assert_eq!([(); 3].map(|()| ask(1, Some(own), "idle")), [true, false, false]);
    });
}

/// The gauge of the only document; `None` without one.
fn documents_in_use() -> Option<i64> {
    with(|world| {
        let gauges = world.gauges.iter().filter(|((name, _), _)| name == "config_info");
        gauges.map(|(_, gauge)| gauge.value).max()
    })
}

/// The namespaces share nothing but Envoy's gauges. The last configuration may end on a worker.
#[test]
fn the_gauge_of_a_document_holds_until_the_last_listener_ends() {
    envoy::load();
    for thread in [Thread::Main, Thread::Worker(1)] {
        envoy::run(|| {
            for name in ["one", "other", "one"] {
                assert!(lifetimes::add_config(name, PLAIN_LISTENER.as_bytes()));
            }
            assert_eq!(documents_in_use(), Some(3));
            for left in [Some(2), Some(1), None] {
                with(|world| world.configs.first_entry().unwrap().get_mut().is_removed = true);
                lifetimes::end_unused(thread);
                run_until(|_| documents_in_use() == left);
                check("the end of a configuration");
            }
        });
    }
}
