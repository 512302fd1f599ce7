//! The actors that rules count, one file per kind in [`KINDS`]: each reads a value from the
//! request. Values come from clients, so every kind reads any bytes of any length in linear time;
//! they are stored as keyed hashes only, and an empty value identifies nobody.
//!
//! ```text
//!   actors: {tenant: {jwt: sub}} ─ compile ─► dyn Actor ─┐
//!   actor: [tenant, ip]          ─ Actors::select ─► [NamedActor, NamedActor] ─ key(request) ─► bytes
//! ```

pub mod address;
mod client_ip;
mod cookie;
mod definition;
mod header;
mod header_name;
mod host;
pub mod ip;
mod jwt;
mod kind;
mod method;
mod named;
mod names;
mod path;
mod property;
mod query;
mod segment;

pub use definition::{KINDS, compile};
pub use kind::{Actor, ActorKind, Bare, FastPathPart, Scope};
pub use named::{NamedActor, key, parse_key};
pub use names::Actors;

#[cfg(test)]
pub(crate) mod testing;
