//! The whole filter, callbacks in and host calls out, in a simulated gateway whose calls may fail.
//! `play` takes any bytes, so that a fuzzer can provide them.

mod access_log;
mod adapting;
pub mod bodies;
pub mod callouts;
mod conditions;
mod contexts;
pub mod counts;
mod enforce;
mod estimates;
pub mod faults;
pub mod gateway;
mod global;
pub mod global_store;
mod held_requests;
mod inspect;
mod invariants;
pub mod laws;
mod marks;
mod metrics;
mod nginx;
mod nginx_headers;
mod nginx_phases;
mod nginx_zone;
pub mod play;
mod prices;
mod reloads;
mod remote;
pub mod replay;
mod request;
mod request_bodies;
mod reservations;
mod scripts;
mod settlement;
mod vm;
mod warnings;
pub mod wire;
