//! What gRPC's own clients do when they are refused: they wait as `grpc-retry-pushback-ms` says, if
//! their retry policy covers the status.

use crate::start;
use gateway::{Gateway, packages};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

/// A retry policy whose own waits exceed the time of a test.
fn policy() -> String {
    let retry = json!({
        "maxAttempts": 3, "initialBackoff": "60s", "maxBackoff": "60s", "backoffMultiplier": 1,
        "retryableStatusCodes": ["RESOURCE_EXHAUSTED"],
    });
    json!({"methodConfig": [{"name": [{}], "retryPolicy": retry}]}).to_string()
}

/// Calls a path several times at an address, each call up to 30 s, and prints the codes as JSON.
const PYTHON: &str = r#"
import grpc, json, sys
target, policy, path, times = sys.argv[1:]
codes = []
with grpc.insecure_channel(target, [("grpc.service_config", policy), ("grpc.enable_retries", 1)]) as channel:
    call = channel.unary_unary(path, lambda message: message, lambda message: message)
    for _ in range(int(times)):
        try:
            call(b"", timeout=30)
            codes.append(0)
        except grpc.RpcError as error:
            codes.append(error.code().value[0])
print(json.dumps(codes))
"#;

/// The same.
const NODE: &str = r#"
const grpc = require('@grpc/grpc-js');
const [target, policy, path, times] = process.argv.slice(1);
const options = {'grpc.service_config': policy, 'grpc.enable_retries': 1};
const client = new grpc.Client(target, grpc.credentials.createInsecure(), options);
const same = (message) => message;
const codes = [];
const next = () => {
  if (codes.length == Number(times)) {
    console.log(JSON.stringify(codes));
    return client.close();
  }
  const deadline = {deadline: Date.now() + 30000};
  client.makeUnaryRequest(path, same, same, Buffer.alloc(0), new grpc.Metadata(), deadline, (error) => {
    codes.push(error ? error.code : 0);
    next();
  });
};
next();
"#;

fn python() -> Command {
    let mut command = Command::new("python3");
    command.env("PYTHONPATH", packages::of_python(&["grpcio==1.85.3"]).unwrap()).args(["-c", PYTHON]);
    command
}

fn node() -> Command {
    let packages: PathBuf = packages::of_node(&["@grpc/grpc-js@1.14.7"]).unwrap();
    let mut command = Command::new("node");
    command.env("NODE_PATH", packages.join("node_modules")).args(["-e", NODE]);
    command
}

/// Whether each of these calls was refused, and how long they took together.
fn refused(gateway: &Gateway, mut client: Command, path: &str, times: u32) -> (Vec<bool>, Duration) {
    let begun = Instant::now();
    let (target, times) = (gateway.address().to_string(), times.to_string());
    let output = client.args([&target, &policy(), path, &times]).output().unwrap();
    let took = begun.elapsed();
    let codes: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&output.stderr)));
    (codes.as_array().unwrap().iter().map(|code| code == 8).collect(), took)
}

fn obeys(client: fn() -> Command) {
    let gateway = start(json!({
        "limits": [
            {"url": "/t.S/Soon", "rules": [{"name": "soon", "rpu": 1, "unit": "2s"}]},
            {"url": "/t.S/Late", "rules": [{"name": "late", "rpu": 1, "unit": "7d"}]},
        ],
        "response": {"jitter": "0%"},
    }));
    let counted = |rule: &str, result: &str| {
        gateway.stats().unwrap().sum("diana_requests", &[("rule", rule), ("result", result)])
    };
    // The client waits within the second call, and repeats it.
    let (calls, took) = refused(&gateway, client(), "/t.S/Soon", 2);
    assert_eq!(calls, [false, false]);
    assert!((Duration::from_secs(1)..Duration::from_secs(25)).contains(&took), "{took:?}");
    assert_eq!((counted("soon", "ok"), counted("soon", "refused")), (2, 1));
    // A long wait is an error at once.
    let (calls, took) = refused(&gateway, client(), "/t.S/Late", 2);
    assert_eq!(calls, [false, true]);
    assert!(took < Duration::from_secs(25), "{took:?}");
    assert_eq!((counted("late", "ok"), counted("late", "refused")), (1, 1));
}

#[test]
fn grpcio_waits_as_told_and_not_long() {
    obeys(python);
}

#[test]
fn grpc_js_waits_as_told_and_not_long() {
    obeys(node);
}
