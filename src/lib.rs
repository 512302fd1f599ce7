//! Diana as a proxy-wasm filter: a shell whose `exports` forward the host's callbacks to a
//! [`Filter`] and whose [`ProxyWasm`] makes its calls. Targets other than wasm32 have no exports;
//! there, tests drive a [`Filter`] and the host of `diana-testing` answers.
//!
//! ```text
//!   configuration ──► diana-config ──► Policy      once; a wrong document yields all its mistakes
//!                                        │
//!   request ──► exports ──► session ────►│         diana-filter, diana-limiter
//!                 ▲                      │
//!      host ──────┴─────── Decision ◄────┘
//! ```
#![cfg_attr(test, allow(clippy::arithmetic_side_effects, clippy::string_slice, clippy::unreachable))]

mod abi;
mod callbacks;
mod calls;
#[cfg(target_arch = "wasm32")]
mod exports;
mod host;
mod local_reply;
mod logger;
mod memory;
mod parts;
mod shared_data;

pub use diana_filter::{Action, Exports};
pub use host::ProxyWasm;

/// The filter of a proxy-wasm host.
pub type Filter = diana_filter::Filter<ProxyWasm>;
