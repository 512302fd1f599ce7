//! The actors that rules count: each kind reads a value from the request. One file per kind.
//!
//! Values come from clients and are hostile: any length, any byte. Every kind reads them in linear
//! time. Values are stored as keyed hashes only.
//!
//! ```text
//!   actors: {tenant: {jwt: sub}} ─ compile ─► dyn Actor ─┐
//!   actor: [tenant, ip]          ─ Actors::select ─► [NamedActor, NamedActor] ─ key(request) ─► bytes
//! ```
//!
//! An empty value counts as missing in every kind, because it identifies nobody.
//!
//! To add a kind: a file in `actor/` with a `KIND`, its `mod` line and its line in [`KINDS`].

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
