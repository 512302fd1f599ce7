//! Clients of global stores, which count for all gateways. The host makes the calls; this module
//! has no I/O, no clock and no protocol: each protocol is a [`StoreProtocol`].
//!
//! ```text
//!   GlobalQuery ─► StoreClient ─► StoreProtocol ─► Message ─► host
//!   RuleReply of each rule, or a CallError ◄─ StoreProtocol ◄─┘
//! ```
//!
//! Replies are hostile: any bytes decode to a reply or to a [`CallError`], without a panic.
//!
//! The host drives a request through a query like this. `Toy` is a protocol like the one in the
//! example of [`StoreProtocol`].
//!
//! ```
//! use diana_limiter::algorithm::{Admission, BucketOptions, Charge, Verdict};
//! use diana_limiter::cells::store::Memory;
//! use diana_limiter::decide::Outcome;
//! use diana_limiter::global::{CallError, CallResult, GlobalQuery, GlobalStoreOptions, LeaseGrant};
//! use diana_limiter::global::{Message, StoreProtocol, Replies, RuleReply};
//! use diana_limiter::policy::{Draft, LimitDraft, OnError, Quota, Replicas, RuleDraft, StoreDraft};
//! use diana_limiter::request::{Part, Values};
//! use diana_limiter::session::{Session, Worker};
//! use diana_limiter::time::{Span, Time};
//! use std::sync::Arc;
//!
//! struct Toy;
//! impl StoreProtocol for Toy {
//!     fn max_batch(&self) -> usize {
//!         1
//!     }
//!     fn message(&self, _: &str, _: &[&GlobalQuery], _: bool, _: u64) -> Message {
//!         Message { headers: Vec::new(), body: Vec::new() }
//!     }
//!     fn read(
//!         &self, _: &[&GlobalQuery], _: u64, result: CallResult,
//!     ) -> Result<Replies, CallError> {
//!         let CallResult::Response { status: 200, body: [left] } = result else {
//!             return Err(CallError::Garbage);
//!         };
//!         let verdict = Verdict {
//!             admission: Admission::Admit { delay: Span::ZERO },
//!             remaining: (*left).into(),
//!             more_in: Span::ZERO,
//!             full_in: Span::ZERO,
//!             charge: Charge::default(),
//!         };
//!         let grant = LeaseGrant::default();
//!         Ok(vec![Ok(vec![RuleReply { verdict, charge: [0; 5], grant }])])
//!     }
//! }
//!
//! let start = Time::from_ns(1_795_392_000_000_000_000);
//! let now = || start;
//!
//! // The store counts, and while it is down, the rule refuses.
//! let quota = Quota::token_bucket(9, Span::from_secs(60), BucketOptions::default())?;
//! let all = RuleDraft {
//!     on_error: Some(OnError::Deny),
//!     ..RuleDraft::new("all", Vec::new(), quota)
//! };
//! let secret = "all gateways know".to_owned();
//! let replicas = Arc::new(Replicas::fixed(1));
//! let store = StoreDraft { shards: vec!["0".into()], secret, replicas };
//! let limits = vec![LimitDraft::new("/".parse()?, vec![all])];
//! let policy = Arc::new(Draft { limits, store: Some(store), ..Draft::default() }.build());
//! let options = GlobalStoreOptions {
//!     clusters: vec!["counts".into()],
//!     timeout: Span::from_ms(100),
//!     in_flight: 1,
//!     protocol: Box::new(Toy),
//! };
//! let store = Memory::new();
//! let values = Values::default().with(Part::Path, "/");
//! let request = policy.request(&values);
//! let mut worker = Worker::new(policy.clone(), &store, &[7; 16]).with_global_store(options, 17);
//!
//! // The decision is a query: hold the request, and make the calls that the worker asks for.
//! let (mut session, decision) = Session::start(&mut worker, &request, now);
//! assert_eq!(decision.outcome, Outcome::Query(0));
//! assert_eq!(session.ticket(), Some(0));
//! let call = worker.next_call(now()).expect("a call");
//! assert_eq!(worker.cluster(call.shard), "counts");
//! assert!(worker.next_call(now()).is_none());
//!
//! // The response has come. The worker keeps what is its own, and leaves what requests wait for:
//! // `waiter` of each completion has the ticket.
//! let response = CallResult::Response { status: 200, body: &[8] };
//! let mut completions = worker.call_done(call.id, response, now());
//! worker.absorb(&mut completions, now);
//! let decision = session.answer(&mut worker, &completions[0], now);
//! assert_eq!(decision.map(|decision| decision.outcome), Some(Outcome::Pass));
//! session.settle(&mut worker, now);
//!
//! // The next call is not answered in time. The rule says `on_error: deny`.
//! let (mut session, _) = Session::start(&mut worker, &request, now);
//! let call = worker.next_call(now()).expect("a call");
//! let timeout = worker.timeout().expect("a store");
//! let decision = session.give_up(&mut worker, || start.after(timeout));
//! assert!(decision.is_some_and(|decision| decision.is_rejected()));
//!
//! // If the host never ends the call, the worker ends it itself.
//! let wake = worker.wake().expect("the end of the call");
//! let completions = worker.expire(wake);
//! assert!(completions.iter().all(|completion| completion.replies.is_none()));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod breaker;
mod client;
mod fetches;
mod permits;
mod protocol;
mod query;
mod queue;
mod refill;

pub use client::StoreClient;
pub(crate) use fetches::Fetches;
pub use protocol::{
    Call, CallError, CallResult, CallStats, Completion, GlobalStoreOptions, Message, Replies, StoreProtocol,
    Waiter,
};
pub use query::{
    GlobalCharge, GlobalQuery, Inspection, LeaseGrant, LeaseUsage, LevelReport, RuleQuery, RuleReply,
    Settlement, StoreChange,
};
pub(crate) use refill::LeaseRefill;

/// The longest reply that is read, in bytes. A longer reply is an error.
pub const MAX_REPLY_BYTES: usize = 1 << 20;
