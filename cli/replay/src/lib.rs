//! Runs the requests in an access log through the limits of a document, on a virtual clock, and
//! sums up what would have been refused. The command `diana replay` is in `diana-cli`.
//!
//! ```text
//!   log ─ Records, by their starts ─► engine ─ Decision ─► tally ─► Summary ─► text, JSON, HTML
//! ```
//!
//! ```
//! use diana_replay::Replay;
//!
//! let document = br#"{"url": "/", "rules": [{"name": "per-user", "actor": "user", "rpu": 1, "unit": "hour"}]}"#;
//! let log = std::env::temp_dir().join(format!("diana-replay-{}.log", std::process::id()));
//! let line = r#"{"start_time": 1795392000, "method": "GET", "path": "/", "x-user-id": "ann"}"#;
//! std::fs::write(&log, format!("{line}\n{line}\n"))?;
//!
//! let summary = Replay::of_document(document, log.clone(), Some("json"))?.run(|_, _, _| {}, |_, _| {})?;
//! assert_eq!((summary.totals.admitted, summary.totals.refused), (1, 1));
//! # std::fs::remove_file(&log)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::arithmetic_side_effects, clippy::string_slice, clippy::unreachable))]

mod caution;
mod document;
mod engine;
mod error;
mod log;
pub mod number;
pub mod printable;
pub mod report;
mod request;
mod run;
pub mod suggest;
pub mod summary;
mod tally;
pub mod text;

pub use document::Document;
pub use engine::logged_number;
pub use error::Error;
pub use log::input::total_bytes;
pub use log::record::{Record, Slot, Slots};
pub use run::Replay;
