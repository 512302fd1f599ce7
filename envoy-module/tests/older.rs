//! The bridge in an Envoy that lacks its functions: Envoy 1.38. Envoy asks for it before the module
//! is prepared, as it does if several workers call Redis first.
#![allow(
    clippy::arithmetic_side_effects,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::string_slice,
    clippy::unreachable,
    clippy::unwrap_used
)]

#[allow(dead_code, reason = "this has one configuration and no requests")]
#[path = "binding/envoy/mod.rs"]
mod envoy;

use diana_envoy_module::abi::{self, Bytes, Exports};
use std::sync::Mutex;

static LINES: Mutex<String> = Mutex::new(String::new());

unsafe extern "C" fn log(_: u32, line: Bytes) {
    // SAFETY: the module lends the line.
    let line = unsafe { line.get() };
    LINES.lock().unwrap().push_str(str::from_utf8(line).unwrap());
}

fn main() {
    abi::simulate(Exports {
        log_v2: None,
        log: Some(log),
        // 1.38 has functions of the other names, with other arguments.
        upstream_http_tcp_bridge_get_request_buffer_chunks_size: None,
        upstream_http_tcp_bridge_get_response_buffer_chunks_size: None,
        ..envoy::callbacks::all()
    });
    envoy::run(|| assert!(envoy::bridges::Cluster::new("redis", "").is_none()));
    let lines = LINES.lock().unwrap();
    assert!(lines.contains("the bridge `redis` needs Envoy 1.39 or later"), "{lines}");
}
