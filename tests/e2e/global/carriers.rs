//! Redis with no process in between: the gateway carries Redis' own protocol by the native module's
//! bridge, or by a tunnel.

use super::{
    PATIENCE, QUOTA, assert_alone, assert_together, client, connections, in_redis, passed, quota,
    wait_together,
};
use gateway::{Carrier, Config, Gateway, Redis, wait_until};
use serde_json::{Value, json};

/// A gateway whose calls go to this Redis, by the login of `options`.
fn gateway(carrier: Carrier, redis: &Redis, options: &Value) -> Gateway {
    // A bridge logs in by itself, and in a tunnel the filter does.
    let (more, options) = match carrier {
        Carrier::Tunnel => (options.clone(), json!({})),
        Carrier::Bridge => (json!({}), options.clone()),
    };
    let document = json!({"limits": quota(), "store": in_redis(more)});
    let config = Config { balanced: true, ..Config::new(document) };
    Gateway::start(carrier.lead(config, redis.address(), &options).unwrap()).unwrap()
}

#[test]
fn each_way_to_redis_counts_the_same() {
    let redis = Redis::start().unwrap();
    let gateways = Carrier::ALL.map(|carrier| gateway(carrier, &redis, &json!({})));
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
    for carrier in Carrier::ALL {
        let right = json!({"user": "diana", "password": "pw"});
        let gateways = [gateway(carrier, &redis, &right)];
        wait_together(&gateways);
        let user = format!("{carrier:?}");
        assert_eq!(passed(&mut connections(&gateways, 2), "/", &user, 2 * QUOTA), QUOTA, "{carrier:?}");
        let wrong = json!({"user": "diana", "password": "wrong"});
        let gateway = gateway(carrier, &redis, &wrong);
        assert_alone(std::slice::from_ref(&gateway), "cy");
        let says = || gateway.logs().contains("WRONGPASS").then_some(());
        wait_until("the log to name the login", PATIENCE, says).unwrap();
    }
}
