//! The script that decides in Redis, by itself, in a real Redis: it says what the algorithms say that it is written after.
//!
//! It does not know: who asks it, or over what. Redis' clock is real: where the shipped text asks for `TIME`, the text that
//! is tested here takes the instant from its last argument. Nothing else of it is changed.

mod cells;
mod leases;
mod lending;
mod one;
mod permits;
mod several;
mod store;
mod workers;
