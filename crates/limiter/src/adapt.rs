//! Limits that follow what a gateway sees of an upstream: latency, the share of errors, or traffic.
//!
//! ```text
//!   worker:  a response began ─► Local (counters, Histogram)
//!                                  │ several times an interval: merge, by compare-and-swap
//!   shared:  Shared (AdaptiveState, counters, Histogram) ─► interval's end: Controller::step ─► limit
//! ```
//!
//! `docs/internals/design/adaptive.md` compares the controller with published ones. This
//! module uses no other module of the engine.
//!
//! ```
//! use diana_limiter::adapt::{Controller, Interval, Limits, Resource, Signal};
//! use diana_limiter::time::Span;
//!
//! // At least 20, at most 400, at first 200 requests a second; one step every ten seconds.
//! let limits = Limits { min: 20, max: 400, start: 200 };
//! let rate = Resource::Rate { unit: Span::from_secs(1) };
//! let signal = Signal::Latency { target: Span::from_ms(200), permille: 900 };
//! let controller = Controller::new(signal, rate, limits, Span::from_secs(10));
//!
//! let state = controller.start();
//! assert_eq!(controller.limit(state), 200);
//! let admitted = Interval { quantile_ns: 400_000_000, admitted: 2_000, ..Interval::default() };
//! let state = controller.step(state, &Interval { samples: 1_500, ..admitted });
//! assert_eq!(controller.limit(state), 147, "150 a second answered; 2 % less drain the queue");
//! ```

mod controller;
mod histogram;
mod local;
mod shared;

pub use controller::{AdaptiveState, Controller, Interval, Limits, Resource, Signal};
pub use histogram::Histogram;
pub use local::{Adaptive, Local};
pub(crate) use shared::Shared;
