//! Tests of the Lua script in a real Redis: it answers exactly like the algorithms.
//!
//! The clock of Redis is real. Where the shipped script calls `TIME`, the tested script takes the
//! instant from its last argument. Nothing else differs.

mod cells;
mod leases;
mod lending;
mod one;
mod permits;
mod several;
mod store;
mod workers;
