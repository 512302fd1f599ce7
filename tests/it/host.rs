//! The whole filter, callbacks in and host calls out, in a simulated gateway whose calls may fail.
//! `play` takes any bytes, so that a fuzzer can provide them.

mod access_log;
pub mod callouts;
pub mod counts;
pub mod faults;
mod gateway;
mod global;
mod held;
mod invariants;
pub mod laws;
mod lent;
mod metrics;
mod nginx;
mod nginx_headers;
mod nginx_zone;
pub mod play;
mod reloads;
mod remote;
pub mod replay;
mod scripts;
mod sent;
pub mod store;
mod vm;
mod warnings;
