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
mod refusals;
mod reservations;
mod slots;
pub mod store;
mod swap;
pub mod table;

pub(crate) use context::{Context, Overridden};
pub use events::Events;
pub(crate) use group_migration::GroupMigration;
pub use group_migration::Replacement;
pub(crate) use migration::Migration;
pub use migration::Previous;
pub(crate) use open::{Actor, OpenCell};
pub(crate) use refusals::{CACHED_FOR, RefusalCache};
pub(crate) use reservations::{Reservations, ReservedCell};
pub(crate) use slots::{SLOTS, index};
pub(crate) use swap::{Attempt, Change, Swapped, peek, swap, update, update_or_create};
