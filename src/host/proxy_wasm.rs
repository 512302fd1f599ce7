//! proxy-wasm hosts: Envoy and all that embed its runtime, and nginx with ngx_wasm_module.
//!
//! It does not know: what is decided. It reads what is asked for, does what comes back, and counts it.
//!
//! ```text
//!   host ─► exports ─► Filter ─► Gateway ─► Session        callbacks; one Filter a VM, one Gateway a configuration
//!   host ◄─ abi ◄──── calls ◄── parts, store, metrics …    host calls; every status is a value
//! ```
//!
//! On any other target than a host's, there are no exports: tests drive a [`Filter`], and a `simulated` host
//! answers its calls.

mod abi;
pub mod access_log;
mod announce;
mod callbacks;
mod calls;
mod candidate;
#[cfg(target_arch = "wasm32")]
mod exports;
mod filter;
mod global_calls;
mod memory;
pub mod metrics;
mod parts;
mod plugin;
mod sampling;
#[cfg(not(target_arch = "wasm32"))]
pub mod simulated;
mod source;
mod streams;
mod timer;
mod timer_queue;
mod zone;

pub use callbacks::Callbacks;
pub use filter::{Action, Filter};
