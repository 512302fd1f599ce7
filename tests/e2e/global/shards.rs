//! Several stores, each of which counts a part of the users.

use super::{QUOTA, SHARE, client, connections, counted, gateways, in_redis, passed, quota};
use gateway::config::bridged;
use gateway::{Config, Redis, filter};
use serde_json::json;
use std::collections::BTreeMap;

const USERS: usize = 45;

#[test]
fn one_of_three_stores_goes_down() {
    filter::module().unwrap();
    let mut stores = ["a", "b", "c"].map(|name| (name, Redis::start().unwrap()));
    let cluster = |(name, redis): &(&str, Redis)| bridged(name, redis.address(), &json!({}));
    let clusters: Vec<_> = stores.iter().map(cluster).collect();
    let store = in_redis(json!({"clusters": ["a", "b", "c"]}));
    let all = gateways(&json!({"limits": quota(), "store": store}), |config| Config {
        clusters: clusters.clone(),
        ..config
    });
    let mut connections = connections(&all, 4);
    // Half of each user's quota, and all of it for one user.
    for user in 0..USERS {
        assert_eq!(passed(&mut connections, "/", &user.to_string(), SHARE), SHARE, "user {user}");
    }
    assert_eq!(passed(&mut connections, "/", "another", 2 * QUOTA), QUOTA);
    let keys = |redis: &Redis| redis::cmd("DBSIZE").query::<usize>(&mut client(redis)).unwrap();
    let held = stores.each_ref().map(|(_, redis)| keys(redis));
    println!("of {} users the stores count {held:?}", USERS + 1);
    assert_eq!(held.iter().sum::<usize>(), USERS + 1);
    assert!(held.iter().all(|held| *held > 0), "{held:?}");
    assert_eq!(counted(&all, "rule.quota.degraded"), 0);
    stores[1].1.kill();
    // The users of the other stores have their other half left; users of the lost store get a share
    // at each gateway.
    let mut counts = BTreeMap::<usize, usize>::new();
    for user in 0..USERS {
        let count = passed(&mut connections, "/", &user.to_string(), 2 * QUOTA);
        *counts.entry(count).or_default() += 1;
    }
    let another = passed(&mut connections, "/", "another", 2 * QUOTA);
    *counts.entry(another + if another > 0 { 0 } else { QUOTA - SHARE }).or_default() += 1;
    println!("with one of them gone so many users got so many more requests: {counts:?}");
    let expected = BTreeMap::from([(QUOTA - SHARE, held[0] + held[2]), (2 * SHARE, held[1])]);
    assert_eq!(counts, expected);
    let now = [keys(&stores[0].1), keys(&stores[2].1)];
    assert_eq!(now, [held[0], held[2]], "no other store counts these users");
}
