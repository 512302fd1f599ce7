//! The conditions of a limit besides its URL, such as methods, hosts and headers. One file per
//! kind.
//!
//! `tree` matches the URLs of all limits at once. `condition` is common to all kinds.
//!
//! To add a kind: a file in `matcher/`, its `mod` line, and its reader in `crates/config`.

mod body_size;
mod condition;
mod hosts;
mod ip;
mod jwt;
mod lines;
mod methods;
mod named;
pub mod pattern;
mod query;
pub(crate) mod tree;

pub use body_size::BodySize;
pub use condition::{Condition, ConditionError, Matcher};
pub use hosts::{HostError, HostPattern, Hosts};
pub use ip::ClientNetworks;
pub use jwt::Claim;
pub use lines::Lines;
pub use methods::Methods;
pub use named::{Lookup, Named};
pub use query::Parameter;
