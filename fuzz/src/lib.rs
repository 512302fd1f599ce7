//! The targets, and what of the native tests they need, for the fuzzer.

pub mod targets;

/// The simulated gateway, as in `tests/it/host.rs` but for its own tests.
#[allow(dead_code)]
#[path = "../../tests/it/host"]
mod host {
    pub mod callouts;
    pub mod counts;
    pub mod faults;
    pub mod gateway;
    pub mod laws;
    pub mod play;
    pub mod sent;
    pub mod store;
    pub mod vm;
}
