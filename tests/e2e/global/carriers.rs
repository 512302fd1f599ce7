//! Redis with no process in between: the gateway carries Redis' own protocol by the native module's
//! bridge, or by a tunnel.

use super::{
    PATIENCE, QUOTA, assert_alone, assert_together, client, connections, counted, in_redis, passed, quota,
    wait_together,
};
use gateway::config::{Tunnel, bridged, cluster};
use gateway::redis::{Redis, Webdis};
use gateway::{Config, Gateway, filter, wait_until};
use serde_json::{Value, json};
use std::net::SocketAddr;

/// How the calls of a gateway reach Redis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Carrier {
    /// By a front, which speaks HTTP.
    Webdis,
    /// By the native module's bridge.
    Bridge,
    /// By a tunnel of Envoy's own.
    Tunnel,
}

/// Those without a process in between.
pub const CARRIERS: [Carrier; 2] = [Carrier::Bridge, Carrier::Tunnel];

impl Carrier {
    /// The cluster that the filter calls.
    pub fn cluster(self) -> &'static str {
        match self {
            Carrier::Webdis => "webdis",
            Carrier::Bridge | Carrier::Tunnel => "redis",
        }
    }

    /// `store` with further keys.
    pub fn store(self, more: &Value) -> Value {
        let mut keys = match self {
            Carrier::Webdis => json!({}),
            Carrier::Bridge | Carrier::Tunnel => json!({"cluster": self.cluster(), "dialect": "resp"}),
        };
        keys.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        in_redis(keys)
    }

    /// Leads the calls of a gateway to this address: that of the front, or of Redis. `options` are
    /// the bridge's.
    pub fn lead(self, mut config: Config, address: SocketAddr, options: &Value) -> Config {
        match self {
            Carrier::Webdis => config.clusters.push(cluster(self.cluster(), address, false)),
            Carrier::Bridge => {
                filter::module().unwrap();
                config.clusters.push(bridged(self.cluster(), address, options));
            }
            Carrier::Tunnel => {
                let redis = cluster("redis-itself", address, false);
                config.tunnels.push(Tunnel { name: self.cluster().into(), redis });
            }
        }
        config
    }

    /// The sum over gateways of one of the store's counters, such as `failed_calls`.
    pub fn counted(self, gateways: &[Gateway], name: &str) -> u64 {
        counted(gateways, &format!("store.{}.{name}", self.cluster()))
    }

    /// A gateway whose calls go to this Redis, by the login of `options`.
    fn gateway(self, redis: &Redis, options: &Value) -> Gateway {
        // A bridge logs in by itself, and in a tunnel the filter does.
        let (more, options) = match self {
            Carrier::Tunnel => (options.clone(), json!({})),
            _ => (json!({}), options.clone()),
        };
        let document = json!({"limits": quota(), "store": self.store(&more)});
        let config = Config { balanced: true, ..Config::new(document) };
        Gateway::start(self.lead(config, redis.address(), &options)).unwrap()
    }
}

#[test]
fn each_way_to_redis_counts_the_same() {
    let redis = Redis::start().unwrap();
    let webdis = Webdis::start(&redis).unwrap();
    let mut gateways: Vec<Gateway> =
        CARRIERS.iter().map(|carrier| carrier.gateway(&redis, &json!({}))).collect();
    let document = json!({"limits": quota(), "store": in_redis(json!({}))});
    gateways.extend(super::gateways(&document, &[("webdis", webdis.address(), false)], |config| config));
    wait_together(&gateways);
    for user in ["ann", "ben"] {
        assert_together(&gateways, user);
    }
}

#[test]
fn a_login_is_sent_with_each_call() {
    let redis = Redis::start().unwrap();
    let mut own = client(&redis);
    let rules = ["on", ">pw", "resetkeys", "~diana:*", "-@all", "+evalsha", "+eval", "+time", "+get", "+set"];
    let mut command = redis::cmd("ACL");
    command.arg("SETUSER").arg("diana");
    rules.iter().for_each(|rule| _ = command.arg(rule));
    command.exec(&mut own).unwrap();
    redis::cmd("ACL").arg("SETUSER").arg("default").arg("off").exec(&mut own).unwrap();
    for carrier in CARRIERS {
        let right = json!({"user": "diana", "password": "pw"});
        let gateways = [carrier.gateway(&redis, &right)];
        wait_together(&gateways);
        let user = format!("{carrier:?}");
        assert_eq!(passed(&mut connections(&gateways, 2), "/", &user, 2 * QUOTA), QUOTA, "{carrier:?}");
        let wrong = json!({"user": "diana", "password": "wrong"});
        let gateway = carrier.gateway(&redis, &wrong);
        assert_alone(std::slice::from_ref(&gateway), "cy");
        let says = || gateway.logs().contains("WRONGPASS").then_some(());
        wait_until("the log to name the login", PATIENCE, says).unwrap();
    }
}
