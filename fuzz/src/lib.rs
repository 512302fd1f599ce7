//! The targets for the fuzzer, and the parts of the native tests that they need.
// Only the simulation of Envoy is allowed to have unsafe code.
#![deny(unsafe_code)]

pub mod targets;

/// Calls and replies as the simulated Redis reads and writes them.
#[allow(dead_code)]
#[path = "../../tests/it/wire.rs"]
mod wire;

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
}
