//! Tests of the Lua script in a real Redis: it answers exactly like the algorithms.
//!
//! The clock of Redis is real. Where the shipped script calls `TIME`, the tested script takes the
//! instant from its last argument. Nothing else differs.

mod calendar;
mod cells;
mod eviction;
mod gateways;
mod headroom;
mod inspect;
mod lease_laws;
mod lease_waste;
mod leases;
mod penalties;
mod permits;
mod priorities;
mod quotas;
mod redis;
mod settling;
mod several_rules;
mod single_rule;
mod warming;
mod workers;
