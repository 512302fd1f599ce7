//! Property tests of every kind of algorithm, and a slow reference model of each.
//!
//! To cover a new kind, add its row in `subject::SUBJECTS`, a generator of its keys and its model
//! in `models`.

mod adaptive;
mod concurrency;
pub mod headroom;
mod laws;
pub mod models;
mod penalty;
pub mod quotas;
mod refunds;
pub mod schedule;
mod settling;
pub mod subject;
mod token_bucket;
mod waiting;
mod warm_up;
mod windows;
