//! The targets for the fuzzer, and the parts of the native tests that they need.
// Only the simulation of Envoy is allowed to have unsafe code.
#![deny(unsafe_code)]

pub mod targets;

/// The simulated gateway of `tests/it/host.rs`, without its own tests.
#[allow(dead_code)]
#[path = "../../tests/it/host"]
mod host {
    pub mod bodies;
    pub mod callouts;
    pub mod counts;
    pub mod faults;
    pub mod gateway;
    pub mod global_store;
    pub mod laws;
    pub mod play;
    pub mod request;
    pub mod vm;
    pub mod wire;
}
