//! The native module deletes counts that no configuration uses.

use gateway::{Config, Connection, Gateway, Shell, Update, per_filter_config, wait_until};
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

const USERS: usize = 500;
const PATIENCE: Duration = Duration::from_secs(20);

/// One rule that stays, and one for this path.
fn document(path: &str) -> Value {
    let rules = |name: &str| json!([{"name": name, "actor": "user", "algo": "W", "rpu": 2, "unit": "7d"}]);
    json!({"limits": [
        {"url": "/stays", "rules": rules("stays")},
        {"url": path, "rules": rules("changes")},
    ]})
}

#[test]
fn counts_of_a_rule_that_goes_are_deleted_and_all_others_stay() {
    let config =
        Config { shell: Shell::Native, drain: Duration::from_secs(1), ..Config::new(document("/first")) };
    let mut gateway = Gateway::start(config).unwrap();
    let ask = |gateway: &Gateway, path: &str| {
        let mut connection = gateway.connect().unwrap();
        let mut status = |user: usize| {
            let user = format!("user-{user}");
            connection.request("GET", path, &[("x-user-id", &user)], b"").unwrap().status
        };
        (0..USERS).map(&mut status).filter(|status| *status == 200).count()
    };
    assert_eq!((ask(&gateway, "/stays"), ask(&gateway, "/first")), (USERS, USERS));
    assert_eq!(gateway.update(document("/second")).unwrap(), Update::Accepted);
    let deleted =
        || gateway.log_contains("keys of counts that no configuration uses are deleted").then_some(());
    wait_until("the deletion", PATIENCE, deleted)
        .unwrap_or_else(|error| panic!("{error}\n{}", gateway.logs()));
    assert_eq!([(); 2].map(|()| ask(&gateway, "/stays")), [USERS, 0], "the second request, and no third");
    assert_eq!(ask(&gateway, "/second"), USERS);
    assert_eq!(gateway.update(document("/first")).unwrap(), Update::Accepted);
    assert_eq!(ask(&gateway, "/stays"), 0);
    assert_eq!([(); 3].map(|()| ask(&gateway, "/first")), [USERS, USERS, 0], "the rule begins anew");
}

/// How many keys have been deleted, as the log says.
fn deleted(gateway: &Gateway) -> usize {
    let logs = gateway.logs();
    let lines = logs.lines().filter_map(|line| line.split_once(" keys of counts that no configuration uses"));
    lines.filter_map(|(before, _)| before.rsplit(' ').next()?.parse::<usize>().ok()).sum()
}

/// A worker's requests, over a connection that it opens again when an update has closed it.
struct Client {
    address: SocketAddr,
    connection: Option<Connection>,
    /// Requests of which it is unknown whether they were counted.
    lost: u64,
}

impl Client {
    fn ask(&mut self, path: &str, user: &str) -> Option<u16> {
        let mut connection = match self.connection.take() {
            Some(connection) => connection,
            None => Connection::open(self.address).unwrap(),
        };
        match connection.request("GET", path, &[("x-user-id", user), ("x-version", "any")], b"") {
            Ok(response) => {
                let closes = response.header("connection") == Some("close");
                self.connection = (!closes).then_some(connection);
                Some(response.status)
            }
            Err(_) => {
                self.lost += 1;
                None
            }
        }
    }
}

