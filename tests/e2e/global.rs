//! Limits that several gateways share, counted in a real Redis. The native module's bridge carries
//! their calls, or a tunnel of Envoy's own.

/// For each function of a [`Carrier`], a test for each carrier: `FUNCTION::bridge` and
/// `FUNCTION::tunnel`. Long tests that a tunnel could fail only as a bridge could run by the bridge
/// alone.
macro_rules! over_each_carrier {
    ($($test:ident),+) => {
        $(
            mod $test {
                #[test]
                fn bridge() {
                    super::$test(gateway::Carrier::Bridge);
                }

                #[test]
                fn tunnel() {
                    super::$test(gateway::Carrier::Tunnel);
                }
            }
        )+
    };
}

mod acl;
mod batches;
mod carriers;
mod counted;
mod exact;
mod faults;
mod garbage;
mod hop;
mod http;
mod inspect;
mod matching;
mod matrix;
mod order;
mod outage;
mod permits;
mod privacy;
mod proxy;
mod raised;
mod refunds;
mod reload;
mod repointed;
mod shards;
mod stalls;

use gateway::{Carrier, Config, Connection, Gateway, Redis, wait_until};
use serde_json::{Value, json};
use std::time::Duration;

pub const PATIENCE: Duration = Duration::from_secs(20);
/// The quota of one user over both gateways, and in each gateway alone.
const QUOTA: usize = 20;
const SHARE: usize = QUOTA / 2;

/// The secret that all gateways of a test share.
pub const SECRET: &str = "a secret of the tests only";

/// A Redis, and gateways of two workers each that count in it.
pub struct Shared {
    pub gateways: Vec<Gateway>,
    carrier: Carrier,
    pub redis: Redis,
}

impl Shared {
    /// Two gateways with these limits, by the bridge.
    pub fn start(limits: &Value) -> Shared {
        Shared::with(json!({}), limits, |config| config)
    }

    /// Two gateways with these limits and further keys of `store: {redis: …}`, by the bridge.
    pub fn with(store: Value, limits: &Value, change: impl Fn(Config) -> Config) -> Shared {
        Shared::by(Carrier::Bridge, store, limits, change)
    }

    /// Two gateways whose calls take this way.
    pub fn by(carrier: Carrier, store: Value, limits: &Value, change: impl Fn(Config) -> Config) -> Shared {
        Shared::of(carrier, json!({"limits": limits, "store": in_redis(store)}), change)
    }

    /// Two gateways with this document.
    pub fn of(carrier: Carrier, document: Value, change: impl Fn(Config) -> Config) -> Shared {
        let redis = Redis::start().unwrap();
        let change = |config| carrier.lead(change(config), redis.address(), &json!({})).unwrap();
        Shared { gateways: gateways(&document, change), carrier, redis }
    }

    /// One more gateway, with this document.
    pub fn another(&self, document: &Value) -> Gateway {
        let config = Config { balanced: true, ..Config::new(document.clone()) };
        Gateway::start(self.carrier.lead(config, self.redis.address(), &json!({})).unwrap()).unwrap()
    }

    /// The sum over all gateways of one of the store's counters, such as `failed_calls`.
    pub fn store_counted(&self, name: &str) -> u64 {
        store_counted(&self.gateways, name)
    }

    /// A connection to Redis itself.
    pub fn client(&self) -> redis::Connection {
        client(&self.redis)
    }
}

/// `store` with further keys. The timeout is long by default, because a test machine may be busy.
pub fn in_redis(more: Value) -> Value {
    let mut options = Carrier::keys();
    let usual = json!({"secret": SECRET, "timeout": "5s", "replicas": 2});
    if more.get("clusters").is_some() {
        options.as_object_mut().unwrap().remove("cluster");
    }
    for keys in [&usual, &more] {
        options.as_object_mut().unwrap().extend(keys.as_object().unwrap().clone());
    }
    json!({"redis": options})
}

/// Two gateways with this document. Connections are balanced, so that a few connections reach each
/// worker.
pub fn gateways(document: &Value, change: impl Fn(Config) -> Config) -> Vec<Gateway> {
    let config = || change(Config { balanced: true, ..Config::new(document.clone()) });
    (0..2).map(|_| Gateway::start(config()).unwrap()).collect()
}

/// A connection to Redis itself.
pub fn client(redis: &Redis) -> redis::Connection {
    let client = redis::Client::open(format!("redis://{}", redis.address())).unwrap();
    wait_until("a connection to Redis", PATIENCE, || client.get_connection().ok()).unwrap()
}

/// The reply to a query, which is sent again if its connection ends: Sentinel closes all
/// connections to a Redis whose role it changes.
pub fn ask<T>(redis: &Redis, query: impl Fn(&mut redis::Connection) -> redis::RedisResult<T>) -> T {
    let mut last = None;
    let reply = wait_until("a reply of Redis", PATIENCE, || {
        query(&mut client(redis)).map_err(|error| last = Some(error)).ok()
    });
    reply.unwrap_or_else(|error| panic!("{error}: {last:?}"))
}

/// What Redis says about itself.
pub fn info(redis: &Redis) -> String {
    ask(redis, |client| redis::cmd("INFO").query(client))
}

