//! Redis with the rights that Diana needs, and no others.

use super::{assert_together, client, gateways, in_redis, quota};
use gateway::{Carrier, Redis};
use serde_json::json;

/// As in `docs/configuration/global.md`.
const RIGHTS: &str = "on >right resetkeys ~diana:* -@all +evalsha +eval +time +get +set";

/// An administrator has another user.
#[test]
fn the_documented_rights_suffice_and_allow_nothing_else() {
    let redis = Redis::start().unwrap();
    let mut admin = client(&redis);
    redis::cmd("SET").arg("other").arg("1").exec(&mut admin).unwrap();
    let mut rights = redis::cmd("ACL");
    rights.arg("SETUSER").arg("diana");
    RIGHTS.split(' ').for_each(|right| _ = rights.arg(right));
    rights.exec(&mut admin).unwrap();
    let document = json!({"limits": quota(), "store": in_redis(json!({}))});
    let login = json!({"user": "diana", "password": "right"});
    let all = gateways(&document, |config| Carrier::Bridge.lead(config, redis.address(), &login).unwrap());
    assert_together(&all, "ann");
    redis::cmd("SCRIPT").arg("FLUSH").exec(&mut admin).unwrap();
    assert_together(&all, "bob");
    let url = format!("redis://diana:right@{}", redis.address());
    let mut diana = redis::Client::open(url).unwrap().get_connection().unwrap();
    let commands: [&[&str]; 9] = [
        &["FLUSHALL"],
        &["GET", "other"],
        &["SET", "other", "2"],
        &["KEYS", "*"],
        &["DEL", "diana:{0}:probe"],
        &["CONFIG", "GET", "*"],
        &["EVAL", "return redis.call('GET',KEYS[1])", "1", "other"],
        &["EVAL", "return redis.call('GET','other')", "0"],
        &["EVAL", "return redis.call('FLUSHALL')", "0"],
    ];
    for words in commands {
        let mut command = redis::cmd(words[0]);
        words[1..].iter().for_each(|word| _ = command.arg(word));
        let error = command.exec(&mut diana).unwrap_err().to_string();
        let refusals = ["NoPerm", "The user executing the script can't "];
        assert!(refusals.iter().any(|refusal| error.contains(refusal)), "{words:?}: {error}");
    }
    let other: String = redis::cmd("GET").arg("other").query(&mut admin).unwrap();
    assert_eq!(other, "1");
}
