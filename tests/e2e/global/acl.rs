//! Redis with the rights that Diana needs, and no others.

use super::{assert_together, client, gateways, in_redis, quota};
use gateway::{Connection, Redis, Webdis};
use serde_json::json;

/// As in `docs/configuration/global.md`.
const RIGHTS: &str = "on >right resetkeys ~diana:* -@all +evalsha +eval +time +get +set";

/// Webdis 0.1.9 connects as `default`, whatever user its configuration names. An administrator has
/// another user.
#[test]
fn the_documented_rights_suffice_and_allow_nothing_else() {
    let redis = Redis::start().unwrap();
    let mut admin = client(&redis);
    redis::cmd("SET").arg("other").arg("1").exec(&mut admin).unwrap();
    let mut rights = redis::cmd("ACL");
    rights.arg("SETUSER").arg("default").arg("resetpass");
    RIGHTS.split(' ').for_each(|right| _ = rights.arg(right));
    redis::cmd("ACL")
        .arg("SETUSER")
        .arg("admin")
        .arg("on")
        .arg(">admin")
        .arg("~*")
        .arg("+@all")
        .exec(&mut admin)
        .unwrap();
    redis::cmd("AUTH").arg("admin").arg("admin").exec(&mut admin).unwrap();
    rights.exec(&mut admin).unwrap();
    let webdis = Webdis::start_with(&redis, json!({"redis_auth": "right"})).unwrap();
    let document = json!({"limits": quota(), "store": in_redis(json!({}))});
    let all = gateways(&document, &[("webdis", webdis.address(), false)], |config| config);
    assert_together(&all, "ann");
    redis::cmd("SCRIPT").arg("FLUSH").exec(&mut admin).unwrap();
    assert_together(&all, "bob");
    let mut connection = Connection::open(webdis.address()).unwrap();
    for command in [
        "FLUSHALL",
        "GET/other",
        "SET/other/2",
        "KEYS/*",
        "DEL/diana:{0}:probe",
        "CONFIG/GET/*",
        "EVAL/return redis.call('GET',KEYS[1])/1/other",
        "EVAL/return redis.call('GET','other')/0",
        "EVAL/return redis.call('FLUSHALL')/0",
    ] {
        let command = command.replace(' ', "%20");
        let answer = connection.request("POST", "/", &[], command.as_bytes()).unwrap().text();
        let refusals = ["[false,\"NOPERM ", "[false,\"ERR The user executing the script can't "];
        assert!(refusals.iter().any(|refusal| answer.contains(refusal)), "{command}: {answer}");
    }
    let other: String = redis::cmd("GET").arg("other").query(&mut admin).unwrap();
    assert_eq!(other, "1");
}
