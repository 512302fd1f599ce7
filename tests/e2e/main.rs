//! The filter in a real Envoy. Each test has a gateway of its own. No test waits for time to pass,
//! but the soak, those with gRPC's clients, which wait as told, and the one beside Traefik, which
//! forgets idle clients.
//!
//! `cargo test --test e2e` builds the filter and finds or fetches an Envoy by itself. `$DIANA_WASM`
//! and `$ENVOY` name others.
#![allow(
    clippy::arithmetic_side_effects,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::string_slice,
    clippy::unreachable,
    clippy::unwrap_used
)]

mod access_log;
mod adapting;
mod algorithms;
mod answers;
mod budgets;
mod bytes;
mod calendar;
mod capabilities;
mod clock;
mod configuration;
mod convert;
mod cookbook;
mod embedded;
mod enforce;
mod exact;
mod examples;
mod ext_proc;
mod global;
mod grpc_clients;
mod hostile;
mod inspect;
mod kept;
mod large;
mod ledger;
mod limit_source;
mod listeners;
mod machine;
mod manifests;
mod matching;
mod memory;
mod metrics;
mod migrating;
mod month;
mod observability;
mod opentelemetry;
mod original;
mod panics;
mod permits;
mod plans;
mod prices;
mod priorities;
mod production;
mod protocols;
mod rates;
mod redis_cluster;
mod redis_upstream;
mod remote;
mod replay;
mod request_bodies;
mod reverted;
mod routes;
mod runbook;
mod secrets;
mod settling;
mod shaping;
mod size;
mod soak;
mod soft_limits;
mod tickets;
mod tokens;
mod upstream_filter;
mod variables;
mod waiting;

use gateway::{Config, Gateway};
use serde_json::{Value, json};

/// A gateway with this configuration and all defaults.
fn start(configuration: Value) -> Gateway {
    Gateway::start(Config::new(configuration)).expect("the gateway should start")
}

/// One limit on everything, with these rules, and definitions of the actors that tests use.
fn limits(rules: Value) -> Value {
    json!({
        "limits": [{"url": "/", "rules": rules}],
        "actors": {"token": {"jwt": "sub"}, "session": {"cookie": "s"}},
    })
}

/// How much of a rule is left for a user, as a further request for `path` sees it.
fn left(gateway: &Gateway, rule: &str, path: &str, user: &str) -> Option<u64> {
    let answer = gateway.get(path, &[("x-user-id", user)]).ok()?;
    let rest = answer.header("ratelimit")?.split(&format!("\"{rule}\";r=")).nth(1)?;
    rest.split([';', ',']).next()?.parse().ok()
}
