//! Simulates an upstream under an adaptive limit: the tests hold the controller to the numbers that
//! the design note states. The seeds determine all numbers.
//!
//! ```text
//!   scenario ─► run: arrivals ─► limit ─► queue ─► servers      rules: the controller
//!                     └─ each interval: measurements ─► rule ─► the next limit
//!               trace ─► measures ─► tests
//! ```
#![forbid(unsafe_code)]

pub mod measures;
mod random;
pub mod rules;
pub mod run;
pub mod scenario;
#[cfg(test)]
mod traffic;

#[cfg(test)]
mod tests;
