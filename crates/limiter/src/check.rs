//! Check all, then charge all: what the rules of a policy decide together about one request.
//!
//! ```text
//!   decide ─► lists ─► identify ─► cached refusals ─► check each group ─► commit each ─► Decision
//!                                                            │
//!                                            a global store has to answer: Pending
//! ```

mod cache;
mod cached;
mod charge;
mod counted_actor;
mod decide;
mod decision;
mod fast_path;
mod global_check;
mod global_refusals;
mod group_check;
mod identities;
mod local_groups;
mod pending;
mod raw_values;
mod refund;
mod refund_migrated;
mod refusal_count;
mod report;
mod scratch;
mod uncounted;
mod verdict;

pub use counted_actor::CountedActor;
pub use decision::{ALLOW, DENY, Decision, Outcome, Reason};
pub use report::{RuleReport, RuleResult};

pub(crate) use cache::WorkerCache;
pub(crate) use decide::decide;
pub(crate) use group_check::GroupCheck;
pub(crate) use pending::{Conclusion, Fetched, Pending};
pub(crate) use refund::{Charges, GlobalOwed, Refund};
pub(crate) use refund_migrated::MigratedCharges;
pub(crate) use scratch::Scratch;
