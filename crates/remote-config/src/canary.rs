//! The canary: a candidate is compared with the active document, is promoted if it does well, and
//! is then watched against the previous document. See `docs/configuration/canary.md`.
//!
//! ```text
//!   candidate for `hold` ─┬─ would newly refuse more than `max_refused` ─► rejected
//!                         └─ else: promoted, and watched for `hold`
//!                                  └─ newly refuses more than that ─► rolled back
//! ```
//!
//! A document that was rejected or rolled back is not accepted again until the server has had
//! another document.

mod candidate;
mod compared;
mod comparison;
mod counts;
mod decision;
mod dry_run;
mod judge;
mod options;
mod shared_rules;
mod stats;
mod summary;
mod verdict;

pub use candidate::Candidate;
pub use comparison::Comparison;
pub use counts::CanaryCounts;
pub use decision::CandidateDecision;
pub use options::CanaryOptions;
pub use stats::CanaryStats;
pub use verdict::CanaryVerdict;

#[cfg(test)]
mod tests;
