//! Reads numbers out of a response body while the body passes a gateway, in chunks of any size, in
//! one pass. The cost of a request is made of them, for example of the tokens that a language model
//! used.
//!
//! A [`Meter`] selects the reader by the headers of the response. [`JsonNumbers`] reads a JSON
//! document, [`EventStream`] reads server-sent events. Both have constant memory: they keep no part
//! of the body.
//!
//! ```
//! use diana_response_meter::{Meter, Pointers, ResponseHead};
//!
//! let tokens = Pointers::parse(["/usage/total_tokens"])?;
//! let head = ResponseHead { status: 200, content_type: b"text/event-stream", content_encoding: b"" };
//! let mut meter = Meter::new(&tokens, head, 65_536);
//! meter.push(b"data: {\"choices\":[],\"usa");
//! meter.push(b"ge\":{\"total_tokens\":21}}\n\nda");
//! meter.push(b"ta: [DONE]\n\n");
//! assert_eq!((meter.value(0), meter.is_final(0, true)), (Some(21), true));
//! # Ok::<(), &str>(())
//! ```
//!
//! ```text
//!   chunk ─► Meter ─┬─ application/json ─────────────────────────────► JsonNumbers ─► value
//!                   └─ text/event-stream ─► EventStream ─ data lines ─►     "
//! ```
//!
//! A client must not be able to hide a number, so a reader tells a response without a number from
//! one whose number it could not read: its value is not final. [`JsonValues`] reads a request's
//! body in the same way, but for several values of a document that has to be beyond doubt.
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::arithmetic_side_effects, clippy::string_slice, clippy::unreachable))]

mod event_stream;
mod fingerprint;
mod json_numbers;
mod json_values;
mod key;
mod meter;
mod number;
mod pointer;
mod syntax;

pub use event_stream::EventStream;
pub use json_numbers::JsonNumbers;
pub use json_values::{JsonValue, JsonValues};
pub use meter::{Meter, ResponseHead};
pub use pointer::{Pointer, Pointers};

#[cfg(test)]
mod tests;
