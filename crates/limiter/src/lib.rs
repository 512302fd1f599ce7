//! An exact, bounded rate limiter for HTTP requests. It is a function of its arguments: it has no
//! host, no clock and no I/O.
//!
//! ```text
//!   policy::Draft ──► Policy                        once
//!                       │
//!   request ─► session ►│ which rules apply?    matcher
//!                 ▲     │ which actor counts?   actor
//!                 │     │ is enough left?       algorithm, on cells of a table
//!     Decision ◄──┴─────┘ check all rules, then charge all
//!        │ │
//!        │ └──► response: status, headers, body
//!        └────► global: requests to a global store and its replies
//! ```
#![forbid(unsafe_code)]
#![warn(missing_docs)]
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

pub mod actor;
pub mod algorithm;
pub mod global;
pub mod matcher;
pub mod number_map;
pub mod policy;
pub mod request;
pub mod response;
pub mod session;
pub mod store;
pub mod table;
