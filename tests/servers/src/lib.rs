//! Servers for end-to-end tests, which run them beside an Envoy. This is a crate of its own, so
//! that its dependencies are compiled once and not with the filter.
//!
//! ```text
//!   RateLimitService   gRPC, Envoy's rate limit service; counts in memory
//!   Processor          gRPC, an external processor; passes everything on
//!   Collector          gRPC, OpenTelemetry; keeps spans, log records and metrics
//!   Documents          HTTP, four configuration servers in one; keeps one document
//! ```
//!
//! `gateway` starts Redis, which is a program. `gateway::Upstream` replies with garbage, late or
//! never. Each server here has a thread and a free port of 127.0.0.1, and ends when it is dropped.
#![forbid(unsafe_code)]

mod collector;
mod documents;
mod processor;
mod rate_limit_service;
mod serving;

pub use collector::{Attributes, Collector, Item, Received};
pub use documents::{Documents, Fault, Seen};
pub use processor::Processor;
pub use rate_limit_service::RateLimitService;
