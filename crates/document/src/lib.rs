//! A reader for JSON documents that reports every mistake with its place in the document.
//!
//! `config` and each kind's `compile` take the keys they know from [`Fields`]. A key that no reader
//! took is reported with the nearest known key.
//!
//! ```
//! use diana_document::{Error, Errors, Node, parse};
//!
//! let document = parse(br#"{"rpu": "9", "ulr": "/api"}"#)?;
//! let errors = Errors::default();
//! if let Some(mut fields) = Node::root(&document, &errors).fields() {
//!     assert_eq!(fields.require("rpu").and_then(|node| node.whole(0..=10)), None);
//!     assert!(fields.require("url").is_none());
//!     fields.finish();
//! }
//! let mistakes: Vec<String> = errors.into_vec().iter().map(Error::to_string).collect();
//! assert_eq!(
//!     mistakes,
//!     [
//!         "rpu: expected a whole number from 0 to 10, found the text `9`, leave out its quotes",
//!         "unknown key `ulr`, did you mean `url`?",
//!     ]
//! );
//! # Ok::<(), Error>(())
//! ```
//!
//! ```text
//!   bytes ─ parse ─► Value ─ root ─► Node ─ fields ─► Fields ─ take("url") ─► Node ─ text ─► &str
//!                                     └────────── all mistakes ─► Errors ◄──────┘
//! ```
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::arithmetic_side_effects, clippy::string_slice, clippy::unreachable))]

mod errors;
mod fields;
mod node;
mod parse;
mod places;
mod structure;
mod value;
mod words;

pub use diana_base::format::{MAX_QUOTED, quoted};
pub use errors::{Error, Errors, MAX_ERRORS};
pub use fields::Fields;
pub use node::Node;
pub use parse::{parse, parse_json};
pub use value::Value;
pub use words::{fold, nearest, one_of, unit};
