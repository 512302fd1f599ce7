//! The algorithms of rules, one file each. An algorithm maps a cell, an instant and a cost to a
//! verdict and a new cell. It is pure: the caller passes the time and stores the cell.
//!
//! ```text
//!   cell ─► prepare(now) ─► step(now, cost) ─► Verdict ──► admitted: store the changed cell
//!                                                     └──► refused: the cell is unchanged
//!   later:  cell ─► refund(now, charge) ─► as if the request had never come
//!           cell ─► settle(now, charge, cost) ─► as if the request had cost this much
//! ```
//!
//! The files of kinds are those in [`KINDS`]. `adaptive`, `lease`, `refuse_all` and `warm_up`
//! implement [`Algorithm`] without being kinds. `penalty` has a state beside that of any algorithm;
//! the other files are shared code.
//!
//! To add an algorithm, add a file in `algorithm/` with a `KIND`, its `mod` line and its line in
//! [`KINDS`], and its formulas in Lua for Redis. CONTRIBUTING.md has all six steps.

mod adaptive;
mod bits;
mod bytes;
mod concurrency;
mod leaky_bucket;
pub mod lease;
mod parameters;
mod penalty;
mod rate;
mod refuse_all;
mod ring;
mod sliding_log;
mod sliding_window;
mod token_bucket;
mod traits;
mod values;
mod warm_up;
mod window;

pub use parameters::{Parameters, PenaltyParameters};
pub use penalty::Penalty;
pub use refuse_all::RefuseAll;
pub use traits::{Algorithm, AlgorithmKind, Reserve, Settle};
pub use values::{Admission, Charge, EvictionRank, MAX_WAIT, Quota, Reservation, Verdict};
pub(crate) use values::{MAX_SKEW, RESERVED_FOR, borrowed, proportional_span};

/// All kinds of algorithms. The first one is the default.
pub static KINDS: &[&AlgorithmKind] = &[
    &token_bucket::KIND,
    &window::KIND,
    &sliding_window::KIND,
    &sliding_log::KIND,
    &leaky_bucket::KIND,
    &concurrency::KIND,
];
