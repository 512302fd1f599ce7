//! The hosts that load Diana. Each drives sessions through its own calls; all that is known of a host is
//! in its folder.
//!
//! It does not know: rules, or how a decision is made.

#[cfg(target_arch = "wasm32")]
mod proxy_wasm;
#[cfg_attr(not(target_arch = "wasm32"), allow(dead_code, reason = "only a host has clocks"))]
mod steady;
