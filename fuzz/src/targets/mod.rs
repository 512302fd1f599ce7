//! Properties of any bytes: each target is a function of bytes that panics if its property fails.
//!
//! A fuzzer provides the bytes; `tests/it/fuzz.rs` replays the kept ones.
//!
//! To add a target: a file here with a `run`, its line below, its file in `fuzz_targets/`, its
//! `[[bin]]` in `Cargo.toml`, and a folder of seeds in `corpus/`.

pub mod bridge;
pub mod cell;
pub mod configuration;
pub mod headers;
mod input;
pub mod inspect;
pub mod native_module;
pub mod path;
mod query;
pub mod redis_reply;
pub mod remote_document;
pub mod remote_reply;
pub mod request;
pub mod request_body;
pub mod response_meter;
pub mod settlement;
pub mod ticket;

/// A target accepts any bytes, and panics if its property fails.
pub type Target = fn(&[u8]);

/// All targets by their names.
pub static TARGETS: &[(&str, Target)] = &[
    ("bridge", bridge::run),
    ("cell", cell::run),
    ("configuration", configuration::run),
    ("headers", headers::run),
    ("inspect", inspect::run),
    ("native_module", native_module::run),
    ("path", path::run),
    ("redis_reply", redis_reply::run),
    ("remote_document", remote_document::run),
    ("remote_reply", remote_reply::run),
    ("request", request::run),
    ("request_body", request_body::run),
    ("response_meter", response_meter::run),
    ("settlement", settlement::run),
    ("ticket", ticket::run),
];
