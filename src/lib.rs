//! Diana, a rate limiter that runs inside an HTTP gateway: the proxy-wasm filter.
//!
//! ```text
//!   configuration ──► diana-config ──► Policy      once; a wrong document yields all its mistakes
//!                                        │
//!   request ──► host ──► session ───────►│         diana-limiter
//!                 ▲                      │
//!                 └─────── Decision ◄────┘
//! ```
//!
//! Only `host` has a clock and does I/O. Everything else is in crates below the filter.
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

pub mod host;
