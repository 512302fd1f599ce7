//! Servers that gateways ask, as end-to-end tests run them beside an Envoy. A crate of its own, so that what they
//! are made of is compiled once and not with the filter.
//!
//! ```text
//!   RateLimitService   gRPC, Envoy's rate limit service; counts in memory
//!   Upstash            HTTP, the Upstash dialect of Redis; counts in a real Redis; can mix up its replies
//!   Documents          HTTP, four servers of configurations in one; keeps one document
//! ```
//!
//! Redis itself and Webdis are programs, which `gateway` starts; a server that answers with garbage, late or never is
//! `gateway::Upstream`. Each server here has a thread and a free port of 127.0.0.1, and ends when it is dropped.
//!
//! What it does not know: what the filter asks, or what it makes of an answer.

mod documents;
mod rate_limit_service;
mod serving;
mod shift;
mod upstash;

pub use documents::{Documents, Fault, Seen};
pub use rate_limit_service::{Answers, Manner, RateLimitService};
/// The statuses of gRPC.
pub use tonic::Code;
pub use upstash::Upstash;
