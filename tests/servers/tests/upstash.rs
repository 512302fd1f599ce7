//! The Upstash dialect, in front of a real Redis.

use gateway::{Connection, Redis, wait_until};
use serde_json::{Value, json};
use servers::Upstash;
use std::time::Duration;

const TOKEN: &str = "a-token";
const PATIENCE: Duration = Duration::from_secs(10);
/// After this pause without a call, a connection is in step again.
const PAUSE: Duration = Duration::from_millis(100);

fn ask(upstash: &Upstash, path: &str, token: &str, body: &str) -> (u16, Value) {
    let mut connection = Connection::open(upstash.address()).unwrap();
    let authorization = format!("Bearer {token}");
    let headers = [("authorization", authorization.as_str())];
    let answer = connection.request("POST", path, &headers, body.as_bytes()).unwrap();
    (answer.status, serde_json::from_slice(&answer.body).unwrap())
}

#[test]
fn a_command_gets_a_result_or_an_error() {
    let redis = Redis::start().unwrap();
    let upstash = Upstash::start(redis.address(), TOKEN).unwrap();
    let one = |command: Value| ask(&upstash, "/", TOKEN, &command.to_string());
    assert_eq!(one(json!(["SET", "a", "ä/%", "EX", 100])), (200, json!({"result": "OK"})));
    assert_eq!(one(json!(["GET", "a"])), (200, json!({"result": "ä/%"})));
    assert_eq!(one(json!(["GET", "b"])), (200, json!({"result": null})));
    let script = "return {1, 'two', {3}, ARGV[1]}";
    let (status, reply) = one(json!(["EVAL", script, "1", "a", "four"]));
    assert_eq!((status, reply), (200, json!({"result": [1, "two", [3], "four"]})));
    let error = "NOSCRIPT No matching script. Please use EVAL.";
    assert_eq!(one(json!(["EVALSHA", "0".repeat(40), 0])), (400, json!({"error": error})));
    for wrong in ["{}", "[]", "[[]]", "not JSON"] {
        assert_eq!(ask(&upstash, "/", TOKEN, wrong).0, 400, "{wrong}");
    }
    assert_eq!(upstash.calls(), 9);
}

#[test]
fn replies_to_several_commands_are_in_order() {
    let redis = Redis::start().unwrap();
    let upstash = Upstash::start(redis.address(), TOKEN).unwrap();
    let commands = json!([["SET", "a", "x"], ["INCR", "a"], ["INCRBY", "b", 2]]);
    let error = "ERR value is not an integer or out of range";
    let reply = json!([{"result": "OK"}, {"error": error}, {"result": 2}]);
    assert_eq!(ask(&upstash, "/pipeline", TOKEN, &commands.to_string()), (200, reply));
    assert_eq!(ask(&upstash, "/pipeline", TOKEN, r#"["GET", "a"]"#).0, 400);
}

#[test]
fn a_request_without_the_token_is_refused() {
    let redis = Redis::start().unwrap();
    let upstash = Upstash::start(redis.address(), TOKEN).unwrap();
    for path in ["/", "/pipeline"] {
        for token in ["", "another", "a-token2"] {
            let refused = ask(&upstash, path, token, r#"["PING"]"#);
            assert_eq!(refused, (401, json!({"error": "Unauthorized"})));
        }
    }
    let bare = Connection::open(upstash.address()).unwrap().request("POST", "/", &[], b"[\"PING\"]").unwrap();
    assert_eq!((bare.status, upstash.calls()), (401, 7));
}

#[test]
fn the_server_reconnects_after_a_restart_of_redis() {
    let mut redis = Redis::start().unwrap();
    let upstash = Upstash::start(redis.address(), TOKEN).unwrap();
    let ping = || ask(&upstash, "/", TOKEN, r#"["PING"]"#);
    assert_eq!(ping(), (200, json!({"result": "PONG"})));
    redis.kill();
    assert_eq!(ping().0, 400);
    redis.restart().unwrap();
    let back = || (ping().0 == 200).then_some(());
    wait_until("a reply of Redis", PATIENCE, back).unwrap();
}

#[test]
fn shifted_replies_end_after_a_pause() {
    let redis = Redis::start().unwrap();
    let upstash = Upstash::start(redis.address(), TOKEN).unwrap();
    let authorization = format!("Bearer {TOKEN}");
    let mut connection = Connection::open(upstash.address()).unwrap();
    let mut echo = |text: &str| {
        let body = json!(["ECHO", text]).to_string();
        let headers = [("authorization", authorization.as_str())];
        let answer = connection.request("POST", "/", &headers, body.as_bytes()).unwrap();
        let answer: Value = serde_json::from_slice(&answer.body).unwrap();
        answer["result"].as_str().unwrap().to_owned()
    };
    assert_eq!([echo("a"), echo("b")], ["a", "b"]);
    upstash.shift();
    // A machine that stands still for the length of the pause is in step at once.
    wait_until("replies that have shifted", PATIENCE, || {
        upstash.shift();
        echo("c");
        (echo("d") == "c").then_some(())
    })
    .unwrap();
    wait_until("a pause", PATIENCE, || {
        std::thread::sleep(2 * PAUSE); // the pause itself
        (echo("e") == "e").then_some(())
    })
    .unwrap();
    assert_eq!(echo("f"), "f");
}
