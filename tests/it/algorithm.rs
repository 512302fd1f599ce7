//! Every kind of algorithm: laws that hold for all of them, and a slow model of each.
//!
//! To cover a new kind: its row in `subject::SUBJECTS`, a generator of its keys and a model of it in `models`.

mod concurrency;
mod giving_back;
mod laws;
pub mod models;
pub mod schedule;
pub mod subject;
mod token_bucket;
mod waiting;
mod windows;
