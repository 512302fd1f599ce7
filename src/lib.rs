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
//! Only `host` has a clock and does I/O. Every other module is a function of its arguments. The
//! modules are listed from the outside in. Each module uses only modules below it; a test enforces
//! the order.
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

pub mod config;

pub mod session;

pub mod response;

pub mod remote;

pub mod global;

pub mod policy;

pub mod actor;
pub mod algorithm;
pub mod matcher;

pub mod table;

pub mod store;

pub mod request;

pub mod number_map;
