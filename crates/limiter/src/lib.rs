//! An exact, bounded rate limiter for HTTP requests, for gateways and for servers of your own. The
//! engine is a function of its arguments: it has no host, no clock and no I/O.
//!
//! ```text
//!   policy::Draft ──► Policy                        once
//!                       │
//!   request ─► session ►│ which rules apply?    matcher
//!                 ▲     │ which actor counts?   actor
//!                 │     │ is enough left?       algorithm, on cells of a table
//!     Decision ◄──┴─────┘ check all rules, then charge all
//!        │ │
//!        │ └──► response: status, headers, body
//!        └────► global: requests to a global store and its replies
//! ```
//!
//! The caller brings four things:
//!
//! - a [`Policy`](policy::Policy), which `diana-config` compiles from JSON, or [`policy::Draft`]
//!   from values;
//! - a [`Store`](cells::store::Store): values under keys that all workers share, changed by
//!   compare-and-swap;
//! - the [time](time::Time), as a closure that reads the clock;
//! - the request, as a [`Source`](request::Source) of its parts. [`Values`](request::Values) is
//!   one.
//!
//! ```
//! use diana_limiter::cells::store::{Fault, Memory};
//! use diana_limiter::cells::table::Dated;
//! use diana_limiter::decide::{Outcome, Reason};
//! use diana_limiter::request::protocol::Protocol;
//! use diana_limiter::request::{Part, Values};
//! use diana_limiter::session::{Session, Worker};
//! use diana_limiter::time::{Span, Time};
//!
//! // Once for each configuration: compile the document. An error would name each mistake.
//! let document = br#"{"limits": [{"url": "/orders", "rules": [
//!     {"name": "per-user", "actor": "user", "rpu": 2, "unit": "minute"}
//! ]}]}"#;
//! let configuration = diana_config::compile(document).expect("a valid document");
//! let (policy, response) = (&configuration.policy, &configuration.response);
//!
//! // Once for each worker: its policy, the shared store, and no reservations, because this host
//! // has no timer. Outside examples the seed is random.
//! let start = Time::from_ns(1_795_392_000_000_000_000);
//! let seed = Dated { since: start, seed: [7; 16] };
//! let mut worker = Worker::seeded(policy.clone(), Memory::new(), seed)?;
//! worker.disable_reservations();
//!
//! // Once for each request: hand over its parts and the clock. The third request is refused.
//! let values = Values::default()
//!     .with(Part::Path, "/orders/17")
//!     .with(Part::Header("x-user-id".into()), "ann");
//! let request = policy.request(&values);
//! for left in [1, 0] {
//!     let (mut session, decision) = Session::start(&mut worker, &request, || start);
//!     assert_eq!(decision.outcome, Outcome::Pass);
//!     let header = ("ratelimit", format!(r#""per-user";r={left};t=30"#));
//!     assert!(response.headers(policy, decision).contains(&header));
//!     // When the request has ended: refunds permits of `concurrency`. Other charges stay.
//!     session.settle(&mut worker, || start);
//! }
//! let (session, decision) = Session::start(&mut worker, &request, || start);
//! assert!(matches!(decision.outcome, Outcome::Reject(Reason::Rule(_))));
//! assert!(!session.has_charges(), "a refused request is charged nowhere");
//!
//! // The refusal as HTTP: status, headers and body. A random number would spread retries.
//! let refusal = response.refusal(policy, decision, Protocol::Http, 0).expect("a refusal");
//! assert_eq!((refusal.status, &*refusal.details), (429, "diana_refused:per-user"));
//! assert!(refusal.headers.contains(&("retry-after", "30".into())));
//!
//! // Half a minute later a token has come back.
//! let later = start.after(Span::from_secs(30));
//! let (_, decision) = Session::start(&mut worker, &request, || later);
//! assert_eq!(decision.outcome, Outcome::Pass);
//! # Ok::<(), Fault>(())
//! ```
//!
//! Where to read on: [`session`] for requests that wait, [`global`] for counts that several
//! gateways share, [`Worker`](session::Worker) for a new configuration,
//! [`decide`] for the contents of a decision.
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::arithmetic_side_effects, clippy::string_slice, clippy::unreachable))]

pub mod actor;
pub mod adapt;
pub mod algorithm;
pub mod cells;
pub mod decide;
pub mod global;
pub mod inspect;
pub mod matcher;
pub mod number_map;
pub mod policy;
pub mod request;
pub mod session;

pub use diana_base::time;
