//! The actors that rules count, one file per kind: each reads a value from the request. Values come
//! from clients, so every kind reads any bytes of any length in linear time; they are stored as
//! keyed hashes only, and an empty value identifies nobody.
//!
//! ```text
//!   Jwt::new("sub"), Ip::new(options) ─► NamedActor::list(all) ─ key(request) ─► bytes
//! ```

pub mod address;
mod client_ip;
mod cookie;
mod fingerprint;
mod forwarded;
mod header;
mod host;
pub mod ip;
mod jwt;
mod kind;
mod method;
mod named;
mod path;
mod property;
mod query;
mod request_json;
mod segment;

pub use cookie::Cookie;
pub use fingerprint::Fingerprint;
pub use header::Header;
pub use host::Host;
pub use jwt::Jwt;
pub use kind::{Actor, ActorError, FastPathPart, SegmentError};
pub use method::Method;
pub(crate) use named::key_of;
pub use named::{NamedActor, key, parse_key, sounds_secret};
pub use path::PathSegment;
pub use property::Property;
pub use query::Query;
pub use request_json::RequestJson;
pub use segment::NamedSegment;
