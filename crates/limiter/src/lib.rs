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
//! use diana_limiter::actor::{Header, NamedActor};
//! use diana_limiter::algorithm::BucketOptions;
//! use diana_limiter::cells::store::Memory;
//! use diana_limiter::cells::table::Dated;
//! use diana_limiter::decide::{Outcome, Reason};
//! use diana_limiter::policy::{Draft, LimitDraft, Quota, RuleDraft};
//! use diana_limiter::request::{Part, Values};
//! use diana_limiter::session::{Session, Worker};
//! use diana_limiter::time::{Span, Time};
//! use std::sync::Arc;
//!
//! // Once for each configuration: two orders a minute for each user.
//! let mut draft = Draft::default();
//! let user = Header::new("x-user-id", &mut draft.parts)?;
//! let user = NamedActor::new("user", Arc::new(user), &draft.parts);
//! let quota = Quota::token_bucket(2, Span::from_secs(60), BucketOptions::default())?;
//! let rule = RuleDraft::new("per-user", vec![user], quota);
//! draft.limits.push(LimitDraft::new("/orders".parse()?, vec![rule]));
//! let policy = Arc::new(draft.build());
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
//!     let check = decision.checks.first().expect("the rule has decided");
//!     assert_eq!(check.verdict().map(|verdict| verdict.remaining), Some(left));
//!     // When the request has ended: refunds permits of `concurrency`. Other charges stay.
//!     session.settle(&mut worker, || start);
//! }
//! let (session, decision) = Session::start(&mut worker, &request, || start);
//! assert!(matches!(decision.outcome, Outcome::Reject(Reason::Rule(_))));
//! assert!(!session.has_charges(), "a refused request is charged nowhere");
//!
//! // `diana-response` writes the refusal as HTTP: status, headers and body.
//! assert_eq!(decision.refused_by(&policy).as_deref(), Some("per-user"));
//!
//! // Half a minute later a token has come back.
//! let later = start.after(Span::from_secs(30));
//! let (_, decision) = Session::start(&mut worker, &request, || later);
//! assert_eq!(decision.outcome, Outcome::Pass);
//! # Ok::<(), Box<dyn std::error::Error>>(())
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
