//! Where counts live. All other modules reach counts through this one: a decision opens an actor's
//! cell here, and swaps its changes in here.
//!
//! ```text
//!   refusal cache ─┐
//!   reservation   ─┼─► OpenCell: bytes, when they were read, dirty or not ─► rules check ─► commit
//!   table         ─┘                                                                          │
//!                                    ┌── lost: another worker was faster; open and change again ┘
//!   Change ─► swap ──────────────────┴── done, or declined: the change finds nothing to store
//! ```

mod context;
mod events;
mod group_migration;
mod migration;
mod open;
mod overridden;
mod refusals;
mod reservations;
mod slots;
pub mod store;
mod swap;
pub mod table;
mod used;

pub use events::Events;
pub use group_migration::Replacement;
pub use migration::Previous;

pub(crate) use context::Context;
pub(crate) use group_migration::GroupMigration;
pub(crate) use migration::Migration;
pub(crate) use open::{Actor, OpenCell};
pub(crate) use overridden::Overridden;
pub(crate) use refusals::{CACHED_FOR, RefusalCache};
pub(crate) use reservations::{Reservations, ReservedCell};
pub(crate) use slots::{SLOTS, index};
pub(crate) use swap::{Attempt, Change, Swapped, peek, swap, update, update_or_create};
pub(crate) use used::used_cells;
