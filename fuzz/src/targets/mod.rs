//! What must hold for any bytes: each target is a function of bytes that panics if it does not.
//!
//! A fuzzer brings them, and `tests/it/fuzz.rs` those that are kept.
//!
//! To add one: a file here with a `run`, its line below, its file in `fuzz_targets/`, its `[[bin]]`
//! in `Cargo.toml`, and a folder of seeds in `corpus/`.

pub mod cell;
pub mod configuration;
pub mod headers;
mod input;
pub mod path;
mod query;
pub mod redis_reply;
pub mod remote_document;
pub mod remote_reply;
pub mod request;
pub mod rls_reply;

/// A target: takes any bytes, and panics where something does not hold.
pub type Target = fn(&[u8]);

/// All of them by their names.
pub static TARGETS: &[(&str, Target)] = &[
    ("cell", cell::run),
    ("configuration", configuration::run),
    ("headers", headers::run),
    ("path", path::run),
    ("redis_reply", redis_reply::run),
    ("remote_document", remote_document::run),
    ("remote_reply", remote_reply::run),
    ("request", request::run),
    ("rls_reply", rls_reply::run),
];
