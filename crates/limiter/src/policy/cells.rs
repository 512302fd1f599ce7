//! The only door to counts. A decision opens an actor's cell here, and changes are swapped in here.
//!
//! ```text
//!   refusal cache ─┐
//!   reservation   ─┼─► OpenCell: bytes, when they were read, dirty or not ─► rules check ─► commit
//!   table         ─┘                                                                          │
//!                                    ┌── lost: another worker was faster; open and change again ┘
//!   Change ─► swap ──────────────────┴── done, or declined: the change finds nothing to store
//! ```

mod migrated;
mod migration;
mod open;
mod refusals;
mod reservations;
mod swap;

pub(crate) use migrated::MigratedCharges;
pub(crate) use migration::Migration;
pub use migration::{Previous, Replacement};
pub(crate) use open::{Actor, OpenCell};
pub(crate) use refusals::{GlobalRefusalCache, RefusalCache};
pub(crate) use reservations::Reservations;
pub(crate) use reservations::ReservedCell;
pub(crate) use swap::{Attempt, Change, Swapped, peek, swap, update, update_or_create};
