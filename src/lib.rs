//! Diana, a rate limiter that runs inside an HTTP gateway.
//!
//! ```text
//!   configuration ──► config ──► Policy            once; a wrong document yields all its mistakes
//!                                   │
//!   request ──► host ──► session ──►│ which rules apply?    matcher
//!                 ▲                 │ which actor counts?   actor
//!                 │                 │ is enough left?       algorithm, on cells of a table
//!                 └──── Decision ◄──┘ check all rules, then charge all
//!                 │        │
//!                 │        └──► response: status, headers, body
//!                 └──► global: requests to a global store and its replies
//! ```
//!
//! Only `host` has a clock and does I/O. `session` and everything to its right are modules of
//! `diana-limiter`.
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

pub mod config;
pub mod host;
