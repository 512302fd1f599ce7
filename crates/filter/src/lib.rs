//! The filter's logic, over any gateway's interface. It turns callbacks into calls of a session and
//! decisions into calls of a [`Host`].
//!
//! ```text
//!   gateway ─► shell ─► Filter ─► Plugin ─► Session     one Filter a worker,
//!   gateway ◄─ impl Host ◄─ plugins, timers, metrics    one Plugin a configuration
//! ```
//!
//! A shell is a thin adapter to one gateway: it makes a [`Filter`] for each worker, forwards the
//! gateway's callbacks, and implements [`Host`]. A request goes from `Filter::on_request_headers`
//! to `Plugin::decide` and `Session::start`. `Filter::carry_out` does what the decision's `Outcome`
//! says.
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::arithmetic_side_effects, clippy::string_slice, clippy::unreachable))]

pub mod access_log;
mod announced;
mod callbacks;
mod clock;
mod filter;
mod host;
mod host_kind;
mod metering;
pub mod metrics;
mod monotonic;
mod plugin;
mod remote_source;
mod request_body;
mod route;
mod sampling;
mod streams;
mod timer_queue;
mod wording;
mod zone;

/// The version of this build: that of the package, and between two releases the commit, as in
/// `0.3.0-dev+0123456789ab`.
pub const VERSION: &str = env!("DIANA_VERSION");

pub use callbacks::Exports;
pub use filter::{Action, Filter};
pub use host::Host;
pub use host_kind::HostKind;
pub use plugin::{ACTOR_HEADER, ONLY_READS, WRONG_TOKEN};
pub use route::check_route;
pub use zone::zone_bytes;
