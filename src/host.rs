//! The hosts that load Diana. Each drives sessions through its own calls; all that is known of a host is
//! in its folder.
//!
//! It does not know: rules, or how a decision is made.

mod monotonic;
pub mod nginx;
pub mod proxy_wasm;
