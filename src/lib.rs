//! Diana, a rate limiter that runs inside an HTTP gateway.
//!
//! ```text
//!   configuration ──► config ──► Policy                    once, or refused with every mistake in its place
//!                                   │
//!   request ──► host ──► session ──►│ which rules apply?    matcher
//!                 ▲                 │ whom do they count?   actor
//!                 │                 │ is there enough left? algorithm, on cells in a table over a store
//!                 └──── Decision ◄──┘ check all, charge all
//!                 │        │
//!                 │        └──► response: status, headers, body
//!                 └──► remote: the bytes of calls to a store that counts for all gateways, and of its answers
//! ```
//!
//! Everything but `host` is a function of values: it knows no host, no clock and no network. The modules
//! stand here from the outside in; each uses only those below it, which a test enforces.
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

pub mod policy;

pub mod actor;
pub mod algorithm;
pub mod matcher;

pub mod table;

pub mod store;

pub mod request;

pub mod document;

pub mod exclusive;
pub mod format;
pub mod map;
pub mod prng;
pub mod sort;
pub mod time;
