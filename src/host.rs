//! The hosts that load Diana. Each host module drives sessions through the calls of its own host.

mod monotonic;
pub mod nginx;
pub mod proxy_wasm;
