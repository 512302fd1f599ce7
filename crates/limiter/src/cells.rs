//! Where counts live. All other modules reach counts through this one: a decision opens an actor's
//! cell here, and swaps its changes in here.
//!
//! ```text
//!   cell cache ─┬─► OpenCell: bytes, when they were read, dirty or not ─► rules check ─► commit
//!   table      ─┘                                                                          │
//!                                 ┌── lost: another worker was faster; open and change again ┘
//!   Change ─► swap ───────────────┴── done, or declined: the change finds nothing to store
//! ```

mod cache;
mod context;
mod open;
pub mod store;
mod swap;
pub mod table;

pub(crate) use cache::{CellCache, CellId, SLOTS, VALID_FOR, slot};
pub use context::Events;
pub(crate) use context::{CellActor, Context, Overridden};
pub(crate) use open::OpenCell;
pub(crate) use swap::{Attempt, Change, Swapped, peek, swap, update, update_or_create};
