//! Diana as a native dynamic module of Envoy: the same engine as the proxy-wasm filter behind
//! Envoy's ABI for shared objects, without a sandbox.
#![cfg_attr(
    test,
    allow(
        clippy::arithmetic_side_effects,
        clippy::indexing_slicing,
        clippy::unreachable,
        clippy::unwrap_used
    )
)]

pub mod abi;
pub mod alarm;
pub mod store;
mod sync;
pub mod turns;

// loom runs only the tests of what threads share.
#[cfg(not(feature = "loom"))]
pub mod bridge;
#[cfg(not(feature = "loom"))]
mod callouts;
#[cfg(not(feature = "loom"))]
mod calls;
#[cfg(not(feature = "loom"))]
mod config;
#[cfg(not(feature = "loom"))]
mod documents;
#[cfg(not(feature = "loom"))]
pub mod guard;
#[cfg(not(feature = "loom"))]
pub mod held;
#[cfg(not(feature = "loom"))]
pub mod hooks;
#[cfg(not(feature = "loom"))]
mod host;
#[cfg(not(feature = "loom"))]
mod local_reply;
#[cfg(not(feature = "loom"))]
mod logger;
#[cfg(not(feature = "loom"))]
mod mailbox;
#[cfg(not(feature = "loom"))]
pub mod metrics;
#[cfg(not(feature = "loom"))]
mod namespace;
#[cfg(not(feature = "loom"))]
mod outbox;
#[cfg(not(feature = "loom"))]
mod request;
#[cfg(not(feature = "loom"))]
mod routes;
#[cfg(not(feature = "loom"))]
mod runtime;
#[cfg(not(feature = "loom"))]
mod secret;
#[cfg(not(feature = "loom"))]
mod streams;
#[cfg(not(feature = "loom"))]
pub mod thread;
#[cfg(not(feature = "loom"))]
pub mod timer;
#[cfg(not(feature = "loom"))]
mod timers;
#[cfg(not(feature = "loom"))]
mod vm;
#[cfg(not(feature = "loom"))]
mod vms;
