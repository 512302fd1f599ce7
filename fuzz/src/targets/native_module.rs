//! The native module, driven by a simulated Envoy: any bytes are events that Envoy may send.

#[allow(unsafe_code, reason = "the simulation has the C interface of Envoy")]
#[path = "../../../envoy-module/tests/binding/envoy/mod.rs"]
pub mod envoy;

/// The module keeps Envoy's rules in any order of events, and nothing of it remains at the end.
pub fn run(bytes: &[u8]) {
    envoy::play(bytes);
}
