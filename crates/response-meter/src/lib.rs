//! Reads one number out of a response body while the body passes a gateway, in chunks of any size.
//! The cost of a request is such a number, for example the tokens that a language model used.
//!
//! A [`Meter`] selects the reader by the headers of the response. [`JsonNumber`] reads a JSON
//! document, [`EventStream`] reads server-sent events. Both have constant memory: they keep no part
//! of the body.
//!
//! ```
//! use diana_response_meter::{Meter, Pointer};
//!
//! let tokens = Pointer::parse("/usage/total_tokens")?;
//! let mut meter = Meter::new(&tokens, b"text/event-stream; charset=utf-8", None, 65_536).unwrap();
//! meter.push(b"data: {\"choices\":[],\"usa");
//! meter.push(b"ge\":{\"total_tokens\":21}}\n\nda");
//! meter.push(b"ta: [DONE]\n\n");
//! assert_eq!(meter.value(), Some(21));
//! # Ok::<(), &str>(())
//! ```
//!
//! ```text
//!   chunk ─► Meter ─┬─ application/json ──────────────────────────────► JsonNumber ─► value
//!                   └─ text/event-stream ─► EventStream ─ data lines ─►     "
//! ```
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::arithmetic_side_effects, clippy::string_slice, clippy::unreachable))]

mod event_stream;
mod json_number;
mod key;
mod meter;
mod number;
mod pointer;

pub use event_stream::EventStream;
pub use json_number::JsonNumber;
pub use meter::Meter;
pub use pointer::Pointer;

#[cfg(test)]
mod tests;
