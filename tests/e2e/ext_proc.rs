//! An external processor before and behind a filter that reads bodies, in buffers and as a stream.

use gateway::config::cluster;
use gateway::{Config, Gateway, Received, Reply, Upstream, packages, wait_until};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(30);

/// A processor that changes nothing: it answers each message by the empty response of its kind,
/// until its input ends. It prints its port.
const PROCESSOR: &str = r#"
import grpc, sys
from concurrent import futures

def process(messages, context):
    for message in messages:
        # The first field is the kind, and its response has the number before.
        yield bytes([message[0] - 8, 0])

class Handler(grpc.GenericRpcHandler):
    def service(self, call):
        if call.method == '/envoy.service.ext_proc.v3.ExternalProcessor/Process':
            return grpc.stream_stream_rpc_method_handler(process)

server = grpc.server(futures.ThreadPoolExecutor(max_workers=8))
server.add_generic_rpc_handlers((Handler(),))
print(server.add_insecure_port('127.0.0.1:0'), flush=True)
server.start()
sys.stdin.read()
server.stop(0)
"#;

struct Processor {
    child: Child,
    address: SocketAddr,
}

impl Processor {
    fn start() -> Processor {
        let mut child = Command::new("python3")
            .env("PYTHONPATH", packages::of_python(&["grpcio==1.85.3"]).unwrap())
            .args(["-c", PROCESSOR])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let port: u16 = line.trim().parse().unwrap();
        Processor { child, address: ([127, 0, 0, 1], port).into() }
    }
}

impl Drop for Processor {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        _ = self.child.wait();
    }
}

fn filter(body_mode: &str) -> Value {
    json!({
        "name": "envoy.filters.http.ext_proc",
        "typed_config": {
            "@type": "type.googleapis.com/envoy.extensions.filters.http.ext_proc.v3.ExternalProcessor",
            "grpc_service": {"envoy_grpc": {"cluster_name": "processor"}, "timeout": "20s"},
            "message_timeout": "10s",
            "processing_mode": {
                "request_header_mode": "SEND", "request_body_mode": body_mode,
                "response_header_mode": "SEND", "response_body_mode": body_mode,
            },
        },
    })
}

fn document() -> Value {
    json!({
        "request_body": {"wait": "10s"},
        "headers": "ietf",
        "actors": {"model": {"request_json": "/model"}},
        "limits": [
            {"url": "/chat", "rules": [
                {"name": "model", "actor": "model", "missing": "share", "algo": "W", "rpu": 1, "unit": "7d"}]},
            {"url": "/spend", "rules": [
                {"name": "spend", "actor": "user", "algo": "W", "rpu": 100_000, "unit": "7d",
                 "cost": {"response_json": "/n", "default": 5000,
                          "estimate": {"output": {"request_json": "/max_tokens", "max": 9000}}}}]},
        ],
    })
}

#[test]
fn bodies_are_read_before_and_behind_an_external_processor() {
    let processor = Processor::start();
    let upstream = Upstream::start(|request: &Received| {
        let body = format!(r#"{{"n": 700, "length": {}}}"#, request.body.len());
        Reply::new(200, body).header("content-type", "application/json")
    })
    .unwrap();
    for body_mode in ["BUFFERED", "STREAMED"] {
        for is_before in [true, false] {
            let what = format!("{body_mode}, before: {is_before}");
            let (before, behind) = match is_before {
                true => (vec![filter(body_mode)], Vec::new()),
                false => (Vec::new(), vec![filter(body_mode)]),
            };
            let config = Config {
                stop_iteration: true,
                upstream: Some(upstream.address()),
                clusters: vec![cluster("processor", processor.address, true)],
                before,
                behind,
                ..Config::new(document())
            };
            let gateway = Gateway::start(config).unwrap();
            let headers = [("content-type", "application/json"), ("x-user-id", "ann")];
            let post =
                |path: &str, body: &str| gateway.request("POST", path, &headers, body.as_bytes()).unwrap();
            let padded = |model: &str| format!(r#"{{"x": "{}", "model": "{model}"}}"#, "x".repeat(100_000));
            for (model, expected) in [("small", 200), ("large", 200), ("small", 429), ("large", 429)] {
                let body = padded(model);
                let answer = post("/chat", &body);
                assert_eq!(answer.status, expected, "{what}: {model}");
                let length = format!(r#""length": {}"#, body.len());
                assert_eq!(answer.text().contains(&length), expected == 200, "{what}: {}", answer.text());
            }
            // The estimate on arrival, and what the response has cost.
            let left = |estimate: u64| {
                let answer = post("/spend", &format!(r#"{{"max_tokens": {estimate}}}"#));
                let (_, rest) = answer.header("ratelimit")?.split_once("r=")?;
                rest.split(';').next()?.parse::<u64>().ok()
            };
            assert_eq!(left(4_000), Some(96_000), "{what}");
            let mut spent = 700;
            wait_until("the response to be settled", PATIENCE, || {
                let found = left(1_000);
                spent += 700;
                (found? == 100_000 - 1_000 - (spent - 700)).then_some(())
            })
            .unwrap_or_else(|error| panic!("{error}: {what}"));
        }
    }
}
