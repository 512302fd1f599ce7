//! Compares controllers for adaptive limits in a simulation. `cargo xtask bench adapt` prints the
//! tables; the seeds determine all numbers.
//!
//! ```text
//!   scenario ─► run: arrivals ─► limit ─► queue ─► servers      rules: one file a controller
//!                     └─ each interval: measurements ─► rule ─► the next limit
//!               trace ─► measures ─► report: tables, chart
//! ```
#![forbid(unsafe_code)]

pub mod chart;
pub mod measures;
mod random;
mod report;
pub mod rules;
pub mod run;
pub mod scenario;
mod traffic;

pub use report::{Report, report};

#[cfg(test)]
mod tests;
