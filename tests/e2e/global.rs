//! Limits that several gateways share, counted in a real Redis, or by a rate limit service. Calls
//! reach Redis by a real webdis, or without any process in between.

/// For a function of a [`Carrier`], a test for each of these carriers, such as `FUNCTION::bridge`.
macro_rules! over {
    ($test:ident: $($name:ident $carrier:ident),+) => {
        mod $test {
            $(
                #[test]
                fn $name() {
                    super::$test(gateway::Carrier::$carrier);
                }
            )+
        }
    };
}

/// For each function of a [`Carrier`], a test for each carrier.
macro_rules! over_each_carrier {
    ($($test:ident),+) => { $(over!($test: webdis Webdis, bridge Bridge, tunnel Tunnel);)+ };
}

/// The same for long tests that a tunnel could fail only as a bridge could.
macro_rules! over_webdis_and_bridge {
    ($($test:ident),+) => { $(over!($test: webdis Webdis, bridge Bridge);)+ };
}

mod acl;
mod batches;
mod carriers;
mod counted;
mod exact;
mod faults;
mod garbage;
mod http;
mod inspect;
mod matrix;
mod order;
mod outage;
mod permits;
mod privacy;
mod proxy;
mod raised;
mod refunds;
mod reload;
mod service;
mod shards;
mod stalls;
mod stray;
mod upstash;

use gateway::config::cluster;
use gateway::redis::{Redis, Webdis};
use gateway::{Carrier, Config, Connection, Gateway, wait_until};
use serde_json::{Value, json};
use std::net::SocketAddr;
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
    /// The front, if calls go through it.
    webdis: Option<Webdis>,
    pub redis: Redis,
}

impl Shared {
    /// Two gateways with these limits, behind webdis.
    pub fn start(limits: &Value) -> Shared {
        Shared::with(json!({}), limits, |config| config)
    }

    /// Two gateways with these limits and further keys of `store: {redis: …}`, behind webdis.
    pub fn with(store: Value, limits: &Value, change: impl Fn(Config) -> Config) -> Shared {
        Shared::by(Carrier::Webdis, &store, limits, change)
    }

    /// Two gateways whose calls take this way.
    pub fn by(carrier: Carrier, store: &Value, limits: &Value, change: impl Fn(Config) -> Config) -> Shared {
        let redis = Redis::start().unwrap();
        let webdis = (carrier == Carrier::Webdis).then(|| Webdis::start(&redis).unwrap());
        let address = webdis.as_ref().map_or(redis.address(), |webdis| webdis.address());
        let document = json!({"limits": limits, "store": carriers::store_of(carrier, store)});
        let change = |config| carrier.lead(change(config), address, &json!({})).unwrap();
        Shared { gateways: gateways(&document, &[], change), carrier, webdis, redis }
    }

    /// One more gateway, with this document.
    pub fn another(&self, document: &Value) -> Gateway {
        let address = self.webdis.as_ref().map_or(self.redis.address(), |webdis| webdis.address());
        let config = Config { balanced: true, ..Config::new(document.clone()) };
        Gateway::start(self.carrier.lead(config, address, &json!({})).unwrap()).unwrap()
    }

    /// The front of a gateway whose calls go through it.
    pub fn webdis(&mut self) -> &mut Webdis {
        self.webdis.as_mut().unwrap()
    }

    /// Restarts Redis, which then is empty.
    pub fn restart_redis(&mut self) {
        self.redis.restart().unwrap();
        if let Some(webdis) = &self.webdis {
            webdis.wait_connected().unwrap();
        }
    }

    /// What the gateways call does not answer: the front, or Redis.
    pub fn stop_answering(&self) {
        match &self.webdis {
            Some(webdis) => webdis.stop_answering().unwrap(),
            None => self.redis.stop_answering().unwrap(),
        }
    }

    /// It answers again, also what it was asked meanwhile.
    pub fn go_on(&self) {
        match &self.webdis {
            Some(webdis) => webdis.go_on().unwrap(),
            None => self.redis.go_on().unwrap(),
        }
    }

    /// The sum over all gateways of one of the store's counters, such as `failed_calls`.
    pub fn store_counted(&self, name: &str) -> u64 {
        store_counted(self.carrier, &self.gateways, name)
    }

    /// A connection to Redis itself.
    pub fn client(&self) -> redis::Connection {
        client(&self.redis)
    }
}

/// `store` with further keys. The timeout is long by default, because a test machine may be busy.
pub fn in_redis(more: Value) -> Value {
    let mut options = json!({"cluster": "webdis", "secret": SECRET, "timeout": "1s", "replicas": 2});
    if more.get("clusters").is_some() {
        options.as_object_mut().unwrap().remove("cluster");
    }
    options.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    json!({"redis": options})
}

/// Two gateways with this document and these clusters by name; `true` marks a gRPC cluster.
/// Connections are balanced, so that a few connections reach each worker.
pub fn gateways(
    document: &Value,
    clusters: &[(&str, SocketAddr, bool)],
    change: impl Fn(Config) -> Config,
) -> Vec<Gateway> {
    let start = || {
        let mut config = change(Config { balanced: true, ..Config::new(document.clone()) });
        config.clusters.extend(clusters.iter().map(|(name, address, http2)| cluster(name, *address, *http2)));
        Gateway::start(config).unwrap()
    };
    (0..2).map(|_| start()).collect()
}

/// A connection to Redis itself.
pub fn client(redis: &Redis) -> redis::Connection {
    redis::Client::open(format!("redis://{}", redis.address())).unwrap().get_connection().unwrap()
}

/// What Redis says about itself.
pub fn info(redis: &Redis) -> String {
    redis::cmd("INFO").query(&mut client(redis)).unwrap()
}

/// Waits until so many replicas have all that this Redis has been told. `key` is one that it may
/// write.
pub fn wait_replicated(redis: &Redis, key: &str, replicas: u64) {
    let mut client = client(redis);
    // Redis waits for what this connection has written.
    redis::cmd("SET").arg(key).arg(1).exec(&mut client).unwrap();
    let synced: u64 = redis::cmd("WAIT").arg(replicas).arg(5_000).query(&mut client).unwrap();
    assert_eq!(synced, replicas);
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
pub fn store_counted(carrier: Carrier, gateways: &[Gateway], name: &str) -> u64 {
    counted(gateways, &format!("store.{}.{name}", carrier.cluster()))
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
