//! Check all, then charge all: what the rules of a policy decide together about one request.
//!
//! ```text
//!   lists ─► identify ─► resolve ─► cached refusals ─► check each ─► commit each ─► Decision
//!                                                          │
//!                                          a global store has to answer: Pending
//! ```

mod cache;
mod counted_actor;
mod decide;
mod decider;
mod decision;
mod fast_path;
mod fast_path_key;
mod global_check;
mod group_check;
mod pending;
mod refund;
mod resolve;
mod uncounted;
mod verdict;

pub(crate) use cache::WorkerCache;
pub use counted_actor::CountedActor;
pub(crate) use decide::decide;
pub(crate) use decider::Decider;
pub use decision::{ALLOW, DENY, Decision, Outcome, Reason, RuleReport, RuleResult};
pub(crate) use group_check::GroupCheck;
pub(crate) use pending::{Pending, StoreResults};
pub(crate) use refund::{Charges, GlobalOwed, Refund};
