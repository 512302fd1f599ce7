//! Redis with no process in between: the gateway carries Redis' own protocol by the native module's
//! bridge, or by a tunnel.

use super::{
    PATIENCE, QUOTA, SECRET, assert_alone, assert_together, client, connections, passed, quota, wait_together,
};
use gateway::config::{Tunnel, bridged, cluster};
use gateway::redis::{Redis, Webdis};
use gateway::{Config, Gateway, filter, wait_until};
use serde_json::{Value, json};

/// How the calls of a gateway reach Redis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Carrier {
    Bridge,
    Tunnel,
}

pub const CARRIERS: [Carrier; 2] = [Carrier::Bridge, Carrier::Tunnel];

/// A `store` of a Redis, with further keys.
pub fn store(more: &Value) -> Value {
    let mut options =
        json!({"cluster": "redis", "dialect": "resp", "secret": SECRET, "timeout": "1s", "replicas": 2});
    options.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    json!({"redis": options})
}

impl Carrier {
    /// A gateway whose calls go to this Redis, by the login of `options`.
    pub fn gateway(self, redis: &Redis, limits: &Value, more: &Value, options: &Value) -> Gateway {
        let mut more = more.clone();
        // A bridge logs in by itself, and in a tunnel the filter does.
        if self == Carrier::Tunnel {
            more.as_object_mut().unwrap().extend(options.as_object().unwrap().clone());
        }
        let document = json!({"limits": limits, "store": store(&more)});
        let mut config = Config { balanced: true, ..Config::new(document) };
        match self {
            Carrier::Bridge => {
                filter::module().unwrap();
                config.clusters.push(bridged("redis", redis.address(), options));
            }
            Carrier::Tunnel => {
                let redis = cluster("redis-itself", redis.address(), false);
                config.tunnels.push(Tunnel { name: "redis".into(), redis });
            }
        }
        Gateway::start(config).unwrap()
    }
}

#[test]
fn each_way_to_redis_counts_the_same() {
    let redis = Redis::start().unwrap();
    let webdis = Webdis::start(&redis).unwrap();
    let mut gateways: Vec<Gateway> =
        CARRIERS.iter().map(|carrier| carrier.gateway(&redis, &quota(), &json!({}), &json!({}))).collect();
    let document = json!({"limits": quota(), "store": super::in_redis(json!({}))});
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
        let gateways = [carrier.gateway(&redis, &quota(), &json!({}), &right)];
        wait_together(&gateways);
        let user = format!("{carrier:?}");
        assert_eq!(passed(&mut connections(&gateways, 2), "/", &user, 2 * QUOTA), QUOTA, "{carrier:?}");
        let wrong = json!({"user": "diana", "password": "wrong"});
        let gateway = carrier.gateway(&redis, &quota(), &json!({}), &wrong);
        assert_alone(std::slice::from_ref(&gateway), "cy");
        let says = || gateway.logs().contains("WRONGPASS").then_some(());
        wait_until("the log to name the login", PATIENCE, says).unwrap();
    }
}