/// Waits until so many replicas have all that this Redis has been told. `key` is one that it may
/// write.
pub fn wait_replicated(redis: &Redis, key: &str, replicas: u64) {
    wait_until("the replicas to have everything", PATIENCE, || {
        let mut client = client(redis);
        // Redis waits for what this connection has written.
        redis::cmd("SET").arg(key).arg(1).exec(&mut client).ok()?;
        let synced: u64 = redis::cmd("WAIT").arg(replicas).arg(1_000).query(&mut client).ok()?;
        (synced == replicas).then_some(())
    })
    .unwrap();
}

/// A limit on a path with one global rule `name` that counts users, with these further keys.
pub fn shared_rule(path: &str, name: &str, keys: &Value) -> Value {
    let mut rule = json!({"name": name, "actor": "user", "scope": "global"});
    rule.as_object_mut().unwrap().extend(keys.as_object().unwrap().clone());
    json!({"url": path, "rules": [rule]})
}

/// Connections to all gateways in turn.
pub fn connections(gateways: &[Gateway], to_each: usize) -> Vec<Connection> {
    (0..to_each).flat_map(|_| gateways).map(|gateway| gateway.connect().unwrap()).collect()
}

/// How many of `count` requests of a user pass, over all these connections in turn; all others are
/// refused.
pub fn passed(connections: &mut [Connection], path: &str, user: &str, count: usize) -> usize {
    let all = connections.len();
    let passes = |index: &usize| {
        let connection = &mut connections[*index % all];
        let status = connection.request("GET", path, &[("x-user-id", user)], b"").unwrap().status;
        assert!([200, 429].contains(&status), "{path} of {user}: {status}");
        status == 200
    };
    (0..count).filter(passes).count()
}

/// The sum over all gateways of one of the filter's counters, by Envoy's name:
/// `rule.NAME.degraded`.
pub fn counted(gateways: &[Gateway], name: &str) -> u64 {
    gateways.iter().map(|gateway| gateway.counted(name).unwrap()).sum()
}

/// The sum over gateways of one of the store's counters, such as `failed_calls`.
pub fn store_counted(gateways: &[Gateway], name: &str) -> u64 {
    counted(gateways, &format!("store.{}.{name}", Carrier::CLUSTER))
}

/// How many requests a rule has counted without its store, as Prometheus shows it.
pub fn degraded(gateways: &[Gateway], rule: &str) -> u64 {
    let sum = |gateway: &Gateway| gateway.stats().unwrap().sum("diana_degraded", &[("rule", rule)]);
    gateways.iter().map(sum).sum()
}

/// Checks that each gateway admits its own share of the rule at `/` for this user, and reports that
/// it counts alone.
pub fn assert_alone(gateways: &[Gateway], user: &str) {
    for gateway in gateways {
        let before = degraded(std::slice::from_ref(gateway), "quota");
        let mut connections = connections(std::slice::from_ref(gateway), 4);
        assert_eq!(passed(&mut connections, "/", user, 3 * SHARE), SHARE, "{user}");
        let refused = connections[0].request("GET", "/", &[("x-user-id", user)], b"").unwrap();
        let body = refused.text();
        assert!(refused.status == 429 && body.contains("#temporary-reduced-capacity"), "{user}: {body}");
        let grown = || degraded(std::slice::from_ref(gateway), "quota") - before;
        let is_told = || (grown() >= SHARE as u64).then_some(());
        wait_until("requests counted alone", PATIENCE, is_told)
            .unwrap_or_else(|error| panic!("{user}: {error}"));
    }
}

/// Checks that both gateways together admit the quota of the rule at `/` for this user.
pub fn assert_together(gateways: &[Gateway], user: &str) {
    let before = degraded(gateways, "quota");
    let mut connections = connections(gateways, 4);
    assert_eq!(passed(&mut connections, "/", user, 2 * QUOTA), QUOTA, "{user}");
    let refused = connections[0].request("GET", "/", &[("x-user-id", user)], b"").unwrap();
    assert!(refused.text().contains("#quota-exceeded"), "{user}: {}", refused.text());
    assert_eq!(degraded(gateways, "quota"), before, "{user}");
}

/// Waits until every worker queries the store again.
pub fn wait_together(gateways: &[Gateway]) {
    let mut connections = connections(gateways, 4);
    let whole = format!("\"quota\";r={}", QUOTA - 1);
    let mut tries = 0;
    wait_until("all to count together", PATIENCE, || {
        let asks = |connection: &mut Connection| {
            tries += 1;
            let user = format!("try-{tries}");
            let answer = connection.request("GET", "/", &[("x-user-id", &user)], b"").unwrap();
            assert!(answer.status == 200, "{}", answer.text());
            answer.header("ratelimit").is_some_and(|value| value.starts_with(&whole))
        };
        connections.iter_mut().all(asks).then_some(())
    })
    .unwrap_or_else(|error| panic!("{error}\n{}", gateways[0].logs()));
}

/// The rule at `/` of the functions above.
pub fn quota() -> Value {
    json!([shared_rule("=/", "quota", &json!({"algo": "W", "rpu": QUOTA, "unit": "7d"}))])
}
