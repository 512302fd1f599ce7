//! The proxy-wasm filter, for Envoy, everything that embeds Envoy's runtime, and nginx with
//! ngx_wasm_module. It turns callbacks into calls of a session and decisions into host calls.
//!
//! ```text
//!   host ─► exports ─► Filter ─► Plugin ─► Session     one Filter a VM, one Plugin a configuration
//!   host ◄─ abi ◄──── calls ◄── parts, store, metrics  every status is a value
//! ```
//!
//! A request goes from `Filter::on_request_headers` to `Plugin::decide` and `Session::start`.
//! `Filter::carry_out` does what the decision's `Outcome` says.
//!
//! Targets other than wasm32 have no exports: tests drive a [`Filter`], and a `simulated` host
//! answers its calls.

mod abi;
pub mod access_log;
mod announced;
mod callbacks;
mod calls;
mod clock;
#[cfg(target_arch = "wasm32")]
mod exports;
mod filter;
mod host_kind;
mod logger;
mod memory;
mod metering;
pub mod metrics;
mod parts;
mod plugin;
mod remote_source;
mod sampling;
#[cfg(not(target_arch = "wasm32"))]
pub mod simulated;
mod streams;
mod timer_queue;
mod wording;
mod zone;

pub use callbacks::Callbacks;
pub use filter::{Action, Filter};
