//! Diana as a native dynamic module of Envoy: the same engine as the proxy-wasm filter behind
//! Envoy's ABI for shared objects, without a sandbox.
#![cfg_attr(
    not(test),
    deny(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        clippy::unreachable,
        clippy::indexing_slicing,
        clippy::string_slice,
        clippy::arithmetic_side_effects
    )
)]

pub mod abi;
pub mod alarm;
pub mod store;
mod sync;
#[cfg(not(feature = "loom"))]
pub mod timer;