/// Each update gives the listener, and the route that takes the listener's limits, other tables.
/// Counts that have not ended stay, also those of a route that no request has used since the
/// update.
#[test]
fn counts_go_and_stay_while_routes_have_documents() {
    const UPDATES: usize = 6;
    const QUOTA: u64 = 500;
    let rules = |name: &str, quota: u64| json!([{"name": name, "actor": "user", "algo": "W", "rpu": quota, "unit": "7d"}]);
    let listener = |version: usize| {
        let condition = json!({"x-version": {"regex": format!("any|{version}")}});
        json!({"limits": [
            {"url": "/", "headers": condition, "rules": rules("changes", 9_999)},
            {"url": "/", "rules": rules("stays", QUOTA)},
        ]})
    };
    let route = |prefix: &str, document: Value| {
        json!({
            "match": {"prefix": prefix},
            "route": {"cluster": "upstream"},
            "typed_per_filter_config": per_filter_config(document),
        })
    };
    let own = |name: &str, quota: u64| json!({"limits": [{"url": format!("/{name}"), "rules": rules(name, quota)}]});
    let routes = vec![
        route("/own", own("own", QUOTA)),
        route("/idle", own("idle", 2)),
        route("/plain", json!({"access_log": "all"})),
    ];
    let config = Config {
        shell: Shell::Native,
        drain: Duration::from_secs(1),
        balanced: true,
        routes,
        rds: true,
        ..Config::new(listener(0))
    };
    let mut gateway = Gateway::start(config).unwrap();
    assert_eq!(gateway.get("/idle", &[("x-user-id", "ann")]).unwrap().status, 200);
    let (passed_own, passed_stays, lost) = (AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0));
    let (round, is_over, address) = (AtomicU64::new(0), AtomicBool::new(false), gateway.address());
    let run = |number: u64| {
        let mut client = Client { address, connection: None, lost: 0 };
        let (mut index, mut refused) = (number, [false; 3]);
        // The quotas are used up at the end.
        while !is_over.load(Ordering::Relaxed) || refused != [true; 3] {
            index += 4;
            for (path, refused) in ["/own", "/plain", "/"].iter().zip(&mut refused) {
                match client.ask(path, "ann") {
                    Some(200) if *path == "/own" => _ = passed_own.fetch_add(1, Ordering::Relaxed),
                    Some(200) => _ = passed_stays.fetch_add(1, Ordering::Relaxed),
                    status => *refused |= status == Some(429),
                }
                // New actors have cells in each version's tables.
                let user = format!("user-{}-{}", round.load(Ordering::Relaxed), index % 400);
                client.ask(path, &user);
            }
        }
        lost.fetch_add(client.lost, Ordering::Relaxed);
    };
    thread::scope(|scope| {
        (0..4).for_each(|number| _ = scope.spawn(move || run(number)));
        for version in 1..=UPDATES {
            let before = deleted(&gateway);
            let update = gateway.update(listener(version)).unwrap();
            let is_swept = || (deleted(&gateway) > before + 50).then_some(());
            let swept = wait_until("the deletion", PATIENCE, is_swept);
            round.fetch_add(1, Ordering::Relaxed);
            if version == UPDATES || update != Update::Accepted || swept.is_err() {
                is_over.store(true, Ordering::Relaxed);
            }
            assert_eq!(update, Update::Accepted);
            swept.unwrap_or_else(|error| {
                panic!(
                    "{error}
{}",
                    gateway.logs()
                )
            });
        }
    });
    let [own, stays, lost] = [passed_own, passed_stays, lost].map(AtomicU64::into_inner);
    println!("{UPDATES} updates, {} keys deleted, {lost} requests lost", deleted(&gateway));
    assert!(own <= QUOTA && own + lost >= QUOTA, "{own} of {QUOTA}, {lost} lost");
    assert!(stays <= QUOTA && stays + lost >= QUOTA, "{stays} of {QUOTA}, {lost} lost");
    let idle = || gateway.get("/idle", &[("x-user-id", "ann")]).unwrap().status;
    assert_eq!([idle(), idle()], [200, 429], "the count of a route without requests has gone");

    // The documents of the routes go, and their counts with them.
    let before = deleted(&gateway);
    assert_eq!(gateway.reroute(Vec::new()).unwrap(), Update::Accepted);
    wait_until("the deletion", PATIENCE, || (deleted(&gateway) > before + 1).then_some(())).unwrap();
    assert_eq!(gateway.get("/", &[("x-user-id", "ann")]).unwrap().status, 429, "the listener's counts stay");
}
